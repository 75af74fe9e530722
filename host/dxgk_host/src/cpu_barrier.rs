//! Runs this program once on every processor of the machine, on request: so the rare side's barrier holds for a process elsewhere
//! ([`shared_words::across`]). The host calls it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shared_words::across::Processors;

/// How long a pass over all processors may take. They may have other things to do.
const PATIENCE: Duration = Duration::from_millis(100);
/// Bytes of the stack of a thread that does nothing.
const STACK_BYTES: usize = 64 << 10;

/// A thread of this process on each processor, which sleeps. Dropped, they end.
#[derive(Debug)]
pub(crate) struct CpuBarrier {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<BarrierPasses>,
    /// A pass was asked for, or it is over.
    asked: Condvar,
    /// All threads know of the last pass.
    passed: Condvar,
}

#[derive(Debug)]
struct BarrierPasses {
    /// Passes that were asked for.
    asked: u64,
    /// How many of them each thread knows of.
    known: Vec<u64>,
    over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, BarrierPasses> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs on one processor each time that it is asked.
    fn run(&self, nth: usize) {
        let mut state = self.state();
        while !state.over {
            if state.known[nth] < state.asked {
                state.known[nth] = state.asked;
                if state.known.iter().all(|known| *known == state.asked) {
                    self.passed.notify_all();
                }
            }
            state = self.asked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl CpuBarrier {
    /// Starts the threads. `None`: not every processor has one.
    pub fn start(processors: &Processors) -> Option<CpuBarrier> {
        let state = BarrierPasses { asked: 0, known: vec![0; processors.numbers().len()], over: false };
        let (asked, passed) = Default::default();
        let cpu_barrier = CpuBarrier { shared: Arc::new(Shared { state: Mutex::new(state), asked, passed }) };
        for (nth, number) in processors.numbers().iter().copied().enumerate() {
            let (shared, (says, pinned)) = (Arc::clone(&cpu_barrier.shared), std::sync::mpsc::channel());
            let run = move || {
                let pinned = Processors::go_to(number);
                // The starting thread waits for this.
                let _ = says.send(pinned);
                if pinned {
                    shared.run(nth);
                }
            };
            let name = format!("processor {number}");
            std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(run).ok()?;
            pinned.recv().ok().filter(|pinned| *pinned)?;
        }
        Some(cpu_barrier)
    }

    /// Has this process run on every processor. Afterwards [`shared_words::RareBarrier`] of this process holds for every process that
    /// was registered before. False: not all had time for it, and it does not.
    pub fn pass(&self) -> bool {
        let mut state = self.shared.state();
        state.asked += 1;
        let asked = state.asked;
        self.shared.asked.notify_all();
        let waits = |state: &mut BarrierPasses| state.known.iter().any(|known| *known < asked);
        let passed = self.shared.passed.wait_timeout_while(state, PATIENCE, waits);
        let (_state, over) = passed.unwrap_or_else(PoisonError::into_inner);
        !over.timed_out()
    }
}

impl Drop for CpuBarrier {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.asked.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_over_when_every_thread_has_run_and_they_end_with_their_owner() {
        let Some(cpu_barrier) = Processors::all().as_ref().and_then(CpuBarrier::start) else {
            println!("there is no barrier for other processes here");
            return;
        };
        std::thread::scope(|scope| {
            let passes = || (0..100).filter(|_| cpu_barrier.pass()).count();
            let all = [scope.spawn(passes), scope.spawn(passes)].map(|passes| passes.join().expect("no panic"));
            assert!(all.iter().all(|passed| *passed > 0), "{all:?}");
        });
        let shared = Arc::downgrade(&cpu_barrier.shared);
        drop(cpu_barrier);
        while shared.strong_count() > 0 {
            std::thread::yield_now();
        }
    }
}
