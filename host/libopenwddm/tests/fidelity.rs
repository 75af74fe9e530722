//! The table of fidelity: what the kernel did, accepted without effect, or refused, for a C program that has all of it.

mod programs;

use std::path::Path;

use programs::{Served, build_from, run, said, said_by};
use serde_json::Value;

/// The rows that a program leaves, by what they count: done, without effect, refused, failed, and the reason.
fn table(text: &str) -> impl Fn(&str, &str) -> ([u64; 4], u64, String) {
    let parsed: Value = serde_json::from_str(text).expect(text);
    let rows = parsed["fidelity"].as_array().expect("rows").clone();
    move |kind, what| {
        let row = rows.iter().find(|row| row["kind"] == kind && row["what"] == what);
        let row = row.unwrap_or_else(|| panic!("no row {kind} {what}"));
        let count = |name: &str| row[name].as_u64().expect("a count");
        let counts = ["done", "without_effect", "refused", "failed"].map(count);
        (counts, count("first"), row["why"].as_str().expect("a text").to_owned())
    }
}

fn reported(sources: &str, name: &str, environment: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("fidelity.json");
    said_by(sources, name, &[environment, &[("OPENWDDM_FIDELITY", file.to_str().expect("text"))]].concat());
    std::fs::read_to_string(file).expect("it is written")
}

fn each_row_is_right(text: &str) {
    let row = table(text);
    let (counts, first, why) = row("function", "D3DKMTCreateDevice");
    assert_eq!((counts, first, &*why), ([2, 0, 0, 0], 2, ""));
    let (counts, first, why) = row("flag", "D3DKMTCreateDevice D3DKMT_CREATEDEVICE.Flags: RequestVSync");
    assert_eq!((counts, first, &*why), ([0, 2, 0, 0], 2, "of the presents of an older runtime"));
    let (counts, first, why) = row("function", "D3DKMTCreateAllocation2");
    assert_eq!((counts, first), ([1, 0, 1, 0], 5));
    assert!(why.contains("WRITE_WATCH"), "{why}");
    assert_eq!(row("flag", "D3DKMTCreateAllocation2 D3DKMT_CREATEALLOCATION.Flags: CreateResource").0, [1, 0, 0, 0]);
    assert_eq!(row("flag", "D3DKMTCreateAllocation2 D3DKMT_CREATEALLOCATION.Flags: NonSecure").0, [0, 1, 0, 0]);
    assert_eq!(row("flag", "D3DKMTCreateAllocation2 D3DKMT_CREATEALLOCATION.Flags: WriteWatch").0, [0, 0, 1, 0]);
    assert_eq!(row("flag", "D3DKMTMakeResident D3DDDI_MAKERESIDENT.Flags: CantTrimFurther").0, [1, 0, 0, 0]);
    let (counts, _, why) = row("member", "D3DKMTMakeResident D3DDDI_MAKERESIDENT.PriorityList");
    assert_eq!((counts, &*why), ([0, 1, 0, 0], "documented as ignored (memory §5.2)"));
    assert_eq!(row("escape", "D3DKMT_ESCAPE_DRIVERPRIVATE").0, [1, 0, 0, 1]);
    let (other, ..) = row("escape", "D3DKMT_ESCAPE_VIDMM");
    assert_eq!(other[0] + other[1], 0);
    assert_eq!(row("function", "D3DKMTCreateOverlay").0, [0, 0, 1, 0]);
    assert_eq!(row("function", "D3DKMTCloseDxCoreDevice").0, [0, 1, 0, 0]);
}

#[test]
fn the_table_tells_what_was_done_accepted_and_refused() {
    each_row_is_right(&reported("tests/drivers", "fidelity", &[("OPENWDDM_ADAPTER", "discrete-4k")]));
    // The commands of the engines: a fill, and the signal behind it.
    let text = reported("examples", "submit", &[("OPENWDDM_ADAPTER", "discrete-4k")]);
    let row = table(&text);
    let [done, idle, refused, failed] = row("GPU command", "fill").0;
    assert!(done >= 1 && (idle, refused, failed) == (0, 0, 0), "{text}");
    assert!(row("GPU command", "signal").0[0] >= 1, "{text}");
}

/// Not a test: the daemon of the one below.
#[test]
fn the_daemon() {
    programs::daemon();
}

#[test]
fn a_served_kernel_is_told_of_likewise() {
    let mut served = Served::start();
    let text = reported("tests/drivers", "fidelity", &served.environment());
    each_row_is_right(&text);
    // The program has the engines do nothing, and the daemon's own work for its memory is not the program's.
    assert!(!text.contains("GPU command"), "{text}");
    served.end();
}

