//! Refusals: every fault of a reference string with its place, and files that were cut or mutated. Whatever the bytes
//! are, the answer is a workload or a refusal, never a panic.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use replay::{Fault, Workload, WorkloadError};
use serde_json::{Value, json};

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)
}

const RECORDINGS: [&str; 2] = ["res.cpu.rrs.json.gz", "et_resnet18_train_step.json.gz"];

fn expanded(file: &str) -> Vec<u8> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&fs::read(data(file)).unwrap()[..]).read_to_end(&mut text).unwrap();
    text
}

fn read(text: &str) -> Result<Workload, Fault> {
    Workload::from_bytes("hand", text.as_bytes())
}

/// Three storages (10 bytes from before, 20, and none), two names.
fn string(events: Value) -> Result<Workload, Fault> {
    let document = json!({"format": "residency-reference-string/1", "op_names": ["a", "b"],
        "storages": [[10, 1], [20, 0], [0, 0]], "events": events});
    read(&document.to_string())
}

#[test]
fn events_that_contradict_the_rest_name_their_index() {
    let good = string(json!([[0, [0], [1, 2]], [1, [2], []], [-1, [2]], [-1, [1]]])).unwrap();
    assert_eq!(
        (good.name(), good.ops(), good.events().len()),
        ("hand", 2, 3),
        "the empty storage is gone, its op is not"
    );
    assert!(matches!(
        string(json!([[0, [0], []], [1, [7], []]])),
        Err(Fault::StorageOutOfRange { event: 1, storage: 7, storages: 3 })
    ));
    assert!(matches!(string(json!([[-1, [3]]])), Err(Fault::StorageOutOfRange { event: 0, storage: 3, storages: 3 })));
    assert!(matches!(string(json!([[2, [0], []]])), Err(Fault::NameOutOfRange { event: 0, name: 2, names: 2 })));
    assert!(matches!(string(json!([[0, [0], []], [0, [], []]])), Err(Fault::OpWithoutStorages { event: 1 })));
    assert!(matches!(
        string(json!([[0, [], [1]], [-1, [1]], [0, [1], []]])),
        Err(Fault::UseAfterDeath { event: 2, storage: 1 })
    ));
    assert!(matches!(string(json!([[0, [0], []], [-1, [1]]])), Err(Fault::DeathOfUnborn { event: 1, storage: 1 })));
    assert!(matches!(
        string(json!([[0, [], [1]], [-1, [1]], [-1, [1]]])),
        Err(Fault::DeathOfDead { event: 2, storage: 1 })
    ));
    let named = string(json!([[0, [0], []], [1, [0], [], 3]])).unwrap();
    assert_eq!((named.adapters_named(), good.adapters_named()), (4, 0));
    assert!(matches!(string(json!([])), Err(Fault::NoOps)));
    assert!(matches!(string(json!([[-1, [0]]])), Err(Fault::NoOps)));
}

#[test]
fn sizes_that_overflow_name_the_storage() {
    let document = json!({"format": "residency-reference-string/1", "op_names": ["a"],
        "storages": [[u64::MAX, 1], [0, 1], [1, 0]], "events": [[0, [0], []]]});
    assert!(matches!(read(&document.to_string()), Err(Fault::BytesOverflow { storage: 2 })));
}

#[test]
fn wrong_values_have_line_and_column() {
    let wrong = [
        json!([[0, [-1], []]]),
        json!([[0, [0.5], []]]),
        json!([[-2, [0], []]]),
        json!([[0, [0]]]),
        json!([[-1, [0, 1]]]),
        json!([[-1, []]]),
        json!([[0, [0], [], [1]]]),
        json!([[0, [0], [], -1]]),
        json!([[0, [0], [], 256]]),
        json!([[0, [0], [], 1, 1]]),
        json!([[-1, [0], 1]]),
        json!([["a", [0], []]]),
        json!([[0, [4_294_967_296u64], []]]),
        json!(7),
    ];
    for events in wrong {
        let result = string(events.clone());
        assert!(matches!(result, Err(Fault::WrongValue { line: 1, column: 1.., .. })), "{events}: {result:?}");
    }
    let text = "{\"format\": \"residency-reference-string/1\",\n\"op_names\": [],\n\"storages\": [[1, 0], [-4, 0]], \"events\": []}";
    let Err(Fault::WrongValue { line: 3, column: 24, what }) = read(text) else { panic!("{:?}", read(text)) };
    assert!(what.contains("-4"), "{what}");
    let text = text.replace("[-4, 0]", "[4, 2]");
    assert!(matches!(read(&text), Err(Fault::WrongValue { line: 3, .. })), "alive before the step is 0 or 1");
}

#[test]
fn texts_of_other_kinds_are_told_apart() {
    assert!(matches!(read(""), Err(Fault::CutJson { line: 1, column: 0 })));
    assert!(matches!(read("{\"format\": \"resid"), Err(Fault::CutJson { .. })));
    assert!(matches!(read("{\"format\": 1}}"), Err(Fault::BrokenJson { .. })));
    assert!(matches!(read("PK\u{3}\u{4}"), Err(Fault::BrokenJson { line: 1, column: 1, .. })));
    assert!(matches!(read("{}"), Err(Fault::UnknownFormat { .. })));
    assert!(matches!(read("[1, 2, 3]"), Err(Fault::UnknownFormat { .. })));
    assert!(matches!(read("{\"schema\": \"1.1.1\"}"), Err(Fault::UnknownFormat { .. })), "no nodes");
    let Err(fault @ Fault::UnknownFormat { .. }) = read("{\"format\": \"residency-reference-string/0\"}") else {
        panic!()
    };
    assert!(fault.to_string().contains("string/0") && fault.remedy().contains("string/1"));
    let deep = "[".repeat(100_000);
    assert!(read(&format!("{{\"format\": {deep}")).is_err(), "depth is limited");
}

