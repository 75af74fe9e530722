//! Many steps on one adapter, where the property test takes many short lives: what only shows after long use. A million in
//! an optimised build, a few thousand otherwise.

use ddi::SegmentFlags;

use super::{DEVICES, Model, PROCESSES, Step, Tables};
use crate::Eviction;

const STEPS: u64 = if cfg!(debug_assertions) { 6_000 } else { 1_000_000 };

/// A small generator of our own: its numbers are the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }

    fn list(&mut self) -> Vec<usize> {
        (0..1 + self.below(4)).map(|_| self.index(32)).collect()
    }

    fn step(&mut self) -> Step {
        let (device, which) = (self.index(DEVICES), self.index(32));
        match self.below(40) {
            0..=1 => {
                let pages = if self.below(2) == 0 { 1 + self.below(3) } else { 1 + self.below(59) };
                Step::Create { pages, kind: self.below(8) as u8, device }
            }
            2..=11 => Step::MakeResident { device, list: self.list(), force: self.below(3) as u8 },
            12..=14 => Step::Write { which },
            15..=23 => {
                let (lazily, claim_clean) = (self.below(5) > 0, self.below(2) == 0);
                Step::Evict { device, list: self.list(), lazily, claim_clean }
            }
            24 => Step::Lock { which },
            25 => Step::Unlock { which },
            26 => Step::Destroy { which },
            27 => Step::Doom { which },
            28 => Step::Complete { works: self.index(4) },
            29 => Step::UsesEnd { devices: self.below(16) as u8 },
            30 => Step::Offer { device, which, priority: self.below(4) as u8, decommit: self.below(2) == 0 },
            31 => Step::Reclaim { device, which },
            32 => Step::Pin { which },
            33..=34 => Step::Unpin { which },
            35 => Step::Protect { process: self.index(PROCESSES), priority: self.below(3) as u8 },
            36 => Step::Cap { process: self.index(PROCESSES), pages: self.below(300) },
            37 => Step::Rank { which, priority: self.below(3) as u8 },
            38 => Step::Idle { device, idle: self.below(2) == 0 },
            _ if self.below(5) == 0 => Step::Ahead { pages: 1 + self.below(40) },
            _ => Step::Turn { quarters: self.below(5) },
        }
    }
}

#[test]
fn a_long_life_agrees_with_the_model() {
    // spec: memory §5.1, §5.2, §5.3, §5.5, §5.9, §8.2, §8.3, §8.5
    let counted = live(1, STEPS, SegmentFlags::empty(), Tables::Roomy);
    assert!(counted.relocated_bytes > 0, "content moved to make holes");
    assert!(counted.promoted > 0, "content moved up");
    assert!(counted.evicted_late > 0, "evictions stood aside");
    let pages = counted.came_and_went;
    assert!(pages > 100, "{pages} pages came and went ahead of need");
}

#[test]
fn so_does_one_in_sight_of_the_cpu() {
    live(2, STEPS / 4, SegmentFlags::USE_64KB_PAGES | SegmentFlags::CPU_VISIBLE, Tables::Roomy);
    live(5, STEPS / 4, SegmentFlags::USE_64KB_PAGES | SegmentFlags::CPU_VISIBLE, Tables::Dual);
    live(3, STEPS / 4, SegmentFlags::SUPPORTS_CPU_HOST_APERTURE, Tables::Roomy);
}

#[test]
fn so_does_one_whose_page_tables_come_and_go() {
    // spec: memory §4.3, §4.6
    for tables in [Tables::Tight, Tables::Apart, Tables::Dual] {
        let counted = live(4, STEPS / 2, SegmentFlags::empty(), tables);
        assert!(counted.tables_left > 0, "tables left: {tables:?}");
    }
}

