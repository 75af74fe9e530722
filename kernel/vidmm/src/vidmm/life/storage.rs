//! Storage of native fences in memory segments (sync §1.5): allocations of the kernel's own, whose words engines and the context
//! management processor reach all the time.
//!
//! It is on its device's list like anything else that the device needs. But its words must always be reachable: the context management
//! processor acts for every device, and other devices of the process have the words at the same addresses. So storage that leaves video
//! memory goes into the backing store *and is mapped there at once*; it moves up again like other content in a less preferred place
//! (`promote`). All devices of the process quiesce while the words move, the paging process sees them all along, and the driver hears of
//! every move. A driver that does not list an aperture keeps them where they are: they are pinned.

use ddi::AllocationInfo;
use wddm_types::{PAGE_BYTES, PhysicalAddress, SegmentId, SegmentSet};

use crate::allocation::{AllocationError, Placement};
use crate::paging::{Batch, Cause};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Makes storage for words of native fences, which begin with `pattern`: its backing store is to hold that, too, before anybody
    /// is shown it.
    ///
    /// # Errors
    /// See [`AllocationError`].
    // spec: sync §1.5
    pub fn create_fence_storage(
        &mut self,
        owner: DeviceId,
        info: AllocationInfo,
        pattern: u32,
    ) -> Result<AllocationId, AllocationError> {
        let id = self.create_allocation(owner, info)?;
        let memory = self.allocations[id].info.supported_segments.iter().any(|id| !self.segment(id).is_aperture());
        if !memory {
            assert!(self.destroy_allocation(id, &[]).is_none(), "no work has used it");
            return Err(AllocationError::NoSegment);
        }
        self.allocations[id].pattern = Some(pattern);
        Ok(id)
    }

    /// Whether storage of fences may be demoted to system memory. The kernel pins storage that may not.
    pub fn may_be_demoted(&self, storage: AllocationId) -> bool {
        self.allocations[storage].info.supported_segments.iter().any(|id| self.segment(id).is_aperture())
    }

    /// Where the first byte of storage of fences is.
    pub fn storage_address(&self, storage: AllocationId) -> PhysicalAddress {
        let allocation = &self.allocations[storage];
        let (segment, page) = match &allocation.placement {
            Placement::Memory(segment, extents) => (*segment, extents.iter().next().map_or(0, |extent| extent.frame)),
            Placement::System(_) | Placement::None => (SegmentId::SYSTEM, allocation.backing[0].first),
        };
        PhysicalAddress { segment, offset: page * PAGE_BYTES }
    }

    /// Whether the CPU reaches every memory segment of these linearly.
    // spec: memory §1.7
    pub fn on_the_bus(&self, segments: SegmentSet) -> bool {
        segments.iter().all(|id| {
            let known = usize::from(id.0) <= self.segments.drivers().len() && !id.is_system();
            known && (self.segment(id).is_aperture() || self.segment(id).bus_address(0).is_some())
        })
    }

    /// Where the CPU reaches a byte of a memory segment.
    // spec: memory §1.7
    pub fn bus_address(&self, place: PhysicalAddress) -> Option<u64> {
        Some(self.segment(place.segment).bus_address(0)? + place.offset)
    }

    /// Storage of fences has lost its place in a memory segment: from now on its words are in the backing store.
    // spec: sync §1.4, sync §1.5
    pub(crate) fn demote_storage(&mut self, id: AllocationId, cause: Cause, batch: &mut Batch<F>) {
        let allocation = &self.allocations[id];
        let goes = matches!(cause, Cause::Destroy | Cause::Reset) || !matches!(allocation.placement, Placement::None);
        if goes || !allocation.stores_fences() || !self.may_be_demoted(id) {
            return;
        }
        for device in self.users_of(id) {
            if !self.devices[device].is_suspended() && !batch.quiesced.contains(&device) {
                batch.quiesced.push(device);
            }
        }
        self.enter_system(id, None, cause, batch);
        // Nothing takes the old place before the paging process, which sees the words all along, sees them at the new one.
        self.settle(batch);
    }

    /// The devices that use an allocation: those that list it, of fences' words all of its process.
    pub(crate) fn users_of(&self, id: AllocationId) -> Vec<DeviceId> {
        let allocation = &self.allocations[id];
        if !allocation.stores_fences() {
            return allocation.holders.iter().copied().collect();
        }
        let owner = allocation.owner.expect("fences' words go with their process");
        let space = self.devices[owner].space();
        self.devices.iter().filter(|(_, device)| device.space() == space).map(|(id, _)| id).collect()
    }
}
