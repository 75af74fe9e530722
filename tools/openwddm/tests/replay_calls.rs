//! Recorded calls of C programs, made again: by the binary as a shell runs it, at a fresh kernel and at a served one.

mod daemon;
mod served;

use std::path::{Path, PathBuf};
use std::process::Command;

use daemon::Daemon;
use served::openwddm;

const HEAD: &str = r#"{"openwddm_calls":1,"flavour":"windows","calls":"all","environment":{"OPENWDDM_VRAM":"32MiB"}}"#;

/// The folder of the libraries that this test was built with.
fn libraries() -> PathBuf {
    std::env::current_exe().expect("this test is a file").parent().expect("it lies in a folder").to_path_buf()
}

/// Builds a C program of the interface and runs it under a trace, on these adapters; returns the recording.
fn recorded(folder: &Path, source: &str, adapters: &str) -> PathBuf {
    recorded_as("calls", folder, source, adapters)
}

/// Runs a program with a trace of this kind (`OPENWDDM_TRACE`), and returns the recording.
fn recorded_as(what: &str, folder: &Path, source: &str, adapters: &str) -> PathBuf {
    let interface = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../client/d3dkmt_c");
    let name = source.rsplit('/').next().expect("a name");
    let (program, recording) = (folder.join(name), folder.join(format!("{name}.jsonl")));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-I"]).arg(interface.join("include"));
    cc.arg("-I").arg(interface.join("examples")).arg(interface.join(format!("{source}.c"))).arg("-o").arg(&program);
    cc.arg("-L").arg(libraries()).args(["-lopenwddm", "-pthread"]);
    let built = cc.output().expect("there is a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut run = Command::new(program);
    run.env_remove("OPENWDDM_SOCKET").env("LD_LIBRARY_PATH", libraries()).env("OPENWDDM_VRAM", "32MiB");
    run.env("OPENWDDM_ADAPTER", adapters).env("OPENWDDM_TRACE", format!("{what}:{}", recording.display()));
    let ran = run.output().expect("it runs");
    assert!(ran.status.success(), "{source}: {}", String::from_utf8_lossy(&ran.stderr));
    recording
}

/// Exit code, output, and errors.
fn replayed(recording: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let file = recording.to_str().expect("a path in UTF-8");
    let output = openwddm(&[&["replay-calls", file], arguments].concat()).output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// How many calls a recording has.
fn calls(recording: &Path) -> usize {
    // The head and the table of fidelity are none.
    std::fs::read_to_string(recording).expect("it is written").lines().count() - 2
}

/// The line of the first call of a function, counted from 1.
fn line_of(recording: &Path, function: &str) -> usize {
    let text = std::fs::read_to_string(recording).expect("it is written");
    let call = format!("\"call\":\"{function}\"");
    text.lines().position(|line| line.contains(&call)).expect("it is called") + 1
}

#[test]
fn a_recorded_program_has_the_same_statuses_again() {
    let folder = tempfile::tempdir().expect("a folder");
    for (source, adapters) in [
        ("examples/resources", "discrete-4k"),
        ("examples/resources", "wddm2-packets"),
        ("examples/names", "discrete-4k"),
        ("examples/offers", "discrete-4k"),
        ("examples/handles", "discrete-4k"),
        ("examples/keyed_mutex", "discrete-4k"),
        ("examples/memory", "small-bar"),
        ("examples/questions", "discrete-4k,wddm1-banks,iommu"),
        ("examples/bad_input", "discrete-4k"),
        ("tests/drivers/existing_heap", "discrete-4k"),
    ] {
        let recording = recorded(folder.path(), source, adapters);
        let (code, text, errors) = replayed(&recording, &[]);
        assert_eq!(code, Some(0), "{source}: {text}{errors}");
        let made = format!("{} calls of ", calls(&recording));
        assert!(text.starts_with(&made) && text.contains("each has its recorded status ("), "{source}: {text}");
        assert!(text.contains(&format!(" at {}: ", adapters.replace(',', " + "))), "{source}: {text}");
    }
}

/// Recordings of examples of the C interface that were built with `-DOPENWDDM_WSL` and ran with the library of the feature `wsl`.
#[test]
fn a_recorded_program_of_the_linux_subsystem_has_the_same_statuses_again() {
    let recording = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/{name}.jsonl"));
    for name in ["names", "questions"] {
        let recording = recording(name);
        let (code, text, errors) = replayed(&recording, &[]);
        assert_eq!(code, Some(0), "{name}: {text}{errors}");
        let made = format!("{} calls of ", calls(&recording));
        assert!(text.starts_with(&made) && text.contains("each has its recorded status ("), "{name}: {text}");
    }
    // Its events are its own, and refused ones closed ones. It closes an NT handle without a call, so that the last name is there still.
    let (code, text, errors) = replayed(&recording("descriptors"), &[]);
    assert_eq!(code, Some(1), "{text}{errors}");
    let differs = "line 36: D3DKMTOpenSyncObjectNtHandleFromName: recorded STATUS_OBJECT_NAME_NOT_FOUND (0xc0000034), now STATUS_SUCCESS";
    assert!(text.starts_with(differs), "{text}");
}

/// Programs that lock, write commands and content, submit fills and copies, wait, and lock what came of them.
const WORK: [(&str, &str, &str); 5] = [
    ("tests/drivers/copied", "discrete-4k", "D3DKMTSubmitCommandToHwQueue"),
    ("tests/drivers/copied", "wddm2-packets", "D3DKMTSubmitCommand\""),
    ("examples/submit", "discrete-4k", "D3DKMTSubmitCommandToHwQueue"),
    ("examples/submit", "wddm2-packets", "D3DKMTSubmitCommand\""),
    ("examples/patched", "wddm1-banks", "D3DKMTRender"),
];

#[test]
fn recorded_work_of_engines_has_the_same_statuses_and_content_again() {
    let folder = tempfile::tempdir().expect("a folder");
    for (source, adapters, submits) in WORK {
        let recording = recorded_as("calls+memory", folder.path(), source, adapters);
        let text = std::fs::read_to_string(&recording).expect("it is written");
        let is_stored = text.contains("\"stored\":[{") || text.contains("\"commands\":\"");
        assert!(text.contains(submits) && is_stored && text.contains("\"same\":\"0x"), "{source}: {text}");
        let (code, text, errors) = replayed(&recording, &[]);
        assert_eq!(code, Some(0), "{source} at {adapters}: {text}{errors}");
        let made = format!("{} calls of ", calls(&recording));
        assert!(text.starts_with(&made) || text.contains(" looks at an event"), "{source}: {text}");
    }
}

/// A fill of other words than recorded: the statuses are the same, and the content is not.
#[test]
fn another_content_than_the_recording_s_is_told_where_the_program_unlocks_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = recorded_as("calls+memory", folder.path(), "examples/submit", "discrete-4k");
    let text = std::fs::read_to_string(&recording).expect("it is written");
    let pattern = "00eeffc0";
    assert!(text.contains(pattern), "the command has the words that it fills with: {text}");
    std::fs::write(&recording, text.replacen(pattern, "00eeffc1", 1)).expect("it is written");
    let (code, text, errors) = replayed(&recording, &[]);
    assert_eq!(code, Some(1), "{text}{errors}");
    let content = "D3DKMTUnlock2: the content of allocation 0x";
    assert!(
        text.starts_with("line ") && text.contains(content) && text.contains(" (65536 bytes) is another than"),
        "{text}"
    );
}

#[test]
fn a_recording_without_memory_ends_at_its_first_commands_unless_they_are_skipped() {
    let folder = tempfile::tempdir().expect("a folder");
    for (source, adapters, submits) in WORK {
        let recording = recorded(folder.path(), source, adapters);
        let (code, text, errors) = replayed(&recording, &[]);
        assert_eq!(code, Some(3), "{source} at {adapters}: {text}{errors}");
        let text_of = std::fs::read_to_string(&recording).expect("it is written");
        let is_made = |line: &str| line.contains(submits) && line.contains("STATUS_SUCCESS");
        let line = text_of.lines().position(is_made).expect("it submits") + 1;
        let ends = format!(" calls equal, commands are not recorded: line {line} of ");
        assert!(text.contains(&ends) && text.contains("OPENWDDM_TRACE=calls+memory"), "{source}: {text}");
        let (code, text, errors) = replayed(&recording, &["--skip-commands"]);
        assert_eq!(code, Some(0), "{source} at {adapters}: {text}{errors}");
    }
}

/// A trace that had no room, and a kernel that gives other addresses than the commands name.
#[test]
fn commands_that_are_not_the_recorded_ones_end_a_replay_before_they_are_submitted() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = recorded_as("calls+memory", folder.path(), "tests/drivers/copied", "discrete-4k");
    let good = std::fs::read_to_string(&recording).expect("it is written");
    let from = good.find("\"stored\":[{").expect("bytes are stored");
    let to = from + good[from..].find("],\"same\"").expect("at an unlock") + 1;
    let gap = format!("{}\"left_out\":4096{}", &good[..from], &good[to..]);
    let unlock = line_of(&recording, "D3DKMTUnlock2");
    let elsewhere = good.replace("\"va 0x0\"", "NULL").replace("\"va 0x", "\"va 0x1").replace("NULL", "\"va 0x0\"");
    let submit = line_of(&recording, "D3DKMTSubmitCommandToHwQueue");
    for (text, words) in [
        (gap, format!("no room for memory from line {unlock} on, which leaves out 4096 bytes")),
        (elsewhere, "the commands name GPU virtual addresses of the recording: 0x1".to_owned()),
    ] {
        std::fs::write(&recording, text).expect("a file");
        let (code, text, errors) = replayed(&recording, &[]);
        assert_eq!(code, Some(3), "{text}{errors}");
        let ends = format!(" calls equal, commands are not recorded: line {submit} of ");
        assert!(text.contains(&ends) && text.contains(&words), "{words}: {text}");
    }
}

