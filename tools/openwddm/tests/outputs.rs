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

/// Standard output, errors and exit code.
fn said(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn an_output_that_cannot_be_written_loses_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name.trim_start_matches('-'));
    for full in OUTPUTS {
        let path = |output| if output == full { "/dev/full".to_owned() } else { text(&at(output)).to_owned() };
        let words: Vec<String> = OUTPUTS.iter().flat_map(|output| [(*output).to_owned(), path(output)]).collect();
        let (table, errors, code) = said(&run(&words.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!(code, Some(1), "{full}: {errors}");
        assert!(table.contains("trace hash"), "{full}: {table}");
        assert!(!table.contains("/dev/full"), "the table names files that are written: {table}");
        for output in OUTPUTS {
            assert_eq!(errors.contains(&format!("error: {output} ")), output == full, "{errors}");
            assert_eq!(at(output).exists(), output != full, "{full}: {output}");
            let _ = fs::remove_file(at(output));
        }
    }
    // Two that are full are both named.
    let (table, errors, code) = said(&run(&["--json", "/dev/full", "--trace", "/dev/full"]));
    assert!(code == Some(1) && table.contains("trace hash"), "{errors}");
    assert!(errors.contains("error: --json ") && errors.contains("error: --trace "), "{errors}");
}

#[test]
fn files_are_written_where_standard_output_is_full_or_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    let words = ["run", GPT, "--virtual-time", "--steps", "1", "--report", text(&report)];
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("a device that is full");
    let (_, errors, code) = said(&openwddm(&words).stdout(full()).output().expect("it ends"));
    assert!(code == Some(1) && errors.contains("error: standard output: No space left"), "{errors}");
    assert!(fs::metadata(&report).expect("it is written").len() > 1000);
    fs::remove_file(&report).expect("it is there");
    // A program without a standard output prints for no reader.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" >&-", env!("CARGO_BIN_EXE_openwddm")]).args(words);
    let (_, errors, code) = said(&shell.output().expect("it ends"));
    assert!(code == Some(0) && report.exists(), "{errors}");
    // A bench that can print nothing has its page.
    let page = folder.path().join("page");
    let words = ["bench", "--smoke", "--only", "frames", "--page", text(&page)];
    let (_, errors, code) = said(&openwddm(&words).stdout(full()).output().expect("it ends"));
    assert!(code == Some(1) && errors.contains("error: standard output: No space left") && page.exists(), "{errors}");
    let (table, errors, code) =
        said(&openwddm(&["bench", "--smoke", "--only", "frames", "--page", "/dev/full"]).output().expect("it ends"));
    assert!(code == Some(1) && errors.contains("error: --page ") && table.contains("frames"), "{table}{errors}");
}

#[test]
fn a_sweep_goes_on_without_room_for_its_page_and_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let swept = |out: &Path| {
        let words = ["sweep", GPT, "--vram", "0.8..0.9/2", "--policy", "lru", "--steps", "1", "--time-limit", "0"];
        said(&openwddm(&words).arg("--out").arg(out).output().expect("it ends"))
    };
    let whole = folder.path().join("whole");
    let (wanted, errors, code) = swept(&whole);
    assert_eq!(code, Some(0), "{errors}");
    let table = |text: &str| text.lines().take_while(|line| !line.starts_with("rows:")).collect::<Vec<_>>().join("\n");
    // The page goes into a full device, then the rows where the operating system makes no files.
    for (name, to, lost, rows) in [
        ("sweep.html", "/dev/full", "error: --out ", "rows: 2 in "),
        ("rows", "/proc/self/fdinfo", "error: rows ", "rows: 0 in "),
    ] {
        let out = folder.path().join(name);
        fs::create_dir(&out).expect("a folder");
        symlink(to, out.join(name)).expect("a link");
        let (text, errors, code) = swept(&out);
        assert!(code == Some(1) && errors.contains(lost), "{name}: {errors}");
        assert_eq!(table(&text), table(&wanted), "{name}");
        assert!(text.contains(rows), "{name}: {text}");
        assert_eq!(text.contains("picture: "), name == "rows", "{name}: {text}");
        assert_eq!(fs::read_link(out.join(name)).expect("it is a link still"), Path::new(to));
    }
}

#[test]
fn one_page_or_picture_without_room_loses_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = |of: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(of).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
        names.sort();
        names
    };
    let present = ["present", "--frames", "3", "--virtual-time", "--size", "8x8", "--pictures"];
    for (words, name) in [(&["man", "--folder"][..], "pages"), (&present[..], "pictures")] {
        let of = folder.path().join(name);
        fs::create_dir(&of).expect("a folder");
        assert!(openwddm(words).arg(&of).output().expect("it ends").status.success(), "{name}");
        let first = names(&of);
        first.iter().for_each(|path| fs::remove_file(path).expect("it is there"));
        symlink("/dev/full", &first[0]).expect("a link");
        let (_, errors, code) = said(&openwddm(words).arg(&of).output().expect("it ends"));
        assert!(code == Some(1) && errors.contains("could not be written: No space left"), "{name}: {errors}");
        assert_eq!(names(&of), first, "{name}: all others are written");
    }
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
