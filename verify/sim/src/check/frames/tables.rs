//! The model's page tables: which frames they take, which entry leads to which table, what goes when a link goes. Part of
//! the frames model.

use std::collections::BTreeMap;

use ddi::{GpuMmuFlags, KmdProcess, PageTableLevelDesc, Pte, PteFlags};
use wddm_types::{PAGE_BYTES, PhysicalAddress, SegmentId};

use super::{Frame, Frames, Place, Spot, at, frame};
use crate::check::contract::{Broken, Contract};

impl Frames {
    /// An entry of an upper table: the table that it led to is free, the one that it leads to was initialised before.
    pub(super) fn link(
        &mut self,
        place: Place,
        level: u32,
        entry: Pte,
        (process, va): Spot,
        contract: &Contract,
    ) -> Result<(), Broken> {
        let bytes = self.coverage(level);
        let target = entry.flags.contains(PteFlags::VALID).then(|| frame(entry.address));
        if let Some(old) = self.links.get(&place).copied()
            && Some(old) != target
        {
            self.links.remove(&place);
            let form = (level - 1, self.leaves.get(&old).is_some_and(|leaf| leaf.coarse));
            for page in self.table_frames(self.bytes(form, process)?, old)? {
                self.tables.remove(&page);
                self.left.insert(page, (process, va / PAGE_BYTES, (va + (bytes - 1)) / PAGE_BYTES));
            }
            if level == 1 {
                if self.has_halves() {
                    self.hide_leaf(old, contract)?;
                }
                self.leaf_gone(old);
                if target.is_some() {
                    // spec: memory §4.5
                    self.is_quiesced(process, contract)?;
                }
            }
            // Of two halves the other one goes on translating.
            if level > 1 || target.is_none() && !self.has_halves() {
                self.below(process, va, bytes);
            }
        }
        let Some(target) = target else { return Ok(()) };
        if self.tables.get(&target) != Some(&process) {
            return Err(format!("{process:?} links {} as a table, which it is not", at(target)));
        }
        self.links.insert(place, target);
        if level == 1 {
            let (parent, index, second) = place;
            let coarse = if self.has_halves() { second } else { entry.flags.contains(PteFlags::LEAF_64KB) };
            let beside = self.links.get(&(parent, index, !second)).copied();
            self.link_leaf(target, (process, va / PAGE_BYTES), (coarse, beside), contract)?;
        }
        Ok(())
    }

    /// The entries below an upper one that went: their translations may stay in TLBs.
    pub(super) fn below(&mut self, process: KmdProcess, va: u64, bytes: u64) {
        let (first, end) = (va / PAGE_BYTES, va.saturating_add(bytes) / PAGE_BYTES);
        let gone: Vec<(Spot, Frame)> =
            self.live.range((process, first)..(process, end)).map(|(spot, frame)| (*spot, *frame)).collect();
        for (spot, frame) in gone {
            self.live.remove(&spot);
            if !self.stale.insert((spot, frame)) {
                self.unreach(spot, frame);
            }
        }
    }

    /// A table of a process is written, whose entries translate from this address on.
    pub(super) fn table(
        &mut self,
        form: (u32, bool),
        table: PhysicalAddress,
        (process, va): Spot,
        contract: &Contract,
    ) -> Result<(), Broken> {
        // A walk that remembers the table of these addresses finds it here again: below a large page the table stays.
        let of = (process, va / PAGE_BYTES, (va + (self.coverage(form.0 + 1) - 1)) / PAGE_BYTES);
        for frame in self.table_frames(self.bytes(form, process)?, frame(table))? {
            let foreign = |spots: &BTreeMap<Spot, u32>| spots.keys().any(|(of, _)| !contract.is_system(*of));
            if self.owner.contains_key(&frame) || self.reached.get(&frame).is_some_and(foreign) {
                return Err(format!("the page table at {} lies where content is", at(frame)));
            }
            match self.tables.insert(frame, process) {
                Some(other) if other != process => {
                    return Err(format!("the page table at {} of {process:?} is {other:?}'s", at(frame)));
                }
                Some(_) => {}
                None if self.left.get(&frame) == Some(&of) => drop(self.left.remove(&frame)),
                None => self.not_left(frame)?,
            }
        }
        Ok(())
    }

    pub(super) fn level(&self, level: u32) -> Result<PageTableLevelDesc, Broken> {
        self.levels.get(level as usize).copied().ok_or_else(|| format!("level {level} does not exist"))
    }

    /// Whether entries of level 1 name two leaf tables.
    // spec: memory §4.5
    pub(super) fn has_halves(&self) -> bool {
        self.mmu.flags.contains(GpuMmuFlags::DUAL_PTE_SUPPORTED)
    }

    /// Whether tables of a level are lengthened and shortened: the root of two.
    pub(super) fn is_resizable(&self, level: u32) -> bool {
        self.levels.len() == 2 && level == 1
    }

    /// A process has a root of another length: the one before is no table any more, what it led to still is.
    pub(super) fn new_root(&mut self, process: KmdProcess, root: Frame, entries: u32) {
        let bytes = |entries: u32| (u64::from(entries) * 8).next_multiple_of(PAGE_BYTES);
        if let Some((old, old_entries)) = self.roots.insert(process, (root, entries)) {
            for page in 0..bytes(old_entries) / PAGE_BYTES {
                self.tables.remove(&(old.0, old.1 + page));
            }
            self.links.retain(|(parent, ..), _| *parent != old);
        }
    }

    /// Entries of a process's tables of a level.
    pub(super) fn entries(&self, level: u32, process: KmdProcess) -> Result<u32, Broken> {
        match self.roots.get(&process) {
            Some((_, entries)) if self.is_resizable(level) => Ok(*entries),
            _ => Ok(1 << self.level(level)?.index_bits),
        }
    }

    /// Bytes of a table of a level, of the 64-KB form or not.
    fn bytes(&self, (level, coarse): (u32, bool), process: KmdProcess) -> Result<u64, Broken> {
        if coarse {
            return match self.mmu.leaf_table_64kb_bytes {
                0 => Err("a table of 64-KB entries, which the driver does not offer".into()),
                bytes => Ok(u64::from(bytes)),
            };
        }
        match self.is_resizable(level) {
            true => Ok((u64::from(self.entries(level, process)?) * 8).next_multiple_of(PAGE_BYTES)),
            false => Ok(u64::from(self.level(level)?.size_bytes)),
        }
    }

    /// Bytes of address that an entry of a level covers.
    pub(super) fn coverage(&self, level: u32) -> u64 {
        let below = self.levels.iter().take(level as usize);
        PAGE_BYTES << below.map(|level| level.index_bits).sum::<u32>()
    }

    /// All frames of a table.
    fn table_frames(&self, bytes: u64, (segment, page): Frame) -> Result<Vec<Frame>, Broken> {
        let segment = SegmentId(segment);
        if segment.is_system() {
            let pages = page..page + bytes.div_ceil(PAGE_BYTES);
            let inside = pages.end * PAGE_BYTES <= self.system_bytes;
            let outside = || format!("a page table beyond system memory, at {}", at((0, page)));
            return inside.then(|| pages.map(|page| (0, page)).collect()).ok_or_else(outside);
        }
        self.frames(segment, self.base(segment)? + page * PAGE_BYTES, bytes)
    }
}
