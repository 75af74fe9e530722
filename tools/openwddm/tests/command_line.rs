//! The binary as a shell sees it: exit codes and what it says.

use std::process::{Command, Output};

fn openwddm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_openwddm")).args(arguments).output().expect("the binary starts")
}

fn refused(arguments: &[&str], parts: &[&str]) {
    let output = openwddm(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    parts.iter().for_each(|part| assert!(text.contains(part), "{part} is missing in {text}"));
}

#[test]
fn bad_input_ends_with_two_and_says_what_to_do() {
    refused(&["run", "--vram", "0"], &["--vram", "'0'", "(60%, 0.6)", "(6GiB, 1.5GB)"]);
    refused(&["run", "--vram", "-1GiB"], &["--vram", "-1GiB", "negative"]);
    refused(&["run", "--steps", "0"], &["--steps", "from 1 to"]);
    refused(&["run", "--verify", "--virtual-time"], &["no bytes are stored", "what to do"]);
    refused(&["run", "--trace", "no/such/folder/t"], &["--trace", "no/such/folder", "does not exist", "create it"]);
    refused(&["fly"], &["fly"]);
}

#[test]
fn help_tells_the_exit_codes() {
    let output = openwddm(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("130"));
}
