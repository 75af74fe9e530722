//! The asymmetric barrier within a process, on the processors of the day. A program of its own, because a process asks for it once.

mod race;

use std::time::Duration;

use race::{BYTES, lost, pin, run, two_of};
use shared_words::across::Processors;
use shared_words::{Barrier, FrequentBarrier, Memory, RareBarrier};

/// A processor on which the process slept when it asked for the barrier has to be in it, too. (By the barrier for all registered processes
/// alone it is not, until another program has run there: then this failed in half of its runs.)
// seed: N27
// spec: sync §3.9
#[test]
fn a_processor_that_slept_when_the_barrier_was_asked_for_is_in_it() {
    let Some((rare, frequent)) = Processors::all().and_then(|all| two_of(all.numbers())) else {
        println!("one processor, or not all of them");
        return;
    };
    let memory = Memory::reserve(BYTES).expect("memory");
    pin(frequent);
    std::thread::sleep(Duration::from_millis(1));
    pin(rare);
    RareBarrier::full();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(frequent);
            run(&memory, 0, 1, FrequentBarrier::full);
        });
        run(&memory, 1, 1, RareBarrier::full);
    });
    assert_eq!(lost(&memory), 0, "rounds in which neither found the other's store");
}
