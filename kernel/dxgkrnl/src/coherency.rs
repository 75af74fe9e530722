//! The rules of coherency between the CPU's caches and the GPU (memory §6.7). On most platforms the hardware keeps it; on the others lines
//! are maintained by request. This is not the maintenance: the adapter knows which allocation lies where and has the platform's caches.

use wddm_types::{CpuPlace, CpuRun};

use crate::platform::Platform;

/// Whether GPUs snoop the CPU's caches, so that neither user-mode drivers nor lists have lines maintained.
// spec: memory §6.7
pub fn is_io_coherent(platform: &dyn Platform, snoops: bool) -> bool {
    platform.cpu_cache().is_none() || snoops
}

/// System pages as the CPU sees them through its caches.
pub fn see_cached(runs: &mut [CpuRun]) {
    for run in runs.iter_mut().filter(|run| run.place == CpuPlace::System) {
        run.place = CpuPlace::CachedSystem;
    }
}
