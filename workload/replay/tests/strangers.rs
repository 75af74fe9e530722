//! Refusals of files of other kinds name the kind and the file that is wanted; marks and padding around a recording are read.

use std::io::Write;

use replay::{Fault, Import, Workload};

fn refusal(raw: &[u8]) -> String {
    let fault = Workload::from_bytes("stranger", raw).expect_err("a stranger");
    format!("{fault}; {}", fault.remedy())
}

#[test]
fn a_json_that_is_no_recording_is_named() {
    let rows: [(&str, &[&str]); 12] = [
        ("", &["the file is empty"]),
        ("[]", &["an empty JSON list"]),
        (r#"[{"ph": "X"}, {"ph": "X"}]"#, &["a JSON list of 2 elements"]),
        ("17", &["a single JSON number"]),
        ("\"text\"", &["a single JSON text"]),
        ("null", &["a single JSON null"]),
        ("{}", &["an empty JSON object"]),
        (
            r#"{"schemaVersion": 1, "traceEvents": []}"#,
            &["Chrome trace", "export_chrome_trace", "ExecutionTraceObserver"],
        ),
        (r#"{"name": "a", "version": "1.0", "dependencies": {}}"#, &["a package description"]),
        (r#"{"segments": [], "device_traces": []}"#, &["memory snapshot"]),
        (r#"{"nodes": []}"#, &["\"nodes\" and no \"schema\""]),
        (r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7}"#, &["\"a\", \"b\", \"c\", \"d\", \"e\", and 2 others"]),
    ];
    for (text, wanted) in rows {
        let said = refusal(text.as_bytes());
        for words in wanted {
            assert!(said.contains(words), "{text}: {said}");
        }
        assert!(text.is_empty() || said.contains("residency-reference-string/1"), "what is expected: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
}

#[test]
fn other_formats_are_known_by_their_first_bytes() {
    let rows: [(&[u8], &str); 6] = [
        (b"PK\x03\x04rest", "zip archive"),
        (b"\x28\xb5\x2f\xfdrest", "zstd"),
        (b"\xff\xfe{\0", "UTF-16"),
        (b"\x80\x04\x95", "pickle"),
        (b"<html></html>", "HTML"),
        (b"hello", "not JSON at line 1, column 1"),
    ];
    for (raw, wanted) in rows {
        assert!(refusal(raw).contains(wanted), "{raw:?}: {}", refusal(raw));
    }
}

#[test]
fn marks_and_padding_around_a_recording_are_read() {
    let string = br#"{"format": "residency-reference-string/1", "op_names": ["a"], "storages": [[10, 1]], "events": [[0, [0], []]]}"#;
    let marked = [b"\xef\xbb\xbf", &string[..]].concat();
    let gzip = |text: &[u8]| {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        to.write_all(text).unwrap();
        to.finish().unwrap()
    };
    let plain = Workload::from_bytes("same", string).unwrap();
    let (head, tail) = string.split_at(40);
    for raw in [marked.clone(), gzip(&marked), [gzip(head), gzip(tail), vec![0; 1024]].concat()] {
        assert_eq!(Workload::from_bytes("same", &raw).unwrap(), plain);
    }
    let twice = [b"\xef\xbb\xbf\xef\xbb\xbf", &string[..]].concat();
    assert!(matches!(Workload::from_bytes("twice", &twice), Err(Fault::BrokenJson { line: 1, column: 1, .. })));
}

/// The second format of reference strings: times and a source, both of which may be absent.
#[test]
fn times_of_a_reference_string_are_read_and_judged() {
    let string = |format: u32, more: &str| {
        let text = format!(
            r#"{{"format": "residency-reference-string/{format}", "op_names": ["a"], "storages": [[10, 1], [20, 0]],
            "events": [[0, [0], [1]], [-1, [1]], [0, [0], []]]{more}}}"#
        );
        Workload::from_bytes("hand", text.as_bytes())
    };
    let first = string(1, "").unwrap();
    assert_eq!((first.import().op_ns.as_ref(), first.import().source.as_ref()), (None, None));
    let second = string(2, "").unwrap();
    assert_eq!(second, first, "without times it says the same");
    let timed = string(2, r#", "op_ns": [5, 0], "source": "measured on a lathe""#).unwrap();
    assert_eq!(timed.import().op_ns, Some(vec![5, 0]));
    assert_eq!(timed.import().source.as_deref(), Some("measured on a lathe"));
    assert_eq!((timed.events(), timed.storages()), (first.events(), first.storages()));
    assert_eq!((timed.op_ns(0), timed.op_ns(1), timed.op_ns(2), first.op_ns(0)), (Some(5), Some(0), None, None));
    let of = |ops| timed.recorded_ns(ops);
    assert_eq!((of(0), of(1), of(2), of(3), of(u64::MAX)), (Some(0), Some(5), Some(5), Some(10), Some(u64::MAX)));
    assert_eq!(first.recorded_ns(2), None);
    let of_none = first.clone().with_import(Import { op_ns: Some(Vec::new()), ..Import::exact() });
    assert_eq!((of_none.recorded_ns(2), of_none.op_ns(0)), (None, None));
    let places = ["operation 1 has no time", "time 2 belongs to no operation", "operation 0 has no time"];
    for ((times, count), place) in [("[5]", 1), ("[5, 0, 7]", 3), ("[]", 0)].into_iter().zip(places) {
        let fault = string(2, &format!(r#", "op_ns": {times}"#)).unwrap_err();
        assert!(matches!(fault, Fault::TimesOfOthers { times, ops: 2 } if times == count), "{fault}");
        assert!(fault.to_string().ends_with(place), "{fault}");
        assert!(fault.remedy().contains("each event that is not a death"), "{}", fault.remedy());
    }
    let not_a_list = string(2, r#", "op_ns": 7"#).unwrap_err();
    assert!(matches!(not_a_list, Fault::WrongValue { line: 2, column: 1.., .. }), "{not_a_list}");
    let day = 24 * 60 * 60 * 1_000_000_000u64;
    for (times, wrong) in [
        ("[-1, 2]", (0, "-1", "digits alone")),
        ("[0.5, 2]", (0, "0.5", "digits alone")),
        ("[5.0, 2]", (0, "5.0", "digits alone")),
        ("[1, 1e3]", (1, "1000.0", "digits alone")),
        ("[1, \"1\"]", (1, "\"1\"", "digits alone")),
        ("[1, [[2]]]", (1, "[[2]]", "digits alone")),
        (&format!("[{day}, {}]", day + 1), (1, "86400000000001", "more than a day")),
        ("[1, 1e30]", (1, "1e+30", "more than a day")),
        ("[1, 99999999999999999999999]", (1, "1e+23", "more than a day")),
    ] {
        match string(2, &format!(r#", "op_ns": {times}"#)).unwrap_err() {
            Fault::WrongTime { op, value, rule } => {
                assert_eq!((op, &value[..]), (wrong.0, wrong.1));
                assert!(rule.contains(wrong.2), "{times}: {rule}");
            }
            other => panic!("{times}: {other}"),
        }
    }
    // The longest times that there can be, until their sum leaves 64 bits: number 213,503 does.
    let many = vec![day.to_string(); 220_000].join(",");
    let fault = string(2, &format!(r#", "op_ns": [{many}]"#)).unwrap_err();
    assert!(matches!(fault, Fault::WrongTime { op: 213_503, .. }), "{fault}");
    assert!(fault.to_string().contains("no longer fit 64 bits"), "{fault}");
    let long = string(2, &format!(r#", "op_ns": ["{}", 1]"#, "ä".repeat(200))).unwrap_err().to_string();
    assert!(long.contains("ä…") && long.len() < 200, "{long}");
    assert!(
        string(1, r#", "op_ns": "whatever""#).is_ok(),
        "the first format has no such field, and others are ignored"
    );
    assert!(matches!(string(3, ""), Err(Fault::UnknownFormat { .. })));
}
