//! The window through which the paging process sees the page tables of all processes, for hardware that writes them by
//! virtual address (GPU_VIRTUAL, memory §4.2): all frames that such tables can have, those of each segment one behind the
//! other, mapped once when the adapter starts. The builder of paging buffers asks it for the address of a table.

use ddi::{GpuMmuFlags, Pte, PteFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use crate::entry::LeafEntry;
use crate::operation::Operation;
use crate::slab::SpaceId;
use crate::space::{Mapping, Origin, Protection, Shown, SpaceKind};
use crate::tables::OutOfTables;
use crate::vidmm::VidMm;

/// Where the frames of process tables in one segment are seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableWindow {
    space: SpaceId,
    /// First page of addresses.
    first: u64,
    segment: SegmentId,
    frames: PageRun,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Opens the window in the paging process's space. The operations make its tables and entries.
    // spec: memory §4.2, memory §4.7
    pub(crate) fn open_table_window(&mut self, space: SpaceId) -> Result<Vec<Operation>, OutOfTables> {
        let mut operations = Vec::new();
        for (segment, frames) in self.table_frames.of(SpaceKind::Process).frames() {
            let entry = &mut self.spaces[space];
            assert_eq!(entry.kind, SpaceKind::Paging, "only the paging process writes tables");
            let first = entry.find(frames.count.0, 0, u64::MAX, 1).ok_or(OutOfTables)?;
            let run = PageRun { first, count: frames.count };
            let of_paging = self.table_frames.of(SpaceKind::Paging);
            operations.extend(entry.table.cover(space, first, frames.count.0, None, of_paging)?);
            entry.take(run, Origin::Kernel);
            // Only this file writes the entries there, as with the scratch area.
            let shown = Shown::System(self.system.dummy_page().first);
            entry.show(first, Mapping { pages: frames.count.0, shown, protection: Protection::READ_WRITE });
            self.table_window.push(TableWindow { space, first, segment, frames });
        }
        operations.extend(self.table_window_entries());
        Ok(operations)
    }

    /// The entries of the windows, for a paging process whose tables are new or written anew.
    pub(crate) fn table_window_entries(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for &window in &self.table_window {
            let mut flags = PteFlags::VALID;
            let snoops = self.mmu.flags.contains(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED);
            flags.set(PteFlags::CACHE_COHERENT, window.segment.is_system() && snoops);
            let address = PhysicalAddress { segment: window.segment, offset: window.frames.first * PAGE_BYTES };
            let entry = LeafEntry { pte: Pte { flags, address }, repeat: false, ..LeafEntry::INVALID };
            let table = &self.spaces[window.space].table;
            // Pages of the segment that VidMm gives to no owner stay unmapped in the paging process too.
            let mut next = 0;
            for hole in self.holes(window) {
                let from = hole.first - window.frames.first;
                table.write_small(
                    window.space,
                    window.first + next,
                    from - next,
                    entry.advanced(next),
                    &mut operations,
                );
                next = from + hole.count.0;
            }
            let rest = window.frames.count.0 - next;
            table.write_small(window.space, window.first + next, rest, entry.advanced(next), &mut operations);
        }
        operations
    }

    /// Frames in the window that no table may have, lowest first.
    // spec: memory §1.4
    fn holes(&self, window: TableWindow) -> Vec<PageRun> {
        if window.segment.is_system() {
            return Vec::new();
        }
        let (low, high) = (window.frames.first, window.frames.end());
        let hidden = self.segment(window.segment).descriptor.hidden_runs();
        let cut = |run: PageRun| {
            let (first, end) = (run.first.max(low), run.end().min(high));
            (first < end).then(|| PageRun { first, count: Pages(end - first) })
        };
        hidden.into_iter().filter_map(cut).collect()
    }

    /// The address of a process's page table in the paging process; NULL where tables are not written by address.
    // spec: memory §4.2
    pub fn table_va(&self, table: PhysicalAddress) -> GpuVa {
        let seen = self.table_window.iter().find_map(|window| {
            let offset = table.offset.checked_sub(window.frames.first * PAGE_BYTES)?;
            let inside = table.segment == window.segment && offset < window.frames.count.bytes();
            inside.then(|| GpuVa(window.first * PAGE_BYTES + offset))
        });
        seen.unwrap_or(GpuVa::NULL)
    }
}
