//! The planner on strings that never repeat: what is used is drawn anew for each token, as a mixture of experts draws it. Frequency is all
//! that can be learned, where there is any; where there is none the planner is to be LRU. Module `worse` has strings that mislead it.
//!
//! Ratios of exact bytes. `lru` is what an LRU of the same room moves, `bound` the fewest bytes that any memory moves that knows the future.

mod planned {
    pub mod memory;
    pub mod on_demand;
    mod worse;
}

use std::collections::BTreeSet;

use bound::fewest_bytes;
use planned::on_demand::run;
use replay::{Event, SourceKind, Storage, Workload};

const LAYERS: usize = 12;
const EXPERTS: usize = 64;
const ACTIVE: usize = 4;
const EXPERT_BYTES: u64 = 40 << 16;

/// Draws numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ x >> 31) % limit
    }

    fn shuffled(&mut self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..EXPERTS).collect();
        for at in (1..EXPERTS).rev() {
            // CAST: both are small.
            all.swap(at, self.below(at as u64 + 1) as usize);
        }
        all
    }

    /// A rank: each is less likely than the one before by an eighth part.
    fn rank(&mut self, weights: &[u64]) -> usize {
        let mut rest = self.below(weights.iter().sum());
        let found = weights.iter().position(|&weight| {
            let here = rest < weight;
            rest = rest.wrapping_sub(weight);
            here
        });
        found.unwrap()
    }
}

/// Which experts a layer has used, by rank: the most popular first, or the one used last.
enum Popularity {
    /// The same for ever.
    Standing,
    /// Drawn anew after so many tokens.
    Drifting(usize),
    /// What was used lately is used again; nothing is popular for long.
    Recency,
}

/// `tokens` tokens; each goes through all layers in order, and each layer uses some of its experts.
fn decode(tokens: usize, popularity: &Popularity, seed: u64) -> Workload {
    let mut draw = Draw(seed);
    let mut storages = vec![Storage { bytes: 1 << 16, persistent: true }];
    for _ in 0..LAYERS {
        storages.push(Storage { bytes: 300 << 16, persistent: true });
        storages.extend([Storage { bytes: EXPERT_BYTES, persistent: true }; EXPERTS]);
    }
    let dense = |layer: usize| (1 + layer * (1 + EXPERTS)) as u32;
    let mut order: Vec<Vec<usize>> = (0..LAYERS).map(|_| draw.shuffled()).collect();
    let weights: Vec<u64> = (0..EXPERTS).scan(1u64 << 40, |w, _| Some(std::mem::replace(w, *w / 8 * 7))).collect();
    let mut events = Vec::new();
    for token in 0..tokens {
        if let Popularity::Drifting(after) = *popularity
            && token % after == after - 1
        {
            order = (0..LAYERS).map(|_| draw.shuffled()).collect();
        }
        for (layer, order) in order.iter_mut().enumerate() {
            let mut chosen = BTreeSet::new();
            while chosen.len() < ACTIVE {
                chosen.insert(order[draw.rank(&weights)]);
            }
            if matches!(popularity, Popularity::Recency) {
                order.retain(|expert| !chosen.contains(expert));
                chosen.iter().for_each(|&expert| order.insert(0, expert));
            }
            let experts = chosen.iter().map(|&expert| dense(layer) + 1 + expert as u32);
            events.push(Event::Op { adapter: None, name: 0, reads: vec![0, dense(layer)], writes: vec![0] });
            events.push(Event::Op {
                adapter: None,
                name: 1,
                reads: std::iter::once(0).chain(experts).collect(),
                writes: vec![0],
            });
        }
    }
    let names = vec!["attention".to_owned(), "experts".to_owned()];
    Workload::new("drawn".to_owned(), SourceKind::ReferenceString, storages, names, events).unwrap()
}

/// Bytes that the planner, LRU and the bound move, at a share of the peak in tenths.
fn moved(workload: &Workload, tenths: u64) -> (u64, u64, u64) {
    let capacity = workload.peak_bytes(1) / 10 * tenths;
    let (steps, report) = run(workload, 1, capacity);
    let fewest = fewest_bytes(workload, 1, capacity, &mut || f64::INFINITY).unwrap().moved_bytes;
    assert_eq!(steps[0], report.actual.moved());
    (steps[0], report.lru.moved(), fewest)
}

#[test]
fn what_is_popular_stays_although_nothing_repeats() {
    let workload = decode(600, &Popularity::Standing, 7);
    let (planned, lru, fewest) = moved(&workload, 3);
    assert!(planned * 100 < lru * 70, "{planned} bytes, LRU {lru}");
    // Draws are independent: a memory that knows every popularity, and nothing else, moves half as much again as
    // one that knows the draws.
    assert!(planned * 100 < fewest * 165, "{planned} bytes, the fewest are {fewest}");
    let (planned, lru, _) = moved(&workload, 5);
    assert!(planned * 100 < lru * 85, "{planned} bytes, LRU {lru}");
}

#[test]
fn a_popularity_that_drifts_is_never_a_hundredth_worse_than_lru() {
    for (after, tenths) in [(100, 3), (100, 5), (20, 3), (20, 7)] {
        let (planned, lru, _) = moved(&decode(400, &Popularity::Drifting(after), 11), tenths);
        assert!(
            planned * 100 <= lru * 101,
            "new popularities after {after} tokens, at 0.{tenths}: {planned} bytes, LRU {lru}"
        );
    }
}

#[test]
fn where_recency_is_all_the_planner_is_lru_within_a_hundredth() {
    let workload = decode(400, &Popularity::Recency, 13);
    for tenths in [3, 5, 7] {
        let (planned, lru, _) = moved(&workload, tenths);
        assert!(planned * 100 <= lru * 101, "at 0.{tenths}: {planned} bytes, LRU {lru}");
    }
}

#[test]
fn a_step_that_repeats_exactly_moves_what_the_bound_does() {
    let workload = decode(300, &Popularity::Standing, 17);
    let capacity = workload.peak_bytes(2) / 10 * 3;
    let fewest = |steps| fewest_bytes(&workload, steps, capacity, &mut || f64::INFINITY).unwrap().moved_bytes;
    let further = fewest(3) - fewest(2);
    let (steps, report) = run(&workload, 4, capacity);
    assert!(steps[1] * 100 <= further * 115, "step 2: {steps:?}, {further}");
    assert!(steps[2].max(steps[3]) * 100 <= further * 105, "{steps:?}, {further}");
    assert!(report.lru.moved() > 2 * report.actual.moved(), "{report:?}");
}
