//! Room for page tables as far as the tables alone decide it (memory §4.6): what a change lacks, whether it fits, and that no space grows
//! beyond what every other could still have at its turn. `table_room` chooses the processes that give up their own.
//!
//! A space's tables are all there, or none but the root. Nothing is copied: tables say nothing that the space and the placements do not
//! say, and they are written anew from those.

use wddm_types::{PageRun, Pages, PhysicalAddress};

use super::content::pairs;
use super::{AddressSpaces, SpaceKind};
use crate::page_table::{NewRoot, OutOfTables, RootLength, TableSize};
use crate::paging::{Batch, Hull};
use crate::slab::SpaceId;

/// The tables that a change of a space lacks.
#[derive(Debug)]
pub(crate) struct TableDemand {
    space: SpaceId,
    /// A root that reaches it, if this one does not.
    longer: Option<RootLength>,
    lacking: Vec<TableSize>,
    /// What has to be found now: tables that are away are made when they come back.
    wanted: Vec<TableSize>,
}

impl TableDemand {
    /// What has to be found for it now.
    pub fn wanted(&self) -> &[TableSize] {
        &self.wanted
    }
}

/// Where a longer root is to be.
#[must_use = "its frames are free until it is taken"]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootPlace {
    kind: SpaceKind,
    longer: RootLength,
    address: PhysicalAddress,
}

impl AddressSpaces {
    /// What the tables of these runs lack; scarcity, if more than there ever was.
    pub fn demand(&mut self, space: SpaceId, runs: &[PageRun]) -> Result<TableDemand, OutOfTables> {
        let entry = &mut self.spaces[space];
        entry.table.give_spare(self.frames.of(entry.kind));
        let (kind, table) = (entry.kind, &entry.table);
        let longer = table.longer(runs.iter().map(|run| run.end()).max().unwrap_or(0));
        let most = self.frames.peek(kind).leaf_capacity_pages();
        let lacking = table.lacking(&pairs(runs), most).ok_or(OutOfTables)?;
        let mut wanted: Vec<TableSize> = longer.iter().map(|longer| longer.size).collect();
        wanted.extend(lacking.iter().filter(|_| table.is_resident()));
        Ok(TableDemand { space, longer, lacking, wanted })
    }

    /// The tables of a new process: its root.
    pub fn root_size(&self) -> TableSize {
        self.geometry.root_size()
    }

    /// Whether a demand finds room as it is.
    pub fn fits(&self, demand: &TableDemand) -> bool {
        self.frames.peek(self.spaces[demand.space].kind).hold([], &demand.wanted)
    }

    /// Where the root that it needs is to be, once these processes have given up their tables.
    ///
    /// # Errors
    /// Scarcity: then a process whose tables are away could not have them back.
    pub fn place_root(&self, demand: &TableDemand, victims: &[SpaceId]) -> Result<Option<RootPlace>, OutOfTables> {
        let entry = &self.spaces[demand.space];
        let root = demand.longer.map(|longer| {
            let gone = victims.iter().flat_map(|id| self.spaces[*id].table.lower_places());
            let address = self.frames.peek(entry.kind).place_for(gone, longer.size).expect("there is room for it");
            RootPlace { kind: entry.kind, longer, address }
        });
        let grows = root.is_some() || !entry.table.is_resident() && !demand.lacking.is_empty();
        if grows && !self.turns_come(demand, root, victims) { Err(OutOfTables) } else { Ok(root) }
    }

    /// Takes the frames of a root, which may lie where a table was that leaves in this work.
    pub fn take_root<F: Copy + Eq>(&mut self, root: RootPlace, batch: &mut Batch<F>) -> NewRoot {
        batch.settle_ahead();
        self.frames.of(root.kind).take_exact(root.address, root.longer.size.pages);
        root.longer.at(root.address)
    }

    /// Whether all whose tables are away, or leave now, find room beside the roots when their turn comes, if a space gets
    /// this root and lacks these tables.
    fn turns_come(&self, demand: &TableDemand, root: Option<RootPlace>, victims: &[SpaceId]) -> bool {
        let mut roots = self.roots();
        if let Some(RootPlace { longer, address, .. }) = root {
            let own = self.spaces[demand.space].table.root();
            roots.retain(|(known, _)| *known != own);
            roots.push((address, longer.size.pages));
        }
        let mut away = self.spaces.iter().filter(|(id, known)| !known.table.is_resident() || victims.contains(id));
        away.all(|(id, known)| {
            let mut sizes = if id == demand.space { demand.lacking.clone() } else { Vec::new() };
            sizes.extend(known.table.lower_sizes());
            self.frames.of_processes().hold_beside(&roots, &sizes)
        })
    }

