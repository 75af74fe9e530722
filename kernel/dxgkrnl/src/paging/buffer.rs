//! Paging buffers: the memory manager's operations become the driver's, packed until a buffer is full (memory §3).

use ddi::{BuildPagingBuffer, PageTableUpdateMode, PagingOp, PagingStatus, SubmitCommandToHwQueue};
use events::Event;
use vidmm::{Operation, Part};
use wddm_types::{GpuVa, PAGE_BYTES, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::effect::Cx;
use crate::number::PagingWorkNumber;
use crate::paging::operation::{Asked, Names, as_paging_op, copied_entries, device_pages};
use crate::paging::pool::{Buffer, Content};
use crate::paging::scratch::{Borrowed, to_be_shown};
use crate::paging::{QueuedWork, Submitted};
use crate::store::ObjectNumber;
use crate::sync::LocalPlace;

/// Most calls of the driver for one part of an operation: one that never comes to an end would keep the ring for ever.
const PASSES_MAX: u32 = 1 << 16;

/// How far the operation at a work's head has got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Bytes in sub-transfers that are built.
    done_bytes: u64,
    /// The driver's MultipassOffset within the sub-transfer.
    multipass: u64,
    /// Calls for this sub-transfer.
    passes: u32,
    /// The driver said that the allocation is busy; it has been waited for.
    idle: bool,
    /// Where the scratch area shows the part.
    borrowed: Option<Borrowed>,
}

/// How a paging buffer came to its end.
enum Filled {
    /// The work is built.
    Whole,
    /// The driver needs another buffer.
    Full,
    /// The ring must make progress first: the allocation is busy, or the scratch area is taken.
    Held,
}

impl Adapter {
    /// Executes operations at once by the CPU: tables of the paging process, aperture entries of paging buffers, tables that
    /// the platform keeps.
    // spec: memory §3.4 (paging-process tables)
    pub fn execute_now(&mut self, cx: &Cx<'_>, operations: Vec<Operation>) -> Result<(), ()> {
        for operation in &operations {
            if self.memory.pasids.carry_out(cx.platform(self.index).io_mmu(), operation) {
                continue;
            }
            let whole = operation.part(0, Pages(u64::MAX / PAGE_BYTES), None);
            let device_pages = device_pages(operation);
            let asked = Asked {
                part: whole,
                idle: true,
                windows: None,
                device_pages: self.memory.ring.device_pages.then_some(&device_pages),
                copies: &[],
                fences: &[],
            };
            let names = Names { spaces: &self.memory.spaces, owners: &self.owners, vidmm: &self.vidmm };
            let operation = as_paging_op(operation, &names, PageTableUpdateMode::CpuVirtual, asked);
            let mut build = BuildPagingBuffer {
                buffer: &mut [],
                written: 0,
                private_data: &mut [],
                private_written: 0,
                operation,
                multipass_offset: 0,
                buffer_va: GpuVa::NULL,
                immediate: true,
                system_context: self.memory.ring.context(),
                write_offset: 0,
            };
            self.driver.call(cx).build_paging_buffer(&mut build).map_err(|_| ())?;
        }
        Ok(())
    }

    pub fn build_buffers(&mut self, cx: &mut Cx<'_>) -> Result<(), Breach> {
        while self.may_pump() && !self.life.is_reset_due() && !self.memory.ring.building.is_empty() {
            let progress = self.memory.ring.queue.as_ref().expect("the ring runs").progress;
            let reached = self.sync.current_value(cx.memory, progress);
            if self.memory.ring.next_value() > reached || !self.may_build(cx) {
                break;
            }
            self.build_one_buffer(cx).map_err(Breach)?;
        }
        Ok(())
    }

    /// Fills the next buffer from the oldest work and submits it.
    // spec: memory §3.1, memory §3.2
    fn build_one_buffer(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let at = self.memory.ring.next_buffer;
        let va = self.memory.ring.buffers[at].va;
        let mut content = std::mem::take(&mut self.memory.ring.buffers[at].content);
        content.begin();
        let filled = loop {
            if let Some(filled) = self.build_one_call(cx, &mut content, va).transpose() {
                break filled;
            }
        };
        let used = content.used;
        self.memory.ring.buffers[at].content = content;
        let filled = filled?;
        let number = self.memory.ring.building[0].number;
        // A buffer that only marks the end of a work is submitted too: its progress value completes the work.
        if used > 0 || matches!(filled, Filled::Whole) {
            self.submit_buffer(cx, number, used, va)?;
        }
        match filled {
            Filled::Full => {}
            Filled::Held => {}
            Filled::Whole => {
                let work = self.memory.ring.building.pop_front().expect("the work just built");
                let progress_value = self.memory.ring.progress_value;
                let completes = work.completes.filter(|_| self.memory.ring.kmd_queue().is_none());
                self.memory.ring.submitted.push_back(Submitted {
                    progress_value,
                    number,
                    serial: work.serial,
                    completes,
                });
                self.memory.ring.moves(PagingWorkNumber::from_raw(number), work.turns);
                for gone in work.destroys {
                    self.destroy_in_driver(cx, &gone.allocations, gone.resource, gone.with_resource);
                }
            }
        }
        Ok(())
    }

