//! Calls on properties of allocations: priority, residency, and the caches in front of them (memory §5.6, §6.7).

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

use crate::allocation::{AllocationTarget, PropertyRequest};

/// A call on properties of allocations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PropertyCall {
    /// `D3DKMTSetAllocationPriority`.
    SetAllocationPriority {
        /// The device.
        device: RawHandle,
        /// Of what.
        target: AllocationTarget,
        /// One for each allocation of the list; one for a resource.
        priorities: Vec<u32>,
    },
    /// `D3DKMTGetAllocationPriority` → `Priorities`.
    GetAllocationPriority {
        /// The device.
        device: RawHandle,
        /// Of what.
        target: AllocationTarget,
    },
    /// `D3DKMTQueryAllocationResidency` → `ResidencyStatuses`; one for a resource.
    QueryAllocationResidency {
        /// The device.
        device: RawHandle,
        /// Of what.
        target: AllocationTarget,
    },
    /// `D3DKMTUpdateAllocationProperty` → `Residency`: effective now, or at the paging fence's value.
    UpdateAllocationProperty {
        /// The paging queue.
        paging_queue: RawHandle,
        /// Of what.
        allocation: RawHandle,
        /// The properties that change.
        request: PropertyRequest,
    },
    /// `D3DKMTInvalidateCache`: writes back and invalidates a range of a cacheable allocation (memory §6.7).
    InvalidateCache {
        /// The device.
        device: RawHandle,
        /// The allocation.
        allocation: RawHandle,
        /// First byte.
        offset_bytes: u64,
        /// How many bytes.
        length_bytes: u64,
    },
}

impl PropertyCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            PropertyCall::SetAllocationPriority { .. } => "SetAllocationPriority",
            PropertyCall::GetAllocationPriority { .. } => "GetAllocationPriority",
            PropertyCall::QueryAllocationResidency { .. } => "QueryAllocationResidency",
            PropertyCall::UpdateAllocationProperty { .. } => "UpdateAllocationProperty",
            PropertyCall::InvalidateCache { .. } => "InvalidateCache",
        }
    }
}
