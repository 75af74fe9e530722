//! The text is parsed as a collector parses it.

use std::collections::BTreeMap;

use super::*;
use crate::fixture::{MIB, adapter};

/// Samples by name and labels; every family has its help, its type and, in one place, its samples.
pub(crate) fn parsed(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut kinds, mut family) = (BTreeMap::new(), BTreeMap::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("help");
            assert!(help.ends_with('.') && !kinds.contains_key(name), "{line}");
            family = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert_eq!((name, kind == "counter"), (family.as_str(), name.ends_with("_total")), "{line}");
            kinds.insert(name.to_owned(), kind.to_owned());
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a sample");
            let (name, labels) = series.split_once('{').expect("labels");
            assert!(labels.ends_with("\"}") && name == family && kinds.contains_key(name), "{line}");
            let value = value.parse().expect("a number");
            assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {line}");
        }
    }
    samples
}

#[test]
fn every_figure_is_there_once_with_its_unit() {
    let mut other = adapter();
    other.adapter = wddm_types::Luid(8);
    let samples = parsed(&text(&[adapter(), other]));
    let of = |series: &str| samples.get(series).copied().unwrap_or_else(|| panic!("{series} is missing"));
    let adapter = "adapter=\"discrete-4k\",luid=\"0x7\"";
    assert_eq!(of(&format!("openwddm_interrupts_total{{{adapter}}}")), 12345.0);
    assert_eq!(of(&format!("openwddm_node_running_seconds_total{{{adapter},node=\"1\",name=\"copy\"}}")), 3.0);
    assert_eq!(
        of(&format!("openwddm_segment_committed_bytes{{{adapter},segment=\"1\",group=\"local\"}}")),
        (400 * MIB) as f64
    );
    assert_eq!(of(&format!("openwddm_process_demoted_bytes{{{adapter},process=\"12\"}}")), (64 * MIB) as f64);
    assert_eq!(
        of(&format!("openwddm_process_paging_bytes_total{{{adapter},process=\"7\",how=\"in\"}}")),
        (7 * MIB) as f64
    );
    assert_eq!(of(&format!("openwddm_process_info{{{adapter},process=\"7\",pid=\"4007\",name=\"train-7\"}}")), 1.0);
    assert!(!samples.keys().any(|series| series.contains("process_info") && series.contains("process=\"0\"")));
    assert_eq!(of("openwddm_adapter_awake{adapter=\"discrete-4k\",luid=\"0x8\"}"), 1.0);
    assert_eq!(of(&format!("openwddm_flips_total{{{adapter},source=\"0\",result=\"dropped\"}}")), 1.0);
}

#[test]
fn a_name_ends_no_label_and_no_line() {
    let mut named = adapter();
    named.name = "a\"b\\c\nd".to_owned();
    named.processes[1].identity = Some(d3dkmt::ProcessIdentity { pid: 1, name: "x\"\n".to_owned() });
    let samples = parsed(&text(&[named]));
    assert!(samples.keys().any(|series| series.ends_with("pid=\"1\",name=\"x\\\"\\n\"}")));
    assert!(samples.keys().all(|series| series.contains("adapter=\"a\\\"b\\\\c\\nd\"")));
    assert_eq!((seconds(1_000_000_001), seconds(5)), ("1.000000001".to_owned(), "0.000000005".to_owned()));
}
