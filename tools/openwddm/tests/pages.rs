//! The manual and the completions know each command and its options, as the help does.

use std::process::{Command, Output};

fn openwddm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_openwddm")).args(arguments).output().expect("the binary starts")
}

fn said(arguments: &[&str]) -> String {
    let output = openwddm(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The commands that the help lists.
fn commands() -> Vec<String> {
    let help = said(&["--help"]);
    let list = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list");
    let first = |line: &str| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')).map(str::to_owned);
    let names = list.lines().filter_map(first).filter_map(|line| line.split(' ').next().map(str::to_owned));
    names.collect()
}

#[test]
fn each_command_has_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    said(&["man", "--folder", pages.to_str().expect("text")]);
    let names = commands();
    assert!(names.len() > 8 && names.iter().any(|name| name == "serve"), "{names:?}");
    for name in names.iter().filter(|name| *name != "help") {
        let page = std::fs::read_to_string(pages.join(format!("openwddm-{name}.1")));
        assert!(page.expect(name).contains(".TH"), "{name}");
    }
    let serve = std::fs::read_to_string(pages.join("openwddm-serve.1")).expect("a page");
    assert!(serve.contains("check\\-config"), "{serve}");
    assert!(said(&["man"]).contains("openwddm\\-sweep"));
}

#[test]
fn each_shell_completes_each_command() {
    for shell in ["bash", "zsh", "fish"] {
        let text = said(&["completions", shell]);
        for name in commands() {
            assert!(text.contains(&name), "{name} for {shell}");
        }
        assert!(text.contains("write-config"), "an option, for {shell}");
    }
}

#[test]
fn what_is_no_shell_and_no_folder_is_refused() {
    let output = openwddm(&["completions", "sh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bash"));
    let output = openwddm(&["man", "--folder", "/dev/null/pages"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("/dev/null/pages") && errors.contains("what to do"), "{errors}");
}
