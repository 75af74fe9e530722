//! GPU virtual addresses as processes ask for them (memory §4.8): the members of the calls, what their protections mean, and the statuses of
//! refusals. Updates of tiled resources, which wait for their turn, are `update`. Which addresses are free, and what entries say, is the
//! memory manager's; `adapter::gpu_va` carries the calls out. This part asks the memory manager alone.

mod update;

use kmt_calls::{GpuVaProtection, Refusal};
use vidmm::{AllocationId, MapError, MapRequest, Protection, ReserveRequest, Reserved, Target};
use wddm_types::{Blame, GpuVa, NtStatus, Pages};

pub use update::{Asked, Left, Updates};

use crate::number::AllocationNumber;
use crate::refusal::{invalid, no_memory, not_supported, refuse};

/// The members of `D3DDDI_MAPGPUVIRTUALADDRESS` (memory §4.8).
#[derive(Clone, Copy, Debug)]
pub struct MapCall {
    /// `None` with Zero or NoAccess.
    pub allocation: Option<AllocationNumber>,
    pub base: GpuVa,
    pub minimum: GpuVa,
    pub maximum: GpuVa,
    pub offset_in_pages: u64,
    pub size_in_pages: u64,
    pub protection: GpuVaProtection,
    pub driver_protection: u64,
}

/// The members of `D3DDDI_RESERVEGPUVIRTUALADDRESS` (memory §4.8).
#[derive(Clone, Copy, Debug)]
pub struct ReserveCall {
    pub base: GpuVa,
    pub minimum: GpuVa,
    pub maximum: GpuVa,
    pub size_bytes: u64,
    pub reservation_type: u32,
    pub driver_protection: u64,
}

impl MapCall {
    /// What the addresses are to show. `vidmm`: the allocation as the memory manager knows it.
    ///
    /// # Errors
    /// The rule that the caller breaks.
    // spec: memory §4.8
    pub fn target(&self, vidmm: Option<AllocationId>) -> Result<Target, Refusal> {
        match (reserved(self.protection)?, vidmm) {
            (None, Some(allocation)) => {
                Ok(Target::Allocation { allocation, offset_pages: Pages(self.offset_in_pages) })
            }
            (Some(reserved), None) => Ok(Target::Reserved(reserved)),
            // spec: memory §4.8, hAllocation is NULL iff NoAccess or Zero
            (None, None) => Err(invalid("no allocation, and neither Zero nor NoAccess")),
            (Some(_), Some(_)) => Err(invalid("an allocation with Zero or NoAccess")),
        }
    }

    /// The allocation that the GPU may write by the mapping.
    pub fn writes(&self) -> Option<AllocationNumber> {
        self.allocation.filter(|_| self.protection.contains(GpuVaProtection::WRITE))
    }

    /// The wish for the memory manager.
    pub fn request(&self, target: Target) -> MapRequest {
        MapRequest {
            target,
            size_pages: Pages(self.size_in_pages),
            base: at(self.base),
            minimum: self.minimum,
            maximum: self.maximum,
            protection: protection(self.protection, self.driver_protection),
        }
    }
}

impl ReserveCall {
    /// The wish for the memory manager.
    ///
    /// # Errors
    /// The reservation type is none, or the system's.
    // spec: memory §4.8
    pub fn request(&self) -> Result<ReserveRequest, Refusal> {
        let reserved = match self.reservation_type {
            0 => Reserved::NoAccess,
            1 => Reserved::Zero,
            2 => return Err(invalid("reservation type NO_COMMIT is the system's")),
            other => return Err(invalid(format!("there is no reservation type {other}"))),
        };
        Ok(ReserveRequest {
            size_bytes: self.size_bytes,
            base: at(self.base),
            minimum: self.minimum,
            maximum: self.maximum,
            reserved,
            driver_protection: self.driver_protection,
        })
    }
}

/// The address that a caller wishes; NULL: any.
fn at(base: GpuVa) -> Option<GpuVa> {
    (!base.is_null()).then_some(base)
}

/// Whether a protection says what a reserved range does instead of showing an allocation.
// spec: memory §4.8
pub fn reserved(protection: GpuVaProtection) -> Result<Option<Reserved>, Refusal> {
    use GpuVaProtection as P;
    let known = P::WRITE | P::EXECUTE | P::ZERO | P::NO_ACCESS;
    if !known.contains(protection) {
        let wrong = protection.difference(known).bits();
        return Err(invalid(format!("protection bits {wrong:#x} are the system's or reserved")));
    }
    match (protection.contains(P::ZERO), protection.contains(P::NO_ACCESS)) {
        (true, true) => Err(invalid("Zero and NoAccess exclude each other")),
        (true, false) => Ok(Some(Reserved::Zero)),
        (false, true) => Ok(Some(Reserved::NoAccess)),
        (false, false) => Ok(None),
    }
}

/// The terms of a mapping with these bits, the driver's own among them.
pub fn protection(bits: GpuVaProtection, driver: u64) -> Protection {
    let (write, execute) = (bits.contains(GpuVaProtection::WRITE), bits.contains(GpuVaProtection::EXECUTE));
    Protection { write, execute, driver }
}

// The memory manager's errors as statuses.
// spec: memory §9.2, memory §9.3
pub fn from_map(error: &MapError) -> Refusal {
    match error {
        MapError::ConflictingAddresses => refuse(NtStatus::CONFLICTING_ADDRESSES, Blame::Caller, error.to_string()),
        MapError::NoRoom | MapError::OutOfTables => no_memory(error.to_string()),
        MapError::AllocationInPagingSpace => not_supported(error.to_string()),
        _ => invalid(error.to_string()),
    }
}
