//! The shared library exports the functions that C programs of each kind want, and nothing else.

use std::collections::BTreeSet;
use std::process::Command;

/// The functions of windows-sys 0.61, which Wine's are among, and behind them those that only the library of the Linux subsystem has.
const PUBLISHED: &str = include_str!("../../../client/d3dkmt_c/tests/published/functions.txt");
/// Functions of published articles that neither declares yet.
const NEWER: &str = "EnumProcesses CreateNativeFence OpenNativeFenceFromNtHandle GetNativeFenceLogDetail CreateDoorbell ConnectDoorbell \
    DestroyDoorbell NotifyWorkSubmission IsFeatureEnabled RegisterBudgetChangeNotification \
    UnregisterBudgetChangeNotification";
/// Functions that stand for calls of the operating system on Windows.
const SYSTEM: &str = "CreateEvent WaitEvent SetEvent ResetEvent CloseHandle ExportHandle ImportHandle OpenProcess QueryProcess \
    CreateSection";

/// Those of the articles on native fences and on user-mode submission are among them, as the header names them.
// seed: C22
#[test]
fn the_library_exports_every_function_and_nothing_else() {
    let mut wanted: Vec<String> = PUBLISHED.split_whitespace().map(str::to_owned).collect();
    assert_eq!(wanted.len(), 178);
    wanted.extend(NEWER.split_whitespace().map(|name| format!("D3DKMT{name}")));
    wanted.extend(SYSTEM.split_whitespace().map(|name| format!("OpenWddm{name}")));
    let wanted: BTreeSet<String> = wanted.into_iter().collect();

    let program = std::env::current_exe().expect("this test is a file");
    let library = program.with_file_name("libopenwddm.so");
    let output = Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library).output();
    let output = output.expect("a machine with a C compiler has nm");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names");
    let found = text.lines().filter_map(|line| line.split_whitespace().next());
    let found: BTreeSet<String> = found.map(str::to_owned).collect();
    let missing: Vec<_> = wanted.difference(&found).collect();
    let besides: Vec<_> = found.difference(&wanted).filter(|name| !name.starts_with("rust_eh_personality")).collect();
    assert!(missing.is_empty() && besides.is_empty(), "missing {missing:?}, besides {besides:?}");
}