    /// Whether the root of a new space leaves enough to those whose tables are away.
    pub(super) fn root_leaves_room(&self, root: (PhysicalAddress, u64)) -> bool {
        if self.away == 0 {
            return true;
        }
        let mut roots = self.roots();
        roots.push(root);
        let mut away = self.spaces.iter().filter(|(_, space)| !space.table.is_resident());
        away.all(|(_, space)| self.frames.of_processes().hold_beside(&roots, &space.table.lower_sizes()))
    }

    fn roots(&self) -> Vec<(PhysicalAddress, u64)> {
        let of_processes = self.spaces.iter().filter(|(_, space)| space.kind == SpaceKind::Process);
        of_processes.map(|(_, space)| (space.table.root(), space.table.root_pages())).collect()
    }

    /// Whether the page tables of a process are in their place.
    pub fn tables_resident(&self, space: SpaceId) -> bool {
        self.spaces[space].table.is_resident()
    }

    /// The tables of a process that are away and find no room as it is: their sizes.
    pub fn stranded_tables(&self, space: SpaceId) -> Option<Vec<TableSize>> {
        let table = &self.spaces[space].table;
        if table.is_resident() {
            return None;
        }
        let sizes = table.lower_sizes();
        if self.frames.of_processes().hold([], &sizes) { None } else { Some(sizes) }
    }

    /// Bytes of a space's tables below the root.
    pub fn lower_bytes(&self, space: SpaceId) -> u64 {
        Pages(self.spaces[space].table.lower_pages()).bytes()
    }

    /// The processes whose tables may leave before the work's end: tables that it has written stay until then.
    pub fn with_tables<'a, F: Copy + Eq>(&'a self, batch: &'a Batch<F>) -> impl Iterator<Item = SpaceId> + 'a {
        let there = |(id, space): (SpaceId, &super::Space)| {
            let there = space.kind == SpaceKind::Process && space.table.is_resident() && space.table.lower_pages() > 0;
            (there && !batch.writes(id)).then_some(id)
        };
        self.spaces.iter().filter_map(there)
    }

    /// Whether tables of processes find room once these have given up theirs.
    pub fn fit_without(&self, victims: impl IntoIterator<Item = SpaceId>, wanted: &[TableSize]) -> bool {
        let gone = victims.into_iter().flat_map(|id| self.spaces[id].table.lower_places());
        self.frames.of_processes().hold(gone, wanted)
    }

    /// Takes the tables of a process out of their frames. Answers with their bytes.
    pub fn evict_tables<F: Copy + Eq>(&mut self, id: SpaceId, batch: &mut Batch<F>) -> u64 {
        assert_eq!(self.spaces[id].kind, SpaceKind::Process, "the paging process always runs");
        let bytes = self.lower_bytes(id);
        self.away += 1;
        let space = &mut self.spaces[id];
        batch.invalidations.extend(space.table.evict(id, self.frames.of(SpaceKind::Process)));
        Hull::note(&mut batch.stale, id, Hull::of(space.table.root(), 0, self.geometry.space_pages()));
        bytes
    }

    /// Brings tables back that are away, their entries invalid; their way was cleared. Answers with their bytes.
    pub fn restore_tables<F: Copy + Eq>(&mut self, id: SpaceId, batch: &mut Batch<F>) -> u64 {
        debug_assert!(self.away > 0, "the tables of {id:?} come back, and none are away");
        self.away -= 1;
        let space = &mut self.spaces[id];
        let made = space.table.restore(id, self.frames.of(space.kind)).expect("their way was cleared");
        batch.entries.extend(made);
        Hull::note(&mut batch.fresh, id, Hull::of(space.table.root(), 0, self.geometry.space_pages()));
        self.lower_bytes(id)
    }

    /// Writes all tables anew, because their memory has lost them; the entries of pages are invalid.
    pub fn rebuild_tables<F: Copy + Eq>(&mut self, id: SpaceId, batch: &mut Batch<F>) {
        let space = &mut self.spaces[id];
        batch.invalidations.extend(space.table.rebuild(id));
        Hull::note(&mut batch.stale, id, Hull::of(space.table.root(), 0, self.geometry.space_pages()));
    }

    /// Bytes of page tables that exist for spaces of a kind.
    pub fn table_bytes(&self, kind: SpaceKind) -> u64 {
        self.frames.peek(kind).used_bytes()
    }
}
