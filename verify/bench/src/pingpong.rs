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

/// Words of a ring between two bare threads.
const RING_WORDS: usize = 1 << 15;

#[repr(align(128))]
struct Line(AtomicU64);

/// One-way time of a cache line that two threads hand to and fro, in nanoseconds: median of `batches` of `rounds` round
/// trips. There is no pause between two looks: it is the limit.
pub(crate) fn line_one_way_ns(pair: [usize; 2], batches: usize, rounds: u64) -> f64 {
    word_one_way_ns(pair, batches, rounds, &Line(AtomicU64::new(0)).0)
}

/// The same with the line of a word that is there already: how long a line takes is also a question of which line it is, because
/// each is at home in one slice of the shared cache. The word counts from 0.
pub(crate) fn word_one_way_ns(pair: [usize; 2], batches: usize, rounds: u64, word: &AtomicU64) -> f64 {
    word.store(0, Ordering::Release);
    // Two batches more than wanted: the first are the warm-up.
    let total = (batches as u64 + 2) * rounds;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_here(pair[1]);
            for round in 0..total {
                while word.load(Ordering::Acquire) != 2 * round + 1 {}
                word.store(2 * round + 2, Ordering::Release);
            }
        });
        let measuring = scope.spawn(|| {
            pin_here(pair[0]);
            let mut times = Vec::with_capacity(batches + 2);
            for batch in 0..batches as u64 + 2 {
                let started = Instant::now();
                for round in batch * rounds..(batch + 1) * rounds {
                    word.store(2 * round + 1, Ordering::Release);
                    while word.load(Ordering::Acquire) != 2 * round + 2 {}
                }
                times.push(started.elapsed().as_nanos() as f64 / (2 * rounds) as f64);
            }
            median(times.split_off(2))
        });
        measuring.join().expect("the measuring thread does not panic")
    })
}

/// One way between two threads that each have a line to write and one to look at, as two fences or a doorbell and an answer are, in
/// nanoseconds: half of there and back. The writer takes the line from the reader, and the reader fetches it again: more than a line that
/// changes hands. With `entry` the asking side writes three words of a ring first, and the other reads them.
pub(crate) fn answered_one_way_ns(pair: [usize; 2], rounds: u64, lines: [&AtomicU64; 2], entry: bool) -> f64 {
    const WORDS: usize = 3;
    let [bell, answer] = lines;
    lines.iter().for_each(|word| word.store(0, Ordering::Release));
    let ring: Vec<AtomicU64> = (0..if entry { RING_WORDS } else { 0 }).map(|_| AtomicU64::new(0)).collect();
    let words = |round: u64| {
        // CAST: far below 2^32.
        let first = round as usize * WORDS % (RING_WORDS - WORDS);
        ring.get(first..first + WORDS).unwrap_or_default()
    };
    let total = 2 * rounds;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_here(pair[1]);
            for round in 1..=total {
                while bell.load(Ordering::Acquire) != round {
                    std::hint::spin_loop();
                }
                let read = words(round).iter().all(|word| word.load(Ordering::Acquire) == round);
                assert!(read, "the entry was written before the bell");
                answer.store(round, Ordering::Release);
            }
        });
        let measuring = scope.spawn(|| {
            pin_here(pair[0]);
            let mut started = Instant::now();
            for round in 1..=total {
                if round == rounds + 1 {
                    // The rounds before were the warm-up.
                    started = Instant::now();
                }
                words(round).iter().for_each(|word| word.store(round, Ordering::Release));
                bell.store(round, Ordering::Release);
                while answer.load(Ordering::Acquire) != round {
                    std::hint::spin_loop();
                }
            }
            started.elapsed().as_nanos() as f64 / (2 * rounds) as f64
        });
        measuring.join().expect("the measuring thread does not panic")
    })
}

/// From the call that wakes a sleeper on the other processor until it runs, in nanoseconds: the median, by a futex. The sleeper
/// has been asleep for a while, so that its processor has halted, if it halts at all.
pub(crate) fn futex_wake_ns(pair: [usize; 2], rounds: u32) -> f64 {
    let word = AtomicU32::new(0);
    let sleep = |round| {
        while word.load(Ordering::Acquire) == round {
            let _ = futex::wait(&word, futex::Flags::PRIVATE, round, None);
        }
    };
    let wake = |round| {
        word.store(round + 1, Ordering::Release);
        let _ = futex::wake(&word, futex::Flags::PRIVATE, 1);
    };
    wake_ns(pair, rounds, sleep, wake)
}

/// The same by an eventfd: from the write to the return of the read. Not a number when the system has none.
pub(crate) fn eventfd_wake_ns(pair: [usize; 2], rounds: u32) -> f64 {
    let Ok(event) = eventfd(0, EventfdFlags::empty()) else { return f64::NAN };
    let sleep = |_| while rustix::io::read(&event, &mut [0u8; 8]) == Err(rustix::io::Errno::INTR) {};
    let wake = |_| {
        let _ = rustix::io::write(&event, &1u64.to_ne_bytes());
    };
    wake_ns(pair, rounds, sleep, wake)
}

/// Sends a thread to sleep and wakes it from another processor, round by round. A round begins when the sleeper has said that
/// it knows of the one before: a wake-up that came before the sleep would else be counted with it, and one would be missing at
/// the end.
pub(crate) fn wake_ns(pair: [usize; 2], rounds: u32, sleep: impl Fn(u32) + Sync, wake: impl Fn(u32) + Sync) -> f64 {
    let (known, stamp) = (AtomicU32::new(0), AtomicU64::new(0));
    let epoch = Instant::now();
    // CAST: a run is shorter than 584 years.
    let now = || epoch.elapsed().as_nanos() as u64;
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            pin_here(pair[1]);
            let mut times = Vec::with_capacity(rounds as usize);
            for round in 0..rounds {
                sleep(round);
                times.push(now().saturating_sub(stamp.load(Ordering::Acquire)) as f64);
                known.store(round + 1, Ordering::Release);
            }
            median(times)
        });
        scope.spawn(|| {
            pin_here(pair[0]);
            for round in 0..rounds {
                while known.load(Ordering::Acquire) != round {
                    std::hint::spin_loop();
                }
                let asleep_since = Instant::now();
                while asleep_since.elapsed() < ASLEEP_FOR {}
                stamp.store(now(), Ordering::Release);
                wake(round);
            }
        });
        sleeper.join().expect("the sleeper does not panic")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_sleeper_that_comes_late_is_waited_for() {
        // As an eventfd does, the flag merges two wake-ups if no sleeper took the first in between: the last sleep would never end.
        let (flag, begun) = (AtomicBool::new(false), AtomicU32::new(0));
        let sleep = |_| {
            if begun.fetch_add(1, Ordering::Relaxed) == 0 {
                std::thread::sleep(10 * ASLEEP_FOR);
            }
            while !flag.swap(false, Ordering::AcqRel) {
                std::thread::yield_now();
            }
        };
        let ns = wake_ns([0, 0], 5, sleep, |_| flag.store(true, Ordering::Release));
        assert!(ns >= 0.0 && begun.into_inner() == 5);
    }
}
