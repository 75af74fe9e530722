//! The rules of `D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS` (sync §2.3), for every type of synchronization object in one table; and the two
//! flags that the kernel checks at every wait and signal; and the terms on which a name is opened. Other modules carry the flags out.

use ddi::FenceType;
use kmt_calls::{FenceFlags, OpenSyncObjectRequest, Refusal, SyncObjectAccess};

use super::Synchronization;
use crate::number::{FenceNumber, FenceOpenNumber};
use crate::refusal::{access_denied, invalid};

/// `D3DDDI_SYNCHRONIZATIONOBJECT_TYPE` (sync §1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectType {
    /// Type 1: a mutex.
    MutexObject,
    /// Type 2: a semaphore.
    Semaphore,
    /// Type 3: a fence of software packets.
    Fence,
    /// Type 4: a signal of it sets an event.
    CpuNotification,
    /// Type 5: a fence with a word in memory.
    MonitoredFence,
    /// Type 6: a fence that a display signals.
    PeriodicMonitoredFence,
    /// Type 7: created by a call of its own.
    NativeFence,
}

impl ObjectType {
    /// Its number.
    pub fn number(self) -> u32 {
        match self {
            ObjectType::MutexObject => 1,
            ObjectType::Semaphore => 2,
            ObjectType::Fence => 3,
            ObjectType::CpuNotification => 4,
            ObjectType::MonitoredFence => 5,
            ObjectType::PeriodicMonitoredFence => 6,
            ObjectType::NativeFence => 7,
        }
    }

    /// Flags that an object of this type may have at all.
    // spec: sync §2.3, sync §6 A12
    fn allowed(self) -> FenceFlags {
        let shared = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
        // A word in memory, one device's part in it, and waiters on the CPU.
        let in_memory = shared
            | FenceFlags::CROSS_ADAPTER
            | FenceFlags::TOP_OF_PIPELINE
            | FenceFlags::NO_SIGNAL
            | FenceFlags::NO_WAIT
            | FenceFlags::NO_SIGNAL_MAX_VALUE_ON_TDR
            | FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY;
        match self {
            ObjectType::MutexObject | ObjectType::Semaphore | ObjectType::Fence => shared,
            ObjectType::CpuNotification => shared | FenceFlags::SIGNAL_BY_KMD,
            ObjectType::MonitoredFence => in_memory | FenceFlags::NO_GPU_ACCESS,
            // The display signals it, so its pipeline has no top; it is mapped, so that it can be read.
            ObjectType::PeriodicMonitoredFence => in_memory.difference(FenceFlags::TOP_OF_PIPELINE),
            // A GPU signals it by its address: without access it would be none. SignalByKmd is another type's.
            ObjectType::NativeFence => in_memory,
        }
    }

    /// Whether it is shared by NT handle only: its global handle would be guessable.
    fn by_nt_handle_only(self) -> bool {
        matches!(self, ObjectType::MonitoredFence | ObjectType::PeriodicMonitoredFence | ObjectType::NativeFence)
    }
}

/// Whether an object of this type may have these flags.
///
/// # Errors
/// `INVALID_PARAMETER` with the rule.
// spec: sync §2.3, sync §3.2 step 1, sync §5
pub fn check_flags(object: ObjectType, flags: FenceFlags) -> Result<(), Refusal> {
    let unknown = flags.difference(FenceFlags::DEFINED);
    if !unknown.is_empty() {
        return Err(invalid(format!("fence flags {:#x} are reserved", unknown.bits())));
    }
    let wrong = flags.difference(object.allowed());
    if !wrong.is_empty() {
        return Err(invalid(format!("{object:?} does not go with {wrong:?}")));
    }
    if flags.contains(FenceFlags::NO_SIGNAL | FenceFlags::NO_WAIT) {
        return Err(invalid("NoSignal and NoWait exclude each other"));
    }
    if flags.contains(FenceFlags::NT_SECURITY_SHARING) && !flags.contains(FenceFlags::SHARED) {
        return Err(invalid("NtSecuritySharing requires Shared"));
    }
    let by_name = flags.contains(FenceFlags::SHARED) && !flags.contains(FenceFlags::NT_SECURITY_SHARING);
    if by_name && object.by_nt_handle_only() {
        return Err(invalid(format!("{object:?} is shared by NT handle only: Shared requires NtSecuritySharing")));
    }
    Ok(())
}

/// A call's use of the fences that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointUse {
    /// A thread waits.
    CpuWait,
    /// The CPU signals.
    CpuSignal,
    /// A queue or context waits.
    GpuWait,
    /// A queue or context signals.
    GpuSignal,
}

impl PointUse {
    fn waits(self) -> bool {
        matches!(self, PointUse::CpuWait | PointUse::GpuWait)
    }

    /// The access that an NT handle must give for it.
    // spec: sync §2.2
    pub fn access(self) -> SyncObjectAccess {
        if self.waits() { SyncObjectAccess::WAIT } else { SyncObjectAccess::SIGNAL }
    }
}

