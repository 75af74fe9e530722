//! The package is installed into a root of its own by dpkg, used there, and removed.

use std::process::Output;

use super::*;

/// The parts that a build of the workspace leaves beside this test; `None`: this package alone was built.
fn built() -> Option<(PathBuf, PathBuf)> {
    let program = std::env::current_exe().expect("this test is a file");
    let libraries = program.parent().expect("a folder").to_path_buf();
    let command = libraries.parent().expect("a profile's folder").join("openwddm");
    command.is_file().then_some((libraries, command))
}

fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// dpkg over a root of its own, which begins empty.
fn dpkg(root: &Path) -> Command {
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", root.display()));
    // The root has no C library, a user need not be root, and there may be no ldconfig.
    dpkg.args([
        "--force-depends",
        "--force-not-root",
        "--force-script-chrootless",
        "--force-bad-path",
        "--log=/dev/null",
    ]);
    dpkg
}

#[test]
fn the_package_is_installed_used_and_removed() {
    let Some(architecture) = architecture() else {
        eprintln!("left out: there is no dpkg here");
        return;
    };
    let Some((libraries, command)) = built() else {
        eprintln!("left out: the command was not built; `cargo build -p openwddm` does");
        return;
    };
    let house = House::here().expect("the workspace");
    let folder = tempfile::tempdir().expect("a folder");
    let staged = folder.path().join("staged");
    stage(&house, &libraries, &command, &staged, &architecture).expect("every part is there");
    let package = pack(&staged, folder.path(), &architecture, "none").expect("dpkg-deb packs");
    // As much again is unpacked.
    std::fs::remove_dir_all(&staged).expect("it was staged");

    let root = folder.path().join("root");
    for part in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        std::fs::create_dir_all(root.join(part)).expect("a folder");
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").expect("a file");
    ran(dpkg(&root).arg("--install").arg(&package));

    let said = ran(Command::new(root.join("usr/bin/openwddm")).arg("--version"));
    assert_eq!(String::from_utf8_lossy(&said.stdout), format!("openwddm {}\n", env!("CARGO_PKG_VERSION")));
    for file in
        ["usr/share/man/man1/openwddm.1.gz", "usr/share/man/man1/openwddm-serve.1.gz", "etc/openwddm/serve.toml"]
    {
        assert!(root.join(file).is_file(), "{file}");
    }
    let library = root.join("usr/lib").join(multiarch(&architecture));
    for name in ["libopenwddm.so", install::SO_NAME] {
        assert!(library.join(name).is_symlink() && library.join(name).is_file(), "{name}");
    }
    a_program_runs(&house, folder.path(), &root, &library);

    ran(dpkg(&root).args(["--purge", "openwddm"]));
    let left: Vec<PathBuf> = files(&root).expect("a root").into_iter().filter(|file| !file.is_dir()).collect();
    let known = |file: &PathBuf| file.starts_with(root.join("var/lib/dpkg"));
    assert!(left.iter().all(known), "dpkg left {left:?}");
    assert!(!root.join("usr/bin/openwddm").exists() && !root.join("etc/openwddm/serve.toml").exists());
}

/// Builds a program by what pkg-config says of the root, and runs it.
fn a_program_runs(house: &House, folder: &Path, root: &Path, library: &Path) {
    let mut words = Command::new("pkg-config");
    words.args(["--cflags", "--libs", "openwddm"]).env("PKG_CONFIG_SYSROOT_DIR", root);
    words.env("PKG_CONFIG_LIBDIR", library.join("pkgconfig"));
    // A root is no system of this computer, whose compiler has its own folders.
    words.env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1").env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1");
    let words = match words.output() {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).expect("text"),
        Ok(output) => panic!("pkg-config: {}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            eprintln!("left out: there is no pkg-config here");
            return;
        }
    };
    let (program, example) = (folder.join("enumerate"), house.root().join("client/d3dkmt_c/examples/enumerate.c"));
    ran(Command::new("cc").arg("-std=c11").arg(example).arg("-o").arg(&program).args(words.split_whitespace()));
    let mut run = Command::new(program);
    run.env_remove("OPENWDDM_SOCKET").env("LD_LIBRARY_PATH", library).env("OPENWDDM_VRAM", "32MiB");
    assert!(String::from_utf8_lossy(&ran(&mut run).stdout).contains("32 MiB of its own"));
}

#[test]
fn the_newest_symbol_says_which_c_library_is_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    std::fs::write(&first, b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_PRIVATE\0").expect("a file");
    std::fs::write(&second, b"GLIBC_2.9\0").expect("a file");
    assert_eq!(needed_c_library(&[&first, &second]).as_deref(), Ok("2.34"));
}

#[test]
fn words_that_are_no_options_are_refused() {
    for words in [&["--out"][..], &["--folder", "x"], &["--profile", "dev", "x"]] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let error = Options::parse(&words).err().unwrap_or_else(|| panic!("{words:?} were taken"));
        assert!(error.contains(words.last().expect("a word")) && error.contains("--out FOLDER"), "{error}");
    }
}

#[test]
fn what_a_package_lacks_is_said_with_the_remedy() {
    let error = tool("dpkg-deb-of-no-system", "dpkg").expect_err("no such program");
    assert!(error.contains("dpkg-deb-of-no-system cannot be started") && error.contains("package dpkg"), "{error}");
    let error = can_be_written(Path::new("/dev/null/packages")).expect_err("no folder");
    assert!(error.contains("/dev/null/packages") && error.contains("name a folder"), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(can_be_written(&folder.path().join("new")), Ok(()));
    assert_eq!(files(&folder.path().join("new")), Ok(Vec::new()));
}
