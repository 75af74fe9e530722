//! Holders that the rule did not name.

use super::*;

#[test]
fn a_context_that_took_the_engine_unasked_has_its_turn() {
    let both = [contender(1, Band::Normal, 1), contender(2, Band::Normal, 2)];
    let mut time = EngineTime::new(without_grace());
    assert_eq!(time.ask(0, None, &both).who, Who::Takes(1));
    let keeps = Verdict { who: Who::KeepsIt, again_ns: Some(2 * MS) };
    assert_eq!(time.ask(0, Some(both[1]), &both), keeps, "the engine has begun with 2 already");
    // The same between contexts of one process.
    let both = [contender(1, Band::Normal, 1), contender(2, Band::Normal, 1)];
    let mut time = EngineTime::new(without_grace());
    assert_eq!(time.ask(0, None, &both).who, Who::Takes(1));
    assert_eq!(time.ask(0, Some(both[1]), &both), Verdict { who: Who::KeepsIt, again_ns: Some(MS) });
}

#[test]
fn a_holder_that_changes_without_a_question_is_charged_from_then_on() {
    let both = [contender(1, Band::Normal, 1), contender(2, Band::Normal, 2)];
    let mut time = EngineTime::new(without_grace());
    assert_eq!(time.ask(0, None, &both).who, Who::Takes(1));
    time.passes(MS, Some(both[1]));
    time.passes(9 * MS, None);
    // 1 has had 1, 2 has had 8.
    assert_eq!(time.ask(9 * MS, None, &both).who, Who::Takes(1));
}
