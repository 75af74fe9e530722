//! Each rule with small texts that keep it and break it.

use super::*;

/// The faults of one made-up file, each as `line: text`.
fn faults(path: &str, text: &str) -> Vec<String> {
    let mut report = Report::default();
    check(path, text, &mut report);
    report.faults.iter().map(|fault| format!("{}: {}", fault.line, fault.text)).collect()
}

/// Whether the file has exactly one fault, and it is this one.
fn assert_only(path: &str, text: &str, expected: &str) {
    let faults = faults(path, text);
    assert!(faults.len() == 1 && faults[0].contains(expected), "{text:?} should give {expected:?}: {faults:?}");
}

#[test]
fn a_good_file_has_no_fault() {
    let good = "//! A head.\n\n// Why: callers never pass zero.\n#[allow(clippy::x)]\nfn f() { \"todo!()\"; } // todo! later\n";
    assert_eq!(faults("kernel/vidmm/src/segment.rs", good), Vec::<String>::new());
}

#[test]
fn source_files_one_fault_each() {
    let table = [
        ("fn f() {}\n", "1: a file begins with //!"),
        ("//! A\nfn f() { todo!() }\n", "2: todo! is unfinished"),
        ("//! A\nfn f() { unimplemented!(\"x\") }\n", "2: unimplemented! is unfinished"),
        ("//! A\n#[test]\n#[ignore = \"slow\"]\nfn f() {}\n", "3: #[ignore is unfinished"),
        ("//! A\n// because\n#[allow(dead_code)]\nfn f() {}\n", "3: dead_code is waived; remove"),
        ("//! A\n// because\n#![allow(clippy::x, unused_imports)]\n", "3: unused_imports is waived; remove"),
        ("//! A\n// because\n#[expect(unused)]\n", "3: unused is waived; remove"),
        ("//! A\n\n#[allow(clippy::x)]\nfn f() {}\n", "3: clippy::x is waived without a reason"),
        ("//! A\nmod util;\n", "2: the module name \"util\""),
        ("//! A\nmod tests {\n    pub mod string_helpers {}\n}\n", "3: the module name \"string_helpers\""),
        ("//! A\nfn f() { unsafe { g() } }\n", "2: unsafe in a file that does not say"),
        ("//! A\n#![allow(unsafe_code)]\nfn f() { unsafe { g() } }\n", "3: no // SAFETY:"),
        ("//! A\n#![allow(unsafe_code)]\n// SAFETY: a\nlet a = 1;\nlet b = unsafe { g() };\n", "5: no // SAFETY:"),
        ("//! A\n#![allow(unsafe_code)]\nunsafe impl Send for A {}\n", "3: no // SAFETY:"),
    ];
    for (text, expected) in table {
        assert_only("host/dxgk_host/src/clock.rs", text, expected);
    }
}