    /// Asks the driver once: for the part of the oldest work that comes next, or for the signal behind its last one.
    // spec: memory §3.2
    fn build_one_call(&mut self, cx: &Cx<'_>, content: &mut Content, va: GpuVa) -> Result<Option<Filled>, String> {
        let used = content.used;
        let by_cpu = self.driver.table_update_mode() == PageTableUpdateMode::CpuVirtual;
        let system = self.owners.space_of(ProcessId::SYSTEM);
        let mut fences = Vec::new();
        match self.memory.ring.building[0].operations.front() {
            Some(Operation::UpdatePageTable { .. } | Operation::EvictTable { .. }) if by_cpu => {
                return self.between_buffers(cx, used);
            }
            // spec: memory §3.4, operation 11: tables of the paging process by the CPU, whatever the mode of the others
            Some(Operation::UpdatePageTable { space, .. }) if *space == system => {
                return self.between_buffers(cx, used);
            }
            Some(&Operation::NotifyFenceResidency { storage, address }) => {
                fences = self.sync.fences_moved(storage, address);
                let work = self.memory.ring.building[0].number;
                self.sync.local_page_moved(storage, LocalPlace { address, there_after: work });
                if fences.is_empty() {
                    self.memory.ring.building[0].operations.pop_front();
                    return Ok(None);
                }
            }
            Some(Operation::SwitchRoot { .. }) => return self.between_buffers(cx, used),
            Some(operation) if self.memory.pasids.carries_out(operation) => return self.between_buffers(cx, used),
            _ => {}
        }
        let before = self.memory.ring.building[0].progress;
        let part = self.next_part();
        let mut borrowed = before.borrowed;
        if let (Some(part), None) = (part, borrowed)
            && let Some(shown) = to_be_shown(&self.vidmm, &self.memory.ring.building[0].operations[0], part)
        {
            borrowed = self.borrow_slot(cx, &shown)?;
            if borrowed.is_none() {
                return Ok(Some(Filled::Held));
            }
            self.memory.ring.building[0].progress.borrowed = borrowed;
        }
        let flush = borrowed
            .filter(|borrowed| borrowed.flush)
            .map(|borrowed| self.vidmm.scratch_flush(self.owners.space_of(ProcessId::SYSTEM), borrowed.windows));
        let names = Names { spaces: &self.memory.spaces, owners: &self.owners, vidmm: &self.vidmm };
        let work = &self.memory.ring.building[0];
        let pages = work.operations.front().filter(|_| self.memory.ring.device_pages).map(device_pages);
        let copy = |borrowed: Borrowed| copied_entries(work.operations.front()?, borrowed.windows);
        let copies = borrowed.and_then(copy);
        let operation = match (flush.as_ref().or(work.operations.front()), part) {
            (Some(head), Some(part)) => {
                let windows = borrowed.map(|borrowed| borrowed.windows);
                let copies = copies.as_slice();
                let (idle, device_pages) = (before.idle, pages.as_deref());
                let asked = Asked { part, idle, windows, device_pages, copies, fences: &fences };
                as_paging_op(head, &names, self.driver.table_update_mode(), asked)
            }
            _ => match work.completes.filter(|_| self.memory.ring.kmd_queue().is_some()) {
                Some((queue, value)) => {
                    let slot = &self.sync.fence(self.memory.paging_queues.fence_of(queue)).slot;
                    let (current, monitored) = (slot.system_current_va, slot.system_monitored_va);
                    PagingOp::SignalMonitoredFence { current, monitored, value }
                }
                None => return Ok(Some(Filled::Whole)),
            },
        };
        let may_be_busy = operation.may_be_busy();
        let mut build = BuildPagingBuffer {
            buffer: &mut content.words[used..],
            written: 0,
            private_data: &mut content.private_data[content.private_used..],
            private_written: 0,
            operation,
            multipass_offset: before.multipass,
            buffer_va: if va.is_null() { va } else { va.offset(used as u64 * 8) },
            immediate: false,
            system_context: self.memory.ring.context(),
            // CAST: a paging buffer is far below 4 GiB.
            write_offset: (used * 8) as u32,
        };
        let result = self.driver.call(cx).build_paging_buffer(&mut build);
        let (written, multipass) = (build.written, build.multipass_offset);
        let private_written = build.private_written;
        if written > content.words.len() - used {
            return Err("the driver wrote past its paging buffer".into());
        }
        if private_written > content.private_data.len() - content.private_used {
            return Err("the driver wrote past the private data of its paging buffer".into());
        }
        let fresh = used == 0;
        content.used += written;
        content.private_used += private_written;
        let progress = &mut self.memory.ring.building[0].progress;
        match result {
            Ok(()) if flush.is_some() => {
                progress.borrowed = borrowed.map(|borrowed| Borrowed { flush: false, ..borrowed });
                (progress.multipass, progress.passes) = (0, 0);
                Ok(None)
            }
            Ok(()) => {
                if let Some(borrowed) = borrowed {
                    // The buffer under construction is the next that is submitted.
                    self.memory.ring.return_slot(borrowed, self.memory.ring.progress_value + 1);
                }
                Ok(self.memory.ring.building[0].advance(part))
            }
            Err(PagingStatus::InsufficientDmaBuffer) if fresh && written == 0 => {
                Err("the driver asked for a new paging buffer on an empty one".into())
            }
            Err(PagingStatus::InsufficientDmaBuffer) if before.passes == PASSES_MAX => {
                Err("the driver never comes to the end of a paging operation".into())
            }
            Err(PagingStatus::InsufficientDmaBuffer) => {
                progress.multipass = multipass;
                progress.passes += 1;
                Ok(Some(Filled::Full))
            }
            Err(PagingStatus::AllocationBusy) => match may_be_busy {
                Some(false) => {
                    progress.multipass = multipass;
                    progress.idle = true;
                    // Nothing of the adapter's other work refers to the allocation any more: the work has waited for that before it was
                    // built. Only the paging work before it may still use it.
                    self.memory.ring.hold_until = self.memory.ring.progress_value + u64::from(content.used > 0);
                    Ok(Some(Filled::Held))
                }
                Some(true) => Err("the driver answered ALLOCATION_BUSY for an allocation that is idle".into()),
                None => Err("the driver answered ALLOCATION_BUSY, which this operation does not allow".into()),
            },
            Err(PagingStatus::Fatal(reason)) => Err(format!("BuildPagingBuffer failed: {reason}")),
        }
    }

