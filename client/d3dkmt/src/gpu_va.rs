//! GPU virtual addresses: reserve, map, update, free (memory §4.8).

use kmt_calls::{Call, GpuVaCall, GpuVaProtection, Refusal, Reply, UpdateGpuVaFlags, UpdateGpuVaOperation};
use wddm_types::{GpuVa, RawHandle};

use crate::{Allocation, Device, Fence, HwContext, PagingQueue, VirtualContext, expect_reply};

/// A request to [`PagingQueue::map_gpu_va`]. The default: 0 pages, readable only, at an address of the kernel's choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct GpuVaMapping {
    /// Exactly here; NULL: within the window.
    pub base: GpuVa,
    /// Start of the window; NULL: no bound.
    pub minimum: GpuVa,
    /// End of the window; NULL: no bound.
    pub maximum: GpuVa,
    /// First page of the allocation.
    pub offset_in_pages: u64,
    /// How many pages.
    pub size_in_pages: u64,
    /// The accesses that engines may make there.
    pub protection: GpuVaProtection,
    /// For the driver.
    pub driver_protection: u64,
}

/// A request to [`Device::reserve_gpu_va`]. All members are multiples of 64 KB.
#[derive(Clone, Copy, Debug, Default)]
pub struct GpuVaReservation {
    /// Exactly here; NULL: within the window.
    pub base: GpuVa,
    /// Start of the window; NULL: no bound.
    pub minimum: GpuVa,
    /// End of the window; NULL: no bound.
    pub maximum: GpuVa,
    /// Bytes to reserve.
    pub size_bytes: u64,
    /// Reads return 0, else every access faults.
    pub zero: bool,
    /// Passed to the driver with tiles that are mapped there.
    pub driver_protection: u64,
}

/// A context that updates of tile mappings are queued on.
pub trait TileContext {
    /// Its handle.
    fn handle(&self) -> RawHandle;
}

impl TileContext for HwContext {
    fn handle(&self) -> RawHandle {
        HwContext::handle(self)
    }
}

impl TileContext for VirtualContext {
    fn handle(&self) -> RawHandle {
        VirtualContext::handle(self)
    }
}

impl Device {
    /// `D3DKMTReserveGpuVirtualAddress`.
    ///
    /// # Errors
    /// When the range is taken or no room is left.
    pub fn reserve_gpu_va(&self, reservation: GpuVaReservation) -> Result<GpuVa, Refusal> {
        let call = Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress {
            device: self.handle(),
            base: reservation.base,
            minimum: reservation.minimum,
            maximum: reservation.maximum,
            size_bytes: reservation.size_bytes,
            reservation_type: u32::from(reservation.zero),
            driver_protection: reservation.driver_protection,
        });
        Ok(expect_reply!(self.link().call(call)?, Reply::MappedVa { va, .. } => va))
    }

    /// `D3DKMTUpdateGpuVirtualAddress`: once the fence has the value, the operations are applied in order and the fence
    /// gets the next value. Blocks while 128 updates wait on the context.
    ///
    /// # Errors
    /// When a range is not in one reservation, or an allocation's part does not fit.
    pub fn update_gpu_va(
        &self,
        context: &impl TileContext,
        fence: (&Fence, u64),
        operations: Vec<UpdateGpuVaOperation>,
        flags: UpdateGpuVaFlags,
    ) -> Result<(), Refusal> {
        let call = Call::GpuVa(GpuVaCall::UpdateGpuVirtualAddress {
            device: self.handle(),
            context: context.handle(),
            fence: fence.0.handle(),
            fence_value: fence.1,
            operations,
            flags,
        });
        self.link().call(call).map(drop)
    }

    /// `D3DKMTFreeGpuVirtualAddress`.
    ///
    /// # Errors
    /// When the range is none of the process's.
    pub fn free_gpu_va(&self, base: GpuVa, size_bytes: u64) -> Result<(), Refusal> {
        self.link()
            .call(Call::GpuVa(GpuVaCall::FreeGpuVirtualAddress { device: self.handle(), base, size_bytes }))
            .map(drop)
    }
}

impl PagingQueue {
    /// `D3DKMTMapGpuVirtualAddress`; without an allocation the protection says ZERO or NO_ACCESS. Returns the address and the
    /// paging-fence value from which it may be used (0: now).
    ///
    /// # Errors
    /// When the range is taken or no room is left.
    pub fn map_gpu_va(&self, allocation: Option<&Allocation>, mapping: GpuVaMapping) -> Result<(GpuVa, u64), Refusal> {
        let call = Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
            paging_queue: self.handle(),
            allocation: allocation.map_or(RawHandle::NONE, Allocation::handle),
            base: mapping.base,
            minimum: mapping.minimum,
            maximum: mapping.maximum,
            offset_in_pages: mapping.offset_in_pages,
            size_in_pages: mapping.size_in_pages,
            protection: mapping.protection,
            driver_protection: mapping.driver_protection,
        });
        Ok(
            expect_reply!(self.link().call(call)?, Reply::MappedVa { va, paging_fence_value } => (va, paging_fence_value)),
        )
    }

    /// `D3DKMTMapGpuVirtualAddress` of a whole allocation at an address of the kernel's choice.
    ///
    /// # Errors
    /// When no room is left.
    pub fn map(&self, allocation: &Allocation, size_in_pages: u64, write: bool) -> Result<(GpuVa, u64), Refusal> {
        self.map_at(allocation, GpuVa::NULL, 0, size_in_pages, write)
    }

    /// `D3DKMTMapGpuVirtualAddress` of a part, at `base` exactly unless that is NULL.
    ///
    /// # Errors
    /// When the range is taken or no room is left.
    pub fn map_at(
        &self,
        allocation: &Allocation,
        base: GpuVa,
        offset_in_pages: u64,
        size_in_pages: u64,
        write: bool,
    ) -> Result<(GpuVa, u64), Refusal> {
        let protection = if write { GpuVaProtection::WRITE } else { GpuVaProtection::empty() };
        let mapping = GpuVaMapping { base, offset_in_pages, size_in_pages, protection, ..GpuVaMapping::default() };
        self.map_gpu_va(Some(allocation), mapping)
    }
}
