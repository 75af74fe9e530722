//! Signals among many fences and many waiters: what one costs beside 100,000 fences, with 10,000 waiters on the one that is
//! signalled, against one beside few of either. Called by the suite.
//!
//! Nothing sleeps here: a satisfied wait sets its event. The measure times the way into the kernel, the fence's list of waiters, and back.
//! How many comparisons the list takes is counted, exactly, where it is (`gpu_fence`).

use std::sync::Arc;
use std::time::Instant;

use d3dkmt::Refusal;
use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink};
use kmt_calls::{Call, EventCall, Reply, SignalFlags, SyncCall, WaitFlags};
use kmt_link::Link;
use softgpu_umd::Gpu;
use wddm_types::RawHandle;

use crate::machine::pin_here;
use crate::report::{BenchError, Goal, Row};
use crate::statistic::{median, median_ratio};

/// Fences of the crowded host, and waiters on one of them.
const MANY: (usize, u64) = (100_000, 10_000);
/// Those of the other.
const FEW: (usize, u64) = (100, 10);
/// Fences of one process; it may have few more.
const OF_ONE: usize = 4_000;
/// Signals timed in one batch.
const ROUNDS: u64 = 1_000;
/// Twice the logarithm of the number of waiters, times what a cache miss more per level costs.
const GROWTH_MAX: f64 = 4.0;

/// Both rows.
// spec: sync §3.10
pub(crate) fn rows(pair: [usize; 2], batches: usize, smoke: bool) -> Result<Vec<Row>, BenchError> {
    pin_here(pair[0]);
    let scale = if smoke { 20 } else { 1 };
    let (fences, waiters) = (MANY.0 / scale, MANY.1 / scale as u64);
    let (mut few, mut many) = (Process::start(FEW.0, FEW.1)?, Process::start(fences, waiters)?);
    let mut taken: [Vec<f64>; 4] = Default::default();
    for _ in 0..batches.max(3) {
        for (at, process) in [&mut few, &mut many].into_iter().enumerate() {
            taken[at].push(process.in_vain_ns()?);
            taken[2 + at].push(process.satisfied_ns()?);
        }
    }
    let nanoseconds = |ns: f64| format!("{ns:.0} ns");
    let row = |measure: &str, small: &Vec<f64>, large: &Vec<f64>| Row {
        measure: format!("{measure}, {fences} fences, {waiters} waiters on it"),
        ours: nanoseconds(median(large.clone())),
        peer: format!("{} fences, {} waiters: {}", FEW.0, FEW.1, nanoseconds(median(small.clone()))),
        ratio: Some(median_ratio(large, small)),
        goal: Goal::AtMost(GROWTH_MAX),
    };
    Ok(vec![
        row("signal that satisfies no waiter", &taken[0], &taken[1]),
        row("signal that satisfies one, and the next wait", &taken[2], &taken[3]),
    ])
}

/// A process with a fence on which many wait: for each value above what it has, one. Others have fences, too.
struct Process {
    host: Arc<Host>,
    link: Arc<ProcessLink>,
    gpu: Gpu,
    fence: RawHandle,
    event: RawHandle,
    /// The fence's value.
    current: u64,
    /// The highest value of a wait.
    awaited: u64,
    /// The processes that hold the other fences.
    _others: Vec<(Arc<ProcessLink>, Gpu)>,
}

fn refused(refusal: Refusal) -> BenchError {
    BenchError::Device(refusal.to_string())
}

/// A process with so many fences, and the last of these.
fn owner(host: &Arc<Host>, fences: usize) -> Result<(Arc<ProcessLink>, Gpu, RawHandle), BenchError> {
    let link = ProcessLink::new(Arc::clone(host));
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).map_err(|error| BenchError::Device(error.to_string()))?;
    let mut last = RawHandle::NONE;
    for _ in 0..fences {
        let create = SyncCall::CreateNativeFence { device: gpu.device().handle(), request: Default::default() };
        last = match link.call(Call::Sync(create)) {
            Ok(Reply::Fence(made)) => made.fence,
            other => return Err(BenchError::Device(format!("no fence: {other:?}"))),
        };
    }
    Ok((link, gpu, last))
}

impl Process {
    fn start(fences: usize, waiters: u64) -> Result<Process, BenchError> {
        let config =
            HostConfig { vram_bytes: 64 << 20, ..HostConfig::new(&PROFILES[0], Mode::Virtual { stored: false }) };
        let host = Host::start(config).map_err(|error| BenchError::Device(error.to_string()))?;
        let mut others = Vec::new();
        while (others.len() + 1) * OF_ONE < fences {
            let (link, gpu, _) = owner(&host, OF_ONE)?;
            others.push((link, gpu));
        }
        let (link, gpu, fence) = owner(&host, fences - others.len() * OF_ONE)?;
        let event = match link.call(Call::Event(EventCall::Create { manual_reset: true })) {
            Ok(Reply::Handle(event)) => event,
            other => return Err(BenchError::Device(format!("no event: {other:?}"))),
        };
        let mut process = Process { host, link, gpu, fence, event, current: 1, awaited: 1, _others: others };
        process.signal(1)?;
        for _ in 0..waiters {
            process.wait()?;
        }
        Ok(process)
    }

    /// Registers a wait for the next value, with an event.
    fn wait(&mut self) -> Result<(), BenchError> {
        self.awaited += 1;
        let (device, async_event, flags) = (self.gpu.device().handle(), self.event, WaitFlags::empty());
        let points = vec![(self.fence, self.awaited)];
        let wait = SyncCall::WaitForSynchronizationObjectFromCpu { device, points, async_event, flags };
        match self.host.begin_call(self.link.process(), Call::Sync(wait)) {
            Ok(answer) => answer.map(drop).map_err(refused),
            Err(_) => Err(BenchError::Device("a wait with an event is answered at once".into())),
        }
    }

    fn signal(&mut self, value: u64) -> Result<(), BenchError> {
        let (device, points) = (self.gpu.device().handle(), vec![(self.fence, value)]);
        let flags = SignalFlags::empty();
        let signal = SyncCall::SignalSynchronizationObjectFromCpu { device, points, flags };
        self.current = value;
        self.link.call(Call::Sync(signal)).map(drop).map_err(refused)
    }

    /// Signals of the value that the fence has already: no wait for it is left.
    fn in_vain_ns(&mut self) -> Result<f64, BenchError> {
        let started = Instant::now();
        for _ in 0..ROUNDS {
            self.signal(self.current)?;
        }
        Ok(started.elapsed().as_nanos() as f64 / ROUNDS as f64)
    }

    /// A signal that lets the earliest go, and the next wait: as many wait as before.
    fn satisfied_ns(&mut self) -> Result<f64, BenchError> {
        let started = Instant::now();
        for _ in 0..ROUNDS {
            self.signal(self.current + 1)?;
            self.wait()?;
        }
        Ok(started.elapsed().as_nanos() as f64 / ROUNDS as f64)
    }
}