/// The rows of GPU commands: what, done, failed, the number of the first, and why.
fn commands(text: &str) -> Vec<(String, u64, u64, u64, String)> {
    let parsed: Value = serde_json::from_str(text).expect(text);
    let rows = parsed["fidelity"].as_array().expect("rows").iter().filter(|row| row["kind"] == "GPU command");
    let row = |row: &Value| {
        let [what, why] = ["what", "why"].map(|name| row[name].as_str().expect("a text").to_owned());
        let count = |name: &str| row[name].as_u64().expect("a count");
        assert_eq!((count("without_effect"), count("refused")), (0, 0), "{what}");
        (what, count("done"), count("failed"), count("first"), why)
    };
    rows.map(row).collect()
}

/// The same program has the same commands in a process with a kernel of its own and at a kernel that others use meanwhile, whose commands
/// are not its own.
#[test]
fn a_served_kernel_counts_the_commands_that_the_programs_own_kernel_would() {
    let others = tempfile::tempdir().expect("a folder");
    let other = build_from("examples", others.path(), "submit", &["-lopenwddm"]);
    let programs = [("tests/drivers", "commands"), ("examples", "submit"), ("examples", "doorbell")];
    let patched = [("examples", "patched")];
    for (profile, programs) in [
        ("discrete-4k", &programs[..]),
        ("wddm2-packets", &programs[..2]),
        ("power-saving", &programs[..1]),
        ("wddm1-banks", &patched[..]),
    ] {
        let mut served = Served::of(profile);
        for (sources, name) in programs {
            let here = commands(&reported(sources, name, &[("OPENWDDM_ADAPTER", profile)]));
            let environment = served.environment();
            let there = std::thread::scope(|scope| {
                let busy = scope.spawn(|| drop((0..4).map(|_| run(&other, &environment)).collect::<Vec<_>>()));
                let there = commands(&reported(sources, name, &environment));
                busy.join().expect("the others end");
                there
            });
            assert_eq!(there, here, "{name} of {profile}");
            assert!(!here.is_empty(), "{name} of {profile}");
            if *name == "commands" {
                let counts: Vec<_> = here.iter().map(|(what, done, failed, ..)| (&**what, *done, *failed)).collect();
                let signals = ("signal", 3, 0);
                let wanted = [("copy", 3, 0), ("fault", 0, 1), ("fill", 7, 0), signals];
                // What packets signal, the kernel does.
                let wanted = &wanted[..if profile == "wddm2-packets" { 3 } else { 4 }];
                assert_eq!(counts, wanted, "{profile}");
                let firsts: Vec<u64> = here.iter().map(|row| row.3).collect();
                assert_eq!((firsts[0], firsts[2]), (2, 1), "{profile}");
                assert!(here[1].4.starts_with("the address has no valid entry"), "{}", here[1].4);
            }
        }
        served.end();
    }
}

/// The end of the program that a signal ends leaves the rows that it had.
#[test]
fn a_table_grows_with_the_program_and_ends_its_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_from("tests/drivers", folder.path(), "fidelity", &["-lopenwddm"]);
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (text, trace) = (file("table.txt"), file("calls.jsonl"));
    let wanted = format!("calls:{trace}");
    said(&run(&program, &[("OPENWDDM_FIDELITY", &text), ("OPENWDDM_TRACE", &wanted)]));
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).expect("it is written");
    let idle = "D3DKMTCreateAllocation2 D3DKMT_CREATEALLOCATION.Flags: NonSecure";
    let line = read(&text).lines().find(|line| line.contains(idle)).map(str::to_owned).expect("a row");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..6], ["flag", "0", "1", "0", "0", "#5"]);
    assert!(line.ends_with("the content is the process's own all the same"), "{line}");
    each_row_is_right(read(&trace).lines().last().expect("an end"));
    // The end of a forked child is not its parent's.
    let forks = build_from("tests/drivers", folder.path(), "forks", &["-lopenwddm"]);
    said(&run(
        &forks,
        &[("OPENWDDM_FIDELITY", &file("%p.json")), ("OPENWDDM_TRACE", &format!("calls:{}", file("%p.jsonl")))],
    ));
    let files = std::fs::read_dir(folder.path())
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let traces: Vec<String> = files.filter(|name| name.ends_with(".jsonl") && name != "calls.jsonl").collect();
    assert_eq!(traces.len(), 2, "the first child's, which came first, and the parent's");
    for name in traces {
        let ends = read(&file(&name)).lines().filter(|line| line.starts_with("{\"fidelity\"")).count();
        assert_eq!(ends, 1, "{name}");
        assert!(!read(&file(&name)).contains("forked"), "{name}");
    }
    // A file that cannot be made is told once.
    let output = run(&program, &[("OPENWDDM_FIDELITY", &file("nowhere/table.txt"))]);
    assert_eq!(said(&output), "served\n");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(errors.lines().filter(|line| line.contains("no table is written")).count(), 1, "{errors}");
}
