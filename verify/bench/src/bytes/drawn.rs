//! A reference string that a seed draws: operations that read content of drawn sizes, some of it far more often than other, and write results
//! that others read a while later. It has no layers and no order but its own, which repeats step by step. Called by `bytes`.

use replay::{Event, SourceKind, Storage, Workload};

const WEIGHTS: u64 = 48;
const OPERATIONS: u64 = 400;
const UNIT_BYTES: u64 = 64 << 10;
/// Units of a storage, at most.
const UNITS_MAX: u64 = 16;
/// A result dies so many operations behind its making, at most.
const LIFE_MAX: u64 = 24;

/// Numbers from a seed (`SplitMix64`).
struct Draw(u64);

impl Draw {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % below
    }
}

/// The string of this seed.
pub(super) fn string(seed: u64) -> Workload {
    let mut draw = Draw(seed);
    let size = |draw: &mut Draw| UNIT_BYTES * (1 + draw.below(UNITS_MAX)) - draw.below(UNIT_BYTES);
    let mut storages: Vec<Storage> =
        (0..WEIGHTS).map(|_| Storage { bytes: size(&mut draw), persistent: true }).collect();
    let mut events = Vec::new();
    // Results that live: storage and the operation behind which each dies.
    let mut living: Vec<(u32, u64)> = Vec::new();
    for operation in 0..OPERATIONS {
        // The lesser of two draws: the first weights are used most.
        let mut weight = || draw.below(WEIGHTS).min(draw.below(WEIGHTS)) as u32;
        let (mut reads, mut writes) = (vec![weight(), weight()], Vec::new());
        if draw.below(8) == 0 {
            writes.push(reads[0]);
        }
        if !living.is_empty() {
            // CAST: fewer than LIFE_MAX live.
            reads.push(living[draw.below(living.len() as u64) as usize].0);
        }
        // CAST: at most one more for each operation.
        let result = storages.len() as u32;
        storages.push(Storage { bytes: size(&mut draw), persistent: false });
        writes.push(result);
        living.push((result, operation + draw.below(LIFE_MAX)));
        for set in [&mut reads, &mut writes] {
            set.sort_unstable();
            set.dedup();
        }
        events.push(Event::Op { adapter: None, name: 0, reads, writes });
        let is_last = operation + 1 == OPERATIONS;
        for (dead, _) in living.extract_if(.., |(_, until)| *until <= operation || is_last) {
            events.push(Event::Death(dead));
        }
    }
    let names = vec!["drawn".to_owned()];
    let drawn = Workload::new(format!("drawn {seed}"), SourceKind::ReferenceString, storages, names, events);
    drawn.unwrap_or_else(|fault| unreachable!("the string contradicts itself: {fault}"))
}
