//! Mesa's lavapipe beside the software GPU: both are devices that the processor plays, so their timeline semaphores and their submissions are
//! peers. Where no lavapipe is installed (Debian: `libvulkan1`, `mesa-vulkan-drivers`) the row says so. Called by the suite.
//!
//! lavapipe has one queue. A chain is so many submissions without a command, each of which waits for the value that the one before signals;
//! a link is one wait and one signal, as it is in a hop from engine to engine. The program hands the first value over once all are queued, and
//! sleeps until it has the last one: the queue alone is timed. Both sides run in turn, round by round, and our engines sleep while lavapipe
//! is timed: a batch of hops ends when both do ([`crate::rig::Rig::wait_idle`]), and a batch of submissions is followed by a pause.

mod device;
mod layout;

use std::time::{Duration, Instant};

use self::device::Device;
use crate::doorbell::Submitter;
use crate::hop::Hops;
use crate::report::{BenchError, Goal, Row};
use crate::statistic::{median, median_ratio};

/// How many times faster a hop is than a link, at least.
const LINK_GOAL: f64 = 3.0;
/// Links of a chain.
const LINKS: u64 = 1_000;
/// Submissions of a batch, each when the one before is done.
const SUBMISSIONS: usize = 2_000;
/// The kernel's engine looks at an empty ring some thousand times before it sleeps, which takes far less than this.
const ENGINE_SLEEPS_AFTER: Duration = Duration::from_millis(5);
const MEASURE: &str = "timeline semaphores and submissions of lavapipe";

/// The rows.
pub(crate) fn rows(pair: [usize; 2], batches: usize) -> Result<Vec<Row>, BenchError> {
    // Its threads begin before this one is pinned, and run where the system lets them.
    let mut lavapipe = match Device::open() {
        Ok(device) => Lavapipe { device, value: 0 },
        Err(reason) => return Ok(vec![Row::absent(MEASURE, &reason)]),
    };
    Ok(vec![links(&mut lavapipe, pair, batches)?, submissions(&mut lavapipe, pair, batches)?])
}

/// The device, and the value that its semaphore has.
struct Lavapipe {
    device: Device,
    value: u64,
}

impl Lavapipe {
    /// Nanoseconds of a link of a chain.
    fn chain_ns(&mut self) -> Result<f64, BenchError> {
        let first = self.value + 1;
        let queued = (0..LINKS).try_for_each(|link| self.device.submit(Some(first + link), first + link + 1));
        let started = Instant::now();
        // The queued submissions must end, even if a later one was refused: the device waits for them before it goes.
        self.device.signal(first).and(queued).map_err(BenchError::Device)?;
        self.value = first + LINKS;
        self.device.wait(self.value).map_err(BenchError::Device)?;
        Ok(started.elapsed().as_nanos() as f64 / LINKS as f64)
    }

    /// Nanoseconds of the call that submits nothing but a signal: the median of a batch.
    fn submission_ns(&mut self) -> Result<f64, BenchError> {
        let (mut times, mut nothings) = (Vec::with_capacity(SUBMISSIONS), Vec::with_capacity(SUBMISSIONS));
        for _ in 0..SUBMISSIONS {
            self.value += 1;
            let [begun, still] = [Instant::now(), Instant::now()];
            self.device.submit(None, self.value).map_err(BenchError::Device)?;
            times.push(still.elapsed().as_nanos() as f64);
            nothings.push((still - begun).as_nanos() as f64);
            while self.device.value().map_err(BenchError::Device)? < self.value {
                std::hint::spin_loop();
            }
        }
        // The cost of reading the clock does not count.
        Ok((median(times) - median(nothings)).max(0.0))
    }
}

fn links(lavapipe: &mut Lavapipe, pair: [usize; 2], batches: usize) -> Result<Row, BenchError> {
    let mut hops = Hops::start(pair)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    lavapipe.chain_ns()?;
    for _ in 0..batches.max(3) {
        // Behind it both engines sleep.
        ours.push(hops.hop_ns()?);
        theirs.push(lavapipe.chain_ns()?);
    }
    let ratio = Some(median_ratio(&theirs, &ours));
    Ok(Row {
        measure: "engine to engine hop, times faster than a link of lavapipe's timeline semaphores".into(),
        ours: format!("{:.1} ns", median(ours)),
        peer: format!("{} {:.0} ns a link", lavapipe.device.name, median(theirs)),
        ratio,
        goal: Goal::AtLeast(LINK_GOAL),
    })
}

fn submissions(lavapipe: &mut Lavapipe, pair: [usize; 2], batches: usize) -> Result<Row, BenchError> {
    let mut submitter = Submitter::start(pair)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..batches.max(3) {
        ours.push(submitter.batch()?);
        std::thread::sleep(ENGINE_SLEEPS_AFTER);
        theirs.push(lavapipe.submission_ns()?);
    }
    let ratio = Some(median_ratio(&theirs, &ours));
    Ok(Row {
        measure: "submission by doorbell, times faster than an empty vkQueueSubmit of lavapipe".into(),
        ours: format!("{:.0} ns", median(ours)),
        peer: format!("{} {:.0} ns", lavapipe.device.name, median(theirs)),
        ratio,
        goal: Goal::None,
    })
}
