//! Puts the C interface where a system's C compilers look: the libraries, the headers, and a file for pkg-config.
//!
//! ```text
//! DIR/lib/libopenwddm.so, DIR/lib/libopenwddm.a
//! DIR/include/openwddm/d3dkmt.h, DIR/include/openwddm/softgpu.h
//! DIR/lib/pkgconfig/openwddm.pc
//! ```
//! DIR is the directory from which programs will be built: the last file names it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tree::House;

const LIBRARIES: [&str; 2] = ["libopenwddm.so", "libopenwddm.a"];
const INCLUDE: &str = "client/d3dkmt_c/include";
const HEADERS: [&str; 2] = ["openwddm/d3dkmt.h", "openwddm/softgpu.h"];
const PC: &str = "host/libopenwddm/openwddm.pc.in";

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
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "-p", "openwddm-libopenwddm"]).current_dir(house.root());
    let built = build.status().map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Ok(false);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    for file in place(house, &house.root().join(target).join("release"), &prefix)? {
        println!("{}", file.display());
    }
    Ok(true)
}

/// Puts what was built in `libraries`, the headers and the page for pkg-config below `prefix`. Answers with the files.
fn place(house: &House, libraries: &Path, prefix: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for library in LIBRARIES {
        files.push(copy(&libraries.join(library), &prefix.join("lib").join(library))?);
    }
    for header in HEADERS {
        files.push(copy(&house.root().join(INCLUDE).join(header), &prefix.join("include").join(header))?);
    }
    let from = house.root().join(PC);
    let template = std::fs::read_to_string(&from).map_err(|error| format!("{}: {error}", from.display()))?;
    let shown = prefix.to_str().ok_or("a directory whose name is no text")?;
    let page = template.replace("@PREFIX@", shown).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let to = prefix.join("lib/pkgconfig/openwddm.pc");
    files.push(written(&to, |to| std::fs::write(to, page))?);
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> Result<PathBuf, String> {
    // A program may have the old one open, which then goes on as it is.
    let _ = std::fs::remove_file(to);
    written(to, |to| std::fs::copy(from, to).map(drop)).map_err(|error| format!("{error} (from {})", from.display()))
}

fn written(to: &Path, write: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<PathBuf, String> {
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
        let files = place(&house, program.parent().expect("a folder"), folder.path()).expect("everything is there");
        assert!(files.len() == 5 && files.iter().all(|file| file.is_file()), "{files:?}");
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
    fn nothing_is_installed_where_nothing_was_named() {
        let house = House::here().expect("the workspace");
        for options in [&[][..], &["--prefix"], &["--prefix", "a", "b"], &["a", "b"]] {
            let options: Vec<String> = options.iter().map(|word| word.to_string()).collect();
            assert_eq!(run(&house, &options), Err("install --prefix DIR".to_string()));
        }
    }
}