impl Synchronization {
    /// The fence of an open, if this may be done with it.
    ///
    /// # Errors
    /// `ACCESS_DENIED`; `INVALID_PARAMETER` for what no device may do with a fence of its type.
    // spec: sync §2.3, sync §1.4, sync §5
    pub fn usable_fence(&self, open: FenceOpenNumber, what: PointUse) -> Result<FenceNumber, Refusal> {
        let open = self.open(open);
        let (flag, name) = match what.waits() {
            true => (FenceFlags::NO_WAIT, "NoWait"),
            false => (FenceFlags::NO_SIGNAL, "NoSignal"),
        };
        let access = what.access();
        if open.flags.contains(flag) {
            return Err(access_denied(format!("this device created or opened the fence with {name}")));
        }
        if !open.access.contains(access) {
            return Err(access_denied(format!("the NT handle that it was opened by does not give {access:?}")));
        }
        // The kernel carries out waits and signals of kernel queues and packet contexts on the CPU.
        if self.fence(open.fence).fence_type == FenceType::IntraGpu {
            return Err(invalid("only engines wait for INTRA_GPU fences and signal them, by their commands"));
        }
        Ok(open.fence)
    }
}

/// An adapter here is one physical adapter: bit 0, or 0 for all. `flags` are the fence's: where no GPU accesses it, the affinity says nothing.
// spec: sync §2.1, sync §2.2
pub fn check_affinity(engine_affinity: u32, flags: FenceFlags) -> Result<(), Refusal> {
    if engine_affinity > 1 && !flags.contains(FenceFlags::NO_GPU_ACCESS) {
        return Err(invalid(format!("EngineAffinity {engine_affinity:#x} names physical adapters that there are not")));
    }
    Ok(())
}

/// Whether the name of an object with these flags may be opened so.
///
/// # Errors
/// `ACCESS_DENIED` for a name that cannot be read; `INVALID_PARAMETER` with the rule.
// spec: sync §2.2, sync §2.3, sync §3.3
pub fn check_open(access: SyncObjectAccess, flags: FenceFlags, request: &OpenSyncObjectRequest) -> Result<(), Refusal> {
    if !access.contains(SyncObjectAccess::STANDARD_RIGHTS_READ) {
        return Err(access_denied("the NT handle was made without STANDARD_RIGHTS_READ"));
    }
    check_affinity(request.engine_affinity, flags)?;
    let wrong = request.flags.difference(PER_DEVICE);
    if !wrong.is_empty() {
        return Err(invalid(format!("flags {:#x} are an object's, or reserved: not of an open", wrong.bits())));
    }
    if request.flags.contains(FenceFlags::NO_SIGNAL | FenceFlags::NO_WAIT) {
        return Err(invalid("NoSignal and NoWait exclude each other"));
    }
    Ok(())
}

/// Flags that each device has for itself; the rest are the object's.
// spec: sync §2.3
pub const PER_DEVICE: FenceFlags =
    FenceFlags::NO_SIGNAL.union(FenceFlags::NO_WAIT).union(FenceFlags::NO_SIGNAL_MAX_VALUE_ON_TDR);

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [ObjectType; 7] = [
        ObjectType::MutexObject,
        ObjectType::Semaphore,
        ObjectType::Fence,
        ObjectType::CpuNotification,
        ObjectType::MonitoredFence,
        ObjectType::PeriodicMonitoredFence,
        ObjectType::NativeFence,
    ];

    /// Bit by bit, on each type: `y` the object may be, `n` it may not. Bit 1 stands with bit 0, which it requires.
    #[test]
    fn each_bit_on_each_type() {
        // spec: sync §2.3, sync §6 A12
        // seed: C03
        let rows = [
            (FenceFlags::SHARED, "yyyynnn"),
            (FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING, "yyyyyyy"),
            (FenceFlags::NT_SECURITY_SHARING, "nnnnnnn"),
            (FenceFlags::CROSS_ADAPTER, "nnnnyyy"),
            (FenceFlags::TOP_OF_PIPELINE, "nnnnyny"),
            (FenceFlags::NO_SIGNAL, "nnnnyyy"),
            (FenceFlags::NO_WAIT, "nnnnyyy"),
            (FenceFlags::NO_SIGNAL | FenceFlags::NO_WAIT, "nnnnnnn"),
            (FenceFlags::NO_SIGNAL_MAX_VALUE_ON_TDR, "nnnnyyy"),
            (FenceFlags::NO_GPU_ACCESS, "nnnnynn"),
            (FenceFlags::SIGNAL_BY_KMD, "nnnynnn"),
            (FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY, "nnnnyyy"),
        ];
        for (flags, row) in rows {
            for (object, expected) in TYPES.iter().zip(row.chars()) {
                assert_eq!(check_flags(*object, flags).is_ok(), expected == 'y', "{object:?} with {flags:?}");
            }
        }
        for bit in [9].into_iter().chain(11..32) {
            for object in TYPES {
                assert!(
                    check_flags(object, FenceFlags::from_bits_retain(1 << bit)).is_err(),
                    "{object:?} with bit {bit}"
                );
            }
        }
    }
}
