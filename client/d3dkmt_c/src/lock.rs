//! CPU access: locks and cache maintenance.

use d3dkmt_abi::*;
use kmt_calls::{Call, LockCall, LockFlags, Mapped, PropertyCall, Refusal, Reply};
use wddm_types::{NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::handle::handles;
use crate::refusal::{expect_reply, invalid, not_supported};

/// Where the bytes of a lock stand, for as long as it lasts.
pub fn address(caller: &Caller<'_>, mapped: &Mapped) -> Result<*mut VOID, Refusal> {
    let mapping = caller.process.link().mapping(mapped.mapping);
    let mapping = mapping.ok_or_else(|| invalid("the lock ended while it was made: its device was lost"))?;
    let range = mapping.range().map_err(|why| not_supported(format!("a lock has no address: {why}")))?;
    Ok(range.base().as_ptr().cast())
}

// spec: memory §6.3
pub fn lock2(caller: &Caller<'_>, arguments: &mut D3DKMT_LOCK2) -> Answer {
    let (device, allocation) = (RawHandle(arguments.hDevice), RawHandle(arguments.hAllocation));
    let call = Call::Lock(LockCall::Lock2 { device, allocation, flags: arguments.Flags.Value });
    let mapped = expect_reply!(caller.process.call(call)?, Reply::Mapped(mapped) => mapped);
    match address(caller, &mapped) {
        Ok(data) => arguments.pData = data,
        Err(refusal) => {
            // The program gets no address to use it at.
            caller.process.call(Call::Lock(LockCall::Unlock2 { device, allocation }))?;
            return Err(refusal);
        }
    }
    Ok(NtStatus::SUCCESS)
}

// spec: memory §6.3
pub fn unlock2(caller: &Caller<'_>, arguments: &D3DKMT_UNLOCK2) -> Answer {
    let (device, allocation) = (RawHandle(arguments.hDevice), RawHandle(arguments.hAllocation));
    caller.process.call(Call::Lock(LockCall::Unlock2 { device, allocation }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: memory §6.5
pub fn lock(caller: &Caller<'_>, arguments: &mut D3DKMT_LOCK) -> Answer {
    let device = RawHandle(arguments.hDevice);
    let call = Call::Lock(LockCall::Lock {
        device,
        allocation: RawHandle(arguments.hAllocation),
        private_driver_data: arguments.PrivateDriverData,
        pages: caller.array(arguments.pPages, arguments.NumPages)?,
        flags: LockFlags::from_bits_retain(arguments.Flags.Value),
    });
    let (allocation, mapped) =
        expect_reply!(caller.process.call(call)?, Reply::Locked { allocation, mapped } => (allocation, mapped));
    arguments.hAllocation = allocation.0;
    arguments.GpuVirtualAddress = 0;
    match address(caller, &mapped) {
        Ok(data) => arguments.pData = data,
        Err(refusal) => {
            caller.process.call(Call::Lock(LockCall::Unlock { device, allocations: vec![allocation] }))?;
            return Err(refusal);
        }
    }
    Ok(NtStatus::SUCCESS)
}

// spec: memory §6.5
pub fn unlock(caller: &Caller<'_>, arguments: &D3DKMT_UNLOCK) -> Answer {
    let D3DKMT_UNLOCK { hDevice, NumAllocations, phAllocations } = *arguments;
    let allocations = handles(caller, phAllocations, NumAllocations)?;
    caller.process.call(Call::Lock(LockCall::Unlock { device: RawHandle(hDevice), allocations }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: memory §6.7
pub fn invalidate_cache(caller: &Caller<'_>, arguments: &D3DKMT_INVALIDATECACHE) -> Answer {
    caller.process.call(Call::Property(PropertyCall::InvalidateCache {
        device: RawHandle(arguments.hDevice),
        allocation: RawHandle(arguments.hAllocation),
        offset_bytes: arguments.Offset as u64,
        length_bytes: arguments.Length as u64,
    }))?;
    Ok(NtStatus::SUCCESS)
}
