//! The paging process's scratch area in use (memory §4.7): operations that reach content by address borrow a slot for one
//! chunk, from the moment it is built until the ring is past it. Only the ring uses this.
//!
//! Entries are written by the CPU at once. Before a slot is used again its translations are forgotten by a flush in the
//! ring, in front of the chunk.
//!
//! Here stands which slot is whose; `adapter::scratch` has the entries written. A slot that is borrowed is busy without end until it is
//! returned, so the chunk under construction has it alone.

use gpu_fence::FenceId;
use vidmm::{Direction, Operation, Part, ScratchSlot, VidMm, cut_pages};
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, SegmentId};

use super::PagingRing;

/// The pages that one window shows.
pub type Shown = Vec<(SegmentId, PageRun)>;

/// The slots.
#[derive(Default)]
pub(super) struct Scratch {
    slots: Vec<Slot>,
    next: usize,
    /// Some of them show something.
    shows: bool,
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
pub struct Borrowed {
    /// The slot's index.
    pub slot: usize,
    /// Its windows.
    pub windows: ScratchSlot,
    /// Its translations are to be forgotten first.
    pub flush: bool,
}

/// A slot that no chunk uses, before it is borrowed.
pub struct FreeSlot {
    /// The slot's index.
    pub slot: usize,
    /// Its windows.
    pub windows: ScratchSlot,
    /// Its addresses have led somewhere already.
    pub used: bool,
}

impl Scratch {
    /// The ring has lost what it had, and the tables were written anew: nothing uses the slots, and they show nothing.
    pub(super) fn forget(&mut self) {
        for slot in &mut self.slots {
            (slot.busy_until, slot.shows) = (0, [Pages::ZERO; 2]);
        }
        self.shows = false;
    }
}

impl Slot {
    fn shows_any(&self) -> bool {
        self.shows.iter().any(|pages| !pages.is_zero())
    }
}

impl PagingRing {
    /// The scratch area has these windows.
    pub fn scratch_opens(&mut self, windows: Vec<ScratchSlot>) {
        let slot = |windows| Slot { windows, busy_until: 0, shows: [Pages::ZERO; 2], used: false };
        self.scratch = Scratch { slots: windows.into_iter().map(slot).collect(), ..Scratch::default() };
    }

    /// The next slot, if the ring is past its last use. Else the kernel builds nothing before that.
    pub fn free_slot(&mut self, progress: u64) -> Option<FreeSlot> {
        let index = self.scratch.next;
        // PANIC: an operation that needs a window is decided only where the ring has addresses, and there the adapter started with slots.
        let slot = &self.scratch.slots[index];
        if slot.busy_until > progress {
            self.hold_until = slot.busy_until;
            return None;
        }
        Some(FreeSlot { slot: index, windows: slot.windows, used: slot.used })
    }

    /// The part under construction uses the next slot, whose windows show so much.
    pub fn slot_borrowed(&mut self, borrowed: Borrowed, shows: [Pages; 2]) {
        debug_assert!(self.building[0].progress.borrowed.is_none(), "a part has one slot: {borrowed:?}");
        let scratch = &mut self.scratch;
        debug_assert_eq!(borrowed.slot, scratch.next, "slots are borrowed in turn");
        scratch.next = (borrowed.slot + 1) % scratch.slots.len();
        let slot = &mut scratch.slots[borrowed.slot];
        (slot.shows, slot.used, slot.busy_until) = (shows, true, u64::MAX);
        scratch.shows |= slot.shows_any();
        self.building[0].progress.borrowed = Some(borrowed);
    }

    /// The chunk is built: its slot is free when the ring has reached `progress_value`.
    pub(super) fn return_slot(&mut self, borrowed: Borrowed, progress_value: u64) {
        self.scratch.slots[borrowed.slot].busy_until = progress_value;
    }

    /// The slots that were borrowed, each with the progress of the ring that ends its last use.
    pub(super) fn busy_slots(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let slots = self.scratch.slots.iter().map(|slot| slot.busy_until).enumerate();
        slots.filter(|(_, busy_until)| *busy_until > 0)
    }

    /// Whether any slot shows something.
    pub fn scratch_shows_any(&self) -> bool {
        let shows = || self.scratch.slots.iter().any(Slot::shows_any);
        debug_assert_eq!(self.scratch.shows, shows(), "what the slots show is known otherwise");
        self.scratch.shows
    }

    /// The slots that the ring is past and that show something still.
    pub fn slots_past(&self, progress: u64) -> Vec<usize> {
        let slots = self.scratch.slots.iter().enumerate();
        slots.filter(|(_, slot)| slot.busy_until <= progress && slot.shows_any()).map(|(index, _)| index).collect()
    }

    /// A slot shows nothing any more. Answers with the windows that have valid entries.
    #[must_use = "the entries are cleared"]
    pub fn empty_slot(&mut self, slot: usize) -> Vec<(GpuVa, Pages)> {
        let slot = &mut self.scratch.slots[slot];
        let shows = std::mem::replace(&mut slot.shows, [Pages::ZERO; 2]);
        let windows = [slot.windows.first, slot.windows.second].into_iter().zip(shows);
        self.scratch.shows = self.scratch.slots.iter().any(Slot::shows_any);
        windows.filter(|(_, pages)| !pages.is_zero()).collect()
    }
}

/// The pages that an operation's part needs in the scratch area: first and second window. `None`: it needs none.
pub(super) fn to_be_shown(vidmm: &VidMm<FenceId>, operation: &Operation, part: Part) -> Option<[Shown; 2]> {
    let (first, pages) = (part.offset_bytes / PAGE_BYTES, part.size_bytes / PAGE_BYTES);
    let by_va = vidmm.pages_by_gpu_va();
    let in_segment = |segment: SegmentId, address: u64| {
        let page = vidmm.page_at(segment, address) + first;
        vec![(segment, PageRun { first: page, count: Pages(pages) })]
    };
    let in_system = |backing: &[PageRun]| {
        let runs = cut_pages(backing, first, pages);
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
            let first = all.min(vidmm.scratch_window().0);
            let part =
                |from, count| cut_pages(pages, from, count).into_iter().map(|run| (*segment, run)).collect::<Vec<_>>();
            Some([part(0, first), part(first, all - first)])
        }
        _ => None,
    }
}
