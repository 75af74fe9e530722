//! How an allocation is locked (memory §6.3, §6.5), and displayed (memory §1.6), as its record has it.

use wddm_types::{CpuRun, PageRun, SegmentId};

use crate::extent::Extents;
use crate::seldom::Blank;

/// Locks of one allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locks {
    pub count: u32,
    /// Locked while not resident, with no aperture supported: not to be committed to a memory segment before the unlock.
    pub confined: bool,
    /// A primary that the CPU sees where an aperture shows it.
    pub through_aperture: bool,
    /// WDDM 1: through a swizzling range, if it lies in a memory segment.
    pub acquired: bool,
    /// The extents from before VidMm asked for a range that the driver may still refuse.
    pub before_range: Option<Extents>,
    /// The runs that the CPU sees after all work returned so far.
    pub runs: Vec<CpuRun>,
}

impl Blank for Locks {
    const BLANK: &'static Self = &Locks {
        count: 0,
        confined: false,
        through_aperture: false,
        acquired: false,
        before_range: None,
        runs: Vec::new(),
    };
}

/// How an allocation is displayed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Displayed {
    /// Flips and displays that hold it.
    pub times: u32,
    /// The aperture that shows it for them, and the pages there.
    pub at: Option<(SegmentId, PageRun)>,
}

impl Blank for Displayed {
    const BLANK: &'static Self = &Displayed { times: 0, at: None };
}
