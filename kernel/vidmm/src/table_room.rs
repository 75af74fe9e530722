//! Room for page tables (memory §4.6): the tables of a process that has nothing to run leave when others need theirs, and
//! are back before a device of it runs again. Called by `mapping`, `update` and `suspend`; `page_table` implements the tables.
//!
//! A space's tables are all there, or none but the root. *They are away only while every device of the space is
//! suspended*, so nothing can walk them; a device that is created meanwhile starts suspended. Nothing is copied: tables say
//! nothing that the space and the placements do not say, and they are written anew from those. The processes that lose their tables, first
//! to last:
//!
//! | of the lowest protection first | within it |
//! |---|---|
//! | no device | |
//! | all devices suspended | whose turn comes last |
//! | idle (suspended for it) | idle longest |
//! | running: of lower protection, or for a turn and after a quantum (suspended for it) | running longest |
//!
//! Whether the room suffices is decided before anything leaves; and no space grows beyond what it could have alone beside
//! the roots of all others, so its turn comes.

use wddm_types::{Pages, PhysicalAddress};

use crate::budget::ProcessPriority;
use crate::entry::hull;
use crate::page_table::{NewRoot, RootLength};
use crate::paging::{Batch, Hull, TableMove, Work};
use crate::plan::Takes;
use crate::slab::{DeviceId, SpaceId};
use crate::space::{Shown, SpaceKind};
use crate::tables::{OutOfTables, TableSize};
use crate::vidmm::VidMm;

/// Place of a space among those whose tables may leave: the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    band: ProcessPriority,
    standing: SpaceActivity,
    since: u64,
    space: SpaceId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SpaceActivity {
    Empty,
    Suspended,
    Idle,
    Running,
}

