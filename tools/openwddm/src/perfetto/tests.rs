//! Reads back what was written: every arrow has both ends, slices nest and close, names and tracks are known.

use std::collections::{BTreeMap, BTreeSet};

use super::decode::Fields;
use super::packet::{field, kind};
use super::*;
use crate::timeline::CounterKind;

struct Trace {
    tracks: BTreeMap<u64, Fields>,
    names: BTreeMap<u64, String>,
    /// Time and event, as they stand in the file.
    events: Vec<(u64, Fields)>,
}

fn trace(steps: u32, operations: u32) -> (Trace, Timeline) {
    let mut timelines = Timeline::of_all(&crate::synthetic::outcome(steps, operations));
    let mut bytes = Vec::new();
    write(&timelines, &mut bytes).unwrap();
    (parsed(&bytes, 1), timelines.remove(0).1)
}

/// The packets of the timeline of this number.
fn parsed(bytes: &[u8], sequence: u64) -> Trace {
    let mut trace = Trace { tracks: BTreeMap::new(), names: BTreeMap::new(), events: Vec::new() };
    for packet in Fields::of(bytes).all(field::TRACE_PACKET) {
        let packet = Fields::of(packet.block());
        if packet.one(field::PACKET_SEQUENCE).unwrap().number() != sequence {
            continue;
        }
        if let Some(track) = packet.one(field::PACKET_TRACK) {
            let track = Fields::of(track.block());
            let number = track.one(field::TRACK_NUMBER).unwrap().number();
            assert!(trace.tracks.insert(number, track).is_none(), "track {number} stands there twice");
        }
        if let Some(interned) = packet.one(field::PACKET_INTERNED) {
            for name in Fields::of(interned.block()).all(field::INTERNED_EVENT_NAMES) {
                let name = Fields::of(name.block());
                let number = name.one(field::NAME_NUMBER).unwrap().number();
                trace.names.insert(number, name.one(field::NAME_TEXT).unwrap().text());
            }
        }
        if let Some(event) = packet.one(field::PACKET_TRACK_EVENT) {
            let at = packet.one(field::PACKET_TIMESTAMP).unwrap().number();
            trace.events.push((at, Fields::of(event.block())));
        }
    }
    trace
}

#[test]
fn timelines_share_a_file_and_no_number() {
    let outcome = crate::synthetic::outcome(1, 20);
    let two = crate::outcome::Outcome { recordings: vec![outcome.recordings[0].clone(); 2], ..outcome };
    let timelines = Timeline::of_all(&two);
    assert!(timelines[1].0.contains("adapter 1"), "{}", timelines[1].0);
    let mut bytes = Vec::new();
    write(&timelines, &mut bytes).unwrap();
    let (first, second) = (parsed(&bytes, 1), parsed(&bytes, 2));
    assert_eq!((first.events.len(), &first.names), (second.events.len(), &second.names));
    assert!(!first.events.is_empty() && first.tracks.len() == second.tracks.len());
    assert!(first.tracks.keys().all(|number| !second.tracks.contains_key(number)), "tracks");
    let arrows = |trace: &Trace| -> BTreeSet<u64> {
        let leaving = trace.events.iter().flat_map(|(_, event)| event.all(field::EVENT_FLOW));
        leaving.map(|flow| flow.number()).collect()
    };
    assert!(!arrows(&first).is_empty() && arrows(&first).is_disjoint(&arrows(&second)), "arrows");
}

fn number(event: &Fields, field: u32) -> u64 {
    event.one(field).unwrap().number()
}

#[test]
fn slices_nest_and_close_in_order_of_time() {
    let (trace, timeline) = trace(2, 50);
    let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let (mut now, mut begun) = (0, 0);
    for (at, event) in &trace.events {
        assert!(*at >= now, "time goes back");
        now = *at;
        let track = number(event, field::EVENT_TRACK);
        match number(event, field::EVENT_TYPE) {
            kind::SLICE_BEGIN => {
                begun += 1;
                open.entry(track).or_default().push(number(event, field::EVENT_NAME_NUMBER));
            }
            kind::SLICE_END => assert!(open.entry(track).or_default().pop().is_some(), "an end without a beginning"),
            kind::INSTANT | kind::COUNTER => {}
            other => panic!("event type {other}"),
        }
    }
    assert_eq!(begun, timeline.slices.len());
    assert!(open.values().all(Vec::is_empty), "something stays open: {open:?}");
}

