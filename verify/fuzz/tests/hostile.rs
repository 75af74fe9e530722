//! Some worlds of hostile calls hold, and a seed is one world.

#[test]
fn nothing_hostile_breaks_the_kernel() {
    // spec: memory §9.3
    let report = fuzz::run(1, 16_000).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.refused > 1000 && report.compared > 500 && report.rounds > 100 && report.sleeps > 3, "{report}");
    // Calls that are never answered well would prove nothing about what stands behind them.
    let calls = ["CreateAllocation", "MakeResident", "Evict", "Lock2", "MapGpuVirtualAddress", "DestroyAllocation"];
    let offers = ["OfferAllocations", "ReclaimAllocations", "ReclaimAllocations2"];
    for call in calls.into_iter().chain(["Lock", "Render", "Present", "Escape"]).chain(offers) {
        let [answered, refused] = report.by_call[call];
        assert!(answered > 10 && refused > 10, "{call}: {answered} answered, {refused} refused");
    }
    let questions = ["GetSharedPrimaryHandle", "CheckSharedResourceAccess", "QueryProcessOfferInfo"];
    for call in questions.into_iter().chain(["GetNativeFenceLogDetail", "SetStablePowerState"]) {
        let [answered, refused] = report.by_call.get(call).copied().unwrap_or_default();
        assert!(answered > 0 && refused > 0, "{call}: {answered} answered, {refused} refused");
    }
}

#[test]
fn a_seed_is_one_world() {
    assert_eq!(fuzz::run_world(7), fuzz::run_world(7));
    assert_ne!(fuzz::run_world(7), fuzz::run_world(8));
}

/// A buffer that waited for its device's turn is refused when that comes: the turn is no change by the refusal.
#[test]
fn a_turn_is_no_change_by_who_waited_for_it() {
    // spec: memory §8.6
    let report = fuzz::run_world(1_795_402_730).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.by_call["Present"][1] > 0, "{report}");
}

/// The driver has no range for a lock, and the lock may not evict: what lies there is as clean as it was.
#[test]
fn a_lock_without_a_range_changes_nothing() {
    // spec: memory §6.5
    fuzz::run_world(1_799_121_034).unwrap_or_else(|failure| panic!("{failure}"));
}

/// A device ends while its adapter sleeps, and its words move when the adapter wakes; a fence of its packets ends when the ring has passed that move.
#[test]
fn a_move_says_nothing_of_words_whose_device_has_gone() {
    // spec: memory §1.10, memory §3.4 operation 18, sync §1.5
    let report = fuzz::run_world(4_331).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.sleeps > 0, "{report}");
}

/// Lock2 locks content that an earlier lock saw through a swizzling range: the range is in use again.
#[test]
fn lock2_of_what_a_range_shows_holds_the_range() {
    // spec: memory §6.3, memory §6.5
    fuzz::run(987_600_088, 600).unwrap_or_else(|failure| panic!("{failure}"));
}

/// What a client has locked in system memory may come to lie in video memory, and counts there then.
#[test]
fn segments_of_what_is_locked_change_what_is_counted() {
    // spec: memory §2.8, memory §6.3
    fuzz::run(413_000_012, 600).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Work that would take centuries holds an engine, and another device's turn is looked for every 20 ms: the kernel still asks the work to
/// leave before virtual time stands still.
#[test]
fn time_does_not_stand_still_while_the_kernel_looks_for_work_that_hangs() {
    // spec: sync §4.4
    fuzz::run_world(36_079_500_009).unwrap_or_else(|failure| panic!("{failure}"));
}

/// A device has offered content that its queued work uses, and others wait for other content of that work: the device gives way.
#[test]
fn offered_content_in_use_holds_no_bystander() {
    // spec: memory §5.9, memory §10.1
    fuzz::run_world(36_114_200_009).unwrap_or_else(|failure| panic!("{failure}"));
}

/// A packet without end uses content that the ring's work takes, and leaves its engine whenever the kernel looks for hangs.
#[test]
fn work_without_end_holds_no_bystander() {
    // spec: memory §8.6, memory §10.1
    fuzz::run_world(37_100_000_003).unwrap_or_else(|failure| panic!("{failure}"));
}

/// A Render that its driver refuses has waited for its device's turn, the first of its adapter: that makes the fence of suspensions.
#[test]
fn the_first_turn_of_an_adapter_is_no_change_by_a_refused_buffer() {
    // spec: memory §7.1, memory §8.6
    fuzz::run_world(37_205_200_033).unwrap_or_else(|failure| panic!("{failure}"));
}