#[test]
fn what_a_source_file_may_say() {
    let table = [
        "//! A\n#[allow(clippy::x, reason = \"the table is long\")]\nfn f() {}\n",
        "//! A\n#[allow(clippy::x)] // the table is long\nfn f() {}\n",
        "//! A\n#![allow(unsafe_code)]\n// SAFETY: it is ours.\nlet b =\n    unsafe { g() };\n",
        "//! A\n#![allow(unsafe_code)]\nlet b = unsafe { g() }; // SAFETY: it is ours.\n",
        "//! A\n#![allow(unsafe_code)]\n/// # Safety\n/// p is valid.\nunsafe fn f(p: *const u8);\n",
        "//! unsafe, dead_code, #[ignore]\nconst A: &str = \"unsafe { }\";\n",
        "//! A\nfn expect(x: u8) { y.expect(\"unused\"); }\n",
    ];
    for text in table {
        assert_eq!(faults("host/dxgk_host/src/clock.rs", text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn the_kernel_is_pure_and_its_tests_need_not_be() {
    let map = "//! A\nuse std::collections::HashMap;\n";
    assert_only("kernel/vidmm/src/segment.rs", map, "2: HashMap: hash order");
    assert_only("kernel/vidmm/src/segment.rs", "//! A\nuse std::time::Instant;\n", "2: Instant: a clock");
    assert_only("kernel/vidmm/src/segment.rs", "//! A\nfn f() -> f64 { 1.0 }\n", "2: f64: a float");
    assert_eq!(faults("host/dxgk_host/src/clock.rs", map), Vec::<String>::new());
    assert_eq!(faults("kernel/vidmm/src/segment/tests.rs", map), Vec::<String>::new());
    let inline = "//! A\n#[cfg(test)]\nmod tests {\n    use std::collections::HashMap;\n}\n";
    assert_eq!(faults("kernel/vidmm/src/segment.rs", inline), Vec::<String>::new());
    let declared = "//! A\n#[cfg(test)]\nmod tests;\nuse std::collections::HashMap;\n";
    assert_only("kernel/vidmm/src/segment.rs", declared, "4: HashMap");
}

#[test]
fn descriptors_come_in_at_one_place() {
    const RECEIVER: &str = "client/kmt_link/src/socket/packet.rs";
    let once = "//! A\nuse net::RecvAncillaryBuffer;\nfn f() { net::recvmsg(x); }\n";
    assert_eq!(faults(RECEIVER, once), Vec::<String>::new());
    assert_only(RECEIVER, &format!("{once}fn g() {{ recvmsg(y); }}\n"), "4: recvmsg: descriptors of others");
    let elsewhere = faults("host/dxgkd/src/client/stream.rs", once);
    assert_eq!(elsewhere.len(), 2, "the call, and what it takes: {elsewhere:?}");
    assert_only("verify/sim/src/a.rs", "//! A\nfn f() { pidfd_getfd(x, 3); }\n", "2: pidfd_getfd");
    let named = "//! A: recvmsg\nconst A: i64 = libc::SYS_recvmsg; // recvmsg\n";
    assert_eq!(faults("host/dxgkd/src/process/sandbox.rs", named), Vec::<String>::new());
}

#[test]
fn names_of_files() {
    for name in ["util", "base", "common", "manager", "helper", "misc", "test_utils", "helpers/queue"] {
        let path = format!("kernel/vidmm/src/{name}.rs");
        assert_only(&path, "//! A\n", "says nothing");
    }
    for name in ["base_address", "context_manager", "commonality", "futile"] {
        assert_eq!(faults(&format!("kernel/vidmm/src/{name}.rs"), "//! A\n"), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn sizes() {
    let text = |lines: usize| format!("//! A\n{}", "\n".repeat(lines - 1));
    for (lines, warnings, faults) in [(400, 0, 0), (401, 1, 0), (600, 1, 0), (601, 0, 1)] {
        let mut report = Report::default();
        check("kernel/vidmm/src/segment.rs", &text(lines), &mut report);
        assert_eq!((report.warnings.len(), report.faults.len()), (warnings, faults), "{lines}");
    }
    let mut report = Report::default();
    check("contract/softgpu_spec/src/command.rs", &text(900), &mut report);
    assert!(report.faults.is_empty() && report.warnings.is_empty());
    assert_eq!(size::excepted_nothing(|_| true), []);
    assert!(!size::excepted_nothing(|_| false).is_empty());
}

#[test]
fn words_of_one_machine() {
    let bad = [
        concat!("see /wo", "rk/main/a.rs"),
        concat!("\"/ro", "ot/x\""),
        concat!("/tmp/bash", "_jobs/1"),
        concat!("Cla", "ude said"),
        concat!("https://crates", ".io/crates/x"),
    ];
    for line in bad {
        assert_only("docs/page.md", &format!("first\n{line}\n"), "2: ");
        assert_eq!(faults("Cargo.lock", line), Vec::<String>::new());
    }
    for line in [concat!("host/src/wo", "rk/a.rs"), concat!("net", "work/"), "the root/ folder", "work/"] {
        assert_eq!(faults("docs/page.md", line), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn dependencies_from_outside_have_a_reason() {
    let table = [
        ("[workspace.dependencies]\na = { path = \"x/a\" }\nb = \"1\" # why\n# c = \"1\"\n", None),
        ("[workspace.dependencies]\nb = \"1\"\n", Some("2: b comes from outside")),
        ("[workspace.dependencies]\nb = { version = \"1\", features = [\"#x\"] } #\n", Some("2: b comes from outside")),
        ("[workspace.dependencies.b]\nversion = \"1\"\n", Some("1: write the dependency on one line")),
        ("[workspace.lints.rust]\nunsafe_code = \"deny\"\n", None),
    ];
    for (text, expected) in table {
        match expected {
            Some(expected) => assert_only("Cargo.toml", text, expected),
            None => assert_eq!(faults("Cargo.toml", text), Vec::<String>::new()),
        }
    }
}

#[test]
fn the_front_page_is_one_page() {
    let page = |lines: usize, length: usize| format!("{}\n", "x".repeat(length)).repeat(lines);
    assert_eq!(faults(FRONT_PAGE, &page(90, 200)), Vec::<String>::new());
    assert_only(FRONT_PAGE, &page(91, 200), "91: the page has at most 90 lines");
    assert_only(FRONT_PAGE, &format!("{}{}\n", page(2, 200), "é".repeat(201)), "3: the line has 201 characters");
    assert_eq!(faults("docs/status.md", &page(91, 201)), Vec::<String>::new(), "other pages may be long");
}

#[test]
fn pages_name_who_acts() {
    let bad = [
        concat!("The ring waits for no", "body."),
        concat!("Who", "ever rings, stores."),
        concat!("- some", "body waits"),
    ];
    for line in bad {
        assert_only("docs/page.md", &format!("first\n{line}\n"), "2: ");
        assert_eq!(faults("docs/page.md", &format!("```\n{line}\n```\n")), Vec::<String>::new(), "shown, not said");
        assert_eq!(faults("kernel/vidmm/src/x.toml", line), Vec::<String>::new(), "no page");
    }
    assert_eq!(faults("docs/page.md", concat!("the test `who", "ever_waits`, No", "bodyist\n")), Vec::<String>::new());
}

#[test]
fn the_plan_lists_the_modules_with_unsafe_code() {
    let page = "## Unsafe code\n| crate | modules | for |\n|---|---|---|\n| a | `x`, `x/y` | z |\n\n## Next\n| b | `w` | v |\n";
    let text = |code: &str| format!("//! A\n{code}\nfn f() {{}}\n");
    let file = |path: &str, code: &str| (path.to_string(), text(code));
    let allow = "#![allow(unsafe_code)]";
    let both = [file("room/a/src/x.rs", allow), file("room/a/src/x/y.rs", allow)];
    let judged = |texts: &[(String, String)]| {
        plan::check_unsafe(page, &unsafe_modules(texts)).into_iter().map(|fault| fault.text).collect::<Vec<_>>()
    };
    let others = [
        file("room/a/src/x/tests.rs", allow),
        file("verify/c/src/x.rs", allow),
        file("room/b/src/w.rs", "// #![allow(unsafe_code)]"),
    ];
    assert_eq!(judged(&[&both[..], &others[..]].concat()), Vec::<String>::new());
    assert_eq!(judged(&both[..1]), ["a: x/y is listed and has no unsafe code"]);
    let more = [&both[..], &[file("room/b/src/w.rs", allow)]].concat();
    assert_eq!(judged(&more), ["b: w has unsafe code and is not listed"], "the next section is another list");
}

#[test]
fn rooms_have_short_readmes() {
    let members = plan::members("members = [\n  \"kernel/a\", \"kernel/b\",\n \"contract/c\"\n]\n[x]\ny=[\"z/z\"]");
    let rooms: Vec<&str> = rooms(&members).into_iter().collect();
    assert_eq!(rooms, ["contract", "kernel"]);
    assert!(room_readme("kernel/README.md", None).is_some());
    assert!(room_readme("kernel/README.md", Some("")).is_some());
    assert!(room_readme("kernel/README.md", Some(&"line\n".repeat(11))).is_some());
    assert!(room_readme("kernel/README.md", Some(&"line\n".repeat(10))).is_none());
}

#[test]
fn the_plan_names_every_crate_once() {
    let members = BTreeSet::from(["kernel/a", "kernel/b"]);
    let faults = |page: &str| plan::check(page, &members).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(faults("| crate | is |\n| `kernel/a` | x |\n| `kernel/b` | y |\n"), Vec::<String>::new());
    assert_eq!(faults("| `kernel/a` | x |\n"), ["ARCHITECTURE.md: kernel/b is missing in the table of crates"]);
    let extra = "| `kernel/a` | x |\n| `kernel/b` | y |\n| `kernel/c` | z |\n| `kernel/a` | x |\n";
    let expected = [
        "ARCHITECTURE.md:3: kernel/c is no crate of the workspace",
        "ARCHITECTURE.md:4: kernel/a stands in the table twice",
    ];
    assert_eq!(faults(extra), expected);
}

#[test]
fn links_lead_somewhere() {
    let exists = |path: &str| path == "docs/a.md";
    let faults = |text: &str| plan::check_links("docs/b.md", text, exists).len();
    assert_eq!(faults("see [a](a.md), [a](a.md#part), [w](https://example.org/x), [here](#part)"), 0);
    assert_eq!(faults("see [a](a.md) and [c](c.md)\nand [d](../a.md)"), 2);
}