/// Of five allocations of which three fit three are read twice in a round, and two once: of those one is read in place. Now and then one is written against
/// the forecast, or something else happens: no content is lost, and each list sees what it should.
#[test]
fn so_does_one_that_reads_in_place() {
    // spec: memory §1.6, §5.1, §5.3, §8.1, §8.3
    const CONTENTS: usize = 5;
    const ROUND: [usize; 8] = [0, 1, 2, 0, 1, 2, 3, 4];
    const OUTSIDE_THE_CPUS_SIGHT: u8 = 4;
    let mut model = Model::new(SegmentFlags::empty(), Tables::Roomy, Eviction::Planner);
    model.mm.policy.read_in_place = true;
    let mut random = Random(9);
    for _ in 0..CONTENTS {
        model.step(Step::Create { pages: 30, kind: OUTSIDE_THE_CPUS_SIGHT, device: 0 });
    }
    let in_place = |model: &Model| model.mm.plan_reports().map(|(_, report)| report.in_place).next().expect("planned");
    let mut steady = 0;
    for round in 0..800 {
        let before = in_place(&model).paged_in;
        for which in ROUND {
            model.step(Step::MakeResident { device: 0, list: vec![which], force: 0 });
            if round == 0 || round > 100 && (random.below(200) == 0 || round % 50 == 0 && which > 2) {
                model.step(Step::Write { which });
            }
            model.step(Step::Evict { device: 0, list: vec![which], lazily: true, claim_clean: true });
            model.step(Step::Complete { works: 4 });
            let disturbance = match random.below(400) {
                _ if round < 100 => continue,
                0 => Step::Lock { which: random.index(CONTENTS) },
                1 => Step::Offer { device: 0, which: random.index(CONTENTS), priority: 1, decommit: false },
                2 => Step::Pin { which: random.index(CONTENTS) },
                3 => Step::Cap { process: 0, pages: random.below(300) },
                4 => Step::Ahead { pages: 30 },
                5 => Step::MakeResident { device: 1, list: vec![random.index(CONTENTS)], force: 0 },
                6 => Step::Evict { device: 1, list: vec![random.index(CONTENTS)], lazily: false, claim_clean: true },
                _ => continue,
            };
            model.step(disturbance);
            (0..CONTENTS).for_each(|which| {
                model.step(Step::Unlock { which });
                model.step(Step::Unpin { which });
                model.step(Step::Reclaim { device: 0, which });
            });
        }
        if round == 99 {
            steady = in_place(&model).paged_in - before;
        }
    }
    assert_eq!(steady, 30, "each round reads one where it lies");
    let all = in_place(&model);
    assert!(all.paged_out > 0 && all.paged_in > 200 * steady, "in spite of all that happens: {all:?}");
    model.end();
}

/// The events of one life.
struct Counted {
    /// How often page tables left.
    tables_left: u64,
    /// Bytes that moved within their segments.
    relocated_bytes: u64,
    /// How often content moved up.
    promoted: u64,
    /// Pages that came, left or were copied ahead of need.
    came_and_went: u64,
    /// Moves of evictions that had stood aside.
    evicted_late: u64,
}

fn live(seed: u64, steps: u64, flags: SegmentFlags, tables: Tables) -> Counted {
    let mut model = Model::new(flags, tables, if seed.is_multiple_of(2) { Eviction::Planner } else { Eviction::Lru });
    let mut random = Random(seed);
    for at in 0..steps {
        let step = random.step();
        model.step(step);
        if at % 64 == 0 {
            // Now and then all devices are idle.
            (0..DEVICES).for_each(|device| model.step(Step::Idle { device, idle: true }));
            model.step(Step::Ahead { pages: 40 });
            (0..DEVICES).for_each(|device| model.step(Step::Idle { device, idle: false }));
        }
    }
    let counted = Counted {
        tables_left: model.tables_left,
        relocated_bytes: model.relocated_bytes,
        promoted: model.promoted,
        came_and_went: model.came_and_went,
        evicted_late: model.evicted_late,
    };
    model.end();
    counted
}
