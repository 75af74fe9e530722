//! The rule on an engine that does at once what it is told.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::policy::BandTerms;
use crate::rank::{Quanta, WEIGHT_NORMAL};

mod inside;
mod taken;

const MS: u64 = 1_000_000;
/// Most questions of one run. A rule that steps through time by nanoseconds fails by this, and does not hang the test.
const ASKED_MAX: u32 = 100_000;

/// An engine that does at once what it is told, and contexts that want it for ever or not at all.
struct Engine {
    time: EngineTime<u32>,
    wanting: BTreeMap<u32, Contender<u32>>,
    holder: Option<u32>,
    now_ns: u64,
    used: BTreeMap<u32, u64>,
    /// The contexts that took it, and when.
    taken: Vec<(u64, u32)>,
}

fn contender(context: u32, band: Band, process: u64) -> Contender<u32> {
    Contender { context, rank: Rank { band, ..Rank::ordinary(process) }, quanta: Quanta::default() }
}

fn without_grace() -> Policy {
    let terms = BandTerms { grace_ns: 0, process_quantum_ns: 2 * MS, process_grace_ns: 0 };
    Policy { bands: [terms; 4], ..Policy::default() }
}

impl Engine {
    fn new(policy: Policy, wanting: &[Contender<u32>]) -> Engine {
        let wanting = wanting.iter().map(|one| (one.context, *one)).collect();
        let time = EngineTime::new(policy);
        Engine { time, wanting, holder: None, now_ns: 0, used: BTreeMap::new(), taken: Vec::new() }
    }

    /// Until that time.
    fn run(&mut self, until_ns: u64) {
        let mut asked = 0;
        while self.now_ns < until_ns {
            asked += 1;
            assert!(asked <= ASKED_MAX, "the rule wants to be asked all the time, at {} again", self.now_ns);
            let again_ns = self.decide();
            let next = again_ns.unwrap_or(u64::MAX).min(until_ns);
            assert!(next > self.now_ns, "time goes on");
            if let Some(holder) = self.holder {
                *self.used.entry(holder).or_default() += next - self.now_ns;
            }
            self.now_ns = next;
        }
        let _ = self.decide();
    }

    /// Until nothing more is to be done now.
    fn decide(&mut self) -> Option<u64> {
        let ready: Vec<_> = self.wanting.values().copied().collect();
        for _ in 0..10 {
            let holder = self.holder.map(|holder| self.wanting[&holder]);
            let verdict = self.time.ask(self.now_ns, holder, &ready);
            match verdict.who {
                Who::Takes(to) => self.give(to),
                Who::GivesWay { to, from_ns } if from_ns <= self.now_ns => self.give(to),
                Who::NoContender => {
                    assert!(ready.is_empty(), "a context wants it");
                    return verdict.again_ns;
                }
                Who::KeepsIt | Who::GivesWay { .. } => return verdict.again_ns,
            }
        }
        panic!("the engine goes from hand to hand at {}", self.now_ns);
    }

    fn give(&mut self, to: u32) {
        self.holder = Some(to);
        self.taken.push((self.now_ns, to));
    }

    fn comes(&mut self, one: Contender<u32>) {
        self.wanting.insert(one.context, one);
    }

    fn goes(&mut self, context: u32) {
        self.wanting.remove(&context);
        if self.holder == Some(context) {
            self.holder = None;
        }
    }

    fn used(&self, context: u32) -> u64 {
        self.used.get(&context).copied().unwrap_or(0)
    }
}

#[test]
fn processes_of_a_band_take_turns_of_a_quantum() {
    // spec: sync §4.2
    let mut engine = Engine::new(without_grace(), &[contender(1, Band::Normal, 1), contender(2, Band::Normal, 2)]);
    engine.run(8 * MS);
    assert_eq!(engine.taken, [(0, 1), (2 * MS, 2), (4 * MS, 1), (6 * MS, 2), (8 * MS, 1)]);
}

#[test]
fn a_quantum_ends_nothing_while_no_context_waits() {
    // spec: sync §4.2
    let mut engine = Engine::new(without_grace(), &[contender(1, Band::Normal, 1)]);
    let verdict = engine.decide();
    assert_eq!((verdict, &engine.taken[..]), (None, &[(0, 1)][..]), "there is nothing to ask again for");
    engine.run(10 * MS);
    // It has had more than its quantum: the next context that comes takes over.
    engine.comes(contender(2, Band::Normal, 2));
    engine.run(11 * MS);
    assert_eq!(engine.taken, [(0, 1), (10 * MS, 2)]);
    // And has saved nothing while it was away: from now on it is even.
    engine.run(50 * MS);
    assert_eq!((engine.used(1), engine.used(2)), (10 * MS + 20 * MS, 20 * MS));
}

