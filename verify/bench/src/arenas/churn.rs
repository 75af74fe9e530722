//! The life of an allocation of 64 KiB in system memory: it is created, locked, written, unlocked and destroyed before the next one is. Over
//! a socket its pages are lent to the client and taken back, and the daemon is a process of its own; in the kernel's program the client
//! writes where they are. Called by `arenas`.

use std::path::Path;
use std::time::Instant;

use kmt_link::socket::SocketLink;
use softgpu_umd::Gpu;

use super::request;
use crate::part_process::{Measure, PartProcess, Program};
use crate::report::{BenchError, Goal, Row};
use crate::served::Kernel;
use crate::statistic::{median, median_ratio};

/// Most times the cost in process that it may cost over a socket.
const GOAL: f64 = 2.0;
/// Bytes of an allocation.
const BYTES: u64 = 64 << 10;
/// Allocations of all rounds together, each way.
const LIVES: usize = 100_000;
const SMOKE_LIVES: usize = 300;
const VRAM_BYTES: u64 = 64 << 20;

/// The row.
pub(super) fn row(program: Program<'_>, batches: usize, smoke: bool) -> Result<Row, BenchError> {
    let lives = if smoke { SMOKE_LIVES } else { LIVES };
    let batches = batches.max(3);
    let batch = lives.div_ceil(batches);
    let (there, here) = (Client::of_daemon(program)?, Client::in_process()?);
    // The first lives make lanes and arenas, and touch memory.
    there.life_ns(batch)?;
    here.life_ns(batch)?;
    let (mut served, mut in_process) = (Vec::new(), Vec::new());
    for _ in 0..batches {
        served.push(there.life_ns(batch)?);
        in_process.push(here.life_ns(batch)?);
    }
    let ratio = Some(median_ratio(&served, &in_process));
    Ok(Row {
        measure: format!(
            "create, lock, write, unlock, destroy {} allocations of {} KiB, over a socket",
            batch * batches,
            BYTES >> 10
        ),
        ours: format!("{:.2} us each", median(served) / 1000.0),
        peer: format!("in process {:.2} us", median(in_process) / 1000.0),
        ratio,
        goal: Goal::AtMost(GOAL),
    })
}

/// A client, and what keeps the kernel that it has for itself.
struct Client {
    gpu: Gpu,
    // Behind what uses them: a kernel in this program, or a daemon.
    _kernel: Option<Kernel>,
    _daemon: Option<PartProcess>,
}

impl Client {
    fn in_process() -> Result<Client, BenchError> {
        let kernel = Kernel::start(VRAM_BYTES, false)?;
        Ok(Client { gpu: Gpu::open(kernel.connect()?)?, _kernel: Some(kernel), _daemon: None })
    }

    fn of_daemon(program: Program<'_>) -> Result<Client, BenchError> {
        let mut part = program.start(&["daemon"])?;
        let socket = part.hear()?;
        let link = SocketLink::connect(Path::new(&socket)).map_err(|error| BenchError::Device(error.to_string()))?;
        Ok(Client { gpu: Gpu::open(link)?, _kernel: None, _daemon: Some(part) })
    }

    /// Nanoseconds of a life, the mean of so many one after the other. A last call waits until the kernel has carried out the destructions,
    /// whose answers no client awaits.
    fn life_ns(&self, lives: usize) -> Result<f64, BenchError> {
        let started = Instant::now();
        for number in 1..=lives as u64 {
            let allocation = self.gpu.device().create_allocation(request(BYTES))?;
            let lock = allocation.lock()?;
            lock.fill_words(0, BYTES / 8, |_| number);
            drop(lock);
        }
        self.gpu.device().state()?;
        Ok(started.elapsed().as_nanos() as f64 / lives as f64)
    }
}

/// Plays a daemon until its measure has gone.
pub(crate) fn play(measure: &Measure) -> Result<(), BenchError> {
    let kernel = Kernel::start(VRAM_BYTES, true)?;
    measure.say("ready")?;
    measure.say(&kernel.path().expect("it is served").to_string_lossy())?;
    while measure.next()?.is_some() {}
    Ok(())
}
