//! The paging buffer under construction (memory §3): which part of which operation comes next, and what becomes of the buffer. `question` asks
//! the driver. What concerns other parts is `adapter::paging_buffer`'s: it has done between two buffers what the CPU or the platform does.
//!
//! ```text
//! begin_buffer ─▶ ask ─▶ None: once more, for the next part
//!                  ├───▶ Whole: the work is built; the buffer is submitted, even if it holds nothing
//!                  ├───▶ Full:  the buffer is submitted, the operation goes on in the next
//!                  └───▶ Held:  what stands in the buffer is submitted; nothing is built before `hold_until`. If that is the progress of
//!                               this buffer, the ring submits it even if it holds nothing
//! ```

use ddi::SubmitCommandToHwQueue;
use gpu_fence::FenceId;
use shared_words::Memory;
use vidmm::{Operation, Part, ScratchSlot, VidMm};
use vidsch::Powered;
use wddm_types::GpuVa;

use super::pool::{Buffer, Content};
use super::scratch::{Borrowed, Shown, to_be_shown};
use super::{PagingRing, QueuedWork, Submitted};
use crate::allocations::Gone;
use crate::driver::EntryPoints;
use crate::number::{PagingQueueNumber, PagingWorkNumber};

/// How far the operation at a work's head has got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Bytes in sub-transfers that are built.
    pub(super) done_bytes: u64,
    /// The driver's MultipassOffset within the sub-transfer.
    pub(super) multipass: u64,
    /// Calls for this sub-transfer.
    pub(super) passes: u32,
    /// The driver said that the allocation is busy; it has been waited for.
    pub(super) idle: bool,
    /// Where the scratch area shows the part.
    pub(super) borrowed: Option<Borrowed>,
}

/// How a paging buffer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The work is built.
    Whole,
    /// The driver needs another buffer.
    Full,
    /// The ring must make progress first: the allocation is busy, or the scratch area is taken.
    Held,
}

/// The buffer that is being filled.
#[must_use = "the buffer goes back to the ring"]
pub struct Filling {
    pub(super) content: Content,
    pub(super) va: GpuVa,
}

impl Filling {
    /// Words that are written.
    pub fn used(&self) -> usize {
        self.content.used
    }
}

/// The oldest work, and the buffer that it is built into.
// spec: memory §3.1, memory §3.2
impl PagingRing {
    /// The progress at which the oldest work may go on being built; `None`: there is none.
    pub fn next_build(&self) -> Option<u64> {
        (!self.building.is_empty()).then(|| self.next_value())
    }

    /// The number of the oldest work.
    pub fn building_number(&self) -> PagingWorkNumber {
        self.building[0].number
    }

    /// The operation of the oldest work that comes next; `None` behind the last.
    pub fn next_operation(&self) -> Option<&Operation> {
        self.building[0].operations.front()
    }

    /// Takes it: the driver is not asked for it. It may have been, if it wanted another buffer and there is nothing left to say in that.
    pub fn take_operation(&mut self) -> Operation {
        let work = &mut self.building[0];
        let Progress { done_bytes, borrowed, .. } = std::mem::take(&mut work.progress);
        debug_assert!(done_bytes == 0 && borrowed.is_none(), "an operation of which parts are built is the driver's");
        work.operations.pop_front().expect("it was just seen")
    }

    /// The part of it that comes next.
    pub fn next_part(&self, vidmm: &VidMm<FenceId>) -> Option<Part> {
        let operation = self.next_operation()?;
        let chunked = vidmm.pages_by_gpu_va() || matches!(operation, Operation::NotifyEviction { .. });
        let window = chunked.then(|| vidmm.scratch_window());
        Some(operation.part(self.building[0].progress.done_bytes, vidmm.transfer_pages_max(), window))
    }

    /// The pages that the scratch area is to show for a part; `None`: nothing, or it shows them already.
    pub fn unshown(&self, vidmm: &VidMm<FenceId>, part: Part) -> Option<[Shown; 2]> {
        let work = &self.building[0];
        work.progress.borrowed.is_none().then(|| to_be_shown(vidmm, &work.operations[0], part)).flatten()
    }

    /// The windows whose translations are to be forgotten before the part is built.
    pub fn to_flush(&self) -> Option<ScratchSlot> {
        let borrowed = self.building[0].progress.borrowed.filter(|borrowed| borrowed.flush);
        borrowed.map(|borrowed| borrowed.windows)
    }

