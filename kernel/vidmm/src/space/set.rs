//! All address spaces of one adapter: how they begin and end, and what is common to them.
//!
//! What holds at every call (`check`, and assertions):
//! - a table, and no other owner, has each frame of the reserves that is not free;
//! - `away` counts the spaces whose tables are not resident, so that a new root looks at them only if there are any;
//! - only the paging process shows windows, and it never loses its tables.

use ddi::{GpuMmuCaps, GpuMmuFlags, PageTableUpdateMode};
use wddm_types::{GpuVa, PageRun, Pages, PhysicalAddress};

use super::entries::EntryWriter;
use super::scratch::{Scratch, ScratchTables};
use super::window::TableWindow;
use super::{Space, SpaceKind};
use crate::page_table::{Geometry, OutOfTables, PageTable, TableSources};
use crate::paging::{Batch, Operation};
use crate::policy::Policy;
use crate::segment::Segments;
use crate::slab::{Slab, SpaceId};

/// The address spaces of one adapter.
#[derive(Debug)]
pub(crate) struct AddressSpaces {
    pub(super) spaces: Slab<SpaceId, Space>,
    pub(super) geometry: Geometry,
    pub(super) mmu: GpuMmuCaps,
    /// Where tables come from.
    pub(super) frames: TableSources,
    pub(super) writer: EntryWriter,
    /// So many pages at the beginning of a process's space stay invalid.
    invalid_pages: Pages,
    /// Addresses of the paging process.
    paging_space: Pages,
    /// Addresses that VidMm chooses are multiples of it.
    pub(super) va_alignment_bytes: u64,
    /// Paging work reaches tables through windows of the scratch area.
    has_windows: bool,
    /// Where the paging process sees the tables of all others, segment by segment, if it writes them by address.
    pub(super) windows: Vec<TableWindow>,
    pub(super) scratch: Scratch,
    /// What it sees of its own tables, if the driver is told where they stand.
    pub(super) scratch_tables: Option<ScratchTables>,
    /// Spaces whose tables are away.
    pub(super) away: usize,
}

/// A space that has ended.
#[must_use = "its page of zeros is to be retired"]
pub(crate) struct GoneSpace {
    pub zero_page: Option<PageRun>,
    pub was_paging: bool,
}

impl AddressSpaces {
    /// No space yet, on an adapter that translates so. `dummy_page`: what addresses show whose entries are written apart from all others.
    pub fn open(
        (mmu, geometry): (GpuMmuCaps, Geometry),
        frames: TableSources,
        segments: &Segments,
        policy: &Policy,
        dummy_page: PageRun,
    ) -> Self {
        AddressSpaces {
            spaces: Slab::new(),
            geometry,
            mmu,
            frames,
            writer: EntryWriter::new(mmu.flags, segments.of_large_pages()),
            invalid_pages: policy.invalid_pages,
            paging_space: policy.paging_space,
            va_alignment_bytes: policy.va_alignment_bytes,
            has_windows: policy.paging_has_addresses,
            windows: Vec::new(),
            scratch: Scratch::new(dummy_page, policy),
            scratch_tables: None,
            away: 0,
        }
    }

    /// Makes a space. The operations initialise its root, and open the windows of the paging process.
    pub fn begin(&mut self, kind: SpaceKind, segments: &Segments) -> Result<(SpaceId, Vec<Operation>), OutOfTables> {
        // The paging process's root is never replaced: it always runs.
        let reach = match kind {
            SpaceKind::Paging => {
                let most = self.frames.of(kind).root_capacity_pages() / 4;
                self.geometry.reach_within(self.paging_space.0, most)
            }
            SpaceKind::Process => 0,
        };
        let table = PageTable::new(&self.geometry, kind, reach, self.frames.of(kind))?;
        if kind == SpaceKind::Process && !self.root_leaves_room((table.root(), table.root_pages())) {
            table.destroy(self.frames.of(kind));
            return Err(OutOfTables);
        }
        let end = self.end_of(kind, &table);
        let first = self.begin_of(kind).min(end);
        let space = self.spaces.insert(Space::new(kind, table, first, end, self.asked_alignments()));
        let mut operations = self.spaces[space].table.initialize(space);
        if kind == SpaceKind::Paging && self.mmu.update_mode == PageTableUpdateMode::GpuVirtual {
            operations.extend(self.open_table_window(space, segments)?);
        }
        Ok((space, operations))
    }

    /// The first page of a space of this kind that can be used.
    // spec: memory §4.6, entry 0 of the root is made invalid and belongs to the process; memory §4.7
    pub(super) fn begin_of(&self, kind: SpaceKind) -> u64 {
        match kind {
            SpaceKind::Process if self.geometry.is_platforms() => self.geometry.root_entry_pages(),
            SpaceKind::Process => self.invalid_pages.0,
            SpaceKind::Paging => self.geometry.root_entry_pages(),
        }
    }

