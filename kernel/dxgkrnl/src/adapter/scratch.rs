//! The paging process's scratch area (memory §4.7): its windows, and the entries that have them show a chunk. `paging` says which slot is
//! free; the adapter has the memory manager's entries written by the CPU, at once, and the platform forget its own translations.

use vidmm::{Operation, ScratchSlot};
use wddm_types::{Pages, ProcessId};

use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::effect::Cx;
use crate::paging::{Borrowed, FreeSlot, Shown};
use crate::start::StartError;

impl Adapter {
    /// The slots are there from the start: whatever needs one (content that is moved by address, entries that are copied, the first
    /// content of context allocations, notices of evictions) could not be carried out without, and would be found out too late.
    /// Paging buffers that run in no address space see nothing there.
    // spec: memory §3.3, memory §3.4 operations 10, 14 and 22, memory §4.7
    pub(super) fn start_scratch(&mut self, cx: &Cx<'_>) -> Result<(), StartError> {
        if !self.memory.ring.has_addresses() {
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
        self.memory.ring.scratch_opens(windows);
        Ok(())
    }

    /// Borrows a slot for the part under construction, and makes it show this. False: none is free before the ring's progress has
    /// reached `hold_until`, which is set.
    pub(super) fn borrow_slot(&mut self, cx: &Cx<'_>, shown: &[Shown; 2]) -> Result<bool, String> {
        let space = self.owners.space_of(ProcessId::SYSTEM);
        let progress = self.ring_progress(cx);
        let Some(FreeSlot { slot, windows, used }) = self.memory.ring.free_slot(progress) else { return Ok(false) };
        self.clear_slot(cx, slot)?;
        let mut shows = [Pages::ZERO; 2];
        for (at, (window, pages)) in [windows.first, windows.second].into_iter().zip(shown).enumerate() {
            shows[at] = Pages(pages.iter().map(|(_, run)| run.count.0).sum());
            debug_assert!(shows[at] <= self.vidmm.scratch_window(), "a window shows {:?}", shows[at]);
            let entries = self.vidmm.scratch_entries(space, window, pages);
            self.write_now(cx, entries)?;
        }
        // The platform forgets its own translations, at once.
        let platform = cx.platform(self.index).io_mmu();
        let forgotten = used && self.memory.pasids.carry_out(platform, &self.vidmm.scratch_flush(space, windows));
        self.memory.ring.slot_borrowed(Borrowed { slot, windows, flush: used && !forgotten }, shows);
        Ok(true)
    }

    /// Empties the slots that the ring is past, so that a stray access is seen.
    // spec: memory §3.4 operation 22
    pub(super) fn clear_slots(&mut self, cx: &Cx<'_>) -> Result<(), Breach> {
        if self.life.has_stopped() || !self.memory.ring.scratch_shows_any() {
            return Ok(());
        }
        let reached = self.ring_progress(cx);
        for slot in self.memory.ring.slots_past(reached) {
            self.clear_slot(cx, slot).map_err(Breach)?;
        }
        Ok(())
    }

    fn clear_slot(&mut self, cx: &Cx<'_>, slot: usize) -> Result<(), String> {
        let space = self.owners.space_of(ProcessId::SYSTEM);
        for (window, pages) in self.memory.ring.empty_slot(slot) {
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
        self.memory.ring.progress_fence().map_or(0, |progress| self.sync.current_value(cx.memory, progress))
    }
}
