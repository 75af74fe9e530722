//! Works that move content which stays on its lists, within its segment, up to a better one (memory §8.1) or out for a lock (memory
//! §6.3): devices that list it are quiesced from the work's turn in the ring until the work is done, and buffers that name it by physical
//! address learn the new one meanwhile.
//!
//! ```text
//! turn of the work ──▶ devices quiesce, their queued buffers re-bound ──▶ carried out ──▶ devices go on
//! ```
//! Buffers that were handed over before have run before the devices quiesce, at the old place. Buffers that are bound
//! after the decision know the new place already, and wait for this work.

use gpu_fence::FenceId;
use vidmm::{AllocationId, VidMm};
use wddm_types::SegmentId;

use super::PagingRing;
use crate::number::{DeviceNumber, PagingWorkNumber};

/// A place, and from when on it holds.
#[derive(Clone, Copy, Default)]
pub struct Binding {
    /// Segment and GPU address; `None`: none.
    pub place: Option<(SegmentId, u64)>,
    /// The paging work after which that is so.
    pub serial: u64,
}

impl Binding {
    /// Where an allocation is after all that is decided.
    pub fn of(vidmm: &VidMm<FenceId>, id: AllocationId) -> Binding {
        let now = vidmm.whereabouts(id);
        Binding { place: now.place, serial: now.serial }
    }

    /// The binding, without a place where the content is withheld.
    pub fn unless(self, withheld: bool) -> Binding {
        Binding { place: self.place.filter(|_| !withheld), ..self }
    }
}

/// The moves of one work of content that devices list.
#[derive(Default)]
pub struct Relocation {
    /// The devices that quiesce.
    pub devices: Vec<DeviceNumber>,
    /// Where content is from this work on.
    pub moved: Vec<(AllocationId, Binding)>,
}

impl PagingRing {
    /// The turn of a work that moves content which devices list. The relocation is the caller's from here on.
    #[must_use = "the devices quiesce, and learn where their content is"]
    pub fn relocation_begins(&mut self, number: PagingWorkNumber) -> Relocation {
        let work = self.held.iter_mut().find(|work| work.number == number).expect("its work stands behind it");
        std::mem::take(&mut work.relocation)
    }
}
