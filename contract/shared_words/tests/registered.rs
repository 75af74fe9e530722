//! The requests for a barrier that the rare side makes where the operating system has one, in their order: one that it leaves out is a
//! processor that it does not reach. A program of its own, because a process registers once.

mod supervised;

use shared_words::across::{FrequentAcross, register};
use shared_words::{Barrier, FrequentBarrier, RareBarrier};

/// Commands of `membarrier` (linux/membarrier.h).
const GLOBAL_EXPEDITED: u64 = 2;
const REGISTER_GLOBAL_EXPEDITED: u64 = 4;
const PRIVATE_EXPEDITED: u64 = 8;
const REGISTER_PRIVATE_EXPEDITED: u64 = 16;

fn asked(body: impl FnOnce() + Send) -> Vec<u64> {
    let mut asked = Vec::new();
    let note = |arguments: [u64; 6]| {
        asked.push(arguments[0]);
        None
    };
    supervised::supervised(libc::SYS_membarrier, note, body).expect("no panic");
    asked
}

// spec: sync §3.9
#[test]
fn the_rare_side_asks_for_every_barrier_and_the_frequent_side_for_none() {
    assert_eq!(asked(RareBarrier::full), [REGISTER_PRIVATE_EXPEDITED, PRIVATE_EXPEDITED], "it is registered first");
    assert_eq!(asked(RareBarrier::full), [PRIVATE_EXPEDITED], "once");
    assert_eq!(asked(FrequentBarrier::full), []);
    assert_eq!(asked(|| assert!(register())), [REGISTER_GLOBAL_EXPEDITED]);
    assert_eq!(asked(FrequentAcross::full), []);
    assert_eq!(asked(RareBarrier::full), [PRIVATE_EXPEDITED, GLOBAL_EXPEDITED], "others may be registered, too");
}