    /// One past the last page of a space of this kind.
    pub(super) fn end_of(&self, kind: SpaceKind, table: &PageTable) -> u64 {
        let whole = self.geometry.space_pages();
        if kind == SpaceKind::Process || self.geometry.is_platforms() {
            return whole;
        }
        // spec: memory §4.7; no range lies where the first entry of the root would lead
        let said = self.geometry.root_entry_pages().saturating_add(self.paging_space.0);
        table.reach().min(whole).min(said)
    }

    /// Takes a creation back whose operations are not carried out.
    pub fn abandon(&mut self, space: SpaceId) {
        let gone = self.spaces.remove(space);
        let unused = gone.mapped.is_empty() && gone.zero_page.is_none() && gone.table.is_resident();
        assert!(unused, "a space that shows nothing");
        gone.table.destroy(self.frames.of(gone.kind));
    }

    /// Ends a space that shows nothing any more, by `batch`, which has made its entries invalid.
    pub fn end<F: Copy + Eq>(&mut self, space: SpaceId, batch: &mut Batch<F>) -> GoneSpace {
        let explicit = self.mmu.flags.contains(GpuMmuFlags::EXPLICIT_PAGE_TABLE_INVALIDATION)
            // A process's number may be given to another one: nothing is left under it.
            || self.geometry.is_platforms();
        let gone = self.spaces.remove(space);
        assert!(gone.mapped.is_empty(), "what a space shows is concealed before its end");
        let away = !gone.table.is_resident();
        debug_assert!(!away || gone.kind == SpaceKind::Process, "the tables of the paging process {space:?} are away");
        debug_assert!(!away || self.away > 0, "the tables of {space:?} are away, and none are counted");
        self.away -= usize::from(away);
        // Without the explicit rule a flush of the whole space says everything that the entries would say.
        if !explicit {
            batch.invalidations.clear();
        }
        // Nothing is left that could run there.
        batch.idle_spaces.clear();
        // A process's end is said even if nothing is shown any more: another process is about to get its root.
        let used = !batch.stale.is_empty() || gone.kind == SpaceKind::Process;
        batch.stale.clear();
        if used {
            let whole = Operation::FlushTlb { space, root: gone.table.root(), start: GpuVa::NULL, end: GpuVa::NULL };
            batch.invalidations.push(whole);
        }
        gone.table.destroy(self.frames.of(gone.kind));
        GoneSpace { zero_page: gone.zero_page, was_paging: gone.kind == SpaceKind::Paging }
    }

    /// The spaces of a kind.
    pub fn of_kind(&self, kind: SpaceKind) -> impl Iterator<Item = SpaceId> + '_ {
        self.spaces.iter().filter(move |(_, space)| space.kind == kind).map(|(id, _)| id)
    }

    /// Whether a space lives that is a process's.
    pub fn is_process(&self, space: SpaceId) -> bool {
        self.spaces.get(space).is_some_and(|known| known.kind == SpaceKind::Process)
    }

    /// Whether there are addresses at all.
    pub fn translates(&self) -> bool {
        self.geometry.translates()
    }

    /// Whether the platform translates, by the CPU's addresses (memory §4.1).
    pub fn is_platforms(&self) -> bool {
        self.geometry.is_platforms()
    }

    /// Pages that a leaf table of the GPU's covers, where there are any.
    pub fn leaf_table_pages(&self) -> Option<u64> {
        self.geometry.leaf_table_pages()
    }

    /// Drivers' ranges begin behind what the first entry of the root translates.
    pub fn drivers_first_page(&self) -> u64 {
        self.geometry.root_entry_pages()
    }

    /// Whether the TLB may remember invalid entries, so that entries made valid are flushed, too.
    // spec: memory §4.2
    pub fn flushes_fresh(&self) -> bool {
        !self.mmu.flags.contains(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED)
    }

    /// Whether nothing may run in a space while its tables change.
    // spec: memory §4.2, bit 5
    pub fn change_only_idle(&self) -> bool {
        self.mmu.flags.contains(GpuMmuFlags::PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE)
    }

    /// Whether entries are copied from table to table: by the GPU, which writes the tables and has windows onto them. Everywhere else the
    /// entries are written as the source's are at that time.
    // spec: memory §3.4 operation 14, memory §4.8
    pub fn copies_entries(&self) -> bool {
        self.has_windows && self.mmu.update_mode != PageTableUpdateMode::CpuVirtual
    }

    /// Where the root of a space is for contexts that are made now, and how many entries it has.
    pub fn shown_root(&self, space: SpaceId) -> (PhysicalAddress, u32) {
        self.spaces[space].shown_root
    }

    /// Contexts have a new root. Of a space that is gone nothing is remembered.
    pub fn root_switched(&mut self, space: SpaceId, root: PhysicalAddress, entries: u32) {
        if let Some(known) = self.spaces.get_mut(space) {
            known.shown_root = (root, entries);
        }
    }

    /// A space, unless it is gone.
    pub fn get(&self, space: SpaceId) -> Option<&Space> {
        self.spaces.get(space)
    }
}

impl std::ops::Index<SpaceId> for AddressSpaces {
    type Output = Space;
    fn index(&self, space: SpaceId) -> &Space {
        &self.spaces[space]
    }
}
