//! Drivers that break their contract: the kernel answers, and neither panics nor hangs nor forgets anybody.

#[test]
fn a_lying_driver_is_contained() {
    // spec: memory §1.13, memory §3.2, memory §9.2
    let report = fuzz::run_lies(1, 60).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.lies.len() > 15, "many kinds of lies were told: {report}");
    assert!(report.stopped > 5 && report.calls > 5_000, "some adapters stop, most go on: {report}");
}

/// Every sixteenth world looks for engines that hang, and its driver now and then does not report preemptions.
#[test]
fn who_lies_about_resets_is_contained() {
    // spec: sync §4.4
    let (mut told, mut worlds) = (std::collections::BTreeSet::new(), 0);
    let mut seeds = (5..16 * 80).step_by(16);
    while worlds < 16 || !["Silence", "Groups", "Resets"].iter().all(|lie| told.contains(*lie)) {
        let seed = seeds.next().unwrap_or_else(|| panic!("they lied of nothing but {told:?}"));
        let report = fuzz::run_lies(seed, 1).unwrap_or_else(|failure| panic!("{failure}"));
        told.extend(report.lies.into_keys());
        worlds += 1;
    }
}

#[test]
fn what_a_driver_says_of_its_tables_counts_once() {
    // World 36: asked again when a context is created, the driver names another width of the root's index. It once shifted
    // a number out of its bits.
    fuzz::run_lies(36, 1).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_context_that_could_not_be_stopped_when_it_came_is_gone() {
    // Its device is suspended, so a new context is to be stopped, and the driver refuses that: the call was refused, and the
    // context stayed without a handle.
    fuzz::run_lies(1_799_107_004, 1).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_turn_ends_while_a_refusal_of_paging_is_not_judged() {
    // The driver refuses a paging buffer, and more paging is to be built into buffers that are free: the wait for one was over at once, and
    // began again.
    for seed in [5005, 6027, 8039] {
        fuzz::run_lies(seed, 1).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// A driver that makes an allocation smaller than it was asked for: its user-mode driver says so, and does not look beyond it.
#[test]
fn a_surface_that_is_too_small_is_an_error() {
    fuzz::run_lies(8_816, 1).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Every fourth world makes private calls, and its driver answers what was not asked, or refuses what it has answered.
#[test]
fn who_lies_in_private_calls_is_contained() {
    let (mut calls, mut told) = ([0, 0], 0);
    for seed in (3..4 * 24).step_by(4) {
        let report = fuzz::run_lies(seed, 1).unwrap_or_else(|failure| panic!("{failure}"));
        let [answered, refused] = report.by_call.get("Escape").copied().unwrap_or_default();
        calls = [calls[0] + answered, calls[1] + refused];
        told += report.lies.get("Escapes").copied().unwrap_or_default();
    }
    assert!(calls[0] > 50 && calls[1] > 50 && told > 4, "{calls:?} private calls answered and refused, {told} lies");
}

/// The driver stops its adapter while a queued work is to write entries of the paging process: the ring forgets that with its works.
#[test]
fn an_adapter_that_stops_writes_no_entries_of_its_own() {
    fuzz::run_lies(36_104_400_005, 1).unwrap_or_else(|failure| panic!("{failure}"));
}
