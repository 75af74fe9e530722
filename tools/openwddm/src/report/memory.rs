//! The map of each memory segment over time, and how much each process held beside its budget.

use std::collections::{BTreeMap, BTreeSet};

use events::Event;
use serde::Serialize;

use super::thin;
use crate::timeline::{CounterKind, Residence, Timeline};

/// The drawings below the timeline. Times are nanoseconds from the beginning of the recording.
#[derive(Debug, Default, Serialize)]
pub struct Memory {
    /// Memory segments into which something moved.
    pub maps: Vec<SegmentMap>,
    /// By process; empty when only one process holds memory and it has no budget.
    pub holdings: Vec<Holding>,
}

/// One segment's pages over time.
#[derive(Debug, Serialize)]
pub struct SegmentMap {
    segment: u8,
    /// How many 4-KB pages there are.
    pages: u64,
    /// Begin, length, first page, pages, allocation, process: in order of the beginning.
    boxes: Vec<[u64; 6]>,
    /// How many boxes there would be; those left out are the smallest.
    total: usize,
    /// The area of the boxes left out, in thousandths of the area of all.
    left_out: u64,
}

/// The memory that a process held.
#[derive(Debug, Serialize)]
pub struct Holding {
    process: u32,
    /// Time, bytes from then on.
    points: Vec<(u64, u64)>,
    /// Its budget in the same form; empty when the process did not ask to hear it.
    budget: Vec<(u64, u64)>,
}

const BOXES_MAX: usize = 9_000;
const POINTS_MAX: usize = 1_600;
const PAGE_BYTES: u64 = 4096;

impl Memory {
    /// Chooses the boxes and points to draw.
    pub fn of(events: &[(u64, Event)], timeline: &Timeline) -> Memory {
        Memory { maps: maps(events, timeline), holdings: holdings(timeline) }
    }
}

fn maps(events: &[(u64, Event)], timeline: &Timeline) -> Vec<SegmentMap> {
    let mut capacities: BTreeMap<u8, u64> = BTreeMap::new();
    for (_, event) in events {
        if let Event::SegmentAdded { segment, capacity_bytes, .. } = event {
            capacities.insert(*segment, capacity_bytes / PAGE_BYTES);
        }
    }
    let mut by_segment: BTreeMap<u8, Vec<&Residence>> = BTreeMap::new();
    for residence in &timeline.residences {
        by_segment.entry(residence.segment).or_default().push(residence);
    }
    let room = BOXES_MAX / by_segment.len().max(1);
    let maps = by_segment.into_iter().map(|(segment, residences)| {
        let reached = residences.iter().map(|r| r.first_page + r.pages).max().unwrap_or(0);
        let pages = capacities.get(&segment).copied().unwrap_or(0).max(reached);
        map_of(segment, pages, &residences, room, timeline.begin_ns)
    });
    maps.collect()
}

fn map_of(segment: u8, pages: u64, residences: &[&Residence], room: usize, origin_ns: u64) -> SegmentMap {
    let area = |r: &Residence| u128::from(r.end_ns - r.begin_ns) * u128::from(r.pages);
    let sum = |list: &[&Residence]| list.iter().map(|r| area(r)).sum::<u128>();
    let mut kept = residences.to_vec();
    kept.sort_by_key(|r| std::cmp::Reverse(area(r)));
    let dropped = kept.split_off(kept.len().min(room));
    let left_out = sum(&dropped) * 1000 / sum(residences).max(1);
    kept.sort_by_key(|r| (r.begin_ns, r.first_page));
    let encoded = |r: &&Residence| {
        [r.begin_ns - origin_ns, r.end_ns - r.begin_ns, r.first_page, r.pages, r.allocation, u64::from(r.process)]
    };
    SegmentMap {
        segment,
        pages,
        boxes: kept.iter().map(encoded).collect(),
        total: residences.len(),
        left_out: u64::try_from(left_out).unwrap_or(1000),
    }
}

fn holdings(timeline: &Timeline) -> Vec<Holding> {
    let points = |wanted: CounterKind| {
        let counter = timeline.counters.iter().find(|counter| counter.kind == wanted);
        let all: Vec<(u64, u64)> = counter
            .map(|counter| counter.points.iter().map(|(at, _, bytes)| (at - timeline.begin_ns, *bytes)).collect())
            .unwrap_or_default();
        thin::curve(&all, POINTS_MAX)
    };
    let processes: BTreeSet<u32> = timeline
        .counters
        .iter()
        .filter_map(|counter| match counter.kind {
            CounterKind::Held(process) => Some(process),
            _ => None,
        })
        .collect();
    let holding = |&process: &u32| Holding {
        process,
        points: points(CounterKind::Held(process)),
        budget: points(CounterKind::Budget(process)),
    };
    let all: Vec<Holding> = processes.iter().map(holding).collect();
    if all.len() < 2 && all.iter().all(|holding| holding.budget.is_empty()) { Vec::new() } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn residence(first_page: u64, pages: u64, begin_ns: u64, end_ns: u64) -> Residence {
        Residence { segment: 1, first_page, pages, allocation: 7, process: 2, begin_ns, end_ns }
    }

    #[test]
    fn the_largest_boxes_are_drawn_and_the_rest_is_named() {
        let list = [residence(0, 4, 10, 20), residence(4, 1, 10, 11), residence(8, 10, 12, 112)];
        let map = map_of(1, 100, &list.iter().collect::<Vec<_>>(), 2, 10);
        assert_eq!(map.boxes, [[0, 10, 0, 4, 7, 2], [2, 100, 8, 10, 7, 2]]);
        assert_eq!((map.total, map.left_out, map.pages), (3, 0, 100));
        let map = map_of(1, 100, &list.iter().collect::<Vec<_>>(), 1, 10);
        assert_eq!((map.boxes.len(), map.left_out), (1, 39));
    }

    #[test]
    fn a_map_shows_what_the_run_held_and_one_process_needs_no_curve_of_its_own() {
        let outcome = crate::synthetic::outcome(2, 40);
        let timeline = Timeline::of(&outcome.recordings[0]);
        let memory = Memory::of(&outcome.recordings[0].events, &timeline);
        let [map] = &memory.maps[..] else { panic!("{:?}", memory.maps) };
        assert!(map.total == timeline.residences.len() && map.left_out == 0 && map.total > 20);
        assert!(map.boxes.iter().all(|b| b[2] + b[3] <= map.pages && b[5] == 1));
        assert!(memory.holdings.is_empty());
    }
}