#[test]
fn a_process_that_waits_for_its_turn_gives_what_runs_a_grace_period() {
    // spec: sync §2.5, sync §4.2
    let policy = Policy::default();
    let both = [contender(1, Band::Normal, 1), contender(2, Band::Normal, 2)];
    let mut time = EngineTime::new(policy);
    assert_eq!(time.ask(0, None, &both).who, Who::Takes(1));
    let verdict = time.ask(0, Some(both[0]), &both);
    assert_eq!(verdict, Verdict { who: Who::KeepsIt, again_ns: Some(2 * MS) });
    let from_ns = 2 * MS + 100_000;
    let give = Who::GivesWay { to: 2, from_ns };
    assert_eq!(time.ask(2 * MS, Some(both[0]), &both), Verdict { who: give, again_ns: Some(from_ns) });
    // It is not put off by being asked again.
    assert_eq!(time.ask(2 * MS + 50_000, Some(both[0]), &both).who, give);
    assert_eq!(time.ask(from_ns, Some(both[0]), &both), Verdict { who: give, again_ns: None });
    // The running work ended before: the other takes the engine then.
    assert_eq!(time.ask(from_ns, None, &both).who, Who::Takes(2));
}

#[test]
fn every_reason_to_give_way_has_its_grace_period() {
    // spec: sync §2.5
    let mut policy = Policy::default();
    for (index, terms) in (1..).zip(&mut policy.bands) {
        *terms = BandTerms { grace_ns: index, process_quantum_ns: 2 * MS, process_grace_ns: 10 * index };
    }
    let quanta = Quanta { quantum_ns: MS, grace_same_ns: 1000, grace_lower_ns: 500 };
    let of = |context, band, process, in_process| Contender {
        context,
        rank: Rank { band, in_process, ..Rank::ordinary(process) },
        quanta,
    };
    let normal = of(1, Band::Normal, 1, 0);
    let cases = [
        (of(2, Band::Realtime, 2, 0), 4),
        (of(2, Band::Focus, 2, 0), 3),
        (of(2, Band::Focus, 1, 0), 3),
        (of(2, Band::Normal, 2, 7), 20),
        (of(2, Band::Normal, 1, 7), 500),
        (of(2, Band::Normal, 1, 0), 1000),
        (of(2, Band::Idle, 2, 0), 0),
    ];
    for (better, ns) in cases {
        assert_eq!(grace_ns(better, normal, &policy), ns, "{better:?}");
    }
    assert_eq!(grace_ns(normal, of(2, Band::Focus, 2, 0), &policy), 2);
}

#[test]
fn bands_go_before_each_other_and_levels_of_realtime() {
    // spec: sync §4.2
    let level = |context, level| {
        let one = contender(context, Band::Realtime, u64::from(context));
        Contender { rank: Rank { level, ..one.rank }, ..one }
    };
    let mut engine = Engine::new(without_grace(), &[contender(1, Band::Idle, 1)]);
    for (at, one) in [
        (1, contender(2, Band::Normal, 2)),
        (2, contender(3, Band::Focus, 3)),
        (3, level(4, 0)),
        (4, level(5, 31)),
        (5, level(6, 30)),
    ] {
        engine.run(at * 10_000);
        engine.comes(one);
    }
    engine.run(60_000);
    let order: Vec<u32> = engine.taken.iter().map(|(_, who)| *who).collect();
    assert_eq!(order, [1, 2, 3, 4, 5], "each preempts at once, and a lower level does not");
    // Realtime owes nothing to the bands below.
    engine.run(1000 * MS);
    assert_eq!(engine.taken.len(), 5);
    engine.goes(5);
    engine.run(1001 * MS);
    assert_eq!(engine.taken.last(), Some(&(1000 * MS, 6)));
}

