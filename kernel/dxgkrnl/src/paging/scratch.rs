//! The paging process's scratch area in use (memory §4.7): operations that reach content by address borrow a slot for one
//! chunk, from the moment it is built until the ring is past it. Only the ring uses this.
//!
//! Entries are written by the CPU at once. Before a slot is used again its translations are forgotten by a flush in the
//! ring, in front of the chunk.

use vidmm::{Direction, Operation, Part, ScratchSlot};
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, ProcessId, SegmentId};

use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::machine::Cx;
use crate::start::StartError;

/// The pages that one window shows.
type Shown = Vec<(SegmentId, PageRun)>;

/// The slots.
#[derive(Default)]
pub(super) struct Scratch {
    slots: Vec<Slot>,
    next: usize,
}

struct Slot {
    windows: ScratchSlot,
    /// Progress of the ring after which nothing uses it.
    busy_until: u64,
    /// Pages whose entries are valid, of each window.
    shows: [Pages; 2],
    /// Its addresses have led somewhere already.
    used: bool,
}

/// A slot that the chunk under construction uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Borrowed {
    /// The slot's index.
    pub slot: usize,
    /// Its windows.
    pub windows: ScratchSlot,
    /// Its translations are to be forgotten first.
    pub flush: bool,
}

impl Scratch {
    /// The ring has lost what it had, and the tables were written anew: nothing uses the slots, and they show nothing.
    pub(super) fn forget(&mut self) {
        for slot in &mut self.slots {
            (slot.busy_until, slot.shows) = (0, [Pages::ZERO; 2]);
        }
    }
}

impl Adapter {
    /// The pages that an operation's part needs in the scratch area: first and second window. `None`: it needs none.
    pub(super) fn to_be_shown(&self, operation: &Operation, part: Part) -> Option<[Shown; 2]> {
        let (first, pages) = (part.offset_bytes / PAGE_BYTES, part.size_bytes / PAGE_BYTES);
        let by_va = self.vidmm.pages_by_gpu_va();
        let in_segment = |segment: SegmentId, address: u64| {
            let page = self.vidmm.page_at(segment, address) + first;
            vec![(segment, PageRun { first: page, count: Pages(pages) })]
        };
        let in_system = |backing: &[PageRun]| {
            let runs = vidmm::cut_pages(backing, first, pages);
            runs.into_iter().map(|run| (SegmentId::SYSTEM, run)).collect::<Vec<_>>()
        };
        match operation {
            Operation::Transfer { segment, address, backing, direction, .. } if by_va && pages > 0 => {
                let (here, there) = (in_segment(*segment, *address), in_system(backing));
                Some(match direction {
                    Direction::In => [there, here],
                    Direction::Out => [here, there],
                })
            }
            Operation::Relocate { segment, from, to, .. } if by_va => {
                Some([in_segment(*segment, *from), in_segment(*segment, *to)])
            }
            Operation::Fill { segment, address, .. } if by_va => Some([in_segment(*segment, *address), Vec::new()]),
            // spec: memory §3.4, operation 14: both tables by address
            Operation::CopyEntries { source, target, table_pages, .. } => Some([source, target].map(|table| {
                let first = table.offset / PAGE_BYTES;
                vec![(table.segment, PageRun { first, count: Pages(*table_pages) })]
            })),
            Operation::NotifyEviction { backing, .. } => Some([in_system(backing), Vec::new()]),
            // As long as two windows at most: the second goes on where the first ends.
            Operation::InitContext { segment, pages, .. } | Operation::UpdateContext { segment, pages, .. } => {
                let all: u64 = pages.iter().map(|run| run.count.0).sum();
                let first = all.min(self.vidmm.scratch_window().0);
                let part = |from, count| {
                    vidmm::cut_pages(pages, from, count).into_iter().map(|run| (*segment, run)).collect::<Vec<_>>()
                };
                Some([part(0, first), part(first, all - first)])
            }
            _ => None,
        }
    }

    /// The slots are there from the start: whatever needs one (content that is moved by address, entries that are copied, the first
    /// content of context allocations, notices of evictions) could not be carried out without, and would be found out too late.
    /// Paging buffers that run in no address space see nothing there.
    // spec: memory §3.3, memory §3.4 operations 10, 14 and 22, memory §4.7
    pub fn start_scratch(&mut self, cx: &Cx<'_>) -> Result<(), StartError> {
        if !self.ring.has_addresses {
            return Ok(());
        }
        let space = self.owners.space_of(ProcessId::SYSTEM);
        let (windows, tables) = self.vidmm.create_scratch(space).map_err(|_| {
            StartError::Memory("there are too few page tables for the scratch area of the paging process")
        })?;
        self.open_scratch(cx, windows, tables)
            .map_err(|_| StartError::Rule("a page-table update of the paging process failed"))
    }

