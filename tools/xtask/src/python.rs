//! Builds the wheel of the Python package and tries it as its users have it: installed into a fresh virtual environment.
//!
//! Everything is written below `target/python`. The tests of the recorder need PyTorch, which is no small download: they run under
//! the interpreter if it has it, with the wheel beside it. An interpreter is no need of the house: where it is missing, or what cargo and
//! pip would have to fetch, the step says so and judges nothing. Called by `main` and by `ci`.
//!
//! The extension is no member of the workspace. Its lockfile begins as a copy of the workspace's, to which cargo adds what it needs beside:
//! so it links the versions that the programs link.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report::{Finding, Report};
use crate::tree::House;

/// The interpreter, unless this variable names another.
const INTERPRETER: &str = "python3";
const VARIABLE: &str = "OPENWDDM_PYTHON";
/// The builder of wheels, installed where it is missing.
const MATURIN: &str = "maturin==1.16.0";
const MANIFEST: &str = "python/Cargo.toml";
const TESTS: &str = "python/tests";
/// Versions of Python below this one cannot load the extension.
const OLD: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";

/// Builds and tries.
///
/// # Errors
/// A program that could not be started, a folder that could not be written.
pub fn run(house: &House) -> Result<Report, String> {
    let python = std::env::var(VARIABLE).unwrap_or_else(|_| INTERPRETER.to_owned());
    let place = Place::of(house, python);
    if !place.succeeds(&place.python, &["-c", OLD]) {
        return Ok(left_out(&format!("there is no {} of version 3.10 or newer with venv and pip", place.python)));
    }
    let Some(maturin) = place.maturin()? else {
        return Ok(left_out(&format!("maturin is not installed, and pip could not install {MATURIN}")));
    };
    if !place.fetched()? {
        return Ok(left_out("cargo could not fetch what the extension needs beside the workspace's crates"));
    }
    let wheel = match place.wheel(&maturin)? {
        Ok(wheel) => wheel,
        Err(fault) => return Ok(failed(fault)),
    };
    match place.judge(&wheel)? {
        Ok(summary) => Ok(Report { summary: format!("python: {summary}"), ..Report::default() }),
        Err(fault) => Ok(failed(fault)),
    }
}

fn left_out(reason: &str) -> Report {
    Report { summary: format!("python: not built, for {reason}"), ..Report::default() }
}

fn failed(fault: &str) -> Report {
    let faults = vec![Finding::new(MANIFEST, 0, fault)];
    Report { faults, summary: "python: 1 fault".to_owned(), ..Report::default() }
}

/// The folder below which everything is written, and the programs.
struct Place {
    root: PathBuf,
    folder: PathBuf,
    python: String,
}

impl Place {
    fn of(house: &House, python: String) -> Place {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        let root = std::path::absolute(house.root()).unwrap_or_else(|_| house.root().to_path_buf());
        Place { folder: root.join(target).join("python"), root, python }
    }

    /// The builder of wheels: that of the system, or else one that pip installs; none where that fails.
    fn maturin(&self) -> Result<Option<PathBuf>, String> {
        if self.succeeds("maturin", &["--version"]) {
            return Ok(Some(PathBuf::from("maturin")));
        }
        let tools = self.folder.join("tools");
        let maturin = tools.join("bin/maturin");
        if !maturin.exists() {
            self.fresh(&tools)?;
            let pip = tools.join("bin/python");
            if !self.succeeds(pip, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", MATURIN]) {
                return Ok(None);
            }
        }
        Ok(Some(maturin))
    }

    /// Writes the lockfile, and fetches what it adds; whether that succeeded.
    fn fetched(&self) -> Result<bool, String> {
        House::at(&self.root).copy_lockfile(MANIFEST)?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut fetch = Command::new(cargo);
        self.status(fetch.args(["fetch", "--quiet", "--manifest-path", MANIFEST]))
    }