#[test]
fn normal_keeps_its_percentage_of_what_focus_uses() {
    // spec: sync §2.5, sync §4.2
    for (percent, first_ms) in [(10, 18), (50, 2), (25, 6)] {
        let policy = Policy { normal_percent: percent, ..without_grace() };
        let mut engine = Engine::new(policy, &[contender(1, Band::Focus, 1), contender(2, Band::Normal, 2)]);
        engine.run(1000 * MS);
        assert_eq!(engine.used(2), 10 * MS * u64::from(percent), "exactly so many hundredths");
        assert_eq!(engine.taken[..3], [(0, 1), (first_ms * MS, 2), ((first_ms + 2) * MS, 1)]);
    }
    let policy = Policy { normal_percent: 0, ..without_grace() };
    let mut engine = Engine::new(policy, &[contender(1, Band::Focus, 1), contender(2, Band::Normal, 2)]);
    engine.run(1000 * MS);
    assert_eq!(engine.used(2), 0, "0 is a value, too");
}

#[test]
fn idle_is_never_starved_and_costs_the_others_less_than_a_hundredth() {
    // spec: sync §4.2
    for band in [Band::Normal, Band::Focus] {
        let mut engine = Engine::new(Policy::default(), &[contender(1, band, 1), contender(2, Band::Idle, 2)]);
        engine.run(1000 * MS);
        assert_eq!((engine.used(1), engine.used(2)), (995 * MS, 5 * MS));
    }
    // Below two bands it has its share of both.
    let three = [contender(1, Band::Focus, 1), contender(2, Band::Normal, 2), contender(3, Band::Idle, 3)];
    let mut engine = Engine::new(Policy::default(), &three);
    engine.run(1000 * MS);
    assert!(engine.used(3).abs_diff(5 * MS) <= MS / 2, "{}", engine.used(3));
    assert!(engine.used(2).abs_diff(100 * MS) <= 2 * MS, "{}", engine.used(2));
}

#[test]
fn weights_share_a_band() {
    // spec: sync §4.2
    let mut heavy = contender(1, Band::Normal, 1);
    heavy.rank.weight = 2 * WEIGHT_NORMAL;
    let mut engine = Engine::new(without_grace(), &[heavy, contender(2, Band::Normal, 2)]);
    engine.run(600 * MS);
    assert_eq!((engine.used(1), engine.used(2)), (400 * MS, 200 * MS));
}

#[test]
fn other_numbers_count_from_the_next_question_on() {
    let both = [contender(1, Band::Normal, 1), contender(2, Band::Normal, 2)];
    let mut time = EngineTime::new(without_grace());
    assert_eq!(time.ask(0, None, &both).who, Who::Takes(1));
    assert_eq!(time.ask(0, Some(both[0]), &both).again_ns, Some(2 * MS));
    let terms = BandTerms { process_quantum_ns: 5 * MS, ..without_grace().band(Band::Normal) };
    time.set_policy(Policy { bands: [terms; 4], ..without_grace() });
    assert_eq!(time.ask(MS, Some(both[0]), &both).again_ns, Some(5 * MS));
}

#[test]
fn what_a_high_one_waits_for_goes_where_it_would() {
    // spec: sync §4.2
    let low = Rank { band: Band::Idle, in_process: -7, ..Rank::ordinary(1) };
    let high = Rank { band: Band::Realtime, level: 9, in_process: 3, ..Rank::ordinary(2) };
    let raised = low.raised_for(high);
    assert_eq!((raised.band, raised.level, raised.process, raised.in_process), (Band::Realtime, 9, 1, -7));
    assert_eq!(high.raised_for(low), high, "no rank falls");
    let own = Rank { in_process: 5, ..Rank::ordinary(1) };
    let raised = low.raised_for(own);
    assert_eq!((raised.band, raised.in_process), (Band::Normal, 5));
}

#[test]
fn a_debt_that_is_paid_off_makes_room_for_the_next() {
    // spec: sync §4.2
    // NORMAL and IDLE come to be owed at the same moment, and NORMAL comes first.
    let policy = Policy { idle_permille: 100, normal_slice_ns: MS, idle_slice_ns: MS, ..without_grace() };
    let all = [contender(1, Band::Focus, 1), contender(2, Band::Normal, 1), contender(3, Band::Idle, 1)];
    let mut engine = Engine::new(policy, &all);
    engine.run(9 * MS);
    assert_eq!(engine.taken, [(0, 1), (9 * MS, 2)]);
    // When FOCUS goes no band ranks above NORMAL; IDLE is owed all the same, and has the engine when NORMAL has been paid.
    engine.goes(1);
    engine.run(11 * MS);
    assert_eq!(engine.taken[2..], [(10 * MS, 3), (11 * MS, 2)]);
}

