//! The window through which the paging process sees the page tables of all processes, for hardware that writes them by
//! virtual address (GPU_VIRTUAL, memory §4.2): all frames that such tables can have, those of each segment one behind the
//! other, mapped once when the adapter starts. The builder of paging buffers asks it for the address of a table.

use ddi::{Pte, PteFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use super::{AddressSpaces, Mapping, Origin, Protection, SpaceKind};
use crate::operation::Operation;
use crate::page_table::{LeafEntry, OutOfTables};
use crate::segment::Segments;
use crate::slab::SpaceId;

/// Where the frames of process tables in one segment are seen.
#[derive(Clone, Debug)]
pub(super) struct TableWindow {
    space: SpaceId,
    /// First page of addresses.
    first: u64,
    segment: SegmentId,
    frames: PageRun,
    /// Frames in the window that no table may have, lowest first.
    holes: Vec<PageRun>,
}

impl AddressSpaces {
    /// Opens the window in the paging process's space. The operations make its tables and entries.
    // spec: memory §4.2, memory §4.7
    pub(super) fn open_table_window(
        &mut self,
        space: SpaceId,
        segments: &Segments,
    ) -> Result<Vec<Operation>, OutOfTables> {
        let mut operations = Vec::new();
        for (segment, frames) in self.frames.of(SpaceKind::Process).frames() {
            let (first, made) = self.set_apart(space, frames.count, 1, Protection::READ_WRITE)?;
            operations.extend(made);
            let holes = holes(segments, segment, frames);
            self.windows.push(TableWindow { space, first, segment, frames, holes });
        }
        operations.extend(self.table_window_entries());
        Ok(operations)
    }

    /// Takes addresses of the paging process for good, whose entries are written apart from all others. Answers with the first page, and
    /// the operations that make their tables.
    pub(super) fn set_apart(
        &mut self,
        space: SpaceId,
        count: Pages,
        alignment: u64,
        protection: Protection,
    ) -> Result<(u64, Vec<Operation>), OutOfTables> {
        let entry = &mut self.spaces[space];
        assert!(entry.is_paging(), "only the paging process sees page tables and has a scratch area");
        let first = entry.find(count.0, 0, u64::MAX, alignment).ok_or(OutOfTables)?;
        let of_paging = self.frames.of(SpaceKind::Paging);
        let made = entry.table.cover(space, first, count.0, None, of_paging)?;
        entry.take(PageRun { first, count }, Origin::Kernel);
        entry.show(first, Mapping { pages: count.0, shown: self.scratch.shown_apart(), protection });
        Ok((first, made))
    }

    /// The entries of the windows, for a paging process whose tables are new or written anew.
    pub fn table_window_entries(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for window in &self.windows {
            let mut flags = PteFlags::VALID;
            let snoops = self.snoops();
            flags.set(PteFlags::CACHE_COHERENT, window.segment.is_system() && snoops);
            let address = PhysicalAddress { segment: window.segment, offset: window.frames.first * PAGE_BYTES };
            let entry = LeafEntry { pte: Pte { flags, address }, repeat: false, ..LeafEntry::INVALID };
            let table = &self.spaces[window.space].table;
            // Pages of the segment that VidMm gives to no owner stay unmapped in the paging process too.
            let mut next = 0;
            for hole in &window.holes {
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

    /// The address of a process's page table in the paging process; NULL where tables are not written by address.
    // spec: memory §4.2
    pub fn table_va(&self, table: PhysicalAddress) -> GpuVa {
        let seen = self.windows.iter().find_map(|window| {
            let offset = table.offset.checked_sub(window.frames.first * PAGE_BYTES)?;
            let inside = table.segment == window.segment && offset < window.frames.count.bytes();
            inside.then(|| GpuVa(window.first * PAGE_BYTES + offset))
        });
        seen.unwrap_or(GpuVa::NULL)
    }
}

/// Frames of a segment among these that no table may have, lowest first.
// spec: memory §1.4
fn holes(segments: &Segments, segment: SegmentId, frames: PageRun) -> Vec<PageRun> {
    if segment.is_system() {
        return Vec::new();
    }
    let (low, high) = (frames.first, frames.end());
    let hidden = segments[segment].descriptor.hidden_runs();
    let cut = |run: PageRun| {
        let (first, end) = (run.first.max(low), run.end().min(high));
        (first < end).then(|| PageRun { first, count: Pages(end - first) })
    };
    hidden.into_iter().filter_map(cut).collect()
}
