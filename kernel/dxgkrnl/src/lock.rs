//! Locks as processes ask for them (memory §6.3, §6.5): the members of `D3DKMT_LOCK`, the rules of its flags, the locks that wait for the
//! GPU, and the statuses of refusals. This part asks no other: `vidmm` decides what a lock does, and `adapter::lock` has it done.

mod rule;
mod waiting;

pub use rule::{Lockable, check_flags};
pub use waiting::WaitingLocks;

use kmt_calls::{LockFlags, Refusal};
use vidmm::{LegacyLock, LockError};
use wddm_types::{Blame, NtStatus, ProcessId, RawHandle};

use crate::number::{AllocationNumber, DeviceNumber, Token};
use crate::refusal::refuse;

/// `D3DKMT_LOCK` without its handles.
pub struct LockArguments<'a> {
    /// For the driver's swizzling range.
    pub private_driver_data: u32,
    /// Pages wanted.
    pub pages: &'a [u32],
    /// The caller's flags.
    pub flags: LockFlags,
}

/// The call that asks for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockCall {
    /// `D3DKMTLock` of a driver of the first generation.
    Legacy,
    /// `D3DKMTLock` of a later driver.
    Reduced,
    /// `D3DKMTLock2`.
    Lock2,
}

/// A lock as it was asked for and checked.
pub struct LockRequest {
    /// The function.
    pub call: LockCall,
    /// The call.
    pub token: Token,
    /// The device whose lock it is.
    pub device: DeviceNumber,
    /// Its process.
    pub process: ProcessId,
    /// The allocation.
    pub number: AllocationNumber,
    /// The handle by which the caller names it.
    pub handle: RawHandle,
    /// What the memory manager is asked for.
    pub how: LegacyLock,
    /// Not ReadOnly.
    pub writes: bool,
    /// Discard, and whether with NoExistingReference.
    pub discard: Option<bool>,
}

/// The memory manager's refusals of a lock as statuses.
// spec: memory §9.3
pub fn from_lock(error: LockError) -> Refusal {
    let (status, blame) = match error {
        LockError::CantLock => (NtStatus::GRAPHICS_CANT_LOCK_MEMORY, Blame::Caller),
        LockError::Pinned => (NtStatus::GRAPHICS_CANT_EVICT_PINNED_ALLOCATION, Blame::Caller),
        LockError::Offered => (NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE, Blame::Caller),
        LockError::ContentLost => (NtStatus::GRAPHICS_ALLOCATION_CONTENT_LOST, Blame::Caller),
        LockError::TooManyReferences => (NtStatus::GRAPHICS_TOO_MANY_REFERENCES, Blame::Scarcity),
        // spec: memory §9.2: NOTAVAILABLE where a runtime asks
        LockError::NeedsEviction => (NtStatus::GRAPHICS_CANT_LOCK_MEMORY, Blame::Caller),
        LockError::NotAcquired | LockError::NotLocked => (NtStatus::INVALID_PARAMETER, Blame::Caller),
    };
    refuse(status, blame, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: memory §9.2, memory §9.3
    #[test]
    fn every_refused_lock_has_its_status() {
        let rows = [
            (LockError::CantLock, 0xC01E_0101),
            (LockError::Pinned, 0xC01E_0109),
            (LockError::TooManyReferences, 0xC01E_0103),
            (LockError::Offered, 0xC01E_0110),
            (LockError::ContentLost, 0xC01E_0116),
            (LockError::NotLocked, 0xC000_000D),
        ];
        for (error, status) in rows {
            assert_eq!(from_lock(error).status, NtStatus(status), "{error}");
        }
    }
}
