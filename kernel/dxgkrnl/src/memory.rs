//! Calls about memory: allocations, addresses, residency (memory §2, §4.8, §5, §6.2).

use events::Event;
use gpu_fence::FenceId;
use kmt_calls::Refusal;
use vidmm::{MapError, MapRequest, Target};
use wddm_types::{Blame, FencePoint, GpuVa, NtStatus, PAGE_BYTES, Pages};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::PagingQueue;
use crate::refusal::{invalid, no_memory, refuse};

/// Most allocations in one call.
pub const LIST_MAX: usize = 1 << 16;
/// The most that a queue's last-queued word may run ahead of its progress fence. The word is user-writable, so it is a
/// hint (sync §3.11); a value beyond this is a lie, and paging work must not wait for it.
const IN_FLIGHT_MAX: u64 = 1 << 20;

impl Adapter {
    /// `D3DKMTCreatePagingQueue`.
    // spec: memory §4.9
    pub fn create_paging_queue(&mut self, cx: &mut Cx<'_>, device: u64) -> Result<u64, Refusal> {
        let process = self.devices[device].process;
        // The paging fence is a native fence here, so that queues with user-mode submission may wait for it on the GPU.
        let fence = self.create_fence(cx, Some(device), process, 0)?;
        self.fences[fence].no_signal = true;
        let queue = self.paging_queues.insert(PagingQueue { device, fence, last_value: 0, doomed: false });
        self.devices[device].paging_queues.insert(queue);
        Ok(queue)
    }

    /// `D3DKMTDestroyPagingQueue`: its fence goes when the ring has got past its last work.
    pub fn destroy_paging_queue(&mut self, number: u64) {
        let queue = &self.paging_queues[number];
        let (device, fence) = (queue.device, queue.fence);
        self.devices[device].paging_queues.remove(&number);
        self.defer_fence(fence);
        self.defer_paging_queue(number);
    }

    /// `D3DKMTMapGpuVirtualAddress`.
    // spec: memory §4.8
    #[allow(clippy::too_many_arguments)] // the members of D3DDDI_MAPGPUVIRTUALADDRESS
    pub fn map_gpu_va(
        &mut self,
        cx: &mut Cx<'_>,
        paging_queue: u64,
        allocation: u64,
        base: GpuVa,
        window: (GpuVa, GpuVa),
        offset_in_pages: u64,
        size_in_pages: u64,
        write: bool,
    ) -> Result<(GpuVa, u64), Refusal> {
        if write {
            self.may_write(allocation)?;
        }
        let device = self.paging_queues[paging_queue].device;
        let process = self.devices[device].process;
        let space = self.processes[&process].space;
        let request = MapRequest {
            target: Target::Allocation {
                allocation: self.allocations[allocation].vidmm,
                offset_pages: Pages(offset_in_pages),
            },
            size_pages: Pages(size_in_pages),
            base: (!base.is_null()).then_some(base),
            minimum: window.0,
            maximum: window.1,
            writable: write,
        };
        let (va, work) = self.vidmm.map_gpu_va(space, request).map_err(|error| from_map(&error))?;
        let value = match work {
            Some(work) => self.queue_work(cx, process, Some(paging_queue), Some(work), Vec::new()),
            None => self.paging_value_now(cx, process, paging_queue).unwrap_or(0),
        };
        cx.emit(Event::GpuVaMapped {
            process: process.0,
            va: va.0,
            size_bytes: size_in_pages * PAGE_BYTES,
            allocation,
        });
        Ok((va, value))
    }

    /// `D3DKMTFreeGpuVirtualAddress`.
    // spec: memory §4.8
    pub fn free_gpu_va(&mut self, cx: &mut Cx<'_>, device: u64, base: GpuVa, size_bytes: u64) -> Result<(), Refusal> {
        let process = self.devices[device].process;
        let space = self.processes[&process].space;
        let work = self.vidmm.free_gpu_va(space, base, size_bytes).map_err(|error| from_map(&error))?;
        if work.is_some() {
            self.queue_work(cx, process, None, work, Vec::new());
        }
        cx.emit(Event::GpuVaFreed { process: process.0, va: base.0, size_bytes });
        Ok(())
    }

    /// What the device's queues have been given and not finished: the last use of anything that it evicts now.
    // spec: sync §3.11
    pub fn queued_work(&self, device: u64) -> Result<Vec<FencePoint<FenceId>>, Refusal> {
        let mut points = Vec::new();
        for (_, queue) in self.queues.iter().filter(|(_, queue)| queue.device == device) {
            let current = self.current_value(queue.progress);
            let last = match queue.doorbell.and_then(|doorbell| self.doorbells.get(doorbell)) {
                Some(doorbell) => shared_words::Word::load(self.memory.word(doorbell.last_queued.0)),
                None => queue.last_submitted,
            };
            if last > current {
                if last - current > IN_FLIGHT_MAX && current != u64::MAX {
                    return Err(invalid(format!("the last-queued word says {last} while the queue is at {current}")));
                }
                points.push(self.point(queue.progress, last));
            }
        }
        Ok(points)
    }

    pub fn vidmm_list(&self, device: u64, list: &[u64]) -> Result<Vec<vidmm::AllocationId>, Refusal> {
        if list.is_empty() || list.len() > LIST_MAX {
            return Err(invalid(format!("a list has 1 to {LIST_MAX} allocations, not {}", list.len())));
        }
        list.iter()
            .map(|number| {
                let allocation = &self.allocations[*number];
                // spec: memory §9.3
                if allocation.device == device {
                    Ok(allocation.vidmm)
                } else {
                    Err(invalid("an allocation of another device"))
                }
            })
            .collect()
    }
}

// The memory manager's errors as statuses.
// spec: memory §9.2, memory §9.3

fn from_map(error: &MapError) -> Refusal {
    match error {
        MapError::ConflictingAddresses => refuse(NtStatus::CONFLICTING_ADDRESSES, Blame::Caller, error.to_string()),
        MapError::NoRoom | MapError::OutOfTables => no_memory(error.to_string()),
        _ => invalid(error.to_string()),
    }
}
