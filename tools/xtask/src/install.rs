//! Puts the C interface where a system's C compilers look: the libraries, the headers, and a file for pkg-config.
//!
//! ```text
//! DIR/lib/libopenwddm.so → libopenwddm.so.0 → libopenwddm.so.0.1.0, DIR/lib/libopenwddm.a
//! DIR/include/openwddm/d3dkmt.h, DIR/include/openwddm/softgpu.h
//! DIR/lib/pkgconfig/openwddm.pc
//! ```
//! DIR is the directory from which programs will be built: the last file names it. A program that is linked names `libopenwddm.so.0`, the
//! library's soname: a later library that breaks the interface has another one, and both can be installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tree::House;

/// The name that programs look for when they start: it changes where the interface breaks.
pub const SO_NAME: &str = "libopenwddm.so.0";
/// The file itself.
pub const REAL_NAME: &str = concat!("libopenwddm.so.", env!("CARGO_PKG_VERSION"));

const INCLUDE: &str = "client/d3dkmt_c/include";
const HEADERS: [&str; 2] = ["openwddm/d3dkmt.h", "openwddm/softgpu.h"];
const PC: &str = "host/libopenwddm/openwddm.pc.in";

/// Where the files go.
pub struct Layout {
    /// The directory that has `include` and the libraries' folder.
    pub prefix: PathBuf,
    /// The same as programs will see it.
    pub shown: String,
    /// The libraries' folder in it.
    pub libraries: String,
}

