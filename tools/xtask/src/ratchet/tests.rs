//! Each ratchet on small sources, and a house whose ceilings are too low, too high and right.

use super::*;

fn texts(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect()
}

/// What one ratchet of the table measures in these files: its figure, and the places as `line: text`.
fn measure(name: &str, files: &[(&str, &str)]) -> (usize, Vec<String>) {
    let texts = texts(files);
    let ratchet = RATCHETS.iter().find(|ratchet| ratchet.name == name).expect("a ratchet of the table");
    let measure = take(ratchet, &Sources::of(&texts)).expect("sources that have what it measures");
    (measure.number, measure.places.iter().map(|place| format!("{}: {}", place.line, place.text)).collect())
}

const ADAPTER: (&str, &str) = (
    "kernel/dxgkrnl/src/adapter.rs",
    "//! A\npub struct Adapter {\n    pub index: AdapterIndex,\n    /// pub.\n    pub(crate) units: BTreeMap<u32, (u8, u8)>,\n    due: Due,\n}\n\
     pub struct Other { pub open: u8 }\nimpl Adapter {\n    pub fn f() {}\n}\nimpl Adapter {}\n",
);

#[test]
fn files_that_add_methods_are_counted_once() {
    let files = [
        ADAPTER,
        ("kernel/dxgkrnl/src/queue.rs", "//! A\nimpl<'a> Adapter<'a>\nwhere\n    A: B,\n{\n}\n"),
        ("kernel/dxgkrnl/src/trait.rs", "//! impl Adapter {}\nimpl Named for Adapter {}\nimpl AdapterConfig {}\n"),
        ("kernel/dxgkrnl/src/queue/tests.rs", "//! A\nimpl Adapter {}\n"),
        ("kernel/dxgkrnl/src/later.rs", "//! A\n#[cfg(test)]\nmod tests {\n    impl Adapter {}\n}\n"),
        ("kernel/vidmm/src/adapter.rs", "//! A\nimpl Adapter {}\n"),
    ];
    let (number, places) = measure("adapter-files", &files);
    assert_eq!(number, 2, "{places:?}");
    assert_eq!(places, ["9: adds methods to Adapter", "2: adds methods to Adapter"]);
}

#[test]
fn open_fields_are_those_of_the_type_alone() {
    let expected = ["3: Adapter::index is open", "5: Adapter::units is open"].map(String::from).to_vec();
    assert_eq!(measure("adapter-fields", &[ADAPTER]), (2, expected));
    let vidmm = ("kernel/vidmm/src/vidmm.rs", "//! A\npub struct VidMm<F> {\n    pub(super) a: F,\n    b: u8,\n}\n");
    assert_eq!(measure("vidmm-fields", &[vidmm]).0, 1);
}

#[test]
fn a_ratchet_whose_subject_is_gone_fails() {
    let elsewhere = texts(&[("kernel/dxgkrnl/src/device.rs", "//! A\npub struct Device { pub a: u8 }\n")]);
    let sources = Sources::of(&elsewhere);
    let blind = [
        "adapter-files",
        "adapter-fields",
        "vidmm-fields",
        "dxgkrnl-cycle",
        "vidmm-cycle",
        "unrouted-calls",
        "readme-lines",
        "readme-longest",
    ];
    for name in blind {
        let ratchet = RATCHETS.iter().find(|ratchet| ratchet.name == name).expect("a ratchet of the table");
        let reason = take(ratchet, &sources).expect_err("nothing to measure");
        assert!(reason.contains(name) && reason.contains("tell the ratchet"), "{reason}");
    }
}