    /// The CPU's part of a work, at the time at which the ring would have done it, when the hardware is past all that stands before it: a
    /// page-table update, the switch to another root, or the platform's part.
    // spec: memory §4.1, memory §4.2, memory §4.6, memory §4.8
    fn between_buffers(&mut self, cx: &Cx<'_>, used: usize) -> Result<Option<Filled>, String> {
        if used > 0 {
            return Ok(Some(Filled::Full));
        }
        if self.ring_progress(cx) < self.memory.ring.progress_value {
            self.memory.ring.hold_until = self.memory.ring.progress_value;
            return Ok(Some(Filled::Held));
        }
        let operation = self.memory.ring.building[0].operations.pop_front().expect("it was just seen");
        if let Operation::SwitchRoot { space, root, entries } = operation {
            self.switch_root(cx, space, root, entries);
            return Ok(None);
        }
        self.execute_now(cx, vec![operation]).map_err(|()| "a page-table update by the CPU failed".to_owned())?;
        Ok(None)
    }

    fn submit_buffer(&mut self, cx: &mut Cx<'_>, number: u64, used: usize, va: GpuVa) -> Result<(), String> {
        self.memory.ring.progress_value += 1;
        let value = self.memory.ring.progress_value;
        self.raise_engine(cx, self.driver.paging_node());
        match self.memory.ring.queue.as_ref().expect("the ring runs").kmd {
            Some(queue) => {
                let Buffer { address, content, .. } = &self.memory.ring.buffers[self.memory.ring.next_buffer];
                cx.memory.store_words(*address, used as u64, |index| content.words[index as usize]);
                // CAST: a paging buffer is far below 4 GiB.
                let (buffer_bytes, private_data) = ((used * 8) as u32, content.private_data.as_slice());
                let (progress_value, buffer, paging) = (value, va, true);
                let submit =
                    SubmitCommandToHwQueue { queue, progress_value, buffer, buffer_bytes, private_data, paging };
                let hardware = self.driver.call(cx).hardware_queues().expect("checked at adapter start");
                hardware
                    .submit_command_to_hw_queue(submit)
                    .map_err(|status| format!("a paging buffer was refused: {status}"))?;
            }
            None => self.memory.ring.make_ready(value, used),
        }
        let count = self.memory.ring.buffers.len();
        self.memory.ring.buffers[self.memory.ring.next_buffer].busy_until = value;
        self.memory.ring.next_buffer = (self.memory.ring.next_buffer + 1) % count;
        // CAST: as above.
        cx.emit(self.index, Event::PagingSubmitted { work: number, progress_value: value, words: used as u32 });
        Ok(())
    }
}

impl Adapter {
    /// The part of the oldest work that comes next; `None` behind its last operation.
    fn next_part(&self) -> Option<Part> {
        let work = &self.memory.ring.building[0];
        let operation = work.operations.front()?;
        let chunked = self.vidmm.pages_by_gpu_va() || matches!(operation, Operation::NotifyEviction { .. });
        let window = chunked.then(|| self.vidmm.scratch_window());
        Some(operation.part(work.progress.done_bytes, self.vidmm.transfer_pages_max(), window))
    }
}

impl QueuedWork {
    /// The driver has built a part, or the signal behind the last operation (`None`). Answers when that was all.
    fn advance(&mut self, part: Option<Part>) -> Option<Filled> {
        let Some(part) = part else { return Some(Filled::Whole) };
        if part.last {
            self.operations.pop_front();
            self.progress = Progress::default();
        } else {
            let Progress { done_bytes, idle, .. } = self.progress;
            self.progress = Progress { done_bytes: done_bytes + part.size_bytes, idle, ..Progress::default() };
        }
        None
    }
}
