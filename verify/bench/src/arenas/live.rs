//! The creation of an allocation beside a million live ones of the same client, against one beside a thousand. Called by `arenas`.
//!
//! No allocation is locked, and each lies in system memory: the kernel lends its pages to the client of a daemon when it is created. The
//! operating system joins the mappings of neighbours, so `vm.max_map_count` bounds into how many pieces a client's memory falls, and not how
//! many allocations it has; the row says how many mappings the program has more. Client and daemon are in this program, so both are counted.

use std::sync::Arc;
use std::time::Instant;

use d3dkmt::Allocation;
use softgpu_umd::Gpu;
use wddm_types::PAGE_BYTES;

use super::{affordable, request};
use crate::report::{BenchError, Goal, Row};
use crate::served::{Kernel, no_limits};
use crate::statistic::{median, median_ratio};

/// Live allocations of one client, of a page each.
const MANY: usize = 1_000_000;
const SMOKE_MANY: usize = 5_000;
const FEW: usize = 1_000;
/// Creations that are timed at once.
const BATCH: usize = 256;
/// How much the logarithm of the number and what caches miss may cost.
const GOAL: f64 = 1.5;
const VRAM_BYTES: u64 = 64 << 20;

/// A row for each way to the kernel.
pub(super) fn rows(batches: usize, smoke: bool) -> Result<Vec<Row>, BenchError> {
    let many = affordable(if smoke { SMOKE_MANY } else { MANY })?;
    [false, true].into_iter().map(|served| row(served, many, batches.max(3))).collect()
}

fn row(served: bool, many: usize, batches: usize) -> Result<Row, BenchError> {
    let few = Client::start(served, FEW)?;
    let mappings = mappings()?;
    let large = Client::start(served, many)?;
    let more = self::mappings()?.saturating_sub(mappings);
    let (mut beside_many, mut beside_few) = (Vec::new(), Vec::new());
    for _ in 0..batches {
        beside_few.push(few.create_ns()?);
        beside_many.push(large.create_ns()?);
    }
    let ratio = Some(median_ratio(&beside_many, &beside_few));
    let way = if served { "over a socket" } else { "in process" };
    Ok(Row {
        measure: format!("a creation beside {many} allocations, {way}"),
        ours: format!("{:.2} us; {more} mappings more", median(beside_many) / 1000.0),
        peer: format!("beside {FEW}: {:.2} us", median(beside_few) / 1000.0),
        ratio,
        goal: Goal::AtMost(GOAL),
    })
}

/// A client with its allocations, and the kernel that it has for itself.
struct Client {
    _live: Vec<Arc<Allocation>>,
    gpu: Gpu,
    // Behind what uses it.
    _kernel: Kernel,
}

impl Client {
    fn start(served: bool, live: usize) -> Result<Client, BenchError> {
        let system_bytes = (live + 16 * BATCH) as u64 * PAGE_BYTES;
        let kernel = Kernel::limited(VRAM_BYTES, system_bytes, served, no_limits())?;
        let gpu = Gpu::open(kernel.connect()?)?;
        let created =
            (0..live).map(|_| gpu.device().create_allocation(request(PAGE_BYTES))).collect::<Result<_, _>>()?;
        Ok(Client { _live: created, gpu, _kernel: kernel })
    }

    /// Nanoseconds of a creation. The destructions are not timed, and are over when this returns.
    fn create_ns(&self) -> Result<f64, BenchError> {
        let mut made = Vec::with_capacity(BATCH);
        let started = Instant::now();
        for _ in 0..BATCH {
            made.push(self.gpu.device().create_allocation(request(PAGE_BYTES))?);
        }
        let ns = started.elapsed().as_nanos() as f64 / BATCH as f64;
        drop(made);
        self.gpu.device().state()?;
        Ok(ns)
    }
}

fn mappings() -> Result<usize, BenchError> {
    Ok(std::fs::read_to_string("/proc/self/maps")?.lines().count())
}