#[test]
fn a_cycle_is_followed_through_every_way_to_import() {
    let lib = "//! A\nmod a;\npub mod b;\nmod c;\nmod d;\nmod e;\nmod f;\n#[cfg(test)]\nmod tests;\npub use c::{Named, other::Long as Short};\n";
    let file = |name: &'static str, text: &'static str| (name, text);
    let all = [
        file("kernel/dxgkrnl/src/lib.rs", lib),
        file("kernel/dxgkrnl/src/a.rs", "//! A\nuse crate::{\n    b::{c::X, Y},\n    f,\n};\n"),
        file("kernel/dxgkrnl/src/b.rs", "//! crate::f\nfn f() -> crate::Short { \"crate::e\" }\n"),
        file("kernel/dxgkrnl/src/c.rs", "//! A\nmod inner;\n"),
        file("kernel/dxgkrnl/src/c/inner.rs", "//! A\nuse super::f;\nuse super::super::d;\n"),
        file("kernel/dxgkrnl/src/d.rs", "//! A\nuse super::a;\n"),
        file("kernel/dxgkrnl/src/e.rs", "//! A\nuse crate::a;\nuse crate::f;\n"),
        file("kernel/dxgkrnl/src/f.rs", "//! A\nuse std::a;\n#[cfg(test)]\nmod tests {\n    use crate::e;\n}\n"),
        file("kernel/dxgkrnl/src/tests.rs", "//! A\nuse crate::e;\n"),
        file("kernel/dxgkrnl/src/f/tests.rs", "//! A\nuse crate::e;\n"),
    ];
    let (number, places) = measure("dxgkrnl-cycle", &all);
    assert_eq!(number, 4, "{places:?}");
    let told: Vec<&str> = places.iter().map(|place| place.as_str()).collect();
    assert_eq!(told[0], "0: needs 1 of its cycle: b", "f is no part of it");
    for open in [1, 2, 4, 5] {
        let cut: Vec<_> = all.iter().enumerate().filter(|(nth, _)| *nth != open).map(|(_, file)| *file).collect();
        assert_eq!(measure("dxgkrnl-cycle", &cut).0, 0, "without {}", all[open].0);
    }
}

#[test]
fn the_largest_of_two_cycles_counts() {
    let files = [
        ("kernel/vidmm/src/lib.rs", "//! A\nmod a;\nmod b;\nmod c;\nmod d;\nmod e;\n"),
        ("kernel/vidmm/src/a.rs", "//! A\nuse crate::b;\nuse crate::c;\n"),
        ("kernel/vidmm/src/b.rs", "//! A\nuse crate::a;\n"),
        ("kernel/vidmm/src/c.rs", "//! A\nuse crate::d;\n"),
        ("kernel/vidmm/src/d.rs", "//! A\nuse crate::e;\n"),
        ("kernel/vidmm/src/e.rs", "//! A\nuse crate::c;\n"),
    ];
    assert_eq!(measure("vidmm-cycle", &files).0, 3);
}

#[test]
fn objects_named_by_integers() {
    let bare = [
        "fn f(device: u64) {}",
        "fn f(&mut self, mut paging_queue: u64) {}",
        "fn f(fence_id: u32) {}",
        "fn f(resource: Option<u64>) {}",
        "fn f(contexts: &[u64]) {}",
        "fn f(\n    cx: &mut Cx<'_>,\n    queues: impl Iterator<Item = (u64, Value)>,\n) {}",
        "fn f((device, at): (u64, Place)) {}",
        "fn open_queue() -> Result<(AdapterIndex, u64), Refusal> {}",
        "fn waiting_fences(&self) -> Vec<u64> {}",
    ];
    let typed = [
        "fn f(device: DeviceId, value: u64, bytes: u32) {}",
        "fn f(devices: usize) {}",
        "fn f(_device: u64) {}",
        "fn f((device, at): (DeviceId, u64)) {}",
        "fn number(self) -> u64 {}",
        "fn fences(&self) -> usize {}",
        "fn f(told: fn(u64) -> News) {}",
        "struct A { device: u64 }",
        "// fn f(device: u64)",
    ];
    for (codes, expected) in [(&bare, 1), (&typed, 0)] {
        for code in codes {
            let text = format!("//! A\n{code}\n");
            assert_eq!(measure("bare-names", &[("kernel/dxgkrnl/src/a.rs", &text)]).0, expected, "{code}");
        }
    }
    let (_, places) =
        measure("bare-names", &[("kernel/dxgkrnl/src/a.rs", "//! A\nfn f(device: u64, queue: u64) {}\n")]);
    assert_eq!(places, ["2: f: device: u64", "2: f: queue: u64"]);
    let outside = [
        ("kernel/vidmm/src/a.rs", "//! A\nfn f(device: u64) {}\n"),
        ("kernel/dxgkrnl/src/tests.rs", "fn f(device: u64) {}\n"),
    ];
    assert_eq!(measure("bare-names", &outside).0, 0);
}

