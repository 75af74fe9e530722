//! Properties of an allocation that can change after its creation (memory §2.8), and queries of where it is (memory §9.2). Called by the
//! kernel, after it has asked the driver.

use ddi::{AllocationFlags, AllocationInfo, SegmentPreference};
use wddm_types::SegmentSet;

use crate::allocation::{self, AllocationError, Origin, Placement};
use crate::paging::{Cause, Work};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;
use crate::vidmm::placement::pin::PinError;
use crate::vidmm::placement::plan::{Claim, Limit, Takes};

/// The properties to change; a `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertyUpdate {
    /// Contiguous in memory segments.
    pub accessed_physically: Option<bool>,
    /// Where it may be.
    pub supported_segments: Option<SegmentSet>,
    /// Placement order.
    pub preferred_segment: Option<SegmentPreference>,
    /// Pinned where it is.
    pub unmoveable: Option<bool>,
}

/// Why properties do not change; nothing has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// The new description breaks a rule.
    #[error("the new properties: {0}")]
    Rule(#[from] AllocationError),
    /// It cannot be pinned.
    #[error("it cannot become unmoveable: {0}")]
    Pin(#[from] PinError),
    /// It was unmoveable for another reason, or is not.
    #[error("it is not unmoveable by this call")]
    NotUnmoveable,
    /// Its content would have to move, and cannot.
    #[error("its content may not stay, and it is pinned, or a list that has it would not fit any more")]
    SegmentFull,
    /// A change that is not built.
    #[error("{0} is not built")]
    NotBuilt(&'static str),
}

/// Where an allocation is for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// Whole, in a memory segment.
    Memory,
    /// In system memory.
    System,
    /// Nowhere, or only a part of it.
    Nowhere,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Where an allocation is.
    pub fn location(&self, id: AllocationId) -> Location {
        match &self.allocations[id].placement {
            Placement::Memory(..) if self.is_resident(id) => Location::Memory,
            Placement::System(_) => Location::System,
            Placement::Memory(..) | Placement::None => Location::Nowhere,
        }
    }

    /// The description of an allocation as it counts.
    pub fn info(&self, id: AllocationId) -> &AllocationInfo {
        &self.allocations[id].info
    }

    /// Whether [`VidMm::update_property`] would succeed, and the segments where the allocation may lie afterwards.
    ///
    /// # Errors
    /// See [`PropertyError`].
    pub fn check_property(&mut self, id: AllocationId, update: &PropertyUpdate) -> Result<SegmentSet, PropertyError> {
        let (info, leaves) = self.changed(id, update)?;
        self.check_lists_with(id, info, leaves)?;
        Ok(info.supported_segments)
    }

    /// Changes properties. Content that may not stay where it is leaves now. The running devices that list it are suspended until their
    /// next turns, which place it anew; if no device lists it, the next MakeResident places it.
    ///
    /// # Errors
    /// See [`PropertyError`].
    // spec: memory §2.8
    pub fn update_property(
        &mut self,
        id: AllocationId,
        update: PropertyUpdate,
    ) -> Result<Option<Work<F>>, PropertyError> {
        let (info, leaves) = self.changed(id, &update)?;
        self.check_lists_with(id, info, leaves)?;
        if update.unmoveable == Some(true) && !self.allocations[id].unmoveable {
            self.pin(id)?;
            self.allocations[id].unmoveable = true;
        }
        if update.unmoveable == Some(false) && self.allocations[id].unmoveable {
            self.allocations[id].unmoveable = false;
            self.unpin(id);
        }
        let mut batch = self.works.begin();
        debug_assert!(!leaves || self.allocations[id].pins == 0, "{id:?} is pinned, and has to leave");
        if leaves {
            for device in self.running_holders(id) {
                self.suspend_now(device, &mut batch);
            }
            self.withdraw(id, Cause::Property, &mut batch);
        }
        self.foresee_home(id, &info);
        self.allocations[id].info = info;
        if self.foreseen.is_on() {
            self.rerank(id);
        }
        Ok(self.finish(batch, false))
    }

    /// Whether each list that has an allocation still fits, if all else leaves, when its content is placed anew.
    fn check_lists_with(&mut self, id: AllocationId, info: AllocationInfo, leaves: bool) -> Result<(), PropertyError> {
        if !leaves {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.allocations[id].info, info);
        let claim = |device| Claim { device, takes: Takes::Turn, limit: Limit::None, for_holders: false, moves: true };
        let fit = self.allocations[id].holders.iter().all(|device| self.plan_alone(claim(*device), &[]).is_ok());
        self.allocations[id].info = before;
        if fit { Ok(()) } else { Err(PropertyError::SegmentFull) }
    }

    /// The new description, and whether the content has to leave.
    fn changed(&self, id: AllocationId, update: &PropertyUpdate) -> Result<(AllocationInfo, bool), PropertyError> {
        let allocation = &self.allocations[id];
        let mut info = allocation.info;
        if let Some(set) = update.supported_segments {
            (info.supported_segments, info.read_segments) = (set, set);
        }
        if let Some(preferred) = update.preferred_segment {
            info.preferred_segment = preferred;
        }
        if let Some(physically) = update.accessed_physically {
            info.flags.set(AllocationFlags::ACCESSED_PHYSICALLY, physically);
        }
        let info = self.by_physical_address(self.segments.with_system_alias(info));
        let existing = allocation.foreign.then(|| allocation.backing.clone());
        let origin = Origin { primary: allocation.primary, existing };
        let (info, pages) = allocation::check(info, &origin, self.creation_terms())?;
        if self.may_align_pitches(&info) && !allocation.mappings.is_empty() {
            return Err(PropertyError::NotBuilt("a segment that aligns pitches for what has GPU virtual addresses"));
        }
        if self.reach_pages(&info, pages) < self.reach_pages(&allocation.info, pages) {
            return Err(PropertyError::NotBuilt(
                "fewer bytes than queued buffers may name, for want of aligned pitches",
            ));
        }
        if pages != allocation.pages {
            return Err(PropertyError::NotBuilt("another size for the pages of other segments"));
        }
        if update.unmoveable == Some(true) && allocation.is_offered() {
            return Err(PropertyError::Pin(PinError::Offered));
        }
        if update.unmoveable == Some(true) && !self.is_resident(id) {
            return Err(PropertyError::Pin(PinError::NotResident));
        }
        let physically = AllocationFlags::ACCESSED_PHYSICALLY;
        let becomes_contiguous = info.flags.contains(physically) != allocation.info.flags.contains(physically);
        let leaves = match &allocation.placement {
            Placement::None => false,
            Placement::Memory(segment, _) => {
                becomes_contiguous && !allocation.primary || !info.supported_segments.contains(*segment)
            }
            Placement::System(_) => {
                becomes_contiguous || !info.supported_segments.iter().any(|id| self.segment(id).is_aperture())
            }
        };
        // Content that is pinned, or is to be pinned in its place, cannot leave first.
        if leaves && (allocation.pins > 0 || update.unmoveable == Some(true)) {
            return Err(PropertyError::SegmentFull);
        }
        Ok((info, leaves))
    }
}
