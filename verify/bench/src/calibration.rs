//! The calibration of a run: four figures of the machine, taken before all measures, by which reports of two days or two machines are told
//! apart. Called by `machine`.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use shared_words::{Barrier, HardwareBarrier, Word};

use crate::machine::pin_here;
use crate::pingpong::line_one_way_ns;
use crate::statistic::median;

const BATCHES: usize = 31;
const ROUNDS: u32 = 2_000;
/// Larger than the caches.
const COPY_BYTES: usize = 64 << 20;
const COPIES: usize = 7;

/// What the machine does in the least time, at the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// A cache line, one way between the two processors, in nanoseconds.
    pub line_ns: f64,
    /// A system call that does nothing, in nanoseconds.
    pub null_call_ns: f64,
    /// A store, a full barrier and a load of lines that no other processor touches, in nanoseconds.
    pub barrier_ns: f64,
    /// Bytes that one processor copies in a nanosecond, of 64 MiB.
    pub copy_bytes_per_ns: f64,
}

impl Calibration {
    /// Takes the figures, pinned to the pair's first processor.
    pub(crate) fn take(pair: [usize; 2]) -> Calibration {
        let line_ns = line_one_way_ns(pair, 9, 5_000);
        let alone = || {
            pin_here(pair[0]);
            let (current, monitored) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
            let null_call_ns = least_ns(|| {
                black_box(rustix::thread::gettid());
            });
            let barrier_ns = least_ns(|| {
                Word::store(black_box(&current), 1);
                HardwareBarrier::full();
                black_box(Word::load(black_box(&monitored)));
            });
            Calibration { line_ns, null_call_ns, barrier_ns, copy_bytes_per_ns: copy_bytes_per_ns() }
        };
        std::thread::scope(|scope| scope.spawn(alone).join().expect("the measuring thread does not panic"))
    }
}

fn least_ns(mut act: impl FnMut()) -> f64 {
    let batch = |_| {
        let started = Instant::now();
        (0..ROUNDS).for_each(|_| act());
        started.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    };
    median((0..BATCHES).map(batch).collect())
}

fn copy_bytes_per_ns() -> f64 {
    let (from, mut to) = (vec![1u8; COPY_BYTES], vec![2u8; COPY_BYTES]);
    let copy = |_| {
        let started = Instant::now();
        black_box(&mut to).copy_from_slice(black_box(&from));
        COPY_BYTES as f64 / started.elapsed().as_nanos().max(1) as f64
    };
    median((0..COPIES).map(copy).collect())
}
