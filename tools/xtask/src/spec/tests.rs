//! The grammar as a table, and made-up sheets with citations that hold and do not.

use super::*;

const MEMORY: &str =
    "# Memory\n## 0. Conventions\n## 5. Residency\n### 5.1 Lists\n### 5.2 MakeResident `X` (48)\n| N1 | no row |\n";
const SYNC: &str = "# Sync\n## 3. Protocols\n### 3.9 The race\n## 6. Open\n### A. Objects\n| # | Q |\n| A1 | x |\n### B. Semantics\n| B3 | x |\n";
const SEEDS: &str = "# Seeds\n| Id | Acceptance |\n|---|---|\n| N01 | a | s |\n| N02 | b | s |\n\n| M01 | c | m |\n";

fn concluded(source: &str, options: Options) -> Report {
    let mut books = Books {
        sheets: [Sheet::parse("memory", MEMORY), Sheet::parse("sync", SYNC)],
        seeds: Seeds::parse(SEEDS),
        counted: 0,
        crowded: Vec::new(),
    };
    let mut report = Report::default();
    books.read("kernel/k/src/a.rs", &format!("{source}#[test]\n"), &mut report.faults);
    books.conclude(options, &mut report);
    report
}

#[test]
fn citations_are_read() {
    let table: [(&str, &[&str]); 7] = [
        ("// spec: memory §5.2", &["memory 5.2"]),
        ("//! spec: sync §3.9, sync §3.10", &["sync 3.9", "sync 3.10"]),
        ("/// spec: memory §5.2, §5.3, sync §3.9.", &["memory 5.2", "memory 5.3", "sync 3.9"]),
        ("// spec: sync §3.5 step 5, §6 B10", &["sync 3.5", "sync 6 B10"]),
        ("// as it should (spec: memory §0)", &["memory 0"]),
        ("// the spec: it is long", &[]),
        ("// softgpu_spec: sync", &[]),
    ];
    for (comment, expected) in table {
        let places = citation::split(comment).1.map_or(Ok(Vec::new()), citation::places).expect(comment);
        let places: Vec<String> = places.iter().map(|place| format!("{} {}", place.sheet, place.section)).collect();
        assert_eq!(places, expected, "{comment}");
    }
}

#[test]
fn rows_are_read() {
    let table: [(&str, &[&str]); 6] = [
        ("// seed: N30", &["N30"]),
        ("// seed: N30, N31 and more", &["N30", "N31"]),
        ("// seed: N30 (the race), M01.", &["N30", "M01"]),
        ("// spec: sync §3.9. seed: N30", &["N30"]),
        ("// one seed: it replays", &[]),
        ("// from the seeds", &[]),
    ];
    for (comment, expected) in table {
        assert_eq!(citation::rows(comment), expected, "{comment}");
    }
    assert_eq!(citation::rows_of_two("// seed: N30, N31 (two), M01 (the race), M02  (two of each)"), ["N31"]);
    assert_eq!(citation::rows_of_two("// seed: N30 (two)."), ["N30"]);
}

#[test]
fn what_does_not_resolve_fails() {
    let table = [
        ("// spec: memory §5.3", "memory has no §5.3"),
        ("// spec: sync §5.2", "sync has no §5.2"),
        ("// spec: sync §6 B4", "sync has no §6 B4"),
        ("// spec: §5.2", "names no sheet"),
        ("// spec: memory 5.2", "names no section"),
        ("// seed: N03", "no row N03"),
        ("// a mention (memory §9) counts", "memory has no §9"),
    ];
    for (comment, expected) in table {
        let mut faults = concluded(&format!("//! A\n{comment}\n"), Options::default()).faults;
        faults.retain(|fault| !fault.text.starts_with("no test names row"));
        assert_eq!(faults.len(), 1, "{comment}: {faults:?}");
        assert!(faults[0].text.contains(expected) && faults[0].line == 2, "{faults:?}");
    }
}

