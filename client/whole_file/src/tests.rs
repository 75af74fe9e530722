//! Tests of [`super`]. The rows of its table are tested where the command line uses them (`tools/openwddm/src/output/tests.rs`).

use std::fs;
use std::io::Write;
use std::path::Path;

use super::temporary::Temporary;
use super::*;

fn names(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn what_ends_without_destructors_leaves_no_half_file() {
    let folder = tempfile::tempdir().unwrap();
    let (temporary, _file) = Temporary::within(folder.path(), 0o600).unwrap();
    assert_eq!(names(folder.path()), 1);
    abandon();
    assert_eq!(names(folder.path()), 0);
    drop(temporary);
}

#[test]
fn a_file_that_is_written_again_and_again_is_whole_between() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    for content in ["first, and longer", "second"] {
        write_again(&path, content.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    assert_eq!(names(folder.path()), 1);
    // A full device takes nothing, and stays a device.
    assert!(write_again(Path::new("/dev/full"), b"more").is_err());
    assert!(!fs::metadata("/dev/full").unwrap().is_file());
}

#[test]
fn a_stream_goes_into_what_is_no_file_and_behind_what_a_descriptor_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    fs::write(&path, "old").unwrap();
    Place::of(&path).unwrap().stream().unwrap().write_all(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    let open = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let own = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
    Place::of(Path::new(&own)).unwrap().stream().unwrap().write_all(b", and more").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new, and more");
}
