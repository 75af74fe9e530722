//! Calls about GPU virtual addresses (memory §4.8): reserve, map, free. `gpu_va` says what a call means, the memory manager which addresses
//! are free and what entries say; here the paging ring has the entries written, and rings of doorbells keep their addresses.

use events::Event;
use kmt_calls::{Refusal, Reply};
use vidmm::MapError;
use wddm_types::{GpuVa, PAGE_BYTES};

use crate::adapter::Adapter;
use crate::effect::{Answer, Cx, Token};
use crate::gpu_va::{MapCall, ReserveCall, from_map};
use crate::number::{DeviceNumber, PagingQueueNumber};
use crate::refusal::not_supported;
use crate::store::ObjectNumber;

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
        let target = call.target(call.allocation.map(|number| self.memory.allocations[number].vidmm))?;
        if let Some(allocation) = call.writes() {
            self.may_write(allocation)?;
        }
        if !call.base.is_null() {
            self.check_rings_at(device, call.base, call.size_in_pages.saturating_mul(PAGE_BYTES))?;
        }
        let request = call.request(target);
        let mut made = self.vidmm.map_gpu_va(space, request);
        if made == Err(MapError::OutOfTables) && self.note_idle_devices(cx) {
            // Page tables of processes with nothing to run leave before the kernel refuses (memory §4.6).
            made = self.vidmm.map_gpu_va(space, request);
        }
        let (va, work) = made.map_err(|error| from_map(&error))?;
        let value = match work {
            Some(work) => self.queue_for(cx, process, paging_queue, Some(work)),
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
    pub(super) fn translates(&self) -> Result<(), Refusal> {
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
        let request = call.request()?;
        let process = self.owners.process_of(device);
        let space = self.owners.space_of(process);
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
