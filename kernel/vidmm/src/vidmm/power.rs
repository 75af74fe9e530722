//! The adapter sleeps and wakes (memory §1.10, §8.4): what the segments' flags do not promise to keep is saved before, and
//! page tables are written anew after. It knows no driver and no device; the kernel crate stops the contexts and switches
//! the power.
//!
//! | segment says | standby | hibernate |
//! |---|---|---|
//! | nothing | evicted | evicted |
//! | standby | stays | evicted |
//! | standby, hibernate | stays | stays |
//! | standby, part of hibernate | stays | stays if all of it lies within the part |
//!
//! A stop (PnP) keeps nothing anywhere.
//!
//! Every device is suspended by the work that saves, and comes back by its turn after the power does.

use ddi::SegmentFlags;
use wddm_types::PAGE_BYTES;

use crate::allocation::Placement;
use crate::paging::{Cause, Work};
use crate::segment::Segment;
use crate::slab::{AllocationId, DeviceId};
use crate::space::SpaceKind;
use crate::vidmm::VidMm;

/// How deep the adapter sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// The computer's memory keeps its power.
    Standby,
    /// It does not, or hybrid sleep: as if it did not.
    Hibernate,
    /// No sleep: the adapter is stopped (PnP), and what was pinned leaves like anything else.
    Stop,
}

/// The work due when the power is back, in this order.
#[derive(Debug)]
#[must_use = "without its tables the adapter translates nothing"]
pub struct PowerUp<F> {
    /// The paging process's tables, by the CPU at once.
    pub paging_process: Option<Work<F>>,
    /// The tables of all processes, by the ring.
    pub processes: Option<Work<F>>,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Saves what a sleep would lose: content of memory segments that are not preserved is copied out unless it is clean
    /// or offered, apertures are unmapped. All devices are suspended for it.
    // spec: memory §1.10, memory §8.4
    pub fn power_down(&mut self, sleep: Sleep) -> Option<Work<F>> {
        let mut batch = self.works.begin();
        let devices: Vec<DeviceId> = self.devices.iter().map(|(device, _)| device).collect();
        for device in devices {
            if !self.is_suspended(device) {
                self.suspend_now(device, &mut batch);
            }
        }
        let ids: Vec<AllocationId> = self.allocations.iter().map(|(id, _)| id).collect();
        for id in ids {
            if self.is_lost(id, sleep) {
                self.withdraw(id, Cause::Power, &mut batch);
            }
        }
        let running = self.devices.iter().find(|(_, known)| !known.is_suspended()).map(|(device, _)| device);
        debug_assert!(running.is_none(), "{running:?} runs in an adapter that sleeps");
        let lost = |segment: &Segment| !segment.is_aperture() && !keeps(segment, sleep, segment.descriptor.size_bytes);
        self.segments.forget_cleared(lost);
        self.finish(batch, false)
    }

    /// Writes the page tables anew: those of the paging process first. Content comes back with its devices' turns, or with the next call
    /// that needs it.
    // spec: memory §1.10, memory §4.7, memory §8.4
    pub fn power_up(&mut self) -> PowerUp<F> {
        self.devices.forgive_losses();
        let paging_process = self.rebuild(SpaceKind::Paging);
        PowerUp { paging_process, processes: self.rebuild(SpaceKind::Process) }
    }

    /// Whether an allocation is somewhere that does not survive.
    fn is_lost(&self, id: AllocationId, sleep: Sleep) -> bool {
        match &self.allocations[id].placement {
            Placement::None | Placement::System(None) => false,
            Placement::System(Some((aperture, _))) => !keeps(self.segment(*aperture), sleep, 0),
            Placement::Memory(segment, extents) => {
                let end = extents.iter().map(|extent| extent.frame + extent.count).max().unwrap_or(0);
                !keeps(self.segment(*segment), sleep, end * PAGE_BYTES)
            }
        }
    }

    fn rebuild(&mut self, kind: SpaceKind) -> Option<Work<F>> {
        if !self.spaces.translates() {
            return None;
        }
        let mut batch = self.works.begin();
        for id in self.spaces.of_kind(kind).collect::<Vec<_>>() {
            self.spaces.rebuild_tables(id, &mut batch);
            self.write_entries(id, &mut batch);
        }
        if kind == SpaceKind::Paging {
            batch.entries.extend(self.spaces.table_window_entries());
            batch.entries.extend(self.spaces.scratch_table_entries());
        }
        self.finish(batch, kind == SpaceKind::Paging)
    }
}

/// Whether a segment keeps its bytes below `end` through a sleep.
// spec: memory §1.10, memory §10.2
fn keeps(segment: &Segment, sleep: Sleep, end: u64) -> bool {
    use SegmentFlags as F;
    let flags = segment.descriptor.flags;
    match sleep {
        Sleep::Standby => flags.contains(F::PRESERVED_DURING_STANDBY),
        Sleep::Hibernate if flags.contains(F::PRESERVED_DURING_HIBERNATE) => true,
        // The end address itself survives, so an end one past it does too.
        Sleep::Hibernate if flags.contains(F::PARTIALLY_PRESERVED_DURING_HIBERNATE) => {
            end <= segment.descriptor.system_memory_end_address.saturating_add(1)
        }
        Sleep::Hibernate | Sleep::Stop => false,
    }
}
