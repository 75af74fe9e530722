//! Four clients of a daemon at once, whose memory holds half of what they need together, against the same four clients of a kernel in the
//! same program. Called by the suite.
//!
//! All feed their queues themselves, and every byte is verified. Only the way of a call and of a lock differs: adapter, memory, recording
//! and seeds are equal. The clients of the daemon are processes, those of the other kernel are threads of this program. All of them have
//! read the recording and are connected before the time begins. A whole run replays 31 rounds of four steps by eight clients: about five minutes
//! on two processors.

use std::path::Path;
use std::time::Instant;

use kmt_link::socket::SocketLink;
use replay::{ContentMode, Workload};

use crate::part_process::{Measure, Program};
use crate::replayed::{recording, replayed};
use crate::report::{BenchError, Goal, Row};
use crate::served::Kernel;
use crate::statistic::{median, median_ratio};

/// Most of the time that it may take.
const GOAL: f64 = 1.15;
/// How many clients.
const CLIENTS: u64 = 4;
/// How many times more they need than there is.
const OVER_COMMITTED: u64 = 2;

/// The row.
pub(crate) fn rows(program: Program<'_>, smoke: bool) -> Result<Vec<Row>, BenchError> {
    let (steps, rounds) = if smoke { (1, 1) } else { (4, 31) };
    let workload = recording()?;
    let vram_bytes = (CLIENTS * workload.peak_bytes(steps) / OVER_COMMITTED).next_multiple_of(1 << 20);
    let (mut there, mut here) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        here.push(threads_ns(&Kernel::start(vram_bytes, false)?, &workload, steps)?);
        there.push(processes_ns(&Kernel::start(vram_bytes, true)?, program, steps)?);
    }
    let ratio = Some(median_ratio(&there, &here));
    Ok(vec![Row {
        measure: format!("replay by {CLIENTS} clients of a daemon, over-committed {OVER_COMMITTED} times"),
        ours: format!("{:.0} ms", median(there) / 1e6),
        peer: format!("in one program {:.0} ms", median(here) / 1e6),
        ratio,
        goal: Goal::AtMost(GOAL),
    }])
}

/// How long all of them take, from the first call to the last answer.
fn threads_ns(kernel: &Kernel, workload: &Workload, steps: u32) -> Result<f64, BenchError> {
    let links = (0..CLIENTS).map(|_| kernel.connect()).collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    std::thread::scope(|scope| {
        let clients = (0..)
            .zip(links)
            .map(|(seed, link)| scope.spawn(move || replayed(workload, link, seed, steps, ContentMode::Verified)));
        let clients: Vec<_> = clients.collect();
        for client in clients {
            client.join().expect("a client does not panic")?;
        }
        Ok(started.elapsed().as_nanos() as f64)
    })
}

/// The same of processes.
fn processes_ns(kernel: &Kernel, program: Program<'_>, steps: u32) -> Result<f64, BenchError> {
    let socket = kernel.path().expect("a kernel that is served").to_string_lossy().into_owned();
    let client = |seed: u64| program.start(&["replay", &socket, &seed.to_string(), &steps.to_string()]);
    let mut clients = (0..CLIENTS).map(client).collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    clients.iter_mut().try_for_each(|client| client.tell("go"))?;
    clients.iter_mut().try_for_each(|client| client.hear().map(drop))?;
    Ok(started.elapsed().as_nanos() as f64)
}

/// Plays one of the clients.
pub(crate) fn play(measure: &Measure, socket: &Path, seed: &str, steps: &str) -> Result<(), BenchError> {
    let number = |error: std::num::ParseIntError| BenchError::Device(error.to_string());
    let (seed, steps) = (seed.parse().map_err(number)?, steps.parse().map_err(number)?);
    let workload = recording()?;
    let link = SocketLink::connect(socket).map_err(|error| BenchError::Device(error.to_string()))?;
    measure.say("ready")?;
    while measure.next()?.is_some() {
        replayed(&workload, link.clone(), seed, steps, ContentMode::Verified)?;
        measure.say("done")?;
    }
    Ok(())
}
