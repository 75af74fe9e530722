//! The contexts of one process among themselves.

use super::*;

#[test]
fn a_process_does_not_get_more_by_having_more_contexts() {
    // spec: sync §4.2
    let quanta = Quanta { grace_same_ns: 0, ..Quanta::default() };
    let many = (10..20).map(|context| Contender { quanta, ..contender(context, Band::Normal, 1) });
    let all: Vec<_> = many.chain([contender(1, Band::Normal, 2)]).collect();
    let mut engine = Engine::new(without_grace(), &all);
    engine.run(400 * MS);
    assert_eq!(engine.used(1), 200 * MS);
    for context in 10..20 {
        assert_eq!(engine.used(context), 20 * MS, "{context}");
    }
}

#[test]
fn a_context_keeps_the_engine_for_its_own_quantum_beside_equals_of_its_process() {
    // spec: sync §2.5, sync §4.2
    let of = |context, in_process, quantum_ns| Contender {
        rank: Rank { in_process, ..Rank::ordinary(1) },
        quanta: Quanta { quantum_ns, grace_same_ns: 0, grace_lower_ns: 0 },
        ..contender(context, Band::Normal, 1)
    };
    let first = |all: &[Contender<u32>], until_ns| {
        let mut engine = Engine::new(without_grace(), all);
        engine.run(until_ns);
        engine.taken
    };
    // No share for lower ones before the time that is looked at is over.
    let (three, four) = (of(1, 0, 3 * MS), of(2, 0, 4 * MS));
    // 1 has had 3, then 2 has had 4; with half of its turn 2 stands at 6, and 1 at 3: it is 1's turn until 6, and half of that is 7.
    assert_eq!(first(&[three, four], 10 * MS), [(0, 1), (3 * MS, 2), (7 * MS, 1), (10 * MS, 2)]);
    // A context of lower priority is no equal: it ends no quantum.
    assert_eq!(first(&[three, of(3, -1, MS)], 10 * MS), [(0, 1)]);
    // Nor does another process's within the process's own turn.
    let other = contender(4, Band::Normal, 2);
    assert_eq!(first(&[of(1, 0, MS / 2), other], 4 * MS), [(0, 1), (2 * MS, 4), (4 * MS, 1)]);
}

#[test]
fn contexts_of_lower_priority_share_what_they_are_owed_by_their_own_quanta() {
    // spec: sync §2.5, sync §4.2
    let of = |context, in_process| Contender {
        rank: Rank { in_process, ..Rank::ordinary(1) },
        quanta: Quanta { quantum_ns: MS, grace_same_ns: 0, grace_lower_ns: 0 },
        ..contender(context, Band::Normal, 1)
    };
    // A fifth, 4 at a time: 1 has the engine for 16, then the two below it for 4, each for a quantum of 1.
    let policy = Policy { inner_permille: 200, inner_slice_ns: 4 * MS, ..without_grace() };
    let mut engine = Engine::new(policy, &[of(1, 1), of(2, 0), of(3, -1)]);
    engine.run(20 * MS);
    let order: Vec<u64> = engine.taken.iter().map(|(at, _)| at / MS).collect();
    assert_eq!(order, [0, 16, 17, 18, 19, 20], "{:?}", engine.taken);
    assert_eq!([1, 2, 3].map(|context| engine.used(context) / MS), [16, 2, 2]);
}

#[test]
fn contexts_of_a_process_rank_among_themselves_only() {
    // spec: sync §4.2
    let mut all = [
        contender(1, Band::Normal, 1),
        contender(2, Band::Normal, 1),
        contender(3, Band::Normal, 2),
        contender(4, Band::Normal, 2),
    ];
    all[0].rank.in_process = 7;
    let mut engine = Engine::new(without_grace(), &all);
    engine.run(2000 * MS);
    // Of the first process the higher has all but the share of the lower, of the second both have the same.
    // To within one slice, one quantum and its grace period.
    let about = |context, ms: u64, within: u64| assert!(engine.used(context).abs_diff(ms * MS) <= within, "{context}");
    about(1, 995, MS / 2);
    about(2, 5, MS / 2);
    about(3, 500, MS + MS / 10);
    about(4, 500, MS + MS / 10);
}

#[test]
fn contexts_of_lower_priority_are_owed_nothing_for_the_time_in_which_none_waited() {
    // spec: sync §4.2
    let of = |context, process, in_process| Contender {
        rank: Rank { in_process, ..Rank::ordinary(process) },
        quanta: Quanta { quantum_ns: MS, grace_same_ns: 0, grace_lower_ns: 0 },
        ..contender(context, Band::Normal, process)
    };
    let policy = Policy { inner_permille: 200, inner_slice_ns: 4 * MS, ..without_grace() };
    // Beside 1 waits an equal of its own process, one of another process, or a lower one of another process.
    for beside in [of(2, 1, 0), of(2, 2, 0), of(2, 2, -1)] {
        let mut engine = Engine::new(policy, &[of(1, 1, 0), beside]);
        engine.run(80 * MS);
        engine.comes(of(3, 1, -1));
        engine.run(95 * MS);
        assert_eq!(engine.used(3), 0, "beside {beside:?}: its process has had 15 at most since it waits");
    }
}

#[test]
fn a_context_that_was_alone_has_saved_no_quantum_when_an_equal_comes() {
    // spec: sync §4.2
    let of = |context, in_process| Contender {
        rank: Rank { in_process, ..Rank::ordinary(1) },
        quanta: Quanta { quantum_ns: MS, grace_same_ns: 0, grace_lower_ns: 0 },
        ..contender(context, Band::Normal, 1)
    };
    let mut engine = Engine::new(without_grace(), &[of(1, 0)]);
    engine.run(5 * MS);
    // Nor has it beside one of another priority.
    engine.comes(of(3, -1));
    engine.run(5 * MS + MS / 2);
    engine.comes(of(2, 0));
    engine.run(6 * MS);
    assert_eq!(engine.taken, [(0, 1), (5 * MS + MS / 2, 2)]);
}
