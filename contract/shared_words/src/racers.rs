//! Threads of tests that go on storing while the test replaces the pages under them. Every wait for them has a bound in looks, so a store
//! that is held for ever fails its test instead of keeping it. Only tests call this.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, yield_now};

/// How often a test looks before it says that its threads never will.
const LOOKS: u32 = 2_000_000;

/// Threads that repeat one step until they are told to stop; they are told so too when the test fails before.
pub(crate) struct Racers {
    stop: Arc<AtomicBool>,
    /// The steps that each thread has begun.
    begun: Arc<[AtomicU64]>,
    threads: Vec<JoinHandle<u64>>,
}

impl Racers {
    /// Starts so many threads. Each takes steps, which are told the thread's number and how many steps it has taken before. What a step
    /// refers to it owns a part of: a thread that sleeps in a store for ever outlives the test.
    pub fn start(count: u64, step: impl Fn(u64, u64) + Send + Sync + 'static) -> Racers {
        let (step, stop) = (Arc::new(step), Arc::new(AtomicBool::new(false)));
        let begun: Arc<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let thread = |number: u64| {
            let (step, stop, begun) = (Arc::clone(&step), Arc::clone(&stop), Arc::clone(&begun));
            std::thread::spawn(move || {
                let mut taken = 0;
                while !stop.load(Ordering::Relaxed) {
                    begun[number as usize].store(taken + 1, Ordering::Relaxed);
                    step(number, taken);
                    taken += 1;
                }
                taken
            })
        };
        let threads = (0..count).map(thread).collect();
        let racers = Racers { stop, begun, threads };
        racers.go_on();
        racers
    }

    /// Waits until each thread has ended the step that it is about, and another one.
    pub fn go_on(&self) {
        let before: Vec<u64> = self.begun.iter().map(|begun| begun.load(Ordering::Relaxed)).collect();
        let further = |(begun, before): (&AtomicU64, &u64)| begun.load(Ordering::Relaxed) > before + 1;
        look("a thread takes no step any more", || self.begun.iter().zip(&before).all(further));
    }

    /// Ends them. How many steps each has taken.
    pub fn stop(mut self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        look("a store is held that nothing lets go on", || self.threads.iter().all(JoinHandle::is_finished));
        std::mem::take(&mut self.threads).into_iter().map(|thread| thread.join().expect("a thread of ours")).collect()
    }
}

impl Drop for Racers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn look(else_said: &str, there: impl Fn() -> bool) {
    let came = (0..LOOKS).any(|_| {
        yield_now();
        there()
    });
    assert!(came, "{else_said}");
}