/// Builds the libraries for release and puts everything in place.
///
/// # Errors
/// Wrong options; a failed build; a file that could not be written.
pub fn run(house: &House, options: &[String]) -> Result<bool, String> {
    let prefix = match options {
        [option, prefix] if option == "--prefix" => Path::new(prefix),
        _ => return Err("install --prefix DIR".to_string()),
    };
    let prefix = std::path::absolute(prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
    let shown = prefix.to_str().ok_or("a directory whose name is no text")?.to_owned();
    let Some(built) = build(house, "release", &[])? else { return Ok(false) };
    names_itself(&built.join("libopenwddm.so"))?;
    let layout = Layout { prefix, shown, libraries: "lib".to_owned() };
    for file in place(house, &built, &layout)? {
        println!("{}", file.display());
    }
    Ok(true)
}

/// Builds the libraries by a profile, the shared one with its soname, and these packages. Answers with the folder that has them; `None`: a
/// build failed, and cargo said why.
///
/// # Errors
/// A cargo that cannot be started; a link that could not be made.
pub fn build(house: &House, profile: &str, packages: &[&str]) -> Result<Option<PathBuf>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ran = |words: &[&str]| {
        let mut build = Command::new(&cargo);
        build.args(words).current_dir(house.root());
        build.status().map(|status| status.success()).map_err(|error| format!("cargo: {error}"))
    };
    for package in packages {
        if !ran(&["build", "--profile", profile, "-p", package])? {
            return Ok(None);
        }
    }
    let soname = format!("link-arg=-Wl,-soname,{SO_NAME}");
    if !ran(&["rustc", "--profile", profile, "-p", "openwddm-libopenwddm", "--lib", "--", "-C", &soname])? {
        return Ok(None);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = house.root().join(target).join(if profile == "dev" { "debug" } else { profile });
    // A program that is linked with the library here finds it here.
    link("libopenwddm.so", &folder.join(SO_NAME))?;
    Ok(Some(folder))
}

/// Whether a shared library bears the name that programs will look for. Without it a program names the file that it was linked with, and
/// takes any later library of that name, a broken interface among them.
///
/// # Errors
/// Another name, or none; an objdump that cannot be started.
pub fn names_itself(library: &Path) -> Result<(), String> {
    let output = Command::new("objdump").arg("-p").arg(library).output();
    let output = output.map_err(|error| format!("objdump cannot be started: {error}; install Debian's binutils"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().find_map(|line| line.trim().strip_prefix("SONAME")).map_or("none", str::trim);
    if found == SO_NAME {
        return Ok(());
    }
    Err(format!("{}: its soname is {found}; link it with -Wl,-soname,{SO_NAME}", library.display()))
}

/// Puts the libraries that stand in `built`, the headers and the file for pkg-config where the layout says. Answers with the files.
///
/// # Errors
/// A file that is not there, or could not be written.
pub fn place(house: &House, built: &Path, layout: &Layout) -> Result<Vec<PathBuf>, String> {
    let (prefix, libraries) = (&layout.prefix, layout.prefix.join(&layout.libraries));
    let mut files = vec![
        copy(&built.join("libopenwddm.so"), &libraries.join(REAL_NAME))?,
        link(REAL_NAME, &libraries.join(SO_NAME))?,
        link(SO_NAME, &libraries.join("libopenwddm.so"))?,
        copy(&built.join("libopenwddm.a"), &libraries.join("libopenwddm.a"))?,
    ];
    for header in HEADERS {
        files.push(copy(&house.root().join(INCLUDE).join(header), &prefix.join("include").join(header))?);
    }
    let from = house.root().join(PC);
    let template = std::fs::read_to_string(&from).map_err(|error| format!("{}: {error}", from.display()))?;
    let page = template.replace("@PREFIX@", &layout.shown).replace("@LIBRARIES@", &layout.libraries);
    let page = page.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    files.push(written(&libraries.join("pkgconfig/openwddm.pc"), |to| std::fs::write(to, page))?);
    Ok(files)
}

/// A link to a name beside it, in place of what was there.
///
/// # Errors
/// A link that could not be made.
pub fn link(to: &str, at: &Path) -> Result<PathBuf, String> {
    let _ = std::fs::remove_file(at);
    written(at, |at| std::os::unix::fs::symlink(to, at))
}

/// A copy in place of what was there.
///
/// # Errors
/// A file that is not there, or could not be written.
pub fn copy(from: &Path, to: &Path) -> Result<PathBuf, String> {
    // A program may have the old one open, which then goes on as it is.
    let _ = std::fs::remove_file(to);
    written(to, |to| std::fs::copy(from, to).map(drop)).map_err(|error| format!("{error} (from {})", from.display()))
}

/// Writes a file in a folder that is made if it is not there.
///
/// # Errors
/// The folder or the file could not be written.
pub fn written(to: &Path, write: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<PathBuf, String> {
    let folder = to.parent().expect("a file in a folder");
    let made = std::fs::create_dir_all(folder).and_then(|()| write(to));
    made.map(|()| to.to_path_buf()).map_err(|error| format!("{}: {error}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that pkg-config has for a compiler; `None`: there is no pkg-config.
    fn flags(prefix: &Path, more: &[&str]) -> Option<Vec<String>> {
        let mut command = Command::new("pkg-config");
        command
            .args(["--cflags", "--libs", "openwddm"])
            .args(more)
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let output = command.output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        Some(text.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn a_program_is_built_by_what_pkg_config_says() {
        let house = House::here().expect("the workspace");
        let folder = tempfile::tempdir().expect("a folder");
        let program = std::env::current_exe().expect("this test is a file");
        // The libraries that were built beside this test.
        let shown = folder.path().to_str().expect("text").to_owned();
        let layout = Layout { prefix: folder.path().to_owned(), shown, libraries: "lib".to_owned() };
        let files = place(&house, program.parent().expect("a folder"), &layout).expect("everything is there");
        assert!(files.len() == 7 && files.iter().all(|file| file.is_file()), "{files:?}");
        let Some(words) = flags(folder.path(), &[]) else {
            eprintln!("left out: there is no pkg-config here");
            return;
        };
        let example = house.root().join("client/d3dkmt_c/examples/enumerate.c");
        let out = folder.path().join("enumerate");
        let built = Command::new("cc").arg("-std=c11").arg(example).arg("-o").arg(&out).args(words).output();
        let built = built.expect("there is a C compiler");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let mut run = Command::new(out);
        run.env_remove("OPENWDDM_SOCKET").env("LD_LIBRARY_PATH", folder.path().join("lib"));
        let ran = run.env("OPENWDDM_VRAM", "33554432").output().expect("it runs");
        assert!(String::from_utf8_lossy(&ran.stdout).contains("32 MiB of its own"), "{ran:?}");
        // A program that links the static library also links the system libraries of Rust programs.
        let private = flags(folder.path(), &["--static"]).expect("it was there a moment ago");
        assert!(["-lpthread", "-ldl", "-lm"].iter().all(|word| private.iter().any(|known| known == word)));
    }

    #[test]
    fn a_library_without_its_soname_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let linked = |name: &str, words: &[&str]| {
            let library = folder.path().join(name);
            let mut build = Command::new("cc");
            build.args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-o"]).arg(&library).args(words);
            assert!(build.status().expect("there is a C compiler").success(), "{name}");
            library
        };
        assert_eq!(names_itself(&linked("right.so", &[&format!("-Wl,-soname,{SO_NAME}")])), Ok(()));
        for (name, words, found) in
            [("none.so", &[][..], "none"), ("other.so", &["-Wl,-soname,other.so.1"], "other.so.1")]
        {
            let error = names_itself(&linked(name, words)).expect_err(name);
            assert!(error.contains(&format!("its soname is {found}; link it with")), "{error}");
        }
    }

    #[test]
    fn nothing_is_installed_where_nothing_was_named() {
        let house = House::here().expect("the workspace");
        for options in [&[][..], &["--prefix"], &["--prefix", "a", "b"], &["a", "b"]] {
            let options: Vec<String> = options.iter().map(|word| word.to_string()).collect();
            assert_eq!(run(&house, &options), Err("install --prefix DIR".to_string()));
        }
    }
}