    /// Builds the wheel, in the profile of the checks; the fault if it is not built.
    fn wheel(&self, maturin: &Path) -> Result<Result<PathBuf, &'static str>, String> {
        let wheels = self.folder.join("wheels");
        emptied(&wheels)?;
        let mut build = Command::new(maturin);
        build.args([
            "build",
            "--quiet",
            "--locked",
            "--interpreter",
            &self.python,
            "--manifest-path",
            MANIFEST,
            "--out",
        ]);
        build.arg(&wheels).env("CARGO_TARGET_DIR", &self.folder);
        if !self.status(&mut build)? {
            return Ok(Err("the wheel is not built"));
        }
        let files = std::fs::read_dir(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
        let mut wheels =
            files.filter_map(|file| Some(file.ok()?.path())).filter(|path| path.extension() == Some("whl".as_ref()));
        Ok(wheels.next().ok_or("maturin has built no wheel"))
    }

    /// Installs the wheel where nothing else is, and runs the tests against it; the fault, or what was tried.
    fn judge(&self, wheel: &Path) -> Result<Result<String, &'static str>, String> {
        let fresh = self.folder.join("fresh");
        self.fresh(&fresh)?;
        let python = fresh.join("bin/python");
        let mut install = Command::new(&python);
        install
            .args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"])
            .arg(wheel);
        if !self.status(&mut install)? {
            return Ok(Err("the wheel cannot be installed into a fresh virtual environment"));
        }
        if !self.tests(&python, None)? {
            return Ok(Err("its tests fail"));
        }
        if !self.succeeds(&self.python, &["-c", "import torch"]) {
            let told = "wheel built, installed into a fresh virtual environment, tried; not tried is the recorder, for";
            return Ok(Ok(format!("{told} {} has no PyTorch ({VARIABLE} names one that has)", self.python)));
        }
        if !self.tests(Path::new(&self.python), Some(&site(&python)?))? {
            return Ok(Err("its tests fail beside PyTorch"));
        }
        Ok(Ok(
            "wheel built, installed into a fresh virtual environment, tried, and the recorder with PyTorch".to_owned()
        ))
    }

    /// Runs the tests away from the sources, so that they find the package where it is installed.
    fn tests(&self, python: &Path, packages: Option<&str>) -> Result<bool, String> {
        let mut tests = Command::new(python);
        tests.args(["-m", "unittest", "discover", "--start-directory"]).arg(self.root.join(TESTS));
        tests.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
        if let Some(packages) = packages {
            tests.env("PYTHONPATH", packages);
        }
        self.status_in(&mut tests, &self.folder)
    }

    /// Makes a virtual environment anew.
    fn fresh(&self, folder: &Path) -> Result<(), String> {
        let mut venv = Command::new(&self.python);
        venv.args(["-m", "venv", "--clear"]).arg(folder);
        match self.status(&mut venv)? {
            true => Ok(()),
            false => Err(format!("{}: the virtual environment could not be made", folder.display())),
        }
    }

    fn status(&self, command: &mut Command) -> Result<bool, String> {
        self.status_in(command, &self.root)
    }

    fn status_in(&self, command: &mut Command, folder: &Path) -> Result<bool, String> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let name = command.get_program().display().to_string();
        let status = command.current_dir(folder).status();
        status.map(|status| status.success()).map_err(|error| format!("{name} could not be started: {error}"))
    }

    /// Whether a program is there and says yes; what it prints does not matter.
    fn succeeds(&self, program: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> bool {
        let output = Command::new(program).args(words).current_dir(&self.root).output();
        output.is_ok_and(|output| output.status.success())
    }
}

/// Where an interpreter has its packages.
fn site(python: &Path) -> Result<String, String> {
    let ask = "import sysconfig; print(sysconfig.get_path('platlib'))";
    let answer = Command::new(python).args(["-c", ask]).output();
    let answer = answer.map_err(|error| format!("{}: {error}", python.display()))?;
    Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
}

fn emptied(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}