#[test]
fn a_function_fits_with_as_many_lines_as_a_screen_has() {
    let function = |lines: usize| format!("//! A\nfn f() {{\n{}}}\n", "    g(\"}\"); // }\n".repeat(lines - 2));
    for (lines, expected) in [(length::SCREEN, 0), (length::SCREEN + 1, 1)] {
        assert_eq!(measure("long-functions", &[("verify/sim/src/a.rs", &function(lines))]).0, expected, "{lines}");
    }
    let long = function(80);
    let told =
        measure("long-functions", &[("a/src/a.rs", &long), ("a/src/b.rs", &function(90)), ("a/tests/c.rs", &long)]);
    assert_eq!(told, (2, vec!["2: f has 90 lines".to_string(), "2: f has 80 lines".to_string()]));
}

#[test]
fn calls_that_end_in_an_assertion() {
    let files = [
        ("kernel/dxgkrnl/src/call.rs", "//! A\nfn f() {\n    call => unreachable!(\"unreachable!\"), // panic!\n}\n"),
        (
            "kernel/dxgkrnl/src/call/share.rs",
            "//! A\nfn f() { panic!(); }\nfn g() { not_unreachable!(); }\n#[cfg(test)]\nmod tests {\n    fn f() { panic!(); }\n}\n",
        ),
        ("kernel/dxgkrnl/src/queue.rs", "//! A\nfn f() { unreachable!() }\n"),
        ("kernel/dxgkrnl/src/call/tests.rs", "//! A\nfn f() { unreachable!() }\n"),
    ];
    let (number, places) = measure("unrouted-calls", &files);
    assert_eq!((number, places[0].as_str()), (2, "3: unreachable! on the way of a call"));
}

#[test]
fn pronouns_are_counted_word_by_word() {
    let (one, two, three) = (concat!("Who", "ever"), concat!("no", "body"), concat!("some", "body"));
    let text = format!("//! {one} asks {two}.\nfn {two}_is_asked() {{ \"{three}'s\"; }}\n");
    assert_eq!(
        measure("pronouns-rs", &[("a/tests/a.rs", &text), ("a/b.md", &text)]).0,
        3,
        "in tests too, and no part of a name"
    );
    assert_eq!(measure("pronouns-md", &[("a/src/a.rs", &text), ("a/b.md", &format!("{three}, {two}{two}\n"))]).0, 1);
}

#[test]
fn a_comment_of_one_word_is_one_line_of_one_word() {
    let text = "//! A\nstruct A {\n    /// Which.\n    a: u8,\n    /// Two words.\n    /// Tail.\n    b: u8,\n    /// `D3DKMT_HANDLE`.\n    c: u8, /// No.\n}\n/// Last.\n";
    let places = vec!["3: \"Which.\" is no sentence".to_string(), "11: \"Last.\" is no sentence".to_string()];
    let with_end = format!("{text}fn f() {{}}\n");
    assert_eq!(measure("one-word-docs", &[("a/tests/a.rs", &with_end)]), (2, places));
}

#[test]
fn the_readme_is_a_page() {
    let readme = ("README.md", "# A\n\n| ééé | b |\nshort\n");
    assert_eq!(measure("readme-lines", &[readme, ("a/README.md", "1\n2\n3\n4\n5\n")]).0, 4);
    assert_eq!(measure("readme-longest", &[readme]), (11, vec!["3: 11 characters".to_string()]));
}

/// The faults of these figures under ceilings of this text.
fn faults(ceilings: &str, measured: &[(&str, usize)]) -> Vec<String> {
    let known = |name: &str| RATCHETS.iter().find(|ratchet| ratchet.name == name).expect("a ratchet of the table");
    let measured: Vec<(&Ratchet, usize)> = measured.iter().map(|(name, number)| (known(name), *number)).collect();
    let mut report = Report::default();
    hold(&measured, &Ceilings::parse(ceilings).expect("a list"), &mut report);
    assert_eq!(report.listing.len(), 1 + measured.len(), "each ratchet is listed");
    report.faults.iter().map(ToString::to_string).collect()
}

#[test]
fn a_figure_stands_at_its_ceiling() {
    let lines = |number: usize| [("readme-lines", number)];
    assert_eq!(faults("readme-lines = 90\n", &lines(90)), Vec::<String>::new());
    let table = [
        (
            "readme-lines = 90\n",
            91,
            "91 lines of the README, at most 90; `cargo xtask tidy --places readme-lines` lists them",
        ),
        ("readme-lines = 90\n", 89, "the ceiling is 90; `cargo xtask tidy --lower` lowers it"),
        ("", 89, "add the line \"readme-lines = 89\""),
        ("readme-lines = 90\nreadme-gone = 1\n", 90, "readme-gone is no ratchet; take its line out"),
    ];
    for (ceilings, number, expected) in table {
        let faults = faults(ceilings, &lines(number));
        assert!(faults.len() == 1 && faults[0].contains(expected), "{ceilings:?} at {number}: {faults:?}");
    }
    for broken in ["readme-lines = -1", "readme-lines", "readme-lines = \"1\""] {
        assert!(Ceilings::parse(broken).expect_err("no list of numbers").starts_with(ceiling::PATH), "{broken}");
    }
}

