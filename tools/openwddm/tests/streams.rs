//! Output of commands: they end quietly when the reader has gone, report a full disk, and print no control sequence from elsewhere
//! that a terminal would obey.

mod daemon;
mod served;

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Output, Stdio};

use daemon::Daemon;
use served::openwddm;

const GPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gpt.cpu.rrs.json.gz");

/// Every command that prints and ends, the daemon's socket for those that need one.
fn commands(socket: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["--help"],
        vec!["--version"],
        vec!["help", "serve"],
        vec!["run", "--help"],
        vec!["adapters"],
        vec!["adapters", "discrete-4k"],
        vec!["adapters", "--json"],
        vec!["serve", "--write-config"],
        vec!["present", "--frames", "2", "--virtual-time"],
        vec!["run", GPT, "--virtual-time", "--steps", "1"],
        vec!["run", GPT, "--steps", "1", "--connect", socket],
        vec!["top", "--once", "--interval", "0.1", "--connect", socket],
        vec!["top", "--once", "--json", "--interval", "0.1", "--connect", socket],
        vec!["bench", "--smoke", "--only", "frames"],
        vec!["fences", "--smoke"],
    ]
}

fn ended(words: &[&str], out: impl Into<Stdio>) -> (Option<i32>, String) {
    let Output { status, stderr, .. } =
        openwddm(words).stdout(out).spawn().expect("it starts").wait_with_output().expect("it ends");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn every_command_ends_quietly_without_a_reader_and_says_that_a_disk_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let daemon = Daemon::start(&socket, &["--adapter", "discrete-4k,vram=128MiB", "--system", "1GiB"]);
    for words in commands(daemon.socket.to_str().expect("UTF-8")) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (code, text) = ended(&words, writer);
        assert_eq!(code, Some(0), "{words:?} without a reader: {text}");
        assert!(!text.contains("error") && !text.contains("panicked"), "{words:?}: {text}");
        let full = OpenOptions::new().write(true).open("/dev/full").expect("a device that is full");
        let (code, text) = ended(&words, full);
        assert_eq!(code, Some(1), "{words:?} on a full disk: {text}");
        assert!(text.contains("error: standard output: No space left"), "{words:?}: {text}");
    }
    // The exit code is the command's own, not the reader's.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(ended(&["adapters", "no-such"], writer).0, Some(2));
}

#[test]
fn errors_without_a_reader_change_nothing() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    for (words, code) in [(&["fly"][..], 2), (&["run", "nowhere.json"], 2), (&["run", GPT, "--virtual-time"], 0)] {
        let mut command = openwddm(words);
        let ended = command.stderr(writer.try_clone().expect("a descriptor")).output().expect("it ends");
        assert_eq!(ended.status.code(), Some(code), "{words:?}");
    }
    // A daemon whose log has no reader serves, and stops at a signal.
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let mut command = openwddm(&["serve", "--adapter", "discrete-4k,vram=128MiB", "--system", "1GiB", "--socket"]);
    let mut child = command.arg(&socket).stderr(writer).spawn().expect("it starts");
    let began = std::time::Instant::now();
    while !served::listens(&socket) {
        assert!(
            began.elapsed() < served::NEVER && child.try_wait().expect("it is there").is_none(),
            "it does not serve"
        );
    }
    // Once it has answered it hears signals.
    let run = openwddm(&["run", GPT, "--steps", "1", "--connect"]).arg(&socket).output().expect("it ends");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

/// A recording whose names are hostile, in a file whose name is.
fn hostile(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("evil\u{1b}]0;owned\u{7}\n\u{202e}.json");
    let evil = r"\u001b[2J\u009b31m\u202e\nerror: done\u007f";
    let text = format!(
        r#"{{"format":"residency-reference-string/1","model":"{evil}","op_names":["{evil}"],"storages":[[8388608,1],[4096,1]],"events":[[0,[0],[1]]]}}"#
    );
    std::fs::write(&file, text).expect("a file");
    file
}

fn is_harmless(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !(c.is_control() || matches!(c, '\u{202a}'..='\u{202e}')))
}

#[test]
fn names_of_a_recording_are_shown_and_not_obeyed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = hostile(folder.path());
    let word = file.to_str().expect("UTF-8");
    let budget = format!("{word},budget=1MiB");
    let missing = format!("{word}.not");
    let json = folder.path().join("n.json");
    let (run, numbers) = (["run", word, "--virtual-time", "--vram"], json.to_str().expect("UTF-8"));
    for (words, code) in [
        ([&run[..], &["16MiB", "--json", numbers]].concat(), 0),
        ([&run[..], &["1MiB"]].concat(), 2),
        (vec!["run", &budget, "--virtual-time", "--vram", "16MiB"], 2),
        (vec!["run", &missing], 2),
        (vec!["run", word, word, "--virtual-time", "--vram", "32MiB"], 0),
        (vec!["adapters", "evil\u{1b}[2J\u{9b}1m"], 2),
        (vec!["run", "--vram", "1\u{1b}[2J"], 2),
        (vec!["serve", "--socket", "/no/such\u{1b}[2J/kernel"], 2),
    ] {
        let output = openwddm(&words).output().expect("it ends");
        let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).expect("text"));
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said:?}");
        for text in said {
            assert!(is_harmless(&text), "{words:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("error: done")), "{words:?}: {text:?}");
        }
    }
    // JSON, which is for programs, keeps the name.
    let numbers: serde_json::Value = serde_json::from_reader(File::open(json).expect("a file")).expect("JSON");
    assert!(numbers["workload"].as_str().expect("a name").contains('\u{1b}'), "{numbers:#}");
}
