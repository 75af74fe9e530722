//! Each checker is seen to fail: something is broken on purpose, and some of the first seeds must notice.

use sim::{Sabotage, Violation, run_holders_sabotaged, run_sabotaged};

/// Worlds that are tried until one notices.
const SEEDS: u64 = 120;

/// The first of the worlds in which tables are converted, entries copied, content relocated.
const KINDS_FROM: u64 = 1000;

/// The first of the worlds whose memory moves in other ways.
const WAYS_FROM: u64 = 4000;

/// The first of those in which doorbells are taken away.
const DOORBELLS_FROM: u64 = 6500;

/// The first of the worlds that live by packets.
const PACKETS_FROM: u64 = 2000;

/// The first of the worlds of holders.
const HOLDERS_FROM: u64 = 10_000_000_000;

/// The first of those in which a node has several packets of a context when they are taken back.
const BROUGHT_BACK_FROM: u64 = 2030;

fn assert_found_by(sabotage: Sabotage, checkers: &[&str]) {
    assert_found_from(1, sabotage, checkers);
}

fn assert_found_from(first: u64, sabotage: Sabotage, checkers: &[&str]) {
    let mut others: Vec<Violation> = Vec::new();
    for seed in first..first + SEEDS {
        let Err(violation) = run_sabotaged(seed, sabotage) else { continue };
        if checkers.contains(&violation.checker) {
            return;
        }
        others.push(*violation);
    }
    assert!(!others.is_empty(), "{sabotage:?} goes unnoticed in {SEEDS} worlds");
    panic!("{sabotage:?} is noticed, but not by {checkers:?}: {others:#?}");
}

#[test]
fn lost_interrupts_are_noticed() {
    // spec: sync §3.10
    assert_found_by(Sabotage::LostInterrupts, &["fences", "liveness"]);
}

#[test]
fn monitored_values_that_are_not_stored_are_noticed() {
    // spec: sync §3.9
    assert_found_by(Sabotage::DriverIgnoresMonitored, &["fences"]);
}

#[test]
fn a_doorbell_that_is_taken_silently_is_noticed() {
    // spec: sync §3.17, sync §3.19
    assert_found_from(DOORBELLS_FROM, Sabotage::DriverTakesSilently, &["liveness", "content", "residency"]);
}

#[test]
fn a_tlb_that_is_not_flushed_is_noticed_by_who_runs_through_it() {
    // spec: memory §3.4
    // This device's TLB serves rings and fence words; bulk commands walk the tables. So it is rings that go wrong.
    assert_found_by(Sabotage::DriverSkipsFlush, &["content", "residency", "liveness"]);
}

#[test]
fn content_that_is_not_copied_out_is_noticed() {
    // spec: memory §8.3
    assert_found_by(Sabotage::DriverSkipsPageOut, &["content"]);
}

#[test]
fn content_that_is_not_copied_out_by_address_is_noticed() {
    // spec: memory §3.3, operation 8
    assert_found_from(WAYS_FROM, Sabotage::DriverSkipsPageOut, &["content"]);
}

#[test]
fn memory_that_is_not_cleared_is_noticed() {
    // spec: memory §3.3
    assert_found_by(Sabotage::DriverSkipsFill, &["content"]);
}

#[test]
fn a_kernel_that_does_not_flush_is_noticed_by_frames() {
    // spec: memory §8.3
    assert_found_by(Sabotage::KernelSkipsFlush, &["frames"]);
}

#[test]
fn a_kernel_that_leaves_entries_valid_is_noticed_by_frames() {
    // spec: memory §8.3
    assert_found_by(Sabotage::KernelSkipsInvalidation, &["frames"]);
}

#[test]
fn a_conversion_without_a_flush_is_noticed_by_frames() {
    // spec: memory §4.5
    assert_found_from(KINDS_FROM, Sabotage::KernelSkipsConversionFlush, &["frames"]);
}

#[test]
fn a_process_that_runs_on_while_its_tables_are_converted_is_noticed_by_frames() {
    // spec: memory §4.2, memory §4.5
    assert_found_from(KINDS_FROM, Sabotage::KernelRunsOn, &["frames"]);
}

#[test]
fn entries_that_are_not_copied_are_noticed_by_who_uses_them() {
    // spec: memory §3.4, operation 14
    assert_found_from(KINDS_FROM, Sabotage::DriverSkipsCopy, &["content", "residency", "liveness"]);
}

#[test]
fn copied_entries_that_stay_valid_are_noticed_by_frames() {
    // spec: memory §3.4, operation 14, memory §8.3
    assert_found_from(KINDS_FROM, Sabotage::KernelSkipsCopiedInvalidation, &["frames"]);
}

#[test]
fn content_that_is_not_relocated_is_noticed() {
    // spec: memory §8.2
    assert_found_from(KINDS_FROM, Sabotage::DriverSkipsRelocation, &["content"]);
}

#[test]
fn packets_that_run_twice_are_noticed() {
    // spec: memory §7.4, sync §4.3
    assert_found_from(PACKETS_FROM, Sabotage::DriverForgetsCompletion, &["packets"]);
}

#[test]
fn paging_buffers_with_another_id_are_noticed() {
    // spec: memory §7.4, sync §4.3
    assert_found_from(PACKETS_FROM, Sabotage::KernelChangesPagingId, &["packets"]);
}

#[test]
fn packets_that_do_not_say_that_they_come_again_are_noticed() {
    // spec: memory §7.4
    assert_found_from(PACKETS_FROM, Sabotage::KernelForgetsResubmission, &["packets"]);
}

#[test]
fn packets_in_another_order_are_noticed() {
    // spec: memory §7.4, sync §4.1
    assert_found_from(BROUGHT_BACK_FROM, Sabotage::KernelSwapsPackets, &["packets"]);
}

/// A driver that does not look at other adapters' signals leaves work undone that nothing holds any more.
#[test]
fn work_of_holders_that_nothing_holds_and_that_is_not_done_is_noticed() {
    let undone = |seed| {
        run_holders_sabotaged(seed, Sabotage::DriverForgetsNews)
            .is_err_and(|broken| broken.checker == "liveness" && broken.to_string().contains("nothing holds it"))
    };
    assert!((HOLDERS_FROM..HOLDERS_FROM + SEEDS).any(undone), "none of {SEEDS} worlds says that work is not done");
}
