//! Paging buffers: the memory manager's operations become the driver's, packed until a buffer is full (memory §3).

use ddi::{BuildPagingBuffer, Mdl, PagingOp, PagingStatus, SubmitCommandToHwQueue, TransferEnd, TransferFlags};
use events::Event;
use vidmm::{Operation, SpaceId};
use wddm_types::GpuVa;

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::paging::Submitted;

impl Adapter {
    /// Executes operations at once by the CPU: tables of the paging process, aperture entries of paging buffers.
    // spec: memory §3.4 (paging-process tables)
    pub fn execute_now(&mut self, operations: Vec<Operation>) -> Result<(), ()> {
        for operation in &operations {
            let operation = as_paging_op(operation, &self.spaces, ddi::PageTableUpdateMode::CpuVirtual);
            let mut build = BuildPagingBuffer {
                buffer: &mut [],
                written: 0,
                operation,
                multipass_offset: 0,
                buffer_va: GpuVa::NULL,
                immediate: true,
                system_context: self.ring.context,
                write_offset: 0,
            };
            self.miniport.build_paging_buffer(&mut build).map_err(|_| ())?;
        }
        Ok(())
    }

    pub(super) fn build_buffers(&mut self, cx: &mut Cx<'_>) {
        while self.stopped.is_none() && !self.ring.building.is_empty() {
            let progress = self.ring.queue.as_ref().expect("the ring runs").progress;
            let reached = self.current_value(progress);
            if self.ring.buffers[self.ring.next_buffer].busy_until > reached {
                return;
            }
            if let Err(reason) = self.build_one_buffer(cx) {
                self.stop(cx, reason);
            }
        }
    }

    /// Fills the next buffer from the oldest work and submits it.
    // spec: memory §3.2
    fn build_one_buffer(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let buffer = &self.ring.buffers[self.ring.next_buffer];
        let (va, address) = (buffer.va, buffer.address);
        let mut words = vec![0u64; buffer.words];
        let mut used = 0;
        let signal = self.ring.building[0].completes.map(|(queue, value)| {
            let slot = &self.fences[self.paging_queues[queue].fence].slot;
            PagingOp::SignalMonitoredFence {
                current: slot.system_current_va,
                monitored: slot.system_monitored_va,
                value,
            }
        });
        let work = self.ring.building.front_mut().expect("a work to build");
        let number = work.number;
        let full = loop {
            let (operation, last) = match (work.operations.front(), signal) {
                (Some(operation), _) => {
                    (as_paging_op(operation, &self.spaces, ddi::PageTableUpdateMode::GpuPhysical), false)
                }
                (None, Some(signal)) => (signal, true),
                (None, None) => break false,
            };
            let before = work.multipass;
            let mut build = BuildPagingBuffer {
                buffer: &mut words[used..],
                written: 0,
                operation,
                multipass_offset: before,
                buffer_va: va.offset(used as u64 * 8),
                immediate: false,
                system_context: self.ring.context,
                // CAST: a paging buffer is far below 4 GiB.
                write_offset: (used * 8) as u32,
            };
            let result = self.miniport.build_paging_buffer(&mut build);
            let (written, multipass) = (build.written, build.multipass_offset);
            if written > words.len() - used {
                return Err("the driver wrote past its paging buffer".into());
            }
            used += written;
            match result {
                Ok(()) if last => break false,
                Ok(()) => {
                    work.multipass = 0;
                    work.operations.pop_front();
                }
                Err(PagingStatus::InsufficientDmaBuffer) if used == 0 && multipass == before => {
                    return Err("the driver asked for a new paging buffer on an empty one".into());
                }
                Err(PagingStatus::InsufficientDmaBuffer) => {
                    work.multipass = multipass;
                    break true;
                }
                Err(PagingStatus::AllocationBusy) => {
                    return Err("the driver answered ALLOCATION_BUSY, which this operation does not allow".into());
                }
                Err(PagingStatus::Fatal(reason)) => return Err(format!("BuildPagingBuffer failed: {reason}")),
            }
        };
        self.memory.store_words(address, used as u64, |index| words[index as usize]);
        self.submit_buffer(cx, number, used, va)?;
        if !full {
            let work = self.ring.building.pop_front().expect("the work just built");
            let progress_value = self.ring.progress_value;
            self.ring.submitted.push_back(Submitted { progress_value, number, serial: work.serial });
            for allocation in work.destroys {
                crate::memory::destroy_in_driver(self, allocation);
            }
        }
        Ok(())
    }