#[test]
fn memory_that_fits_no_lock_is_refused_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = recorded_as("calls+memory", folder.path(), "examples/submit", "discrete-4k");
    let good = std::fs::read_to_string(&recording).expect("it is written");
    let line = line_of(&recording, "D3DKMTUnlock2");
    let cut = good.find("\"stored\":[{").expect("bytes are stored") + 40;
    for (bad, words) in [
        (good.replacen("\"size\":4096", "\"size\":8192", 1), "has 8192 bytes in the recording, and 4096 here"),
        (good.replacen("\"size\":4096", "\"size\":8", 1), "lie beyond the allocation, whose size is 8"),
        (
            good.replacen(
                "\"memory\":[{\"allocation\":\"allocation 0x4",
                "\"memory\":[{\"allocation\":\"allocation 0x5",
                1,
            ),
            "no call before it has locked it",
        ),
        (good[..cut].to_owned(), "the line is cut behind"),
    ] {
        std::fs::write(&recording, bad).expect("a file");
        let (code, said, errors) = replayed(&recording, &[]);
        assert_eq!((code, said), (Some(2), String::new()), "{errors}");
        assert!(errors.contains(words) && errors.contains(&format!("line {line}")), "{words}: {errors}");
    }
}

#[test]
fn an_adapter_that_lacks_something_differs_at_the_first_call_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = recorded(folder.path(), "examples/submit", "discrete-4k");
    let (code, text, _) = replayed(&recording, &["--adapter", "wddm2-packets"]);
    assert_eq!(code, Some(1), "{text}");
    let line = line_of(&recording, "D3DKMTCreateHwContext");
    let differs = format!(
        "line {line}: D3DKMTCreateHwContext: recorded STATUS_SUCCESS (0x00000000), now STATUS_NOT_SUPPORTED (0xc00000bb): "
    );
    assert!(text.starts_with(&differs), "{text}");
    // The head is no call, and a look at an event that is not set is left out.
    assert!(text.contains(&format!("\n{} calls before it have their recorded status", line - 3)), "{text}");
    assert!(text.contains("not in the recording: line "), "{text}");
}

