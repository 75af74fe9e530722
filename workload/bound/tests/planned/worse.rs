//! The planner against LRU on strings that are drawn to mislead it: whatever it foresees, it is to move no more than a hundredth above LRU
//! at the end of a run that repeats or that does not, and at any time no more than its one loan on top.

use replay::StorageId;

use super::memory::Memory;

/// Strings of each kind.
const SEEDS: u64 = 60;

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

    /// An operation on one to four of so many storages.
    fn op(&mut self, storages: u32) -> Op {
        let count = 1 + self.below(4);
        // CAST: below a number of 32 bits.
        let mut reads: Vec<u32> = (0..count).map(|_| self.below(storages.into()) as u32).collect();
        reads.sort_unstable();
        reads.dedup();
        let writes = reads.iter().copied().filter(|_| self.below(4) == 0).collect();
        Op { reads, writes }
    }

    fn step(&mut self, storages: u32, ops: usize) -> Vec<Op> {
        (0..ops).map(|_| self.op(storages)).collect()
    }

    /// The step again, where one operation in fifty is left out, replaced, or has another one before it.
    fn nearly(&mut self, step: &[Op], storages: u32) -> Vec<Op> {
        let mut again = Vec::new();
        for op in step {
            match self.below(150) {
                0 => {}
                1 => again.push(self.op(storages)),
                2 => again.extend([self.op(storages), op.clone()]),
                _ => again.push(op.clone()),
            }
        }
        again
    }
}

#[derive(Clone)]
struct Op {
    reads: Vec<u32>,
    writes: Vec<u32>,
}

/// What a drawn string does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing ever repeats.
    Random,
    /// A step, four times.
    Repeats,
    /// A step six times, each a little otherwise.
    Nearly,
    /// Two steps take turns.
    Alternates,
    /// A step, and something else, again and again.
    Interrupted,
    /// A step twice, then nothing repeats.
    Breaks,
    /// A step whose halves are swapped every other time.
    Swapped,
    /// Scans of lengths that differ.
    Scans,
    /// Steps that end anywhere, with something else behind.
    Baits,
}

/// Sizes of storages and whether they have content from the first, the operations, and a capacity.
fn drawn(kind: Kind, seed: u64) -> (Vec<(u64, bool)>, Vec<Op>, u64) {
    let mut draw = Draw(seed << 8 | kind as u64);
    // CAST: small numbers.
    let (storages, length) = (8 + draw.below(60) as u32, 30 + draw.below(200) as usize);
    let sizes: Vec<(u64, bool)> = (0..storages).map(|_| (1 + draw.below(64), draw.below(2) == 0)).collect();
    let total: u64 = sizes.iter().map(|(bytes, _)| bytes).sum();
    let capacity = (total * (3 + draw.below(6)) / 10).max(4 * 64);
    let (step, other) = (draw.step(storages, length), draw.step(storages, length));
    let mut ops = Vec::new();
    for round in 0..8 {
        match kind {
            Kind::Random => ops.extend(draw.step(storages, length)),
            Kind::Repeats if round < 4 => ops.extend_from_slice(&step),
            Kind::Nearly if round < 6 => ops.extend(draw.nearly(&step, storages)),
            Kind::Alternates => ops.extend_from_slice(if round % 2 == 0 { &step } else { &other }),
            Kind::Interrupted => {
                ops.extend_from_slice(&step);
                ops.extend(draw.step(storages, length));
            }
            Kind::Breaks if round < 4 => match round {
                0 | 1 => ops.extend_from_slice(&step),
                _ => ops.extend(draw.step(storages, length)),
            },
            Kind::Swapped if round < 6 => {
                ops.extend_from_slice(&step);
                ops[round * length..].rotate_left(if round % 2 == 0 { 0 } else { length / 2 });
            }
            Kind::Scans if round < 6 => {
                let end = storages - draw.below(4) as u32;
                ops.extend((0..end).map(|storage| Op { reads: vec![storage], writes: Vec::new() }));
            }
            Kind::Baits => {
                ops.extend_from_slice(&step[..draw.below(length as u64) as usize]);
                ops.extend(draw.step(storages, 10));
            }
            _ => {}
        }
    }
    (sizes, ops, capacity)
}

/// Runs a string; the bound with the loan holds at each operation. What the planner and LRU have moved at the end.
fn run(kind: Kind, seed: u64) -> (u64, u64) {
    let (sizes, ops, capacity) = drawn(kind, seed);
    let mut memory = Memory::new(capacity, ());
    let ids = |storages: &[u32]| storages.iter().map(|&storage| StorageId { step: 0, storage }).collect::<Vec<_>>();
    for (number, op) in ops.iter().enumerate() {
        memory.operates(&ids(&op.reads), &ids(&op.writes), &|id| sizes[id.storage as usize]);
        let report = memory.foresight.report();
        let (planned, lru) = (report.actual.moved(), report.lru.moved());
        let loan = lru.min(2 * capacity);
        assert!(planned <= lru + lru / 100 + loan, "{kind:?} {seed}, operation {number}: {planned} bytes, LRU {lru}");
        assert_eq!(memory.foresight.check(), Ok(()), "{kind:?} {seed}, operation {number}");
    }
    let report = memory.foresight.report();
    (report.actual.moved(), report.lru.moved())
}

#[test]
fn what_repeats_and_what_never_does_ends_at_most_a_hundredth_above_lru() {
    for kind in [Kind::Random, Kind::Repeats, Kind::Nearly, Kind::Alternates, Kind::Interrupted] {
        let (mut planned_sum, mut lru_sum) = (0, 0);
        for seed in 0..SEEDS {
            let (planned, lru) = run(kind, seed);
            // What nearly repeats may end with a loan that it has lost: `run` holds it to that.
            let owed = kind == Kind::Nearly;
            assert!(owed || planned <= lru + lru / 100, "{kind:?} {seed}: {planned} bytes, LRU {lru}");
            (planned_sum, lru_sum) = (planned_sum + planned, lru_sum + lru);
        }
        let most = if kind == Kind::Random { 100 } else { 85 };
        assert!(planned_sum * 100 <= lru_sum * most, "{kind:?}: {planned_sum} bytes, LRU {lru_sum}");
    }
}

#[test]
fn a_repetition_that_breaks_costs_at_most_its_loan() {
    for kind in [Kind::Breaks, Kind::Swapped, Kind::Scans, Kind::Baits] {
        let (mut planned_sum, mut lru_sum) = (0, 0);
        for seed in 0..SEEDS {
            let (planned, lru) = run(kind, seed);
            (planned_sum, lru_sum) = (planned_sum + planned, lru_sum + lru);
        }
        assert!(planned_sum * 100 <= lru_sum * 95, "{kind:?}: {planned_sum} bytes, LRU {lru_sum}");
    }
}
