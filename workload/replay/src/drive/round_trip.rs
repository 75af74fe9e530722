//! Measures the round trip of one submission, when nothing else runs.

use std::sync::Arc;

use kmt_link::Link;
use softgpu_umd::{Gpu, Stage, SurfaceKind};

use crate::drive::DriveError;
use crate::drive::site::lane;

/// How long the CPU waits for the end of a submission that only touches one page, when nothing else runs, in nanoseconds of
/// the kernel's clock: the median of so many, each behind the one before; 0 of none.
///
/// # Errors
/// A refused call, a lost device, an adapter without the stage.
pub fn round_trip_ns(link: Arc<dyn Link>, stage: Option<Stage>, rounds: usize) -> Result<u64, DriveError> {
    let gpu = Gpu::open(Arc::clone(&link))?;
    let mut lane = lane(&gpu, stage)?;
    let surface = gpu.create_surface(SurfaceKind::System, 4096)?;
    gpu.pin(&surface)?;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        lane.touch(&surface, true);
        let begun = link.now_ns();
        let value = lane.submit(&gpu, None)?;
        lane.wait(&gpu, value)?;
        times.push(link.now_ns() - begun);
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or(0))
}