#[test]
fn a_served_kernel_takes_the_calls_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = recorded(folder.path(), "examples/resources", "discrete-4k");
    let socket = folder.path().join("kernel");
    let daemon = Daemon::start(&socket, &["--adapter", "discrete-4k,vram=128MiB", "--system", "256MiB"]);
    let there = &daemon.socket.display().to_string();
    for _ in 0..2 {
        let (code, text, errors) = replayed(&recording, &["--connect", there]);
        assert_eq!(code, Some(0), "{text}{errors}");
        assert!(text.starts_with(&format!("{} calls of ", calls(&recording))) && text.contains(there), "{text}");
    }
    let work = recorded_as("calls+memory", folder.path(), "tests/drivers/copied", "discrete-4k");
    let (code, text, errors) = replayed(&work, &["--connect", there]);
    assert_eq!(code, Some(0), "{text}{errors}");
    drop(daemon);
    let (code, _, errors) = replayed(&recording, &["--connect", there]);
    assert!(code == Some(2) && errors.contains("--connect") && errors.contains("openwddm serve"), "{errors}");
}

fn written(folder: &Path, lines: &[&str]) -> PathBuf {
    let recording = folder.join("written.jsonl");
    std::fs::write(&recording, [&[HEAD], lines].concat().join("\n") + "\n").expect("a file");
    recording
}