    fn open_scratch(&mut self, cx: &Cx<'_>, windows: Vec<ScratchSlot>, tables: Vec<Operation>) -> Result<(), String> {
        self.write_now(cx, tables)?;
        let slot = |windows| Slot { windows, busy_until: 0, shows: [Pages::ZERO; 2], used: false };
        self.ring.scratch.slots = windows.into_iter().map(slot).collect();
        Ok(())
    }

    /// Borrows a slot and makes it show this. `None`: none is free before the ring's progress has reached `hold_until`,
    /// which is set.
    pub(super) fn borrow_slot(&mut self, cx: &Cx<'_>, shown: &[Shown; 2]) -> Result<Option<Borrowed>, String> {
        let space = self.owners.space_of(ProcessId::SYSTEM);
        let index = self.ring.scratch.next;
        let slot = &self.ring.scratch.slots[index];
        let (windows, flush) = (slot.windows, slot.used);
        if slot.busy_until > self.ring_progress(cx) {
            self.ring.hold_until = slot.busy_until;
            return Ok(None);
        }
        self.clear_slot(cx, index)?;
        let mut shows = [Pages::ZERO; 2];
        for (at, (window, pages)) in [windows.first, windows.second].into_iter().zip(shown).enumerate() {
            shows[at] = Pages(pages.iter().map(|(_, run)| run.count.0).sum());
            let entries = self.vidmm.scratch_entries(space, window, pages);
            self.write_now(cx, entries)?;
        }
        // The platform forgets its own translations, at once.
        let platform = cx.platform(self.index).io_mmu();
        let forgotten = flush && self.pasids.carry_out(platform, &self.vidmm.scratch_flush(space, windows));
        let flush = flush && !forgotten;
        let scratch = &mut self.ring.scratch;
        scratch.next = (index + 1) % scratch.slots.len();
        let slot = &mut scratch.slots[index];
        (slot.shows, slot.used, slot.busy_until) = (shows, true, u64::MAX);
        Ok(Some(Borrowed { slot: index, windows, flush }))
    }

    /// The chunk is built: its slot is free when the ring has reached `progress_value`.
    pub(super) fn return_slot(&mut self, borrowed: Borrowed, progress_value: u64) {
        self.ring.scratch.slots[borrowed.slot].busy_until = progress_value;
    }

    /// Empties the slots that the ring is past, so that a stray access is seen.
    // spec: memory §3.4 operation 22
    pub(super) fn clear_slots(&mut self, cx: &Cx<'_>) -> Result<(), Breach> {
        if self.life.has_stopped() {
            return Ok(());
        }
        let reached = self.ring_progress(cx);
        for index in 0..self.ring.scratch.slots.len() {
            if self.ring.scratch.slots[index].busy_until <= reached {
                self.clear_slot(cx, index).map_err(Breach)?;
            }
        }
        Ok(())
    }

    fn clear_slot(&mut self, cx: &Cx<'_>, index: usize) -> Result<(), String> {
        let space = self.owners.space_of(ProcessId::SYSTEM);
        let slot = &mut self.ring.scratch.slots[index];
        let windows: [(GpuVa, Pages); 2] = [(slot.windows.first, slot.shows[0]), (slot.windows.second, slot.shows[1])];
        slot.shows = [Pages::ZERO; 2];
        for (window, pages) in windows.into_iter().filter(|(_, pages)| !pages.is_zero()) {
            let entries = self.vidmm.scratch_clear(space, window, pages);
            self.write_now(cx, entries)?;
        }
        Ok(())
    }

    /// Tables of the paging process: always by the CPU.
    fn write_now(&mut self, cx: &Cx<'_>, operations: Vec<Operation>) -> Result<(), String> {
        self.execute_now(cx, operations)
            .map_err(|()| "a page-table update of the paging process by the CPU failed".into())
    }

    /// How far the hardware has got.
    pub(super) fn ring_progress(&self, cx: &Cx<'_>) -> u64 {
        self.ring.queue.as_ref().map_or(0, |queue| self.sync.current_value(cx.memory, queue.progress))
    }
}
