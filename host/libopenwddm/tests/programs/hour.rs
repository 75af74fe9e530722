//! The page of the first hour (`docs/first-hour.md`) is true: each of its listings builds without a warning, each command that stands there
//! prints what stands below it, and each status has the number that the header gives it.

use std::path::Path;
use std::process::Command;

use crate::programs::{build_source, interface, libraries};

/// Fenced blocks of a page: the words behind the fence, and the lines.
fn blocks(page: &str) -> Vec<(&str, String)> {
    let (mut blocks, mut open): (Vec<(&str, String)>, _) = (Vec::new(), false);
    for line in page.lines() {
        match (line.strip_prefix("```"), open) {
            (Some(info), false) => {
                blocks.push((info, String::new()));
                open = true;
            }
            (Some(_), true) => open = false,
            (None, true) => {
                let (_, text) = blocks.last_mut().expect("one is open");
                text.push_str(line);
                text.push('\n');
            }
            (None, false) => {}
        }
    }
    blocks
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/first-hour.md");
    std::fs::read_to_string(path).expect("the page is there")
}

/// What a command of the page prints, both outputs in their order.
fn printed(folder: &Path, command: &str) -> String {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec 2>&1; {command}")).current_dir(folder).env("LD_LIBRARY_PATH", libraries());
    for known in ["ADAPTER", "REFUSALS", "FAULTS", "FIDELITY", "SOCKET", "TRACE", "VRAM", "SYSTEM"] {
        shell.env_remove(format!("OPENWDDM_{known}"));
    }
    String::from_utf8(shell.output().expect("there is a shell").stdout).expect("text")
}

#[test]
fn each_listing_builds_and_prints_what_the_page_says() {
    let (page, folder) = (page(), tempfile::tempdir().expect("a folder"));
    let (mut listings, mut commands) = (0, 0);
    for (info, text) in blocks(&page) {
        if let Some(name) = info.strip_prefix("c ") {
            let source = folder.path().join(name);
            std::fs::write(&source, text).expect("a file");
            build_source(&source, &source.with_extension(""), &["-lopenwddm"]);
            listings += 1;
        } else if info == "console" {
            for step in text.split("$ ").filter(|step| !step.is_empty()) {
                let (command, wanted) = step.split_once('\n').expect("a line");
                // A `$ ` within a command would have cut it.
                assert!(command.contains("./hour"), "{command}");
                assert_eq!(printed(folder.path(), command), wanted, "{command}");
                commands += 1;
            }
        }
    }
    assert!(listings == 4 && commands >= 10, "{listings} listings and {commands} commands are not all");
}

#[test]
fn each_status_has_its_number() {
    let header = std::fs::read_to_string(interface().join("include/openwddm/d3dkmt.h")).expect("the header is there");
    let page = page();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `STATUS_")).collect();
    assert!(rows.len() >= 10, "{} rows are not all", rows.len());
    for row in rows {
        let mut cells = row.split('`').skip(1).step_by(2);
        let (name, number) = (cells.next().expect("a name"), cells.next().expect("a number"));
        let defined = format!("#define {name} ((NTSTATUS){number})\n");
        assert!(header.contains(&defined), "{row}");
    }
}

/// Each variable that the library reads has its row; a new one fails here.
#[test]
fn each_variable_of_the_environment_has_its_row() {
    let (page, mut read) = (page(), std::collections::BTreeSet::from(["LD_LIBRARY_PATH".to_owned()]));
    for folder in ["../../client/d3dkmt_c/src", "src", "../dxgk_host/src"] {
        for source in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)) {
            let named = source.split("\"OPENWDDM_").skip(1).filter_map(|rest| rest.split_once('"'));
            // Messages begin with a name, too.
            let alone = named.filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'));
            read.extend(alone.map(|(name, _)| format!("OPENWDDM_{name}")));
        }
    }
    assert!(read.len() > 7, "{read:?} are not all");
    let rows: String = page.lines().filter(|line| line.starts_with("| `")).collect();
    let missing: Vec<_> = read.iter().filter(|name| !rows.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
}

fn sources(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the sources are there");
    let read = |path: std::path::PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![std::fs::read_to_string(path).expect("text")],
    };
    entries.flat_map(|entry| read(entry.expect("an entry").path())).collect()
}
