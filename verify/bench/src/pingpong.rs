//! The limits of the machine: how long one cache line takes from one processor to the other, and how long the operating
//! system takes to wake a sleeper there. Everything runs in threads of its own, pinned; the caller is not pinned. Called by
//! the machine line and by [`crate::hop`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::futex;

use crate::machine::pin_here;
use crate::statistic::median;

/// How long the sleeper is left alone before it is woken: long enough that its processor has gone idle.
const ASLEEP_FOR: Duration = Duration::from_micros(200);

#[repr(align(128))]
struct Line(AtomicU64);

/// One-way time of a cache line that two threads hand to and fro, in nanoseconds: median of `batches` of `rounds` round
/// trips. There is no pause between two looks: it is the limit.
pub(crate) fn line_one_way_ns(pair: [usize; 2], batches: usize, rounds: u64) -> f64 {
    let line = Line(AtomicU64::new(0));
    // Two batches more than wanted: the first are the warm-up.
    let total = (batches as u64 + 2) * rounds;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_here(pair[1]);
            for round in 0..total {
                while line.0.load(Ordering::Acquire) != 2 * round + 1 {}
                line.0.store(2 * round + 2, Ordering::Release);
            }
        });
        let measuring = scope.spawn(|| {
            pin_here(pair[0]);
            let mut times = Vec::with_capacity(batches + 2);
            for batch in 0..batches as u64 + 2 {
                let started = Instant::now();
                for round in batch * rounds..(batch + 1) * rounds {
                    line.0.store(2 * round + 1, Ordering::Release);
                    while line.0.load(Ordering::Acquire) != 2 * round + 2 {}
                }
                times.push(started.elapsed().as_nanos() as f64 / (2 * rounds) as f64);
            }
            median(times.split_off(2))
        });
        measuring.join().expect("the measuring thread does not panic")
    })
}

/// The same by an eventfd: from the write to the return of the read.
pub(crate) fn eventfd_wake_ns(pair: [usize; 2], rounds: u32) -> f64 {
    let Ok(event) = eventfd(0, EventfdFlags::empty()) else { return f64::NAN };
    let stamp = AtomicU64::new(0);
    let epoch = Instant::now();
    // CAST: a run is shorter than 584 years.
    let now = || epoch.elapsed().as_nanos() as u64;
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            pin_here(pair[1]);
            let mut times = Vec::with_capacity(rounds as usize);
            for _ in 0..rounds {
                let mut count = [0; 8];
                if rustix::io::read(&event, &mut count).is_ok() {
                    times.push(now().saturating_sub(stamp.load(Ordering::Acquire)) as f64);
                }
            }
            median(times)
        });
        scope.spawn(|| {
            pin_here(pair[0]);
            for _ in 0..rounds {
                let asleep_since = Instant::now();
                while asleep_since.elapsed() < ASLEEP_FOR {}
                stamp.store(now(), Ordering::Release);
                let _ = rustix::io::write(&event, &1u64.to_ne_bytes());
            }
        });
        sleeper.join().expect("the sleeper does not panic")
    })
}

/// From the call that wakes a sleeper on the other processor until it runs, in nanoseconds: the median. The sleeper has
/// been asleep for a while, so that its processor has halted, if it halts at all.
pub(crate) fn futex_wake_ns(pair: [usize; 2], rounds: u32) -> f64 {
    let (word, stamp) = (AtomicU32::new(0), AtomicU64::new(0));
    let epoch = Instant::now();
    // CAST: a run is shorter than 584 years.
    let now = || epoch.elapsed().as_nanos() as u64;
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            pin_here(pair[1]);
            let mut times = Vec::with_capacity(rounds as usize);
            for round in 0..rounds {
                while word.load(Ordering::Acquire) == round {
                    let _ = futex::wait(&word, futex::Flags::PRIVATE, round, None);
                }
                times.push(now().saturating_sub(stamp.load(Ordering::Acquire)) as f64);
            }
            median(times)
        });
        scope.spawn(|| {
            pin_here(pair[0]);
            for round in 0..rounds {
                let asleep_since = Instant::now();
                while asleep_since.elapsed() < ASLEEP_FOR {}
                stamp.store(now(), Ordering::Release);
                word.store(round + 1, Ordering::Release);
                let _ = futex::wake(&word, futex::Flags::PRIVATE, 1);
            }
        });
        sleeper.join().expect("the sleeper does not panic")
    })
}
