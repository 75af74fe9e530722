//! The properties of an allocation that a call may change (memory §2.8), in the words of the memory manager and of the driver, and answers in
//! the words of calls. It keeps no state: properties are `vidmm`'s.

use ddi::{KmdAllocation, SegmentPreference, UpdateAllocationPropertyFlags, UpdateAllocationPropertyMask};
use kmt_calls::{PropertyFlags, PropertyMask, PropertyRequest, Refusal, ResidencyStatus};
use vidmm::{Location, PropertyError, PropertyUpdate};

use crate::refusal::{invalid, no_memory, not_supported};

/// A change that a call may ask for.
pub struct Change {
    request: PropertyRequest,
    preferred_segment: SegmentPreference,
}

impl Change {
    /// The change that a call asks for.
    ///
    /// # Errors
    /// Reserved bits, or nothing to change.
    pub fn new(request: PropertyRequest) -> Result<Change, Refusal> {
        if request.mask.is_empty() || request.mask.bits() >> 4 != 0 || request.flags.bits() >> 2 != 0 {
            return Err(invalid("property mask or flags: reserved bits, or nothing to change"));
        }
        let preferred_segment = SegmentPreference::from_bits(request.preferred_segment)
            .ok_or_else(|| invalid("reserved bits of an order of preference"))?;
        Ok(Change { request, preferred_segment })
    }

    /// The same for the driver, which is asked first.
    pub fn for_driver(&self, allocation: KmdAllocation) -> ddi::UpdateAllocationProperty {
        ddi::UpdateAllocationProperty {
            allocation,
            supported_segments: self.request.supported_segments,
            preferred_segment: self.preferred_segment,
            flags: UpdateAllocationPropertyFlags::from_bits_retain(self.request.flags.bits()),
            mask: UpdateAllocationPropertyMask::from_bits_retain(self.request.mask.bits()),
        }
    }

    /// The same for the memory manager.
    pub fn for_vidmm(&self) -> PropertyUpdate {
        let has = |flag: PropertyMask| self.request.mask.contains(flag);
        let flag = |flag: PropertyFlags| self.request.flags.contains(flag);
        PropertyUpdate {
            accessed_physically: has(PropertyMask::ACCESSED_PHYSICALLY)
                .then(|| flag(PropertyFlags::ACCESSED_PHYSICALLY)),
            supported_segments: has(PropertyMask::SUPPORTED_SEGMENT_SET).then_some(self.request.supported_segments),
            preferred_segment: has(PropertyMask::PREFERRED_SEGMENT).then_some(self.preferred_segment),
            unmoveable: has(PropertyMask::UNMOVEABLE).then(|| flag(PropertyFlags::UNMOVEABLE)),
        }
    }
}

/// Where an allocation is, as a call is told.
// spec: memory §9.2
pub fn residency_status(location: Location) -> ResidencyStatus {
    match location {
        Location::Memory => ResidencyStatus::ResidentInGpuMemory,
        Location::System => ResidencyStatus::ResidentInSharedMemory,
        Location::Nowhere => ResidencyStatus::NotResident,
    }
}

/// Why nothing has changed.
// spec: memory §9.2
pub fn from_property(error: &PropertyError) -> Refusal {
    match error {
        PropertyError::SegmentFull => no_memory(error.to_string()),
        PropertyError::NotBuilt(_) => not_supported(error.to_string()),
        _ => invalid(error.to_string()),
    }
}
