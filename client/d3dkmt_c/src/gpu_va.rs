//! GPU virtual addresses.

use d3dkmt_abi::*;
use kmt_calls::{Call, GpuVaCall, GpuVaProtection, Refusal, Reply, UpdateGpuVaFlags, UpdateGpuVaOperation};
use wddm_types::{GpuVa, NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::refusal::{expect_reply, invalid};
use crate::residency::at;

// spec: memory §4.8
pub fn map_gpu_virtual_address(caller: &Caller<'_>, arguments: &mut D3DDDI_MAPGPUVIRTUALADDRESS) -> Answer {
    if (arguments.Reserved0, arguments.Reserved1) != (0, 0) {
        return Err(invalid("Reserved0 or Reserved1 is not 0"));
    }
    let call = Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
        paging_queue: RawHandle(arguments.hPagingQueue),
        allocation: RawHandle(arguments.hAllocation),
        base: GpuVa(arguments.BaseAddress),
        minimum: GpuVa(arguments.MinimumAddress),
        maximum: GpuVa(arguments.MaximumAddress),
        offset_in_pages: arguments.OffsetInPages,
        size_in_pages: arguments.SizeInPages,
        protection: GpuVaProtection::from_bits_retain(arguments.Protection.Value),
        driver_protection: arguments.DriverProtection,
    });
    let (va, value) = mapped(caller, call)?;
    arguments.VirtualAddress = va;
    arguments.PagingFenceValue = value;
    Ok(at(value))
}

fn mapped(caller: &Caller<'_>, call: Call) -> Result<(u64, u64), Refusal> {
    let reply = caller.process.call(call)?;
    Ok(expect_reply!(reply, Reply::MappedVa { va, paging_fence_value } => (va.0, paging_fence_value)))
}

/// The owner may be the adapter or, as in the older form, a paging queue.
// spec: memory §4.8
pub fn reserve_gpu_virtual_address(caller: &Caller<'_>, arguments: &mut D3DDDI_RESERVEGPUVIRTUALADDRESS) -> Answer {
    let call = Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress {
        device: RawHandle(arguments.Anonymous1.hAdapter()),
        base: GpuVa(arguments.BaseAddress),
        minimum: GpuVa(arguments.MinimumAddress),
        maximum: GpuVa(arguments.MaximumAddress),
        size_bytes: arguments.Size,
        reservation_type: arguments.Anonymous2.Reserved0(),
        driver_protection: arguments.Anonymous3.DriverProtection(),
    });
    let (va, value) = mapped(caller, call)?;
    arguments.VirtualAddress = va;
    arguments.Anonymous4.PagingFenceValue = value;
    Ok(at(value))
}

// spec: memory §4.8
pub fn free_gpu_virtual_address(caller: &Caller<'_>, arguments: &D3DKMT_FREEGPUVIRTUALADDRESS) -> Answer {
    caller.process.call(Call::GpuVa(GpuVaCall::FreeGpuVirtualAddress {
        device: RawHandle(arguments.hAdapter),
        base: GpuVa(arguments.BaseAddress),
        size_bytes: arguments.Size,
    }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: memory §4.8
pub fn update_gpu_virtual_address(caller: &Caller<'_>, arguments: &D3DKMT_UPDATEGPUVIRTUALADDRESS) -> Answer {
    if (arguments.Reserved0, arguments.Reserved1) != (0, 0) {
        return Err(invalid("Reserved0 or Reserved1 is not 0"));
    }
    let operations = caller.array(arguments.Operations.cast_const(), arguments.NumOperations)?;
    caller.process.call(Call::GpuVa(GpuVaCall::UpdateGpuVirtualAddress {
        device: RawHandle(arguments.hDevice),
        context: RawHandle(arguments.hContext),
        fence: RawHandle(arguments.hFenceObject),
        fence_value: arguments.FenceValue,
        operations: operations.iter().map(operation).collect::<Result<_, _>>()?,
        flags: UpdateGpuVaFlags::from_bits_retain(arguments.Flags.Value),
    }))?;
    Ok(NtStatus::SUCCESS)
}

fn operation(from: &D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION) -> Result<UpdateGpuVaOperation, Refusal> {
    let map = |arm: D3DDDI_UPDATEGPUVIRTUALADDRESS_MAPPROTECT_ARM, protection| UpdateGpuVaOperation::Map {
        base: GpuVa(arm.BaseAddress),
        size_bytes: arm.SizeInBytes,
        allocation: RawHandle(arm.hAllocation),
        offset_bytes: arm.AllocationOffsetInBytes,
        allocation_size_bytes: arm.AllocationSizeInBytes,
        protection,
    };
    // The arm of MAP is the begin of the other.
    let arm = from.Anonymous.MapProtect();
    match from.OperationType {
        D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP => Ok(map(arm, None)),
        D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT => {
            let protection = GpuVaProtection::from_bits_retain(arm.Protection.Value);
            Ok(map(arm, Some((protection, arm.DriverProtection))))
        }
        D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP => {
            let arm = from.Anonymous.Unmap();
            Ok(UpdateGpuVaOperation::Unmap {
                base: GpuVa(arm.BaseAddress),
                size_bytes: arm.SizeInBytes,
                protection: GpuVaProtection::from_bits_retain(arm.Protection.Value),
            })
        }
        D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY => {
            let arm = from.Anonymous.Copy();
            Ok(UpdateGpuVaOperation::Copy {
                source: GpuVa(arm.SourceAddress),
                size_bytes: arm.SizeInBytes,
                destination: GpuVa(arm.DestAddress),
            })
        }
        other => Err(invalid(format!("no operation has the number {other}"))),
    }
}
