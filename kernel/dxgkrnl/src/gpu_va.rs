//! Calls about GPU virtual addresses: reserve, map, free (memory §4.8). Which addresses are free, and what entries say,
//! is the memory manager's; updates of tiled resources, which wait for their turn, are `update`.

mod update;

use events::Event;
use kmt_calls::{GpuVaProtection, Refusal, Reply};
use vidmm::{MapError, MapRequest, Protection, ReserveRequest, Reserved, Target};
use wddm_types::{Blame, GpuVa, NtStatus, PAGE_BYTES, Pages};

pub use update::{Asked, Left, UpdateContext, Updates};

use crate::adapter::Adapter;
use crate::allocations::AllocationNumber;
use crate::effect::{Answer, Cx, Token};
use crate::number::{DeviceNumber, PagingQueueNumber};
use crate::refusal::{invalid, no_memory, not_supported, refuse};
use crate::store::ObjectNumber;

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

impl Adapter {
    /// `D3DKMTMapGpuVirtualAddress`.
    // spec: memory §4.8
    pub fn map_gpu_va(
        &mut self,
        cx: &mut Cx<'_>,
        paging_queue: PagingQueueNumber,
        call: MapCall,
    ) -> Result<(GpuVa, u64), Refusal> {
        self.translates()?;
        let device = self.memory.paging_queues.device_of(paging_queue);
        let process = self.owners.process_of(device);
        let space = self.owners.space_of(process);
        let target = match (reserved(call.protection)?, call.allocation) {
            (None, Some(allocation)) => Target::Allocation {
                allocation: self.memory.allocations[allocation].vidmm,
                offset_pages: Pages(call.offset_in_pages),
            },
            (Some(reserved), None) => Target::Reserved(reserved),
            // spec: memory §4.8, hAllocation is NULL iff NoAccess or Zero
            (None, None) => return Err(invalid("no allocation, and neither Zero nor NoAccess")),
            (Some(_), Some(_)) => return Err(invalid("an allocation with Zero or NoAccess")),
        };
        if let Some(allocation) = call.allocation.filter(|_| call.protection.contains(GpuVaProtection::WRITE)) {
            self.may_write(allocation)?;
        }
        if !call.base.is_null() {
            self.check_rings_at(device, call.base, call.size_in_pages.saturating_mul(PAGE_BYTES))?;
        }
        let request = MapRequest {
            target,
            size_pages: Pages(call.size_in_pages),
            base: (!call.base.is_null()).then_some(call.base),
            minimum: call.minimum,
            maximum: call.maximum,
            protection: protection(call.protection, call.driver_protection),
        };
        let mut made = self.vidmm.map_gpu_va(space, request);
        if made == Err(MapError::OutOfTables) && self.note_idle_devices(cx) {
            // Page tables of processes with nothing to run leave before the kernel refuses (memory §4.6).
            made = self.vidmm.map_gpu_va(space, request);
        }
        let (va, work) = made.map_err(|error| from_map(&error))?;
        let value = match work {
            Some(work) => self.queue_work(cx, process, Some(paging_queue), Some(work), Vec::new()),
            None => self.paging_value_now(cx, process, paging_queue).unwrap_or(0),
        };
        cx.emit(
            self.index,
            Event::GpuVaMapped {
                process: process.0,
                va: va.0,
                size_bytes: call.size_in_pages * PAGE_BYTES,
                allocation: call.allocation.map_or(0, ObjectNumber::raw),
            },
        );
        Ok((va, value))
    }

    /// Refuses calls about addresses where engines have none.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`.
    // spec: memory §4.1, memory §5.6
    pub fn translates(&self) -> Result<(), Refusal> {
        if self.uses_cpu_addresses() {
            return Err(not_supported(
                "addresses on this adapter are the CPU's (IoMmu): an allocation has its own from its creation on",
            ));
        }
        if !self.driver.has_page_tables() {
            return Err(not_supported("the adapter has no GPU virtual addresses"));
        }
        Ok(())
    }

    /// `D3DKMTReserveGpuVirtualAddress`: synchronous; it answers when the entries of a Zero reservation are there.
    // spec: memory §4.8, memory §10.2
    pub fn reserve_gpu_va(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        device: DeviceNumber,
        call: ReserveCall,
    ) -> Result<Answer, Refusal> {
        self.translates()?;
        let reserved = match call.reservation_type {
            0 => Reserved::NoAccess,
            1 => Reserved::Zero,
            2 => return Err(invalid("reservation type NO_COMMIT is the system's")),
            other => return Err(invalid(format!("there is no reservation type {other}"))),
        };
        let process = self.owners.process_of(device);
        let space = self.owners.space_of(process);
        let request = ReserveRequest {
            size_bytes: call.size_bytes,
            base: (!call.base.is_null()).then_some(call.base),
            minimum: call.minimum,
            maximum: call.maximum,
            reserved,
            driver_protection: call.driver_protection,
        };
        let mut made = self.vidmm.reserve_gpu_va(space, request);
        if made == Err(MapError::OutOfTables) && self.note_idle_devices(cx) {
            made = self.vidmm.reserve_gpu_va(space, request);
        }
        let (va, work) = made.map_err(|error| from_map(&error))?;
        cx.emit(self.index, Event::GpuVaReserved { process: process.0, va: va.0, size_bytes: call.size_bytes });
        let reply = Reply::MappedVa { va, paging_fence_value: 0 };
        if work.is_none() {
            return Ok(Answer::Done(Ok(reply)));
        }
        self.queue_work(cx, process, None, work, Vec::new());
        Ok(self.after_ring(cx, token, reply))
    }

    /// `D3DKMTFreeGpuVirtualAddress`.
    // spec: memory §4.8
    pub fn free_gpu_va(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        base: GpuVa,
        size_bytes: u64,
    ) -> Result<(), Refusal> {
        self.translates()?;
        let process = self.owners.process_of(device);
        let space = self.owners.space_of(process);
        self.check_rings_at(device, base, size_bytes)?;
        let work = self.vidmm.free_gpu_va(space, base, size_bytes).map_err(|error| from_map(&error))?;
        self.memory.updates.lose_range(&self.vidmm, space, base, size_bytes);
        self.queue_any(cx, process, work);
        cx.emit(self.index, Event::GpuVaFreed { process: process.0, va: self.vidmm.plain(base), size_bytes });
        Ok(())
    }
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