    fn submit_buffer(&mut self, cx: &mut Cx<'_>, number: u64, used: usize, va: GpuVa) -> Result<(), String> {
        self.ring.progress_value += 1;
        let value = self.ring.progress_value;
        let queue = self.ring.queue.as_ref().expect("the ring runs").kmd;
        // CAST: a paging buffer is far below 4 GiB.
        let submit = SubmitCommandToHwQueue {
            queue,
            progress_value: value,
            buffer: va,
            buffer_bytes: (used * 8) as u32,
            paging: true,
        };
        let hardware = self.miniport.hardware_queues().expect("checked at adapter start");
        hardware
            .submit_command_to_hw_queue(submit)
            .map_err(|status| format!("a paging buffer was refused: {status}"))?;
        let count = self.ring.buffers.len();
        self.ring.buffers[self.ring.next_buffer].busy_until = value;
        self.ring.next_buffer = (self.ring.next_buffer + 1) % count;
        // CAST: as above.
        cx.emit(Event::PagingSubmitted { work: number, progress_value: value, words: used as u32 });
        Ok(())
    }
}

/// The memory manager's operation as the driver's.
fn as_paging_op<'a>(
    operation: &'a Operation,
    spaces: &std::collections::BTreeMap<SpaceId, ddi::KmdProcess>,
    mode: ddi::PageTableUpdateMode,
) -> PagingOp<'a> {
    // PANIC: a space leaves the table only after the ring has got past every operation on it.
    let process = |space: &SpaceId| spaces[space];
    match operation {
        Operation::Transfer { allocation, size_bytes, segment, address, backing, direction, .. } => {
            // A page run of a scattered allocation is a transfer of its own: TransferOffset 0 from the run's own address.
            let (here, there) = (
                TransferEnd::Segment { segment: *segment, address: *address },
                TransferEnd::Mdl(Mdl { runs: backing }),
            );
            let (source, destination) = match direction {
                vidmm::Direction::In => (there, here),
                vidmm::Direction::Out => (here, there),
            };
            let flags = TransferFlags::TRANSFER_START | TransferFlags::TRANSFER_END;
            PagingOp::Transfer {
                allocation: Some(*allocation),
                transfer_offset: 0,
                size_bytes: *size_bytes,
                source,
                destination,
                flags,
                mdl_offset: 0,
            }
        }
        Operation::Fill { allocation, size_bytes, pattern, segment, address, .. } => PagingOp::Fill {
            allocation: Some(*allocation),
            size_bytes: *size_bytes,
            pattern: *pattern,
            segment: *segment,
            address: *address,
        },
        Operation::MapAperture { allocation, segment, offset_in_pages, backing } => PagingOp::MapApertureSegment {
            device: None,
            allocation: *allocation,
            segment: *segment,
            offset_in_pages: *offset_in_pages,
            number_of_pages: backing.iter().map(|run| run.count.0).sum(),
            mdl: Mdl { runs: backing },
            mdl_offset: 0,
            cache_coherent: true,
        },
        Operation::UnmapAperture { allocation, segment, offset_in_pages, number_of_pages, dummy_page } => {
            PagingOp::UnmapApertureSegment {
                device: None,
                allocation: *allocation,
                segment: *segment,
                offset_in_pages: *offset_in_pages,
                number_of_pages: *number_of_pages,
                dummy_page: *dummy_page,
            }
        }
        Operation::UpdatePageTable { space, level, table, start_index, count, first, repeat, initial, first_va } => {
            PagingOp::UpdatePageTable {
                allocation: None,
                allocation_offset: 0,
                driver_protection: 0,
                notify_eviction: false,
                use_64kb_pages: false,
                native_fence: false,
                first_64kb: None,
                table_va: GpuVa::NULL,
                level: *level,
                table: *table,
                start_index: *start_index,
                count: *count,
                first: *first,
                repeat: *repeat,
                initial: *initial,
                process: process(space),
                mode,
                first_va: *first_va,
            }
        }
        Operation::FlushTlb { space, root, start, end } => {
            PagingOp::FlushTlb { root: *root, process: process(space), start: *start, end: *end }
        }
    }
}
