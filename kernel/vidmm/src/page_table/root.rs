//! The root of two levels, which is lengthened and shortened (memory §4.6): a space begins with a short one, and gets a
//! longer one when addresses beyond it are mapped.
//!
//! A new root is made and written with everything that the old one led to, then the contexts of the process are switched to
//! it, then the old one goes. All of that stands at the head of the work that needs it, and nothing of the process runs
//! before that work is done ([`Batch::idle_spaces`]). Before it comes only what makes room for it: tables that this work
//! takes away are invalid and forgotten by then, because the new root may lie where they were ([`Batch::settle_ahead`]).
//! Operations that this work has already decided on name the new root from then on.

use std::collections::BTreeSet;

use ddi::{GpuMmuCaps, PageTableLevelDesc, Pte, PteFlags, RootPageTableSize};
use wddm_types::{GpuVa, PAGE_BYTES, PhysicalAddress};

use super::{Geometry, Link, PageTable, Table};
use crate::operation::Operation;
use crate::page_table::{TableFrames, TableSize};
use crate::paging::Batch;
use crate::slab::SpaceId;

/// A length that roots can have.
#[derive(Clone, Copy, Debug)]
pub(super) struct RootStep {
    pub entries: u64,
    pub pages: u64,
}

/// Frames taken for a root that no space has yet.
#[must_use = "it holds frames"]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRoot {
    step: usize,
    address: PhysicalAddress,
}

/// How long a root is to be, and what it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootLength {
    step: usize,
    pub size: TableSize,
}

impl RootLength {
    /// A root of this length in these frames.
    pub fn at(self, address: PhysicalAddress) -> NewRoot {
        NewRoot { step: self.step, address }
    }
}

/// The lengths of roots, shortest first: one where the root is fixed.
pub(super) fn root_steps(levels: &[PageTableLevelDesc], roots: &[RootPageTableSize]) -> Vec<RootStep> {
    if !roots.is_empty() {
        let step =
            |size: &RootPageTableSize| RootStep { entries: u64::from(size.entries), pages: size.bytes / PAGE_BYTES };
        return roots.iter().map(step).collect();
    }
    let step = |root: &PageTableLevelDesc| RootStep {
        entries: 1 << root.index_bits,
        pages: u64::from(root.size_bytes) / PAGE_BYTES,
    };
    levels.last().map(step).into_iter().collect()
}

/// Index bits of the root at its longest.
pub(super) fn root_bits(caps: &GpuMmuCaps, levels: &[PageTableLevelDesc], resizable: bool) -> u32 {
    let (root, below) = levels.split_last().expect("2 to 6 levels");
    let bits: u32 = below.iter().map(|level| level.index_bits).sum();
    if resizable { caps.virtual_address_bits - 12 - bits } else { root.index_bits }
}

impl Geometry {
    /// The shortest length that reaches page `end`; the longest, if none does.
    pub fn root_step(&self, end: u64) -> usize {
        let entries = end.div_ceil(self.root_entry_pages());
        self.roots.iter().position(|step| step.entries >= entries).unwrap_or(self.roots.len() - 1)
    }

    /// The pages that a root of a length takes.
    pub(super) fn root_size_of(&self, step: usize) -> TableSize {
        TableSize { pages: self.roots[step].pages, ..self.size(self.root_level()) }
    }
}

impl Geometry {
    /// How far the root of a space reaches that is to reach page `end` and to take `pages_max` pages at most, if any does.
    pub fn reach_within(&self, end: u64, pages_max: u64) -> u64 {
        if !self.translates() {
            return 0;
        }
        let step = self.roots[..=self.root_step(end)].iter().rev().find(|step| step.pages <= pages_max);
        step.unwrap_or(&self.roots[0]).entries * self.root_entry_pages()
    }
}

impl PageTable {
    /// Entries of the root; none of a table that the platform keeps.
    pub fn root_entries(&self) -> u32 {
        if self.geometry.is_platforms() {
            return 0;
        }
        // CAST: roots have at most 2^31 entries.
        self.geometry.roots.get(self.root_step).map_or(0, |step| step.entries as u32)
    }

    /// Pages that the root translates.
    pub fn reach(&self) -> u64 {
        match self.geometry.translates() {
            true if self.geometry.is_platforms() => self.geometry.space_pages(),
            true => u64::from(self.root_entries()) * self.geometry.root_entry_pages(),
            false => 0,
        }
    }

    /// Pages of the root.
    pub fn root_pages(&self) -> u64 {
        self.geometry.roots.get(self.root_step).map_or(0, |step| step.pages)
    }

    /// The root that reaches page `end`, if this one does not. Not every adapter has addresses.
    // spec: memory §4.6
    pub fn longer(&self, end: u64) -> Option<RootLength> {
        let lacks = end > self.reach() && self.geometry.translates();
        lacks.then(|| self.length(self.geometry.root_step(end)))
    }

