//! Calls on GPU virtual addresses (memory §4). Their arguments are in `crate::gpu_va`.

use serde::{Deserialize, Serialize};
use wddm_types::{GpuVa, RawHandle};

use crate::gpu_va::{GpuVaProtection, UpdateGpuVaFlags, UpdateGpuVaOperation};

/// A call on GPU virtual addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GpuVaCall {
    /// `D3DKMTMapGpuVirtualAddress` → `MappedVa`.
    MapGpuVirtualAddress {
        /// The paging queue whose fence tells when the entries are there.
        paging_queue: RawHandle,
        /// The allocation to map; NULL with ZERO or NO_ACCESS.
        allocation: RawHandle,
        /// Exact address, or NULL.
        base: GpuVa,
        /// Window for a free choice; NULL = from the start.
        minimum: GpuVa,
        /// End of the window; NULL = no bound.
        maximum: GpuVa,
        /// First page of the allocation.
        offset_in_pages: u64,
        /// How many pages.
        size_in_pages: u64,
        /// Protection; with ZERO or NO_ACCESS the allocation is NULL.
        protection: GpuVaProtection,
        /// DriverProtection: for the driver.
        driver_protection: u64,
    },
    /// `D3DKMTReserveGpuVirtualAddress` → `MappedVa`, value 0.
    ReserveGpuVirtualAddress {
        /// The device whose process owns the space; the adapter, or a paging queue of the device, stands for it, too.
        device: RawHandle,
        /// Exact address, or NULL.
        base: GpuVa,
        /// Window for a free choice; NULL = from the start.
        minimum: GpuVa,
        /// End of the window; NULL = no bound.
        maximum: GpuVa,
        /// Bytes; like all the others a multiple of 64 KB.
        size_bytes: u64,
        /// `D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE`: 0 NO_ACCESS, 1 ZERO.
        reservation_type: u32,
        /// DriverProtection of tiles mapped into it.
        driver_protection: u64,
    },
    /// `D3DKMTUpdateGpuVirtualAddress`: answers late when more than 128 are queued on the context.
    UpdateGpuVirtualAddress {
        /// The device.
        device: RawHandle,
        /// The context whose updates stay in order.
        context: RawHandle,
        /// Waited for, then signalled with the value behind.
        fence: RawHandle,
        /// The value waited for; `fence_value + 1` is signalled.
        fence_value: u64,
        /// The changes, in this order.
        operations: Vec<UpdateGpuVaOperation>,
        /// Flags of the call.
        flags: UpdateGpuVaFlags,
    },
    /// `D3DKMTFreeGpuVirtualAddress`.
    FreeGpuVirtualAddress {
        /// As of ReserveGpuVirtualAddress.
        device: RawHandle,
        /// First address.
        base: GpuVa,
        /// Bytes, a multiple of 4096.
        size_bytes: u64,
    },
}

impl GpuVaCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            GpuVaCall::MapGpuVirtualAddress { .. } => "MapGpuVirtualAddress",
            GpuVaCall::ReserveGpuVirtualAddress { .. } => "ReserveGpuVirtualAddress",
            GpuVaCall::UpdateGpuVirtualAddress { .. } => "UpdateGpuVirtualAddress",
            GpuVaCall::FreeGpuVirtualAddress { .. } => "FreeGpuVirtualAddress",
        }
    }
}