/// The process that claims room for tables, and how far the claim may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableClaim {
    /// Its own tables stay; `None`: it does not exist yet.
    pub space: Option<SpaceId>,
    pub band: ProcessPriority,
    pub takes: Takes,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Where the root of a space is for contexts that are made now, and how many entries it has
    /// (`DxgkDdiSetRootPageTable`): a root that is still being written is not given out. The driver's description from adapter start
    /// counts, not a later one.
    pub fn root_table(&self, space: SpaceId) -> (PhysicalAddress, u32) {
        self.spaces[space].shown_root
    }

    /// Where the root of a space is for contexts that are made now.
    pub fn root(&self, space: SpaceId) -> PhysicalAddress {
        self.root_table(space).0
    }

    /// The hardware has got to an [`Operation::SwitchRoot`]: contexts have the new root. Of a space that is gone nothing is
    /// remembered.
    pub fn root_switched(&mut self, space: SpaceId, root: PhysicalAddress, entries: u32) {
        if let Some(known) = self.spaces.get_mut(space) {
            known.shown_root = (root, entries);
        }
    }

    /// Whether the page tables of a process are in their place.
    pub fn tables_resident(&self, space: SpaceId) -> bool {
        self.spaces[space].table.is_resident()
    }

    /// Makes room for the root of a process that is to be created with this protection, by evicting page tables of processes that rank
    /// below it. `None`: there is room, or there is none to be had.
    // spec: memory §4.6
    pub fn make_room_for_root(&mut self, priority: ProcessPriority) -> Option<Work<F>> {
        let claim = TableClaim { space: None, band: priority, takes: Takes::Lower };
        let mut batch = self.works.begin();
        let wanted = [self.geometry.root_size()];
        let victims = self.table_victims(claim, &wanted, &batch)?;
        self.evict_tables(&victims, None, &mut batch);
        self.finish(batch, false)
    }

    /// Sees to it that the tables of these runs can be made, and takes the frames of a root that reaches them, if the space
    /// needs a longer one: all of it, or nothing changes. The root goes to [`VidMm::set_root`].
    // spec: memory §4.6
    pub(crate) fn provide_tables(
        &mut self,
        space: SpaceId,
        runs: &[(u64, u64)],
        batch: &mut Batch<F>,
    ) -> Result<Option<NewRoot>, OutOfTables> {
        let entry = &mut self.spaces[space];
        entry.table.give_spare(self.table_frames.of(entry.kind));
        let entry = &self.spaces[space];
        let (kind, table) = (entry.kind, &entry.table);
        let longer = table.longer(runs.iter().map(|(first, count)| first + count).max().unwrap_or(0));
        let most = self.table_frames.peek(kind).leaf_capacity_pages();
        let lacking = table.lacking(runs, most).ok_or(OutOfTables)?;
        let away = !table.is_resident();
        // Tables that are away are made when they come back.
        let mut wanted: Vec<TableSize> = longer.iter().map(|longer| longer.size).collect();
        wanted.extend(lacking.iter().filter(|_| !away));
        let mut victims = Vec::new();
        if !self.table_frames.peek(kind).hold([], &wanted) {
            if kind == SpaceKind::Paging {
                return Err(OutOfTables);
            }
            let claim = TableClaim { space: Some(space), band: self.processes.priority(space), takes: Takes::Lower };
            victims = self.table_victims(claim, &wanted, batch).ok_or(OutOfTables)?;
        }
        let address = longer.map(|longer| {
            let gone = victims.iter().flat_map(|id| self.spaces[*id].table.lower_places());
            self.table_frames.peek(kind).place_for(gone, longer.size).expect("there is room for it")
        });
        let root = longer.zip(address);
        if (longer.is_some() || away && !lacking.is_empty()) && !self.turns_come(space, root, &lacking, &victims) {
            return Err(OutOfTables);
        }
        self.evict_tables(&victims, Some(space), batch);
        Ok(root.map(|(longer, address)| {
            // It may lie where a table was that leaves in this work.
            batch.settle_ahead();
            self.table_frames.of(kind).take_exact(address, longer.size.pages);
            longer.at(address)
        }))
    }

    /// Whether all whose tables are away, or leave now, find room beside the roots when their turn comes, if a space gets
    /// this root and lacks these tables.
    fn turns_come(
        &self,
        space: SpaceId,
        root: Option<(RootLength, PhysicalAddress)>,
        lacking: &[TableSize],
        victims: &[SpaceId],
    ) -> bool {
        let mut roots = self.roots();
        if let Some((longer, address)) = root {
            let own = self.spaces[space].table.root();
            roots.retain(|(known, _)| *known != own);
            roots.push((address, longer.size.pages));
        }
        let mut away = self.spaces.iter().filter(|(id, known)| !known.table.is_resident() || victims.contains(id));
        away.all(|(id, known)| {
            let mut sizes = if id == space { lacking.to_vec() } else { Vec::new() };
            sizes.extend(known.table.lower_sizes());
            self.table_frames.of_processes().hold_beside(&roots, &sizes)
        })
    }

    /// The space has this root from the work on.
    pub(crate) fn set_root(&mut self, space: SpaceId, root: Option<NewRoot>, batch: &mut Batch<F>) {
        let entry = &mut self.spaces[space];
        if let Some(root) = root {
            entry.table.replace_root(space, root, self.table_frames.of(entry.kind), batch);
        }
    }

    /// Whether the root of a new space leaves enough to those whose tables are away.
    pub(crate) fn root_leaves_room(&self, root: (PhysicalAddress, u64)) -> bool {
        if self.tables_away == 0 {
            return true;
        }
        let mut roots = self.roots();
        roots.push(root);
        let mut away = self.spaces.iter().filter(|(_, space)| !space.table.is_resident());
        away.all(|(_, space)| self.table_frames.of_processes().hold_beside(&roots, &space.table.lower_sizes()))
    }

    /// Bytes that a suspended device's tables lack, if there is no room to be had for them.
    pub(crate) fn lacks_table_room(&self, device: DeviceId, takes: Takes) -> Option<u64> {
        let space = self.devices[device].space;
        let table = &self.spaces[space].table;
        let sizes = table.lower_sizes();
        if table.is_resident() || self.table_frames.of_processes().hold([], &sizes) {
            return None;
        }
        let claim = TableClaim { space: Some(space), band: self.band_of(device), takes };
        let victims = self.table_victims(claim, &sizes, &Batch::new(0));
        if victims.is_some() { None } else { Some(Pages(table.lower_pages()).bytes()) }
    }

    /// Takes the tables of others out that stand where those of a device's process are to come.
    pub(crate) fn clear_way_for_tables(&mut self, device: DeviceId, takes: Takes, batch: &mut Batch<F>) {
        let space = self.devices[device].space;
        let table = &self.spaces[space].table;
        let sizes = table.lower_sizes();
        if table.is_resident() || self.table_frames.of_processes().hold([], &sizes) {
            return;
        }
        let claim = TableClaim { space: Some(space), band: self.band_of(device), takes };
        let victims = self.table_victims(claim, &sizes, batch).expect("the plan has seen the room");
        self.evict_tables(&victims, Some(space), batch);
    }

    /// Writes the tables of a process anew, and all that they show. Last in a work: what comes and goes in it is seen.
    // spec: memory §4.6, memory §4.10
    pub(crate) fn restore_tables(&mut self, id: SpaceId, batch: &mut Batch<F>) {
        if self.spaces[id].table.is_resident() {
            return;
        }
        self.tables_away -= 1;
        let space = &mut self.spaces[id];
        let made = space.table.restore(id, self.table_frames.of(space.kind)).expect("their way was cleared");
        batch.entries.extend(made);
        let root = space.table.root();
        let bytes = Pages(space.table.lower_pages()).bytes();
        Hull::note(&mut batch.fresh, id, hull(root, 0, self.geometry.space_pages()));
        self.write_entries(id, batch);
        batch.tables.push(TableMove { space: id, bytes, came: true, for_space: None });
    }

    /// Writes the entries of everything that a space shows, into tables whose entries are all invalid.
    pub(crate) fn write_entries(&mut self, id: SpaceId, batch: &mut Batch<F>) {
        let writer = self.writer();
        let mapped: Vec<_> = self.spaces[id].mapped.iter().map(|(&first, &mapping)| (first, mapping)).collect();
        for (first, mapping) in mapped {
            match mapping.shown {
                Shown::Allocation(shown, page) => {
                    let (spaces, allocation) = (&mut self.spaces, &self.allocations[shown]);
                    writer.show(spaces, allocation, shown, Some((id, first)), page, mapping.pages, batch);
                }
                // The scratch area, whose entries are invalid until a chunk is moved through it, and the window onto page
                // tables, which `table_window` writes.
                Shown::System(page) if page == self.system.dummy_page().first => {}
                Shown::System(_) | Shown::Words(_) | Shown::Zero => {
                    writer.fixed(&mut self.spaces, id, first, mapping, batch);
                }
            }
        }
    }

    fn roots(&self) -> Vec<(PhysicalAddress, u64)> {
        let of_processes = self.spaces.iter().filter(|(_, space)| space.kind == SpaceKind::Process);
        of_processes.map(|(_, space)| (space.table.root(), space.table.root_pages())).collect()
    }

    /// The processes whose tables leave so that these find room, as few as possible; `None`: all that may leave would not suffice.
    fn table_victims(&self, claim: TableClaim, wanted: &[TableSize], batch: &Batch<F>) -> Option<Vec<SpaceId>> {
        if !self.policy.evict_page_tables {
            return None;
        }
        let others = self.spaces.iter().filter(|(id, space)| {
            // Tables that a work has written stay until its end.
            let there = space.kind == SpaceKind::Process && space.table.is_resident() && space.table.lower_pages() > 0;
            there && Some(*id) != claim.space && !batch.writes(*id)
        });
        let mut orders: Vec<Order> = others.filter_map(|(id, _)| self.table_order(id, claim)).collect();
        orders.sort_unstable();
        let frames = self.table_frames.of_processes();
        let enough = |count: &usize| {
            let gone = orders[..*count].iter().flat_map(|order| self.spaces[order.space].table.lower_places());
            frames.hold(gone, wanted)
        };
        let count = (1..=orders.len()).find(enough)?;
        Some(orders[..count].iter().map(|order| order.space).collect())
    }

    // spec: memory §8.2
    fn table_order(&self, space: SpaceId, claim: TableClaim) -> Option<Order> {
        let band = self.processes.priority(space);
        if band > claim.band {
            return None;
        }
        let mut last = (SpaceActivity::Empty, 0);
        for device in self.processes.devices(space) {
            let known = &self.devices[device];
            let ran = self.now_ns >= known.active_since_ns.saturating_add(self.policy.residency_quantum_ns);
            let stands = match (known.suspended, known.idle_since) {
                (Some(suspension), _) => (SpaceActivity::Suspended, u64::MAX - suspension.tick),
                _ if !self.policy.suspend_others => return None,
                (None, Some(since)) => (SpaceActivity::Idle, since),
                (None, None) if band < claim.band || claim.takes == Takes::Turn && ran => {
                    (SpaceActivity::Running, known.active_since_ns)
                }
                (None, None) => return None,
            };
            last = last.max(stands);
        }
        Some(Order { band, standing: last.0, since: last.1, space })
    }

    fn evict_tables(&mut self, victims: &[SpaceId], for_space: Option<SpaceId>, batch: &mut Batch<F>) {
        let not_before = self.now_ns.saturating_add(self.policy.residency_quantum_ns);
        for &id in victims {
            for device in self.processes.devices(id).collect::<Vec<_>>() {
                if !self.is_suspended(device) {
                    self.suspend_now(device, batch);
                }
                // Like content: what left does not come back within a quantum.
                self.devices[device].suspended.as_mut().expect("just seen to").not_before_ns = Some(not_before);
            }
            let space = &mut self.spaces[id];
            let bytes = Pages(space.table.lower_pages()).bytes();
            self.tables_away += 1;
            batch.invalidations.extend(space.table.evict(id, self.table_frames.of(SpaceKind::Process)));
            Hull::note(&mut batch.stale, id, hull(space.table.root(), 0, self.geometry.space_pages()));
            batch.tables.push(TableMove { space: id, bytes, came: false, for_space });
            self.pressure = true;
        }
    }
}
