//! Files that a run writes, as processes see them: nothing that stood there is lost.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const GPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gpt.cpu.rrs.json.gz");
const OUTPUTS: [&str; 4] = ["--json", "--trace", "--report", "--demotions"];

/// The binary with these arguments.
fn openwddm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openwddm"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(more: &[&str]) -> Output {
    openwddm(&[&["run", GPT, "--virtual-time", "--steps", "1"], more].concat()).output().expect("it ends")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn devices_stay_devices_links_are_followed_and_modes_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("private"), "old").expect("a file");
    fs::set_permissions(at("private"), fs::Permissions::from_mode(0o600)).expect("its mode");
    symlink("private", at("link")).expect("a link");
    for output in OUTPUTS {
        assert!(run(&[output, "/dev/null"]).status.success());
        assert!(fs::metadata("/dev/null").expect("a device").file_type().is_char_device(), "{output}");
        assert!(run(&[output, text(&at("link"))]).status.success());
        let stands = fs::metadata(at("private")).expect("a file");
        assert!(at("link").is_symlink() && stands.len() > 3, "{output}");
        assert_eq!(stands.mode() & 0o7777, 0o600, "{output}");
    }
    let all = OUTPUTS.map(|output| [output, "/dev/null"]).concat();
    assert!(run(&all).status.success(), "a device can be several outputs");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

#[test]
fn standard_output_as_a_file_holds_the_file_alone() {
    let output = run(&["--json", "/dev/stdout"]);
    assert!(output.status.success());
    let numbers: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(numbers["ops"], 998);
    assert!(String::from_utf8_lossy(&output.stderr).contains("trace hash"), "the table is on the other stream");
    // Redirected into a file, the file holds it too, and keeps its name.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("redirected");
    let mut command = openwddm(&["run", GPT, "--virtual-time", "--steps", "1", "--json", "/dev/stdout"]);
    let status = command.stdout(fs::File::create(&file).expect("a file")).status().expect("it ends");
    let numbers: serde_json::Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");
    assert_eq!((status.code(), &numbers["ops"]), (Some(0), &serde_json::json!(998)));
}

#[test]
fn a_run_that_fails_leaves_the_old_file_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("old"), "old").expect("a file");
    symlink("old", at("link")).expect("a link");
    let (old, link) = (at("old"), at("link"));
    let refused = |more: &[&str], code: i32, part: &str| {
        let output = run(more);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{more:?}: {said}");
        assert!(said.contains(part), "{more:?}: {said}");
        assert_eq!(fs::read(&old).expect("a file"), b"old", "{more:?}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "{more:?}");
    };
    for output in OUTPUTS {
        refused(&[output, text(&old), "--vram", "1MiB"], 2, "largest operation");
        refused(&[output, text(folder.path())], 2, "names a folder");
        refused(&[output, text(&at("no/such"))], 2, "does not exist");
        // A device that is full when the time comes.
        refused(&[output, "/dev/full"], 1, "could not be written: No space left");
    }
    refused(&["--json", text(&old), "--trace", text(&link)], 2, "the same file");
    refused(&["--json", text(&link), "--report", text(&folder.path().join("./old"))], 2, "the same file");
}

#[test]
fn a_workload_is_no_place_for_an_output_by_whatever_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, link) = (folder.path().join("work.json.gz"), folder.path().join("link"));
    fs::copy(GPT, &file).expect("a file");
    fs::hard_link(&file, &link).expect("another name");
    let output = openwddm(&["run", text(&file), "--virtual-time", "--json", text(&link)]).output().expect("it ends");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the workload itself"));
    assert_eq!(fs::read(&file).expect("a file"), fs::read(GPT).expect("a file"));
}

#[test]
fn pictures_follow_links_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = || {
        let words = ["present", "--frames", "2", "--virtual-time", "--size", "8x8", "--pictures"];
        assert!(openwddm(&words).arg(folder.path()).output().expect("it ends").status.success());
        let names = fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("a file").path());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    let first = shown().remove(0);
    let picture = fs::read(&first).expect("a picture");
    let elsewhere = tempfile::tempdir().expect("a folder");
    fs::remove_file(&first).expect("it is there");
    symlink(elsewhere.path().join("picture"), &first).expect("a link");
    shown();
    assert!(first.is_symlink());
    assert_eq!(fs::read(elsewhere.path().join("picture")).expect("through the link"), picture);
}
