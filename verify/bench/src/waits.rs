//! Waits that sleep: from the signal of a thread, and from that of an engine, to the return of a call that waits, against a futex wake of the
//! same processors. Called by the suite and by `fences`.
//!
//! An engine writes down the device's time before it signals, and the thread reads that clock when it knows.

use std::sync::atomic::{AtomicU32, Ordering};

use d3dkmt::{Fence, NativeFenceRequest};
use softgpu_spec::register;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind};

use crate::fences::{COMPUTE, SETTLE, World};
use crate::pingpong::{futex_wake_ns, wake_ns};
use crate::report::{BenchError, Goal, Row};
use crate::statistic::{median, median_ratio};

/// At most this many times a futex wake, when a thread signals: the kernel runs on the thread that calls it.
const FROM_THREAD_GOAL: f64 = 1.15;
/// The same when an engine signals: one hop more.
const FROM_ENGINE_GOAL: f64 = 1.3;
const PROFILE: &str = "discrete-4k";

/// Both rows, `wakes` wake-ups of each side in as many rounds as `batches` says.
pub(crate) fn rows(pair: [usize; 2], batches: usize, wakes: u32) -> Result<Vec<Row>, BenchError> {
    // CAST: some dozen.
    let each = wakes.div_ceil(batches as u32).max(1);
    let (from_thread, mut from_engine) = (FromThread::start()?, FromEngine::start()?);
    let (mut threads, mut engines, mut futexes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..batches {
        futexes.push(futex_wake_ns(pair, each));
        threads.push(from_thread.ns(pair, each)?);
        engines.push(median(from_engine.batch(Waiter::Sleeps, u64::from(each))?.0));
    }
    let row = |measure: &str, ours: &Vec<f64>, goal| Row {
        measure: measure.into(),
        ours: format!("{:.1} us", median(ours.clone()) / 1000.0),
        peer: format!("futex wake {:.1} us", median(futexes.clone()) / 1000.0),
        ratio: Some(median_ratio(ours, &futexes)),
        goal: Goal::AtMost(goal),
    };
    Ok(vec![
        row("CPU wait that sleeps, signalled by a thread", &threads, FROM_THREAD_GOAL),
        row("CPU wait that sleeps, signalled by an engine", &engines, FROM_ENGINE_GOAL),
    ])
}

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// It looks at the word.
    Polls,
    /// It sleeps in WaitForSynchronizationObjectFromCpu.
    Sleeps,
}

/// A fence that an engine signals when a gate is opened.
pub(crate) struct FromEngine {
    stream: Stream,
    stamp: Surface,
    gate: Fence,
    fence: Fence,
    value: u64,
    gpu: Gpu,
    world: World,
}

impl FromEngine {
    pub fn start() -> Result<FromEngine, BenchError> {
        let world = World::start(&[PROFILE])?;
        let gpu = world.gpu(0)?;
        let native = || gpu.device().create_native_fence(NativeFenceRequest::default());
        let (gate, fence) = (native()?, native()?);
        let stamp = gpu.create_lockable_surface(SurfaceKind::System, 4096, false)?;
        gpu.pin(&stamp)?;
        let stream = Stream::create(&gpu, COMPUTE, StreamConfig::default())?;
        Ok(FromEngine { stream, stamp, gate, fence, value: 0, gpu, world })
    }

    /// Nanoseconds of each round, from the engine's signal until the thread knows, and interrupts a round.
    pub fn batch(&mut self, waiter: Waiter, rounds: u64) -> Result<(Vec<f64>, f64), BenchError> {
        let mut times = Vec::new();
        let dispatched = |world: &World| world.host.counters().interrupt_dispatches;
        let before = dispatched(&self.world);
        for _ in 0..rounds {
            times.push(self.round_ns(waiter)?);
        }
        Ok((times, (dispatched(&self.world) - before) as f64 / rounds as f64))
    }

    fn round_ns(&mut self, waiter: Waiter) -> Result<f64, BenchError> {
        self.value += 1;
        let value = self.value;
        let mut commands = Commands::new();
        commands.wait(&self.gate, value).timestamp(self.stamp.va()).signal(&self.fence, value);
        self.stream.submit(&self.gpu, &[], &commands)?;
        let (device, gate, fence) = (self.gpu.device(), &self.gate, &self.fence);
        let known = std::thread::scope(|scope| {
            let opens = scope.spawn(|| {
                std::thread::sleep(SETTLE);
                device.signal(gate, value)
            });
            match waiter {
                Waiter::Sleeps => device.wait(&[(fence, value)])?,
                Waiter::Polls => {
                    while fence.current() < value {
                        std::hint::spin_loop();
                    }
                }
            }
            let known = self.world.host.device_register(register::TIMESTAMP);
            opens.join().expect("it does not panic")?;
            Ok::<u64, BenchError>(known)
        })?;
        let signalled = self.stamp.lock()?.read_word(0);
        Ok(known.saturating_sub(signalled) as f64)
    }
}

/// A fence that a thread signals for another.
pub(crate) struct FromThread {
    fence: Fence,
    gpu: Gpu,
    _world: World,
}

impl FromThread {
    pub fn start() -> Result<FromThread, BenchError> {
        let world = World::start(&[PROFILE])?;
        let gpu = world.gpu(0)?;
        let fence = gpu.device().create_native_fence(NativeFenceRequest::default())?;
        Ok(FromThread { fence, gpu, _world: world })
    }

    /// Nanoseconds from the call that signals to the return of the other's wait: the median of the rounds.
    pub fn ns(&self, pair: [usize; 2], rounds: u32) -> Result<f64, BenchError> {
        let (device, fence, begin) = (self.gpu.device(), &self.fence, self.fence.current() + 1);
        let refused = AtomicU32::new(0);
        let count = |done: bool| {
            refused.fetch_add(u32::from(!done), Ordering::Relaxed);
        };
        let ns = wake_ns(
            pair,
            rounds,
            |round| count(device.wait(&[(fence, begin + u64::from(round))]).is_ok()),
            |round| count(device.signal(fence, begin + u64::from(round)).is_ok()),
        );
        match refused.into_inner() {
            0 => Ok(ns),
            refused => Err(BenchError::Device(format!("{refused} waits and signals were refused"))),
        }
    }
}
