//! Bookkeeping of residency: what a MakeResident and an Evict of something that is resident cost, against a system call
//! that does nothing; and how that grows with the number of allocations. Called by the suite.
//!
//! Nothing moves here: the content is resident and stays. The measure times the way into the kernel (the client, the
//! machine's lock, handles, the list, the events, which have no listener) and back.

use std::sync::Arc;
use std::time::Instant;

use d3dkmt::{EvictFlags, MakeResidentFlags};
use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink, page_table_bytes};
use kmt_link::Link;
use softgpu_spec::private_data::Kind;
use softgpu_umd::{Gpu, Surface};
use wddm_types::RawHandle;

use crate::machine::pin_here;
use crate::report::{BenchError, Goal, Row};
use crate::statistic::{median, median_ratio};

/// Most null system calls that a pair may cost.
const SYSTEM_CALLS_MAX: f64 = 10.0;
/// Pairs timed in one batch.
const ROUNDS: u32 = 2_000;
/// Allocations of one batch, and batches timed at once.
const BATCH: usize = 1_000;
const BATCH_ROUNDS: usize = 20;
/// Most nanoseconds that each allocation of a batch may cost, for both calls.
const BATCH_NS_MAX: f64 = 60.0;
/// Handles of the largest process.
const MANY: usize = 1_000_000;
/// Bytes of each.
const BYTES: u64 = 65536;
/// The allocations of the small world.
const FEW: usize = 1_000;
/// What the logarithm of the number of allocations and the caches may cost.
const GROWTH_MAX: f64 = 1.5;

/// All rows.
pub(crate) fn rows(pair: [usize; 2], batches: usize, smoke: bool) -> Result<Vec<Row>, BenchError> {
    pin_here(pair[0]);
    let many = if smoke { MANY / 50 } else { MANY };
    let few = Process::start(FEW)?;
    let large = Process::start(many)?;
    let (mut small_ns, mut large_ns, mut null_ns, mut batch_ns) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..batches.max(3) {
        small_ns.push(few.pair_ns()?);
        batch_ns.push(few.batch_ns()?);
        large_ns.push(large.pair_ns()?);
        null_ns.push(null_ns_each());
    }
    let per_call = median_ratio(&small_ns, &null_ns);
    let growth = median_ratio(&large_ns, &small_ns);
    let of_batch = median_ratio(&batch_ns, &vec![BATCH_NS_MAX; batch_ns.len()]);
    let nanoseconds = |ns: f64| format!("{ns:.0} ns");
    let (small, large_one, null) = (median(small_ns), median(large_ns), median(null_ns));
    Ok(vec![
        Row {
            measure: "MakeResident + Evict of a resident allocation, in process".into(),
            ours: nanoseconds(small),
            peer: format!("null system call {}", nanoseconds(null)),
            ratio: Some(per_call),
            goal: Goal::AtMost(SYSTEM_CALLS_MAX),
        },
        Row {
            measure: format!("the same in lists of {BATCH}, for each allocation"),
            ours: nanoseconds(median(batch_ns)),
            peer: format!("limit {}", nanoseconds(BATCH_NS_MAX)),
            ratio: Some(of_batch),
            goal: Goal::AtMost(1.0),
        },
        Row {
            measure: format!("the same beside {many} allocations"),
            ours: nanoseconds(large_one),
            peer: format!("beside {FEW}: {}", nanoseconds(small)),
            ratio: Some(growth),
            goal: Goal::AtMost(GROWTH_MAX),
        },
    ])
}

/// A process with many allocations, some of them on its list.
struct Process {
    gpu: Gpu,
    handles: Vec<RawHandle>,
    // Dropped after the device's use of them.
    _surfaces: Vec<Surface>,
    _host: Arc<Host>,
}

impl Process {
    fn start(allocations: usize) -> Result<Process, BenchError> {
        let bytes = (allocations as u64 + 1024) * BYTES;
        let config = HostConfig {
            vram_bytes: 2 * bytes,
            page_table_bytes: page_table_bytes(2 * bytes),
            system_bytes: 2 * bytes + (64 << 20),
            ..HostConfig::new(&PROFILES[0], Mode::Virtual { stored: false })
        };
        let host = Host::start(config).map_err(|error| BenchError::Device(error.to_string()))?;
        let link = ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>;
        let gpu = Gpu::open(link).map_err(|error| BenchError::Device(error.to_string()))?;
        let failed = |error: softgpu_umd::UmdError| BenchError::Device(error.to_string());
        let mut surfaces = Vec::with_capacity(allocations);
        for _ in 0..allocations {
            surfaces.push(gpu.create_surface(Kind::Local, BYTES).map_err(failed)?);
        }
        for surface in &surfaces {
            gpu.pin(surface).map_err(failed)?;
        }
        let handles = surfaces.iter().map(|surface| surface.allocation().handle()).collect();
        Ok(Process { gpu, handles, _surfaces: surfaces, _host: host })
    }

    /// One pair, in nanoseconds: the count goes up and down, nothing else changes.
    fn pair_ns(&self) -> Result<f64, BenchError> {
        let refused = |refusal: d3dkmt::Refusal| BenchError::Device(refusal.to_string());
        let started = Instant::now();
        for round in 0..ROUNDS {
            // A prime stride, so that neighbours do not follow each other.
            let handle = self.handles[(round as usize * 7919) % self.handles.len()];
            self.gpu.paging().make_resident(vec![handle], MakeResidentFlags::empty()).map_err(refused)?;
            self.gpu.device().evict(vec![handle], EvictFlags::EVICT_ONLY_IF_NECESSARY).map_err(refused)?;
        }
        Ok(started.elapsed().as_nanos() as f64 / f64::from(ROUNDS))
    }

    /// One pair for each allocation of lists of [`BATCH`], in nanoseconds. The lists are the caller's, and made before.
    fn batch_ns(&self) -> Result<f64, BenchError> {
        let batch: Vec<RawHandle> = self.handles.iter().copied().take(BATCH).collect();
        let lists: Vec<_> = (0..BATCH_ROUNDS).map(|_| [batch.clone(), batch.clone()]).collect();
        let started = Instant::now();
        for [up, down] in lists {
            self.gpu.paging().make_resident(up, MakeResidentFlags::empty())?;
            self.gpu.device().evict(down, EvictFlags::EVICT_ONLY_IF_NECESSARY)?;
        }
        Ok(started.elapsed().as_nanos() as f64 / (BATCH_ROUNDS * batch.len()) as f64)
    }
}

fn null_ns_each() -> f64 {
    let started = Instant::now();
    for _ in 0..ROUNDS {
        std::hint::black_box(rustix::thread::gettid());
    }
    started.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}
