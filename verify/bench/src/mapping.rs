//! The cost of MapGpuVirtualAddress of resident content to a process, from the call to its paging fence: the decision, the
//! driver's buffers, the copy engine that writes the entries, the interrupt. Against plain stores of as many words by the calling
//! thread into one buffer of 1 MiB, which stay in its cache: so the ratio depends on the size of that cache, the row shows how much there
//! is to win, and `page_tables` gives the cost of the entries alone. Each round begins with an empty ring: the work of the free before is
//! not timed. Called by the suite.

use std::sync::Arc;
use std::time::Instant;

use d3dkmt::{EvictFlags, GpuVaMapping, GpuVaProtection, MakeResidentFlags, Residency};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile, page_table_bytes};
use kmt_link::Link;
use shared_words::Memory;
use softgpu_spec::private_data::Kind;
use softgpu_umd::{Gpu, Surface};
use wddm_types::PAGE_BYTES;

use crate::machine::pin_here;
use crate::report::{BenchError, Goal, Row};
use crate::statistic::{median, median_ratio};

/// Share of the speed of plain stores.
const GOAL: f64 = 0.25;

/// Pages that one call maps.
const PAGES: u64 = 1 << 17;

/// The row.
pub(crate) fn rows(pair: [usize; 2], batches: usize) -> Result<Vec<Row>, BenchError> {
    pin_here(pair[0]);
    let failed = |error: &dyn std::fmt::Display| BenchError::Device(error.to_string());
    let bytes = PAGES * PAGE_BYTES;
    let profile = Profile::named("discrete-4k").ok_or_else(|| failed(&"there is no such profile"))?;
    let config = HostConfig {
        vram_bytes: bytes + (64 << 20),
        page_table_bytes: 4 * page_table_bytes(bytes),
        system_bytes: bytes + (128 << 20),
        ..HostConfig::new(profile, Mode::Real)
    };
    let host = Host::start(config).map_err(|error| failed(&error))?;
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).map_err(|error| failed(&error))?;
    let surface = gpu.create_surface(Kind::Local, bytes).map_err(|error| failed(&error))?;
    gpu.pin(&surface).map_err(|error| failed(&error))?;
    let memory = Memory::reserve(PAGES * 8)?;
    let (mut maps, mut stores) = (Vec::new(), Vec::new());
    for round in 0..=batches {
        let mapping = GpuVaMapping { size_in_pages: PAGES, protection: GpuVaProtection::WRITE, ..Default::default() };
        let started = Instant::now();
        let mapped = gpu.paging().map_gpu_va(Some(surface.allocation()), mapping);
        let (va, value) = mapped.map_err(|error| failed(&error))?;
        gpu.device().wait(&[(gpu.paging().fence(), value)]).map_err(|error| failed(&error))?;
        let mapped_ns = started.elapsed().as_nanos() as f64;
        gpu.device().free_gpu_va(va, bytes).map_err(|error| failed(&error))?;
        ring_empty(&gpu, &surface)?;
        let started = Instant::now();
        memory.store_words(0, PAGES, |index| (index * PAGE_BYTES) | 1);
        let stored_ns = started.elapsed().as_nanos() as f64;
        if round > 0 {
            maps.push(mapped_ns);
            stores.push(stored_ns);
        }
    }
    let ratio = median_ratio(&stores, &maps);
    let rate = |ns: f64| format!("{:.2} entries/ns", PAGES as f64 / ns);
    Ok(vec![Row {
        measure: format!("MapGpuVirtualAddress of {PAGES} contiguous pages, to its fence"),
        ours: rate(median(maps)),
        peer: format!("plain stores {}", rate(median(stores))),
        ratio: Some(ratio),
        goal: Goal::AtLeast(GOAL),
    }])
}

/// Waits until the paging ring has got past everything that it holds: the value of a MakeResident stands behind all of it.
fn ring_empty(gpu: &Gpu, surface: &Surface) -> Result<(), BenchError> {
    let list = vec![surface.allocation().handle()];
    if let Residency::Pending { paging_fence_value, .. } =
        gpu.paging().make_resident(list.clone(), MakeResidentFlags::empty())?
    {
        gpu.device().wait(&[(gpu.paging().fence(), paging_fence_value)])?;
    }
    gpu.device().evict(list, EvictFlags::EVICT_ONLY_IF_NECESSARY)?;
    Ok(())
}