    fn length(&self, step: usize) -> RootLength {
        RootLength { step, size: self.geometry.root_size_of(step) }
    }

    /// Makes the root shorter when a quarter of it would do: what is mapped may double before it is lengthened again.
    // spec: memory §4.6
    pub fn shorten<F: Copy + Eq>(&mut self, space: SpaceId, frames: &mut TableFrames, batch: &mut Batch<F>) {
        if self.root_step == 0 {
            return;
        }
        let below = &self.levels[self.geometry.root_level() - 1];
        let entries = below.keys().next_back().map_or(0, |last| last + 1);
        let step = self.geometry.root_step(entries * 2 * self.geometry.root_entry_pages());
        if entries * 4 > u64::from(self.root_entries()) || step >= self.root_step {
            return;
        }
        let length = self.length(step);
        // Without room for both it stays as it is.
        if let Some(address) = frames.take(length.size) {
            // It may lie where a table was that this work gave back.
            batch.settle_ahead();
            self.replace_root(space, length.at(address), frames, batch);
        }
    }

    /// Lets the space have this root.
    // spec: memory §4.6
    pub fn replace_root<F: Copy + Eq>(
        &mut self,
        space: SpaceId,
        new: NewRoot,
        frames: &mut TableFrames,
        batch: &mut Batch<F>,
    ) {
        let level = self.geometry.root_level();
        let (old, old_pages) = (self.root, self.root_pages());
        let NewRoot { step, address: new } = new;
        debug_assert_ne!(new, old, "{space:?} gets the root that it has");
        debug_assert_ne!(step, self.root_step, "{space:?} gets a root as long as the one that it has");
        (self.root, self.root_step) = (new, step);
        self.levels[level].get_mut(&0).expect("the root").address = new;
        self.fresh(space, level, 0, &mut batch.roots);
        let decided = Decided::of(batch, old);
        // Tables that are away are linked when they come back.
        for (&prefix, table) in self.levels[level - 1].iter().filter(|_| self.resident) {
            // A table that this work makes is linked when it is written.
            if !decided.made.contains(&table.link().first.address) {
                let entry = if decided.linked.contains(&prefix) { table.link() } else { entry_above(table) };
                batch.roots.push(self.parent_entry(space, level - 1, prefix, entry));
            }
        }
        let entries = self.root_entries();
        let last = self.levels[level - 1].last_key_value().map(|(last, _)| *last);
        debug_assert!(
            last.is_none_or(|last| last < u64::from(entries)),
            "{last:?} is beyond a root of {entries} entries"
        );
        batch.roots.push(Operation::SwitchRoot { space, root: new, entries });
        let end = GpuVa(self.geometry.space_pages() * PAGE_BYTES - 1);
        batch.roots.push(Operation::FlushTlb { space, root: old, start: GpuVa::NULL, end });
        for operations in [&mut batch.settled, &mut batch.invalidations, &mut batch.entries] {
            operations.retain_mut(|operation| redirected(operation, (old, new), level, entries));
        }
        for hull in [&mut batch.stale, &mut batch.fresh].into_iter().filter_map(|hulls| hulls.get_mut(&space)) {
            hull.root = new;
        }
        batch.idle_spaces.insert(space);
        frames.give(old, old_pages);
    }
}

/// Operations that a work has decided on already and that therefore come after the new root.
struct Decided {
    /// Tables that it makes.
    made: BTreeSet<PhysicalAddress>,
    /// Entries of the root that it writes.
    linked: BTreeSet<u64>,
}

impl Decided {
    fn of<F: Copy + Eq>(batch: &Batch<F>, root: PhysicalAddress) -> Decided {
        let mut decided = Decided { made: BTreeSet::new(), linked: BTreeSet::new() };
        for operation in batch.settled.iter().chain(&batch.invalidations).chain(&batch.entries) {
            match operation {
                Operation::UpdatePageTable { table, start_index, .. } if *table == root => {
                    decided.linked.insert(u64::from(*start_index));
                }
                Operation::UpdatePageTable { table, initial: true, .. } => {
                    decided.made.insert(*table);
                }
                _ => {}
            }
        }
        decided
    }
}

/// The root's entry for a table, or for the memory that stands for it.
fn entry_above(table: &Table) -> Link {
    match table.large {
        Some(entry) => Pte { flags: entry.pte.flags | PteFlags::LARGE_PAGE, ..entry.pte }.into(),
        None => table.link(),
    }
}

/// Lets an operation on the old root be one on the new; false when the new one is too short for it.
fn redirected(
    operation: &mut Operation,
    (old, new): (PhysicalAddress, PhysicalAddress),
    root_level: usize,
    entries: u32,
) -> bool {
    match operation {
        Operation::UpdatePageTable { level, table, start_index, .. } if *table == old => {
            assert_eq!(*level as usize, root_level, "only the root stands there");
            *table = new;
            *start_index < entries
        }
        _ => true,
    }
}
