//! Primaries that displays show (memory §1.6, §8.2). VidMm pins them; and a primary in system memory that is not AccessedPhysically, which
//! only page tables reach, is shown by an aperture for as long, because displays read physical addresses.
//!
//! | where it is | AccessedPhysically | while it is displayed |
//! |---|---|---|
//! | memory segment | either | in one piece, as every primary |
//! | system memory | yes | in an aperture, as always while it is resident |
//! | system memory | no | in an aperture, only then |
//!
//! Called by the kernel, which knows the displays: from the flip to it until another one has replaced it.

use ddi::AllocationFlags;

use crate::allocation::Placement;
use crate::operation::Operation;
use crate::paging::{Batch, Cause, Work};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;
use crate::vidmm::placement::aperture::ApertureFull;
use crate::vidmm::placement::pin::PinError;
use crate::vidmm::placement::victim::cache_coherent;

/// Why a primary is not displayed; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisplayError {
    /// It cannot be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// Scarcity: an aperture is to show it.
    #[error("a primary that an aperture is to show: {0}")]
    Aperture(#[from] ApertureFull),
}

impl<F: Copy + Eq> VidMm<F> {
    /// Pins a resident primary until as many [`VidMm::unpin_displayed`], with what is to be done before a display may read it.
    ///
    /// # Errors
    /// See [`DisplayError`].
    // spec: memory §1.6, memory §8.2
    pub fn pin_displayed(&mut self, id: AllocationId) -> Result<Option<Work<F>>, DisplayError> {
        let allocation = &self.allocations[id];
        let hidden = matches!(allocation.placement, Placement::System(None)) && allocation.displayed.at.is_none();
        if !hidden || allocation.is_offered() {
            self.pin(id)?;
            self.allocations[id].displayed.times += 1;
            return Ok(None);
        }
        let (pages, segment) =
            (allocation.pages, allocation.candidates().find(|segment| self.segment(*segment).is_aperture()));
        let segment = segment.ok_or(ApertureFull)?;
        let run = self.segments.take_aperture(segment, pages, 1).ok_or(ApertureFull)?;
        self.pin(id).expect("what is in system memory is resident, and it is not offered");
        let mut batch = self.works.begin();
        self.note_paging(id, batch.serial);
        let coherent = cache_coherent(self.segment(segment), &self.allocations[id].info);
        let allocation = &mut self.allocations[id];
        allocation.displayed.times += 1;
        allocation.displayed.at = Some((segment, run));
        allocation.last_work = batch.serial;
        batch.content.push(Operation::MapAperture {
            device: allocation.device(),
            allocation: allocation.named(),
            segment,
            offset_in_pages: run.first,
            backing: allocation.backing.clone(),
            cache_coherent: coherent,
            cpu_visible: allocation.info.flags.contains(AllocationFlags::MAP_APERTURE_CPU_VISIBLE),
        });
        Ok(self.finish(batch, false))
    }

    /// Undoes one [`VidMm::pin_displayed`]. [`VidMm::hide_undisplayed`] then removes the primary from its aperture.
    pub fn unpin_displayed(&mut self, id: AllocationId) {
        let allocation = &mut self.allocations[id];
        let displayed = &mut allocation.displayed;
        displayed.times = displayed.times.checked_sub(1).expect("it was displayed");
        let shown = displayed.at.is_some() || matches!(allocation.placement, Placement::System(Some(_)));
        if displayed.times == 0 && shown {
            self.allocations.note_undisplayed(id);
        }
        self.unpin(id);
    }

    /// Removes primaries from apertures when neither a display nor a queued flip needs them there, nor a list or another pin.
    // spec: memory §1.6
    pub fn hide_undisplayed(&mut self) -> Option<Work<F>> {
        // Asked after every call: a batch for nothing would cost a call half as much again.
        if !self.allocations.any_undisplayed() {
            return None;
        }
        let mut batch = self.works.begin();
        for id in self.allocations.take_undisplayed() {
            let Some(allocation) = self.allocations.get(id).filter(|known| known.displayed.times == 0) else {
                continue;
            };
            let needed = allocation.count > 0 || allocation.pins > 0;
            match allocation.placement {
                // No list has it any more: only the display has kept it there (memory §8.3).
                Placement::System(Some(_)) if !needed && allocation.aside.is_none() => match allocation.owner {
                    Some(owner) => self.leave_for_good(id, owner, &mut batch),
                    None => self.withdraw(id, Cause::Evict, &mut batch),
                },
                _ => self.hide_displayed(id, &mut batch),
            }
        }
        self.finish(batch, false)
    }

    /// The same of one, which leaves system memory, or is displayed no more.
    pub(crate) fn hide_displayed(&mut self, id: AllocationId, batch: &mut Batch<F>) {
        let allocation = &mut self.allocations[id];
        let Some((segment, run)) = allocation.displayed.at else { return };
        allocation.displayed.at = None;
        allocation.last_work = batch.serial;
        let (device, named) = (allocation.device(), allocation.named());
        let dummy_page = self.dummy_page_address();
        self.note_paging(id, batch.serial);
        self.segment_mut(segment).give(run);
        batch.invalidations.push(Operation::UnmapAperture {
            device,
            allocation: named,
            segment,
            offset_in_pages: run.first,
            number_of_pages: run.count.0,
            dummy_page,
        });
    }
}