#[test]
fn a_refusal_is_one_line_with_file_fault_and_remedy() {
    let error: WorkloadError = Workload::open("/no/such/file.json").unwrap_err();
    let line = error.to_string();
    assert!(
        line.starts_with("/no/such/file.json: cannot be read")
            && line.ends_with("; check the path and the permissions"),
        "{line}"
    );
    assert!(!line.contains('\n'));
    assert!(matches!(Workload::open(env!("CARGO_MANIFEST_DIR")).unwrap_err().fault, Fault::Unreadable(_)), "a folder");
}

/// Every fiftieth of a gzip file is a place to cut it; so are its last bytes.
#[test]
fn cut_files_are_called_cut() {
    for file in RECORDINGS {
        let whole = fs::read(data(file)).unwrap();
        assert!(Workload::from_bytes("whole", &whole).is_ok());
        for cut in (1..50).map(|part| whole.len() * part / 50).chain([3, 9, whole.len() - 8, whole.len() - 1]) {
            let result = Workload::from_bytes("cut", &whole[..cut]);
            assert!(
                matches!(result, Err(Fault::CutGzip { bytes }) if bytes == cut as u64),
                "{file} at {cut}: {result:?}"
            );
        }
        let text = expanded(file);
        for cut in (1..50).map(|part| text.len() * part / 50) {
            let result = Workload::from_bytes("cut", &text[..cut]);
            assert!(matches!(result, Err(Fault::CutJson { .. })), "{file} text at {cut}: {result:?}");
        }
    }
}

/// A reproducible sequence of numbers (a xorshift with fixed shifts); the test needs variety, not quality.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Whatever still opens is used: measures and steps of an accepted workload must not panic either.
fn judge(raw: &[u8]) -> bool {
    let Ok(workload) = Workload::from_bytes("mutant", raw) else { return false };
    let peak = workload.peak_bytes(2);
    assert!(peak >= workload.largest_op_bytes());
    let _ = replay::lru_bytes(&workload, 2, peak / 2, 65536);
    true
}

#[test]
fn damaged_gzip_never_panics() {
    let mut numbers = Numbers(0x5eed);
    let whole = fs::read(data(RECORDINGS[0])).unwrap();
    for _ in 0..300 {
        let mut raw = whole.clone();
        let at = numbers.below(raw.len());
        raw[at] ^= 1 << numbers.below(8);
        judge(&raw);
    }
}

#[test]
fn mutated_text_never_panics() {
    let mut numbers = Numbers(0xface);
    let (mut accepted, mut refused) = (0, 0);
    for (file, rounds) in [(RECORDINGS[0], 1500), (RECORDINGS[1], 60)] {
        let text = expanded(file);
        for _ in 0..rounds {
            let mut mutant = text.clone();
            for _ in 0..=numbers.below(3) {
                mutate(&mut mutant, &mut numbers);
            }
            *(if judge(&mutant) { &mut accepted } else { &mut refused }) += 1;
        }
    }
    assert!(accepted > 20 && refused > 500, "the mutations reach both answers: {accepted}, {refused}");
}

/// One of: another digit, another letter, a cut, a doubled or missing stretch, a number out of all proportion.
fn mutate(text: &mut Vec<u8>, numbers: &mut Numbers) {
    const SPLICES: [&str; 8] =
        ["-1", "1e400", "18446744073709551616", "null", "[[[[", "\"x\"", "18446744073709551615", "{}"];
    let at = numbers.below(text.len());
    let digit = |text: &[u8]| text[at..].iter().position(u8::is_ascii_digit).map_or(at, |step| at + step);
    match numbers.below(6) {
        0 => {
            let at = digit(text);
            text[at] = b'0' + numbers.below(10) as u8;
        }
        1 => text[at] = numbers.below(256) as u8,
        2 => text.truncate(at.max(1)),
        3 => drop(text.drain(at..(at + 1 + numbers.below(40)).min(text.len()))),
        4 => {
            let stretch = text[at..(at + 1 + numbers.below(40)).min(text.len())].to_vec();
            text.splice(at..at, stretch);
        }
        _ => {
            let at = digit(text);
            let end = at + text[at..].iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(0);
            text.splice(at..end, SPLICES[numbers.below(SPLICES.len())].bytes());
        }
    }
    if text.is_empty() {
        text.push(b'0');
    }
}

#[test]
fn plain_and_gzipped_text_mean_the_same() {
    for file in RECORDINGS {
        let text = expanded(file);
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(&text).unwrap();
        let again = to.finish().unwrap();
        let from = |raw: &[u8]| Workload::from_bytes("same", raw).unwrap();
        assert_eq!(from(&text), from(&again));
    }
}