#[test]
fn a_debt_ends_no_turn_while_no_band_waits_for_its_end() {
    // spec: sync §4.2
    // NORMAL and IDLE are owed a slice of 1 when they have waited for FOCUS; a turn lasts 2.
    let policy =
        Policy { normal_percent: 50, normal_slice_ns: MS, idle_permille: 500, idle_slice_ns: MS, ..without_grace() };
    let asked = |band, beside: &[Contender<u32>]| {
        let (focus, holder) = (contender(1, Band::Focus, 1), contender(2, band, 2));
        let mut time = EngineTime::new(policy);
        let _ = time.ask(0, None, &[focus, holder]);
        let _ = time.ask(0, Some(focus), &[focus, holder]);
        // FOCUS has had its time, and goes.
        assert_eq!(time.ask(MS, None, &[holder]).who, Who::Takes(2));
        let present: Vec<_> = beside.iter().copied().chain([holder]).collect();
        let verdict = time.ask(MS, Some(holder), &present);
        assert_eq!(verdict.who, Who::KeepsIt);
        verdict.again_ns
    };
    for band in [Band::Normal, Band::Idle] {
        assert_eq!(asked(band, &[]), None, "alone");
        assert_eq!(asked(band, &[contender(3, band, 3)]), Some(3 * MS), "beside an equal");
    }
    assert_eq!(
        asked(Band::Normal, &[contender(3, Band::Focus, 3)]),
        Some(2 * MS),
        "FOCUS waits for the end of the slice"
    );
    assert_eq!(
        asked(Band::Idle, &[contender(3, Band::Normal, 3)]),
        Some(2 * MS),
        "NORMAL waits for the end of the slice"
    );
    // IDLE, which is not owed yet, is in 1: as long as the slice, and then both.
    let equal_and_idle = [contender(3, Band::Normal, 3), contender(4, Band::Idle, 4)];
    let slower = Policy { idle_permille: 250, ..policy };
    let mut time = EngineTime::new(slower);
    let (focus, holder) = (contender(1, Band::Focus, 1), contender(2, Band::Normal, 2));
    let _ = time.ask(0, None, &[focus, holder]);
    let _ = time.ask(0, Some(focus), &[focus, holder]);
    assert_eq!(time.ask(MS, None, &[holder]).who, Who::Takes(2));
    let present: Vec<_> = equal_and_idle.into_iter().chain([holder]).collect();
    let verdict = time.ask(MS, Some(holder), &present);
    // A quarter is owed after three times the slice of others: its own turn ends first.
    assert_eq!(verdict, Verdict { who: Who::KeepsIt, again_ns: Some(3 * MS) });
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Comes { context: u32, band: u8, process: u64, in_process: i32, weight: u32 },
    Goes(u32),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..6u32, 0..3u8, 0..3u64, -1..2i32, 1..4u32).prop_map(|(context, band, process, in_process, weight)| {
            Op::Comes { context, band, process, in_process, weight }
        }),
        2 => (0..6u32).prop_map(Op::Goes),
        4 => (1..30_000_000u64).prop_map(Op::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn the_engine_never_idles_while_a_context_wants_it_and_none_starves(ops in prop::collection::vec(op(), 1..60)) {
        // spec: sync §4.2
        // Larger shares than usual: the same rule in less time.
        let policy = Policy { idle_permille: 100, inner_permille: 100, ..Policy::default() };
        let mut engine = Engine::new(policy, &[]);
        for op in ops {
            match op {
                Op::Comes { context, band, process, in_process, weight } => {
                    let band = [Band::Idle, Band::Normal, Band::Focus][usize::from(band)];
                    let rank = Rank { band, level: 0, process, weight, in_process };
                    engine.comes(Contender { context, rank, quanta: Quanta::default() });
                }
                Op::Goes(context) => engine.goes(context),
                Op::Pass(ns) => {
                    let (from_ns, before): (u64, u64) = (engine.now_ns, engine.used.values().sum());
                    engine.run(from_ns + ns);
                    let used = engine.used.values().sum::<u64>() - before;
                    assert_eq!(used, if engine.wanting.is_empty() { 0 } else { ns });
                }
            }
        }
        // The worst that a context can be: one of many lower ones of one of several processes of the idle band.
        let before = engine.used.clone();
        let until_ns = engine.now_ns + 3_000 * MS;
        engine.run(until_ns);
        for context in engine.wanting.keys() {
            assert!(engine.used(*context) > before.get(context).copied().unwrap_or(0), "context {context} starves");
        }
    }
}
