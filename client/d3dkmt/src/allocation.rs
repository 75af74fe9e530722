//! Allocations and locks on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kmt_calls::{
    AllocationCall, AllocationTarget, Call, CreatedAllocation, DestroyFlags, LockCall, LockFlags, PropertyCall,
    Refusal, Reply, ResidencyStatus,
};
use kmt_link::{Link, MappedBytes};
use wddm_types::{CpuVa, RawHandle};

use crate::expect_reply;

/// An allocation. Dropping it destroys it behind the commands queued before (memory §6.2).
pub struct Allocation {
    link: Arc<dyn Link>,
    device: RawHandle,
    /// Of the current instance, where a lock has renamed it.
    handle: AtomicU32,
    address: CpuVa,
}

impl Allocation {
    pub(crate) fn new(link: Arc<dyn Link>, device: RawHandle, created: &CreatedAllocation) -> Allocation {
        Allocation { link, device, handle: AtomicU32::new(created.handle.0), address: created.address }
    }

    /// Its CPU address, which the GPU uses too, on an adapter of the IoMmu model (memory §4.1); NULL on others.
    pub fn address(&self) -> CpuVa {
        self.address
    }

    /// `D3DKMTLock2`. The lock ends when the value is dropped. It synchronises with nothing.
    ///
    /// # Errors
    /// When the allocation cannot be locked where it is.
    pub fn lock(self: &Arc<Self>) -> Result<Lock, Refusal> {
        let call = Call::Lock(LockCall::Lock2 { device: self.device, allocation: self.handle(), flags: 0 });
        let mapped = expect_reply!(self.link.call(call)?, Reply::Mapped(mapped) => mapped);
        Ok(Lock { allocation: Arc::clone(self), bytes: MappedBytes::new(self.link.as_ref(), mapped), legacy: false })
    }

    /// `D3DKMTLock`, the lock of WDDM 1, of which a WDDM 2 driver has a part (memory §6.5). `pages` are empty with
    /// LOCK_ENTIRE. It ends when the value is dropped. A WDDM 1 driver's waits until the GPU is done with what was submitted
    /// before it.
    ///
    /// # Errors
    /// When a flag does not exist for the driver, or the allocation cannot be locked so.
    pub fn lock_legacy(self: &Arc<Self>, pages: Vec<u32>, flags: LockFlags) -> Result<Lock, Refusal> {
        self.lock_level(0, pages, flags)
    }

    /// The same with private data for the driver's swizzling range, such as the level of a texture.
    ///
    /// # Errors
    /// As of [`Allocation::lock_legacy`].
    pub fn lock_level(
        self: &Arc<Self>,
        private_driver_data: u32,
        pages: Vec<u32>,
        flags: LockFlags,
    ) -> Result<Lock, Refusal> {
        let (device, allocation) = (self.device, self.handle());
        let call = Call::Lock(LockCall::Lock { device, allocation, private_driver_data, pages, flags });
        let reply = self.link.call(call)?;
        let (handle, mapped) = expect_reply!(reply, Reply::Locked { allocation, mapped } => (allocation, mapped));
        // spec: memory §6.5: commands recorded before keep the name that they have
        self.handle.store(handle.0, Ordering::Relaxed);
        Ok(Lock { allocation: Arc::clone(self), bytes: MappedBytes::new(self.link.as_ref(), mapped), legacy: true })
    }

    /// `D3DKMTDestroyAllocation2` with flags. With SynchronousDestroy its memory is free when this returns.
    ///
    /// # Errors
    /// When a flag is not allowed.
    pub fn destroy(&self, flags: DestroyFlags) -> Result<(), Refusal> {
        self.link
            .call(Call::Allocation(AllocationCall::DestroyAllocation {
                device: self.device,
                target: self.target(),
                flags,
            }))
            .map(drop)
    }

    /// `D3DKMTSetAllocationPriority`.
    ///
    /// # Errors
    /// When the priority is 0.
    pub fn set_priority(&self, priority: u32) -> Result<(), Refusal> {
        let (device, target) = (self.device, self.target());
        self.link
            .call(Call::Property(PropertyCall::SetAllocationPriority { device, target, priorities: vec![priority] }))
            .map(drop)
    }

    /// `D3DKMTGetAllocationPriority`.
    ///
    /// # Errors
    /// When the device is in error.
    pub fn priority(&self) -> Result<u32, Refusal> {
        let call = Call::Property(PropertyCall::GetAllocationPriority { device: self.device, target: self.target() });
        Ok(expect_reply!(self.link.call(call)?, Reply::Priorities(priorities) => priorities[0]))
    }

    /// `D3DKMTQueryAllocationResidency`.
    ///
    /// # Errors
    /// When the device is in error.
    pub fn residency(&self) -> Result<ResidencyStatus, Refusal> {
        let call =
            Call::Property(PropertyCall::QueryAllocationResidency { device: self.device, target: self.target() });
        Ok(expect_reply!(self.link.call(call)?, Reply::ResidencyStatuses(statuses) => statuses[0]))
    }

    /// `D3DKMTInvalidateCache`: writes back and invalidates the CPU's lines of a range. Due after a CPU write and before a
    /// GPU read, after a GPU write and before a CPU read, where the GPU does not snoop (memory §6.7).
    ///
    /// # Errors
    /// When the range leaves the allocation.
    pub fn invalidate_cache(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), Refusal> {
        let (device, allocation) = (self.device, self.handle());
        self.link
            .call(Call::Property(PropertyCall::InvalidateCache { device, allocation, offset_bytes, length_bytes }))
            .map(drop)
    }

    fn target(&self) -> AllocationTarget {
        AllocationTarget { allocations: vec![self.handle()], ..AllocationTarget::default() }
    }

    /// Its handle. A lock with Discard changes it: commands that are recorded from then on name another instance.
    pub fn handle(&self) -> RawHandle {
        RawHandle(self.handle.load(Ordering::Relaxed))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Refused only when the device has gone before: then the allocation has too.
        self.link.post(Call::Allocation(AllocationCall::DestroyAllocation {
            device: self.device,
            target: self.target(),
            flags: DestroyFlags::empty(),
        }));
    }
}

/// A locked allocation's bytes.
pub struct Lock {
    allocation: Arc<Allocation>,
    bytes: MappedBytes,
    /// It ends with `D3DKMTUnlock`.
    legacy: bool,
}

impl std::ops::Deref for Lock {
    type Target = MappedBytes;
    fn deref(&self) -> &MappedBytes {
        &self.bytes
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let (device, allocation) = (self.allocation.device, self.allocation.handle());
        let call = match self.legacy {
            true => Call::Lock(LockCall::Unlock { device, allocations: vec![allocation] }),
            false => Call::Lock(LockCall::Unlock2 { device, allocation }),
        };
        let _ = self.allocation.link.call(call);
    }
}