#[test]
fn what_resolves_counts() {
    let source = "//! A\n// spec: memory §5.2, sync §6 B3\n// seed: N01, M01\nlet a = \"// spec: memory §77\";\n// as in `spec: memory §78`\n// see sync §3.9\n";
    let report = concluded(source, Options::default());
    assert_eq!(report.faults, [Finding::new("docs/spec/seeds.md", 0, "no test names row N02")]);
    assert_eq!(report.summary, "spec: 4 citations, 0 broken; 4 of 9 sections cited; 2 of 3 rows tested");
    let listed: Vec<&str> = report.listing.iter().map(String::as_str).collect();
    assert_eq!(
        listed,
        [
            "memory: no source cites 2 of 4 sections",
            "  §0 Conventions",
            "  §5.1 Lists",
            "sync: no source cites 3 of 5 sections",
            "  §3 Protocols",
            "  §3.9 The race",
            "  §6 A Objects",
            "rows N: 1 of 2 have a test",
            "  without: N02",
            "rows M: 1 of 1 have a test",
        ]
    );
}

#[test]
fn strict_fails_on_what_is_open_and_quiet_counts_only() {
    let source = "//! A\n// spec: memory §0\n// seed: N01, N02, M01\n";
    let strict = concluded(source, Options { strict: true, quiet: false });
    assert!(strict.faults.len() == 1 && strict.faults[0].text.contains("sections uncited"), "{:?}", strict.faults);
    let quiet = concluded(source, Options { strict: false, quiet: true });
    assert!(quiet.faults.is_empty() && quiet.listing.len() == 2, "{:?}", quiet.listing);
    let all = "// spec: memory §0, §5.1, §5.2, sync §3.9, §6 A1, §6 B3\n// seed: N01, N02, M01\n";
    assert_eq!(concluded(all, Options { strict: true, quiet: false }).faults, []);
}

#[test]
fn a_row_without_a_test_fails_and_a_crowded_test_is_listed() {
    let rows = (1..=5).map(|row| format!("| X0{row} | a | s |\n")).collect::<String>();
    let concluded = |source: &str| {
        let mut books = Books {
            sheets: [Sheet::parse("memory", MEMORY), Sheet::parse("sync", SYNC)],
            seeds: Seeds::parse(&rows),
            counted: 0,
            crowded: Vec::new(),
        };
        let mut report = Report::default();
        books.read("kernel/k/src/a.rs", source, &mut report.faults);
        books.conclude(Options::default(), &mut report);
        report
    };
    let four = concluded("//! A\n// seed: X01, X02, X03, X04\n#[test]\nfn f() {\n}\n");
    assert_eq!(four.faults, [Finding::new("docs/spec/seeds.md", 0, "no test names row X05")]);
    assert!(!four.listing.iter().any(|line| line.contains("more than 4")), "{:?}", four.listing);
    let five = concluded("//! A\n// seed: X01, X02, X03, X04\n#[test]\nfn f() {\n    // seed: X05\n}\n");
    assert_eq!(five.faults, []);
    let crowded = "  kernel/k/src/a.rs:4: f names 5 rows: X01 X02 X03 X04 X05";
    assert_eq!(five.listing[five.listing.len() - 2..], ["tests that name more than 4 rows: 1", crowded]);
}

#[test]
fn options() {
    let parse = |words: &[&str]| Options::parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(parse(&["--strict", "--quiet"]), Ok(Options { strict: true, quiet: true }));
    assert!(parse(&["--loud"]).is_err());
}

#[test]
fn a_row_is_proved_by_a_test() {
    let faults = |path: &str, source: &str| {
        let mut books = Books {
            sheets: [Sheet::parse("memory", MEMORY), Sheet::parse("sync", SYNC)],
            seeds: Seeds::parse(SEEDS),
            counted: 0,
            crowded: Vec::new(),
        };
        let mut faults = Vec::new();
        books.read(path, source, &mut faults);
        (faults.len(), books.seeds.groups()[0].tested)
    };
    assert_eq!(faults("kernel/k/src/a.rs", "//! A\n// seed: N01\nfn f() {}\n"), (1, 0));
    assert_eq!(faults("kernel/k/src/a.rs", "//! A\n// seed: N01\n#[test]\nfn f() {}\n"), (0, 1));
    assert_eq!(faults("verify/sim/src/a.rs", "//! A\n// seed: N01\nfn f() {}\n"), (0, 1));
}
