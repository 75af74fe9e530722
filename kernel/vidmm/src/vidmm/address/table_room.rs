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

use wddm_types::{PageRun, PhysicalAddress};

use crate::budget::ProcessPriority;
use crate::page_table::{NewRoot, OutOfTables, TableSize};
use crate::paging::{Batch, TableMove, Work};
use crate::slab::{DeviceId, SpaceId};
use crate::space::Shown;
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::Takes;

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
        self.spaces.shown_root(space)
    }

    /// Where the root of a space is for contexts that are made now.
    pub fn root(&self, space: SpaceId) -> PhysicalAddress {
        self.root_table(space).0
    }

    /// The hardware has got to an [`Operation::SwitchRoot`]: contexts have the new root. Of a space that is gone nothing is
    /// remembered.
    pub fn root_switched(&mut self, space: SpaceId, root: PhysicalAddress, entries: u32) {
        self.spaces.root_switched(space, root, entries);
    }

    /// Whether the page tables of a process are in their place.
    pub fn tables_resident(&self, space: SpaceId) -> bool {
        self.spaces.tables_resident(space)
    }

    /// Makes room for the root of a process that is to be created with this protection, by evicting page tables of processes that rank
    /// below it. `None`: there is room, or there is none to be had.
    // spec: memory §4.6
    pub fn make_room_for_root(&mut self, priority: ProcessPriority) -> Option<Work<F>> {
        let claim = TableClaim { space: None, band: priority, takes: Takes::Lower };
        let mut batch = self.works.begin();
        let wanted = [self.spaces.root_size()];
        let victims = self.table_victims(claim, &wanted, &batch)?;
        self.evict_tables(&victims, None, &mut batch);
        self.finish(batch, false)
    }

    /// Sees to it that the tables of these runs can be made, and takes the frames of a root that reaches them, if the space
    /// needs a longer one: all of it, or nothing changes. The root goes to [`AddressSpaces::set_root`](crate::space::AddressSpaces::set_root).
    // spec: memory §4.6
    pub(crate) fn provide_tables(
        &mut self,
        space: SpaceId,
        runs: &[PageRun],
        batch: &mut Batch<F>,
    ) -> Result<Option<NewRoot>, OutOfTables> {
        let demand = self.spaces.demand(space, runs)?;
        let mut victims = Vec::new();
        if !self.spaces.fits(&demand) {
            if self.spaces[space].is_paging() {
                return Err(OutOfTables);
            }
            let claim = TableClaim { space: Some(space), band: self.processes.priority(space), takes: Takes::Lower };
            victims = self.table_victims(claim, demand.wanted(), batch).ok_or(OutOfTables)?;
        }
        let root = self.spaces.place_root(&demand, &victims)?;
        self.evict_tables(&victims, Some(space), batch);
        Ok(root.map(|root| self.spaces.take_root(root, batch)))
    }

    /// Bytes that a suspended device's tables lack, if there is no room to be had for them.
    pub(crate) fn lacks_table_room(&self, device: DeviceId, takes: Takes) -> Option<u64> {
        let space = self.devices[device].space();
        let sizes = self.spaces.stranded_tables(space)?;
        let claim = TableClaim { space: Some(space), band: self.band_of(device), takes };
        let victims = self.table_victims(claim, &sizes, &Batch::new(0));
        if victims.is_some() { None } else { Some(self.spaces.lower_bytes(space)) }
    }

    /// Takes the tables of others out that stand where those of a device's process are to come.
    pub(crate) fn clear_way_for_tables(&mut self, device: DeviceId, takes: Takes, batch: &mut Batch<F>) {
        let space = self.devices[device].space();
        let Some(sizes) = self.spaces.stranded_tables(space) else { return };
        let claim = TableClaim { space: Some(space), band: self.band_of(device), takes };
        let victims = self.table_victims(claim, &sizes, batch).expect("the plan has seen the room");
        self.evict_tables(&victims, Some(space), batch);
    }

    /// Writes the tables of a process anew, and all that they show. Last in a work: what comes and goes in it is seen.
    // spec: memory §4.6, memory §4.10
    pub(crate) fn restore_tables(&mut self, id: SpaceId, batch: &mut Batch<F>) {
        if self.spaces.tables_resident(id) {
            return;
        }
        let bytes = self.spaces.restore_tables(id, batch);
        self.write_entries(id, batch);
        batch.tables.push(TableMove { space: id, bytes, came: true, for_space: None });
    }

    /// Writes the entries of everything that a space shows, into tables whose entries are all invalid.
    pub(crate) fn write_entries(&mut self, id: SpaceId, batch: &mut Batch<F>) {
        for (first, mapping) in self.spaces[id].mappings().collect::<Vec<_>>() {
            match mapping.shown {
                Shown::Allocation(shown, page) => {
                    let only = Some((id, first));
                    self.spaces.show(&self.allocations[shown], shown, only, page, mapping.pages, batch);
                }
                // The scratch area, whose entries are invalid until a chunk is moved through it, and the window onto page tables.
                apart if self.spaces.is_set_apart(apart) => {}
                Shown::System(_) | Shown::Words(_) | Shown::Zero => self.spaces.fixed(id, first, mapping, batch),
            }
        }
    }

    /// The processes whose tables leave so that these find room, as few as possible; `None`: all that may leave would not suffice.
    fn table_victims(&self, claim: TableClaim, wanted: &[TableSize], batch: &Batch<F>) -> Option<Vec<SpaceId>> {
        if !self.policy.evict_page_tables {
            return None;
        }
        let others = self.spaces.with_tables(batch).filter(|id| Some(*id) != claim.space);
        let mut orders: Vec<Order> = others.filter_map(|id| self.table_order(id, claim)).collect();
        orders.sort_unstable();
        let enough = |count: &usize| self.spaces.fit_without(orders[..*count].iter().map(|order| order.space), wanted);
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
            let ran = self.clock.now_ns() >= known.active_since_ns().saturating_add(self.policy.residency_quantum_ns);
            let stands = match (known.suspended_at(), known.idle_since()) {
                (Some(tick), _) => (SpaceActivity::Suspended, u64::MAX - tick),
                _ if !self.policy.suspend_others => return None,
                (None, Some(since)) => (SpaceActivity::Idle, since),
                (None, None) if band < claim.band || claim.takes == Takes::Turn && ran => {
                    (SpaceActivity::Running, known.active_since_ns())
                }
                (None, None) => return None,
            };
            last = last.max(stands);
        }
        Some(Order { band, standing: last.0, since: last.1, space })
    }

    fn evict_tables(&mut self, victims: &[SpaceId], for_space: Option<SpaceId>, batch: &mut Batch<F>) {
        let not_before = self.clock.now_ns().saturating_add(self.policy.residency_quantum_ns);
        for &id in victims {
            debug_assert_ne!(Some(id), for_space, "the tables of a space leave so that they find room");
            for device in self.processes.devices(id).collect::<Vec<_>>() {
                if !self.is_suspended(device) {
                    self.suspend_now(device, batch);
                }
                // Like content: what left does not come back within a quantum.
                self.devices.keep_away(device, not_before);
            }
            let bytes = self.spaces.evict_tables(id, batch);
            batch.tables.push(TableMove { space: id, bytes, came: false, for_space });
            self.pressure.feel();
        }
    }
}
