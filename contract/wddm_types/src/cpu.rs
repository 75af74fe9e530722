//! Where the CPU finds bytes of an allocation: a lock answers in these places (memory §6.3). Bus addresses are the CPU's view of an
//! adapter; they say nothing about GPU addresses.

use crate::size::PageRun;
use serde::{Deserialize, Serialize};

/// The kind of memory that the CPU reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CpuPlace {
    /// System pages, seen through CPU caches that the GPU does not snoop (memory §6.7).
    CachedSystem,
    /// System memory; pages are system pages.
    System,
    /// Local memory behind a resized BAR: `CpuTranslatedAddress` + offset (memory §1.7); pages are bus pages.
    Bar,
    /// A page of the CPU host aperture (memory §6.6); pages are bus pages.
    HostAperture,
}

/// Consecutive pages of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuRun {
    /// The kind of the pages.
    pub place: CpuPlace,
    /// Which, in 4-KB pages of that place.
    pub run: PageRun,
}

impl CpuRun {
    /// Consecutive pages of system memory.
    pub const fn system(run: PageRun) -> CpuRun {
        CpuRun { place: CpuPlace::System, run }
    }
}
