//! The driver is asked for one part of a work at a time (memory §3.2), and the work goes on by its answer: the same part again, in this buffer or
//! in the next, or the next part. `adapter::paging_buffer` makes the question, because the other parts say what is in it.

use ddi::{BuildPagingBuffer, FenceResidency, PageTableUpdateMode, PagingOp, PagingStatus};
use vidmm::{Operation, Part};
use wddm_types::{GpuVa, PAGE_BYTES, Pages};

use super::buffer::{Filled, Filling, Progress};
use super::operation::{Asked, Names, as_paging_op, copied_entries, device_pages};
use super::scratch::Borrowed;
use super::{PagingRing, QueuedWork};
use crate::driver::EntryPoints;

/// Most calls of the driver for one part of an operation: one that never comes to an end would keep the ring for ever.
const PASSES_MAX: u32 = 1 << 16;

/// What the driver is asked for: the part of the oldest work that comes next, or the signal behind its last one.
pub struct Question<'a> {
    /// The driver's handles.
    pub names: Names<'a>,
    /// How the driver writes page tables.
    pub mode: PageTableUpdateMode,
    /// The part; `None` behind the last operation.
    pub part: Option<Part>,
    /// A flush of the windows' translations, which comes before the part.
    pub flush: Option<Operation>,
    /// Of storage of fences that moves: which they are, and where.
    pub fences: &'a [FenceResidency],
    /// The signal that the hardware gives behind the last operation.
    pub signal: Option<PagingOp<'a>>,
}

/// The driver's answer, as the ring goes on by it.
struct Answer {
    part: Option<Part>,
    /// It was asked for the flush.
    flushes: bool,
    /// Nothing stood in the buffer before.
    fresh: bool,
    /// Words that it wrote.
    written: usize,
    /// Its MultipassOffset.
    multipass: u64,
    /// See [`PagingOp::may_be_busy`].
    may_be_busy: Option<bool>,
}

impl PagingRing {
    /// Has the driver carry an operation out by the CPU, at once.
    ///
    /// # Errors
    /// The driver failed, which it may not.
    // spec: memory §3.4 (paging-process tables)
    pub fn execute(
        &self,
        mut driver: EntryPoints<'_>,
        operation: &Operation,
        names: &Names<'_>,
    ) -> Result<(), PagingStatus> {
        let device_pages = device_pages(operation);
        let asked = Asked {
            part: operation.part(0, Pages(u64::MAX / PAGE_BYTES), None),
            idle: true,
            windows: None,
            device_pages: self.device_pages.then_some(&device_pages),
            copies: &[],
            fences: &[],
        };
        driver.build_paging_buffer(&mut BuildPagingBuffer {
            buffer: &mut [],
            written: 0,
            private_data: &mut [],
            private_written: 0,
            operation: as_paging_op(operation, names, PageTableUpdateMode::CpuVirtual, asked),
            multipass_offset: 0,
            buffer_va: GpuVa::NULL,
            immediate: true,
            system_context: self.context,
            write_offset: 0,
        })
    }

    /// Asks the driver once. `None`: it is to be asked again, for what comes next.
    ///
    /// # Errors
    /// The driver broke the contract.
    // spec: memory §3.2
    pub fn ask(
        &mut self,
        mut driver: EntryPoints<'_>,
        filling: &mut Filling,
        question: Question<'_>,
    ) -> Result<Option<Filled>, String> {
        let Question { names, mode, part, flush, fences, signal } = question;
        let (head, before) = (self.next_operation(), self.building[0].progress);
        let pages = head.filter(|_| self.device_pages).map(device_pages);
        let windows = before.borrowed.map(|borrowed| borrowed.windows);
        let copies = head.zip(windows).and_then(|(head, windows)| copied_entries(head, windows));
        let operation = match (flush.as_ref().or(head), part) {
            (Some(head), Some(part)) => {
                let (idle, device_pages, copies) = (before.idle, pages.as_deref(), copies.as_slice());
                as_paging_op(head, &names, mode, Asked { part, idle, windows, device_pages, copies, fences })
            }
            _ => match signal {
                Some(signal) => signal,
                None => return Ok(Some(Filled::Whole)),
            },
        };
        let (may_be_busy, used, va) = (operation.may_be_busy(), filling.content.used, filling.va);
        let mut build = BuildPagingBuffer {
            buffer: &mut filling.content.words[used..],
            written: 0,
            private_data: &mut filling.content.private_data[filling.content.private_used..],
            private_written: 0,
            operation,
            multipass_offset: before.multipass,
            buffer_va: if va.is_null() { va } else { va.offset(used as u64 * 8) },
            immediate: false,
            system_context: self.context,
            // CAST: a paging buffer is far below 4 GiB.
            write_offset: (used * 8) as u32,
        };
        let result = driver.build_paging_buffer(&mut build);
        let (written, multipass) = (build.written, build.multipass_offset);
        let private_written = build.private_written;
        filling.wrote(written, private_written)?;
        let (flushes, fresh) = (flush.is_some(), used == 0);
        self.answered(result, Answer { part, flushes, fresh, written, multipass, may_be_busy })
    }

    /// What the driver's answer means for the work and its buffer.
    // spec: memory §3.2
    fn answered(&mut self, result: Result<(), PagingStatus>, answer: Answer) -> Result<Option<Filled>, String> {
        let Answer { part, flushes, fresh, written, multipass, may_be_busy } = answer;
        let progress = &mut self.building[0].progress;
        debug_assert!(progress.passes <= PASSES_MAX, "a part has no more calls than it may: {progress:?}");
        match result {
            Ok(()) if flushes => {
                progress.borrowed = progress.borrowed.map(|borrowed| Borrowed { flush: false, ..borrowed });
                (progress.multipass, progress.passes) = (0, 0);
                Ok(None)
            }
            Ok(()) => {
                if let Some(borrowed) = progress.borrowed {
                    // The buffer under construction is the next that is submitted.
                    self.return_slot(borrowed, self.progress_value + 1);
                }
                Ok(self.building[0].advance(part))
            }
            Err(PagingStatus::InsufficientDmaBuffer) if fresh && written == 0 => {
                Err("the driver asked for a new paging buffer on an empty one".into())
            }
            Err(PagingStatus::InsufficientDmaBuffer) if progress.passes == PASSES_MAX => {
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
                    self.hold_until = self.progress_value + u64::from(!fresh || written > 0);
                    Ok(Some(Filled::Held))
                }
                Some(true) => Err("the driver answered ALLOCATION_BUSY for an allocation that is idle".into()),
                None => Err("the driver answered ALLOCATION_BUSY, which this operation does not allow".into()),
            },
            Err(PagingStatus::Fatal(reason)) => Err(format!("BuildPagingBuffer failed: {reason}")),
        }
    }
}

impl Filling {
    /// The driver has written so much.
    fn wrote(&mut self, words: usize, private: usize) -> Result<(), String> {
        let content = &mut self.content;
        if words > content.words.len() - content.used {
            return Err("the driver wrote past its paging buffer".into());
        }
        if private > content.private_data.len() - content.private_used {
            return Err("the driver wrote past the private data of its paging buffer".into());
        }
        content.used += words;
        content.private_used += private;
        debug_assert!(
            content.used <= content.words.len() && content.private_used <= content.private_data.len(),
            "what is written is in the buffer: {} words, {} private bytes",
            content.used,
            content.private_used
        );
        Ok(())
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