/// One line: which end of a call it was, where the kernel took and answered it (`None`: the recording does not say), thread, function, `in` and
/// `out`.
fn line(
    number: u32,
    order: Option<[u32; 2]>,
    thread: u32,
    function: &str,
    (given, out): (&str, &str),
    status: &str,
) -> String {
    let order = order.map(|[taken, answered]| format!(r#""order":[{taken},{answered}],"#)).unwrap_or_default();
    format!(
        r#"{{"number":{number},"call":"D3DKMT{function}KeyedMutex","thread":"{thread}",{order}"in":{{{given}}},"out":{{{out}}},"status":"{status}"}}"#
    )
}

const SUCCESS: &str = "0x00000000";
const INVALID_PARAMETER: &str = "0xc000000d";
const MUTEX: &str = r#""hKeyedMutex":"keyed-mutex 0x77""#;

/// A keyed mutex that one thread makes and has, another waits for, and the first releases. `ordered`: the lines say where the kernel took and
/// answered the calls. Lines of calls that overlap stand in any order: that of the waiter stands before that of the release.
fn handed_over(ordered: bool, is_released: bool) -> Vec<String> {
    let at = |taken, answered| ordered.then_some([taken, answered]);
    let with_key = |key: u32| format!(r#"{MUTEX},"Key":{key}"#);
    let lines = [
        line(1, at(1, 1), 1, "Create", (r#""InitialValue":0"#, MUTEX), SUCCESS),
        line(2, at(2, 2), 1, "Acquire", (MUTEX, ""), SUCCESS),
        line(4, at(3, 5), 2, "Acquire", (&with_key(1), ""), SUCCESS),
        line(5, at(6, 6), 2, "Release", (&with_key(2), ""), SUCCESS),
        line(3, at(4, 4), 1, "Release", (&with_key(1), ""), SUCCESS),
    ];
    let lines = lines.into_iter();
    if is_released { lines.collect() } else { lines.take(3).collect() }
}

fn texts(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

#[test]
fn a_call_that_waits_for_another_thread_is_left_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let ordered = written(folder.path(), &texts(&handed_over(true, true)));
    let (code, text, errors) = replayed(&ordered, &[]);
    assert!(code == Some(0) && text.starts_with("5 calls of "), "{text}{errors}");
    // An older recording does not say which call waits. A hundredth of this patience is more than any call takes that waits for none.
    let older = handed_over(false, true).join("\n").replace(r#""number":3"#, r#""number":9"#);
    let older = written(folder.path(), &[&older]);
    let (code, text, errors) = replayed(&older, &["--patience", "1000"]);
    assert!(code == Some(0) && text.starts_with("5 calls of "), "{text}{errors}");
}

#[test]
fn a_call_that_does_not_return_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = written(folder.path(), &texts(&handed_over(true, false)));
    let (code, text, errors) = replayed(&recording, &["--patience", "10"]);
    assert_eq!(code, Some(1), "{text}{errors}");
    let waits = "line 4: D3DKMTAcquireKeyedMutex: recorded STATUS_SUCCESS (0x00000000), now it has not returned within 10 s\n2 calls before";
    assert!(text.starts_with(waits), "{text}");
}

/// A global handle goes with the last open of its mutex, which another thread destroys. Only the kernel's order says that the opens that fail come
/// behind the destruction: they ended before it, and their lines stand before its line.
#[test]
fn calls_that_overlap_are_made_as_the_kernel_made_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = r#""hSharedHandle":"global-share 0x2""#;
    let (created, theirs) = (format!("{MUTEX},{shared}"), MUTEX.replace("0x77", "0x78"));
    let at = |order| Some([order, order]);
    let lines = [
        line(1, at(1), 1, "Create", (r#""InitialValue":0"#, &created), SUCCESS),
        line(2, at(2), 2, "Open", (shared, &theirs), SUCCESS),
        line(3, at(5), 2, "Open", (shared, ""), INVALID_PARAMETER),
        line(4, at(6), 2, "Open", (shared, ""), INVALID_PARAMETER),
        line(6, at(3), 1, "Destroy", (MUTEX, ""), SUCCESS),
        line(5, at(4), 3, "Destroy", (&theirs, ""), SUCCESS),
        line(7, at(7), 1, "Destroy", (MUTEX, ""), INVALID_PARAMETER),
    ];
    let (code, text, errors) = replayed(&written(folder.path(), &texts(&lines)), &[]);
    assert!(code == Some(0) && text.starts_with("7 calls of "), "{text}{errors}");
}

/// A program of two threads that overlap all the time, recorded and made again: each recording has each of its statuses again.
#[test]
fn threads_that_hand_on_a_mutex_have_the_same_statuses_again() {
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..4 {
        let recording = recorded(folder.path(), "examples/keyed_mutex", "discrete-4k");
        let text = std::fs::read_to_string(&recording).expect("it is written");
        let waits =
            text.lines().filter_map(|line| line.split_once(r#""order":["#)?.1.split_once(']')).filter(|(order, _)| {
                let (taken, answered) = order.split_once(',').expect("two numbers");
                taken != answered
            });
        assert!(waits.count() > 0, "some calls wait");
        let (code, text, errors) = replayed(&recording, &[]);
        assert_eq!(code, Some(0), "{text}{errors}");
    }
}

#[test]
fn what_is_no_recording_ends_with_two_and_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = recorded(folder.path(), "examples/enumerate", "discrete-4k");
    let text = std::fs::read_to_string(&good).expect("it is written");
    let lines = text.lines().count();
    let bad = folder.path().join("bad.jsonl");
    for (content, words) in [
        (text[..text.len() - 30].to_owned(), vec![format!("line {lines}: the line is cut"), "OPENWDDM_TRACE".into()]),
        (
            text.replace("D3DKMTEnumAdapters", "D3DKMTEnumerate"),
            vec!["line 2".into(), "no function has the name \"D3DKMTEnumerate".into()],
        ),
        (text.replacen('{', "", 1), vec!["line 1: it is no JSON".into()]),
        (String::new(), vec!["line 1: it is empty".into()]),
    ] {
        std::fs::write(&bad, content).expect("a file");
        let (code, said, errors) = replayed(&bad, &[]);
        assert_eq!((code, said), (Some(2), String::new()), "{errors}");
        words.iter().for_each(|word| assert!(errors.contains(word.as_str()), "{word}: {errors}"));
    }
    let (code, _, errors) = replayed(&good, &["--adapter", "no-such-profile"]);
    assert!(code == Some(2) && errors.contains("--adapter no-such-profile"), "{errors}");
    let (code, _, errors) = replayed(&folder.path().join("nowhere"), &[]);
    assert!(code == Some(2) && errors.contains("recording") && errors.contains("nowhere"), "{errors}");
}