#[test]
fn an_end_closes_the_slice_that_it_belongs_to() {
    let (trace, timeline) = trace(1, 50);
    let mut open: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (at, event) in &trace.events {
        let track = number(event, field::EVENT_TRACK);
        match number(event, field::EVENT_TYPE) {
            kind::SLICE_BEGIN => open.entry(track).or_default().push((number(event, field::EVENT_NAME_NUMBER), *at)),
            kind::SLICE_END => {
                let (name, begin) = open.get_mut(&track).unwrap().pop().unwrap();
                found.insert((track - TRACKS, trace.names[&name].clone(), begin, *at));
            }
            _ => {}
        }
    }
    for slice in &timeline.slices {
        let name = timeline.names.text(slice.name).to_string();
        assert!(found.contains(&(slice.track as u64, name, slice.begin_ns, slice.end_ns)), "{slice:?}");
    }
}

#[test]
fn every_arrow_has_both_ends_and_points_forward() {
    let (trace, timeline) = trace(2, 50);
    let mut left = BTreeMap::new();
    let mut arrived = BTreeSet::new();
    for (at, event) in &trace.events {
        event.all(field::EVENT_FLOW).for_each(|flow| assert!(left.insert(flow.number(), *at).is_none()));
        for flow in event.all(field::EVENT_FLOW_END).map(|flow| flow.number()) {
            assert!(left[&flow] <= *at);
            assert!(arrived.insert(flow), "arrow {flow} ends twice");
        }
    }
    assert_eq!(left.keys().copied().collect::<BTreeSet<_>>(), arrived);
    assert_eq!(left.len(), timeline.flows.len());
    assert!(left.len() > 20, "the run has arrows");
}

#[test]
fn every_event_names_a_track_and_a_name_that_exist() {
    let (trace, _) = trace(1, 30);
    for (_, event) in &trace.events {
        let track = &trace.tracks[&number(event, field::EVENT_TRACK)];
        let counts = number(event, field::EVENT_TYPE) == kind::COUNTER;
        assert_eq!(counts, track.one(field::TRACK_COUNTER).is_some());
        if let Some(name) = event.one(field::EVENT_NAME_NUMBER) {
            assert!(trace.names.contains_key(&name.number()));
        }
    }
    for track in trace.tracks.values() {
        assert!(!track.one(field::TRACK_NAME).unwrap().text().is_empty());
        let parent = track.one(field::TRACK_PARENT).map(|parent| parent.number());
        assert!(parent.is_none_or(|parent| trace.tracks.contains_key(&parent)));
    }
}

#[test]
fn counters_and_details_carry_their_numbers() {
    let (trace, timeline) = trace(1, 30);
    let counter =
        timeline.counters.iter().position(|counter| counter.kind == CounterKind::Sum("paged in")).unwrap() as u64;
    let values = trace.events.iter().filter(|(_, event)| number(event, field::EVENT_TRACK) == COUNTERS + counter);
    let values: Vec<u64> = values.map(|(_, event)| number(event, field::EVENT_COUNTER_VALUE)).collect();
    assert_eq!(values, timeline.counters[counter as usize].points.iter().map(|point| point.2).collect::<Vec<_>>());
    let victims = trace.events.iter().flat_map(|(_, event)| event.all(field::EVENT_ANNOTATION));
    let victims = victims.map(|note| Fields::of(note.block())).filter(|note| {
        note.one(field::ANNOTATION_NAME).unwrap().text() == "victim" && note.one(field::ANNOTATION_UINT).is_some()
    });
    assert!(victims.count() > 0, "evictions name their victim");
}