/// A house of a few files that every ratchet can measure, with these ceilings.
fn house(ceilings: &str) -> (tempfile::TempDir, House) {
    let folder = tempfile::tempdir().expect("a folder");
    let house = House::at(folder.path());
    let files = [
        ("Cargo.toml", "[workspace]\n"),
        ("README.md", "one\ntwo\n"),
        ("docs/spec/seeds.md", "# Rows\n"),
        ("docs/verification/breaks.toml", "# Breaks.\n"),
        ("kernel/dxgkrnl/src/lib.rs", "//! A\nmod adapter;\nmod call;\n"),
        ("kernel/dxgkrnl/src/call.rs", "//! A\n"),
        ADAPTER,
        ("kernel/vidmm/src/lib.rs", "//! A\npub struct VidMm {\n}\n"),
        (ceiling::PATH, ceilings),
    ];
    for (path, text) in files {
        house.write(path, text).expect("a file in it");
    }
    (folder, house)
}

#[test]
fn lowering_writes_what_is_measured_and_raises_nothing() {
    let high = "adapter-files = 5\nadapter-fields = 1\nbare-names = 0\nreadme-lines = 2\n";
    let (_folder, house) = house(high);
    let texts = house.texts().expect("texts");
    let mut report = Report::default();
    check(&house, &texts, false, &mut report).expect("a check");
    assert_eq!(house.read(ceiling::PATH).as_deref(), Ok(high), "a check writes nothing");
    let said = |report: &Report, text: &str| report.faults.iter().any(|fault| fault.text.contains(text));
    assert!(said(&report, "adapter-files: 1 ") && said(&report, "adapter-fields: 2 "), "{:?}", report.faults);

    let mut report = Report::default();
    check(&house, &texts, true, &mut report).expect("a check");
    let kept = Ceilings::parse(&house.read(ceiling::PATH).expect("written")).expect("a list");
    let pairs: Vec<_> = kept.names().map(|name| (name.to_string(), kept.of(name).expect("named"))).collect();
    let expected = [("adapter-fields", 1), ("adapter-files", 1), ("bare-names", 0), ("readme-lines", 2)];
    assert_eq!(pairs, expected.map(|(name, ceiling)| (name.to_string(), ceiling)));
    assert!(!said(&report, "adapter-files") && said(&report, "adapter-fields: 2 "), "{:?}", report.faults);
    assert_eq!(
        report.faults.len(),
        RATCHETS.len() - 3,
        "one above its ceiling, the others without one: {:?}",
        report.faults
    );
}

#[test]
fn places_are_listed_by_name() {
    let texts = texts(&[("README.md", "one\n")]);
    assert_eq!(places(&texts, "readme-lines").map(|places| places.len()), Ok(1));
    let refused = places(&texts, "readme").expect_err("no such ratchet");
    assert!(refused.starts_with("there is no ratchet readme; there are adapter-files, "), "{refused}");
}

#[test]
fn rows_of_several_need_a_test_with_two_and_each_row_a_break() {
    const BREAK: &str = "[[break]]\nrow = \"N01\"\nfile = \"f\"\nfunction = \"g\"\ntext = \"a\"\ninstead = \"b\"\npackage = \"p\"\ntest = \"t\"\nseen = \"d\"\n";
    let files = [
        (
            "docs/spec/seeds.md",
            "| N01 | Every queue hears | s |\n| N02 | A wall falls | s |\n| N03 | All of them | s |\n| N04 | until then | s |\n",
        ),
        ("verify/a.rs", "// seed: N01 (two)\n// seed: N03, N04 (two)\n"),
        ("docs/verification/breaks.toml", BREAK),
    ];
    assert_eq!(measure("rows-of-several", &files).1, ["3: N03 speaks of several things, and no test of it has two"]);
    let (number, places) = measure("rows-unbroken", &files);
    assert_eq!((number, places[0].as_str()), (3, "2: docs/verification/breaks.toml has no break of N02"));
}
