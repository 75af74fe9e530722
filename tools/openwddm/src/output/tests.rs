//! Tests of [`super`]: each row of its table.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

fn write(path: &Path, bytes: &[u8]) {
    Output::check("--trace", path).expect("a good place").write(|file| file.write_all(bytes)).expect("it is written");
}

fn names(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_file_comes_whole_and_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let output = Output::check("--trace", &path).unwrap();
    assert!(!path.exists(), "the check leaves nothing");
    output.write(|file| file.write_all(b"whole")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    assert_eq!(names(folder.path()), 1);
}

#[test]
fn a_failed_write_keeps_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let (path, second) = (folder.path().join("trace"), folder.path().join("second"));
    fs::write(&path, "old").unwrap();
    // Once replaced, once written over: a file with two names.
    for round in 0..2 {
        let output = Output::check("--trace", &path).unwrap();
        let failed = output.write(|file| {
            file.write_all(b"half")?;
            Err(io::Error::other("disk full"))
        });
        let message = failed.unwrap_err().to_string();
        assert!(
            message.contains("--trace") && message.contains("disk full") && message.contains("what to do"),
            "{message}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), 1 + round);
        let _ = fs::hard_link(&path, &second);
    }
}

#[test]
fn links_are_followed_to_what_stands_there_and_to_what_does_not_yet() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("far")).unwrap();
    fs::write(at("far/old"), "old").unwrap();
    for (target, first, second) in [("old", "a", "b"), ("new", "c", "d")] {
        symlink(Path::new("far").join(target), at(first)).unwrap();
        symlink(first, at(second)).unwrap();
        write(&at(second), b"through");
        assert!(at(first).is_symlink() && at(second).is_symlink());
        assert_eq!(fs::read(at("far").join(target)).unwrap(), b"through");
        assert!(Output::check("--json", &at(second)).unwrap().is(&at("far").join(target)), "it is the same file");
    }
    assert_eq!(names(&at("far")), 2);
    symlink("round", at("round")).unwrap();
    let round = Output::check("--json", &at("round")).unwrap_err().to_string();
    assert!(round.contains("too many symbolic links"), "{round}");
}

#[test]
fn mode_owner_and_other_names_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("trace"), folder.path().join("other"));
    fs::write(&path, "old and longer than the new").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    // Only root can give files away; then they are not taken back.
    let given = std::os::unix::fs::chown(&path, Some(1234), Some(5678)).is_ok();
    let before = fs::metadata(&path).unwrap();
    write(&path, b"new");
    let after = fs::metadata(&path).unwrap();
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    assert!(!given || after.uid() == 1234);
    assert_ne!(after.ino(), before.ino(), "another file takes its place at once");
    fs::hard_link(&path, &other).unwrap();
    write(&other, b"for both");
    assert_eq!(fs::read(&path).unwrap(), b"for both");
    assert_eq!((fs::metadata(&path).unwrap().ino(), names(folder.path())), (after.ino(), 2));
}

#[test]
fn what_is_no_file_is_written_into_and_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, link) = (folder.path().join("pipe"), folder.path().join("link"));
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    write(&pipe, b"through a pipe");
    assert_eq!(reader.join().unwrap(), b"through a pipe");
    assert!(Output::check("--json", &pipe).unwrap().is(&pipe), "one pipe is not two outputs");
    symlink("/dev/null", &link).unwrap();
    write(&link, b"into nothing");
    write(Path::new("/dev/null"), b"into nothing");
    let null = Output::check("--json", Path::new("/dev/null")).unwrap();
    assert!(!null.is(Path::new("/dev/null")), "a device can be several outputs");
    assert!(!fs::metadata("/dev/null").unwrap().is_file() && link.is_symlink());
    assert_eq!(names(folder.path()), 2);
    for own in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"] {
        assert!(Output::check("--json", Path::new(own)).unwrap().is_standard_output(), "{own}");
    }
    // A regular file behind a descriptor keeps what it holds.
    let open = fs::File::create(folder.path().join("open")).unwrap();
    (&open).write_all(b"before, ").unwrap();
    write(Path::new(&format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open))), b"behind");
    assert_eq!(fs::read(folder.path().join("open")).unwrap(), b"before, behind");
}

#[test]
fn what_cannot_be_written_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let _listens = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    symlink(".", at("folder")).unwrap();
    let refused = |path: &Path, parts: &[&str]| {
        let error = Output::check("--json", path).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("--json") && parts.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(error.exit_code(), 2);
    };
    refused(&at("no/such.json"), &["does not exist", "create it"]);
    refused(folder.path(), &["names a folder", "name a file"]);
    refused(&at("folder"), &["names a folder"]);
    refused(&at("new/"), &["names a folder"]);
    refused(Path::new(""), &["names a folder"]);
    refused(&at("socket"), &["a socket"]);
    assert_eq!(names(folder.path()), 2);
}

#[test]
fn a_folder_that_a_file_bars_is_refused_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    make_folder("--out", &at("a/b")).unwrap();
    make_folder("--out", &at("a/b")).expect("it is there");
    assert!(at("a/b").is_dir());
    fs::write(at("file"), "").unwrap();
    let barred = make_folder("--out", &at("file")).unwrap_err().to_string();
    assert!(barred.contains("a file stands there") && barred.contains("move the file away"), "{barred}");
    let below = make_folder("--out", &at("file/below/it")).unwrap_err().to_string();
    assert!(below.contains(&format!("{} is a file, and no folder", at("file").display())), "{below}");
    let elsewhere = make_folder("--out", Path::new("/proc/nowhere")).unwrap_err().to_string();
    assert!(elsewhere.contains("/proc/nowhere: the folder cannot be made:"), "{elsewhere}");
}