    /// Paging queue and value that the hardware signals behind the last operation.
    pub fn to_signal(&self) -> Option<(PagingQueueNumber, u64)> {
        self.building[0].completes.filter(|_| self.next_operation().is_none() && self.kmd_queue().is_some())
    }

    /// Whether the hardware is past all buffers that it was given. If not, the kernel builds nothing before that.
    pub fn is_past_buffers(&mut self, reached: u64) -> bool {
        let past = reached >= self.progress_value;
        if !past {
            self.hold_until = self.progress_value;
        }
        past
    }

    /// Fills the next buffer.
    pub fn begin_buffer(&mut self) -> Filling {
        let buffer = &mut self.buffers[self.next_buffer];
        debug_assert!(!buffer.content.words.is_empty(), "buffer {} is under construction already", self.next_buffer);
        let mut content = std::mem::take(&mut buffer.content);
        content.begin();
        Filling { content, va: buffer.va }
    }

    /// Whether the buffer that is filled goes to the hardware: it holds commands, it ends its work, or the ring waits for progress that no
    /// other buffer completes. Of an eviction notice the driver may write nothing, and its windows are busy until this buffer is over.
    // spec: memory §3.4 operation 22
    pub fn is_submitted(&self, filled: Filled, used: usize) -> bool {
        used > 0 || filled == Filled::Whole || self.hold_until > self.progress_value
    }

    /// The buffer is filled, or its driver broke the contract.
    pub fn end_buffer(&mut self, filling: Filling) {
        debug_assert!(
            self.buffers[self.next_buffer].content.words.is_empty(),
            "buffer {} was not under construction",
            self.next_buffer
        );
        self.buffers[self.next_buffer].content = filling.content;
    }

    /// Gives the buffer to the hardware, or has it wait for its node. Returns the progress that it completes.
    ///
    /// # Errors
    /// The driver refused it.
    pub fn submit_buffer(
        &mut self,
        driver: EntryPoints<'_>,
        memory: &Memory,
        used: usize,
        _powered: Powered,
    ) -> Result<u64, String> {
        let buffer = &self.buffers[self.next_buffer];
        debug_assert!(used <= buffer.content.words.len(), "{used} words of {}", buffer.content.words.len());
        debug_assert!(
            buffer.busy_until <= self.progress_value,
            "a buffer is busy until a progress that was given: {} of {}",
            buffer.busy_until,
            self.progress_value
        );
        self.progress_value += 1;
        let value = self.progress_value;
        match self.queue.as_ref().expect("the ring runs").kmd {
            Some(queue) => {
                let Buffer { address, va, content, .. } = &self.buffers[self.next_buffer];
                memory.store_words(*address, used as u64, |index| content.words[index as usize]);
                // CAST: a paging buffer is far below 4 GiB.
                let (buffer_bytes, private_data) = ((used * 8) as u32, content.private_data.as_slice());
                let (progress_value, buffer, paging) = (value, *va, true);
                let submit =
                    SubmitCommandToHwQueue { queue, progress_value, buffer, buffer_bytes, private_data, paging };
                let hardware = driver.hardware_queues().expect("checked at adapter start");
                hardware
                    .submit_command_to_hw_queue(submit)
                    .map_err(|status| format!("a paging buffer was refused: {status}"))?;
            }
            None => self.make_ready(value, used),
        }
        self.buffers[self.next_buffer].busy_until = value;
        self.next_buffer = (self.next_buffer + 1) % self.buffers.len();
        Ok(value)
    }

    /// The oldest work is built to its end, and its last buffer submitted. Returns the driver's objects that end with it.
    #[must_use = "the driver is told that they end"]
    pub fn work_built(&mut self) -> Vec<Gone> {
        let QueuedWork { number, serial, completes, destroys, turns, .. } =
            self.building.pop_front().expect("the work just built");
        self.entry_works.remove(&number);
        debug_assert!(
            self.submitted.back().is_none_or(|before| before.number < number),
            "works go to the hardware in their order: {number:?}"
        );
        let completes = completes.filter(|_| self.kmd_queue().is_none());
        self.submitted.push_back(Submitted { progress_value: self.progress_value, number, serial, completes });
        self.moves(number, turns);
        destroys
    }
}
