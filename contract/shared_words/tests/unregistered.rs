//! An operating system without a barrier for processes: each side puts the processor's own. A program of its own, because a process
//! asks once.

mod race;
mod supervised;

use race::{BYTES, lost, pin, run, two_of};
use rustix::thread::{CpuSet, sched_getaffinity};
use shared_words::across::{FrequentAcross, Processors, register};
use shared_words::{Barrier, FrequentBarrier, HardwareBarrier, Memory, RareBarrier};

/// Commands of `membarrier` that register a process (linux/membarrier.h).
const REGISTER_GLOBAL_EXPEDITED: u64 = 4;
const REGISTER_PRIVATE_EXPEDITED: u64 = 16;

// spec: sync §3.9
#[test]
fn without_the_operating_systems_barrier_both_sides_put_the_processors_own() {
    let mut asked = Vec::new();
    let refuse = |arguments: [u64; 6]| {
        asked.push(arguments[0]);
        Some(-i64::from(libc::ENOSYS))
    };
    let puts = || {
        for _ in 0..2 {
            FrequentBarrier::full();
            RareBarrier::full();
            FrequentAcross::full();
            RareBarrier::full();
        }
        register()
    };
    let registered = supervised::supervised(libc::SYS_membarrier, refuse, puts);
    assert!(!registered.expect("no barrier is asked for that was refused"));
    assert_eq!(asked, [REGISTER_PRIVATE_EXPEDITED, REGISTER_GLOBAL_EXPEDITED], "once each");
    assert_eq!(Processors::all(), None, "no process elsewhere may leave its barrier out");

    let ours = sched_getaffinity(None).expect("a set of processors");
    let ours: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| ours.is_set(*number)).collect();
    let Some((rare, frequent)) = two_of(&ours) else {
        println!("one processor: no race");
        return;
    };
    for (pair, sides) in [
        ("both", [HardwareBarrier::full as fn(), HardwareBarrier::full]),
        ("one process", [FrequentBarrier::full, RareBarrier::full]),
        ("two processes", [FrequentAcross::full, RareBarrier::full]),
    ] {
        let memory = Memory::reserve(BYTES).expect("memory");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(frequent);
                run(&memory, 0, 1, sides[0]);
            });
            pin(rare);
            run(&memory, 1, 1, sides[1]);
        });
        assert_eq!(lost(&memory), 0, "{pair}: rounds in which neither found the other's store");
    }
}
