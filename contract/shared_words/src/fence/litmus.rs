//! Both races of sync §3.9 on this computer's processors, a bounded number of times: no wake-up is lost, however the threads run.
//! That the barriers are needed the bench shows, which counts what is lost without them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::{MONITORED_NONE, publish_monitored, signal, still_exceeds};
use crate::word::{Barrier, HardwareBarrier, Word};

const ROUNDS: u64 = 20_000;

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// The words that the two sides share. An engine signals two values a round; the kernel waits for the first and then for the second.
#[derive(Default)]
struct Shared {
    current: Line,
    monitored: Line,
    /// Interrupts of the engine so far.
    raised: Line,
    /// Rounds that each side has ended.
    ended: [Line; 2],
}

fn load(line: &Line) -> u64 {
    Word::load(&line.0)
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// The engine asks its shadow of MonitoredValue, and the context management processor where that says so; a second value follows the
/// first while the kernel is still at that.
#[test]
fn no_wake_up_is_lost_on_these_processors() {
    // spec: sync §3.9, sync §3.19
    // seed: N27, N28, N30, N31
    let shared = Shared::default();
    Word::store(&shared.monitored.0, MONITORED_NONE);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                until(|| load(&shared.ended[1]) >= round);
                for value in [2 * round + 1, 2 * round + 2] {
                    let asks = signal(HardwareBarrier::full, &shared.current.0, &shared.monitored.0, value, || ());
                    if asks && still_exceeds(&shared.monitored.0, value) {
                        shared.raised.0.fetch_add(1, Ordering::AcqRel);
                    }
                }
                Word::store(&shared.ended[0].0, round + 1);
            }
        });
        let mut heard = 0;
        for round in 0..ROUNDS {
            for wanted in [2 * round + 1, 2 * round + 2] {
                let told = publish_monitored(HardwareBarrier::full, &shared.current.0, &shared.monitored.0, wanted - 1);
                assert!(!told || load(&shared.current) >= wanted, "an update interrupts when the value has come");
                while load(&shared.current) < wanted {
                    // Asleep: only an interrupt wakes, and one must come. The end of the engine's round comes behind its last.
                    until(|| load(&shared.raised) > heard || load(&shared.ended[0]) > round);
                    let over = load(&shared.ended[0]) > round;
                    let now = load(&shared.raised);
                    assert!(now > heard || !over, "round {round}: the waiter for {wanted} sleeps for ever");
                    heard = now;
                }
            }
            let _ = publish_monitored(HardwareBarrier::full, &shared.current.0, &shared.monitored.0, MONITORED_NONE);
            Word::store(&shared.ended[1].0, round + 1);
        }
    });
    assert_eq!(load(&shared.current), 2 * ROUNDS);
}
