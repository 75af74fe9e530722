//! The asymmetric barrier between processes: [`crate::asymmetric`] has the law of both halves, here the frequent side is another process
//! than the rare one's.
//!
//! # The law of this boundary
//! Linux keeps a note for each processor whether the process that runs there is registered, and the rare side interrupts those of which it is
//! noted. A processor on which a thread of the process fell asleep before it was registered keeps its old note until something other than that
//! process has run there (seen with 6.18). So a frequent side may leave its barrier out when
//! - its process is registered ([`register`]), and
//! - since then the rare side's process has run on every processor that there is ([`Processors::go_to`]), and has said so.
//!
//! Else it puts [`HardwareBarrier`], which always goes with [`RareBarrier`](crate::RareBarrier). The rare side does not know a processor
//! that is added while it runs; a thread that ran there before the processor was last taken away has left no note.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use rustix::thread::{CpuSet, MembarrierCommand, membarrier, sched_getaffinity, sched_setaffinity};

use crate::word::{Barrier, HardwareBarrier};

static REGISTERED: OnceLock<bool> = OnceLock::new();

/// Has the operating system note this process, once. Whether it has: the answer is the same for the process's life.
pub fn register() -> bool {
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// The frequent side's, for the compiler alone: by the law of this file.
pub struct FrequentAcross;

impl Barrier for FrequentAcross {
    #[inline]
    fn full() {
        if register() {
            compiler_fence(Ordering::SeqCst);
        } else {
            HardwareBarrier::full();
        }
    }
}

/// The rare side's part for other processes, if this one is registered: then there may be such.
pub(crate) fn for_all_registered() {
    if REGISTERED.get() == Some(&true) {
        // PANIC: the operating system refuses the barrier for the same reasons as the registration, which it did not refuse.
        membarrier(MembarrierCommand::GlobalExpedited).expect("an operating system with this barrier");
    }
}

/// All processors of this machine, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processors(Vec<usize>);

impl Processors {
    /// Those of this machine, if this thread may run on each of them and there is the barrier: this process is registered, which takes the operating
    /// system milliseconds once the process has several threads. They are read from a file of the operating system.
    pub fn all() -> Option<Processors> {
        if !register() {
            return None;
        }
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
        let all = numbers(online.trim())?;
        let ours = sched_getaffinity(None).ok()?;
        all.iter().all(|number| ours.is_set(*number)).then_some(Processors(all))
    }

    /// Their numbers.
    pub fn numbers(&self) -> &[usize] {
        &self.0
    }

    /// This thread runs on one of them from now on. False: the operating system does not let it.
    pub fn go_to(number: usize) -> bool {
        let mut only = CpuSet::new();
        only.set(number);
        sched_setaffinity(None, &only).is_ok()
    }
}

/// Numbers and ranges of them, with commas between.
fn numbers(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= CpuSet::MAX_CPU {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_as_the_operating_system_writes_them() {
        assert_eq!(numbers("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(numbers("0"), Some(vec![0]));
        for wrong in ["", "-", "2-1", "0-", "0,x", "0-99999999"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }

    /// The processors that run, as another list of the operating system has them.
    fn running() -> Vec<usize> {
        let list = std::fs::read_to_string("/proc/cpuinfo").expect("a list of processors");
        let number =
            |line: &str| line.strip_prefix("processor")?.trim_start_matches([' ', '\t', ':']).trim().parse().ok();
        list.lines().filter_map(number).collect()
    }

    #[test]
    fn a_thread_that_may_run_everywhere_is_told_all_processors_and_no_other_thread_is() {
        let set = sched_getaffinity(None).expect("a set of processors");
        let ours: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).collect();
        let all = || Processors::all().map(|all| all.numbers().to_vec());
        assert_eq!(all(), (ours == running()).then_some(ours.clone()));
        std::thread::scope(|scope| {
            let goes = scope.spawn(|| {
                for &number in &ours {
                    assert!(Processors::go_to(number));
                    assert_eq!(rustix::thread::sched_getcpu(), number, "it runs there");
                    assert_eq!(all(), (running() == [number]).then_some(vec![number]), "it may run on one");
                }
                assert!(!Processors::go_to(CpuSet::MAX_CPU - 1), "no machine of the tests has so many");
            });
            goes.join().expect("no panic");
        });
    }
}
