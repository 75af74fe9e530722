//! Who may reach which page: a model of every page table and of what the TLBs may remember, fed with the paging
//! operations in the order in which the ring executes them.
//!
//! A *translation* is a virtual page of a process that the hardware may still turn into a frame: *live* while its entry is
//! valid, *stale* from the moment when the entry went until a flush covers its address. The rules:
//! - content enters a frame only when no translation leads to it;
//! - an entry of a process names only frames that hold content of that process's own allocations, or system pages that
//!   no other process's translation reaches (the paging process excepted, which may also see page tables);
//! - content is copied out only of frames that hold it, and into system pages that no other process reaches;
//! - nothing names a place outside of its segment; page tables never lie in frames that hold content.

mod tables;

use std::collections::{BTreeMap, BTreeSet};

use ddi::{
    KmdAllocation, KmdProcess, Mdl, PageTableLevelDesc, PagingOp, Pte, PteFlags, SegmentDescriptor4, SegmentFlags,
    TransferEnd,
};
use wddm_types::{PAGE_BYTES, PhysicalAddress, SegmentId};

use crate::check::contract::{Broken, Contract};

type Frame = (u8, u64);
type Spot = (KmdProcess, u64);

/// The model.
#[derive(Debug, Default)]
pub struct Frames {
    segments: Vec<SegmentDescriptor4>,
    levels: Vec<PageTableLevelDesc>,
    system_bytes: u64,
    /// Whose content a frame of a memory segment holds.
    owner: BTreeMap<Frame, KmdAllocation>,
    process_of: BTreeMap<KmdAllocation, KmdProcess>,
    live: BTreeMap<Spot, Frame>,
    stale: BTreeSet<(Spot, Frame)>,
    /// The translations of a frame, live and stale.
    reached: BTreeMap<Frame, BTreeMap<Spot, u32>>,
    tables: BTreeMap<Frame, KmdProcess>,
    /// Roots whose length is not fixed: where, and how many entries.
    roots: BTreeMap<KmdProcess, (Frame, u32)>,
    /// The table that an entry of an upper table leads to.
    links: BTreeMap<(Frame, u32), Frame>,
    aperture: BTreeSet<u64>,
}

impl Frames {
    /// What the driver says of its memory.
    pub fn segments(&mut self, segments: &[SegmentDescriptor4]) {
        self.segments = segments.to_vec();
    }

    /// What the driver says of its page tables, the leaf first.
    pub fn levels(&mut self, levels: &[PageTableLevelDesc]) {
        self.levels = levels.to_vec();
    }

    /// How much system memory there is.
    pub fn system_bytes(&mut self, bytes: u64) {
        self.system_bytes = bytes;
    }

    /// An allocation belongs to a process.
    pub fn allocation(&mut self, allocation: KmdAllocation, process: KmdProcess) {
        self.process_of.insert(allocation, process);
    }

    /// An allocation is gone: no translation leads to what it held.
    pub fn allocation_gone(&mut self, allocation: KmdAllocation) -> Result<(), Broken> {
        self.process_of.remove(&allocation);
        let held: Vec<Frame> =
            self.owner.iter().filter(|(_, of)| **of == allocation).map(|(frame, _)| *frame).collect();
        for frame in held {
            self.owner.remove(&frame);
            if let Some(spot) = self.reached.get(&frame).and_then(|spots| spots.keys().next()) {
                return Err(format!("{allocation:?} is gone while {} still leads to {}", name(*spot), at(frame)));
            }
        }
        Ok(())
    }

    /// A process is gone: no entry of it is valid.
    pub fn process_gone(&mut self, process: KmdProcess) -> Result<(), Broken> {
        let left = self.live.range(from(process)..).next().filter(|((of, _), _)| *of == process);
        match left {
            Some((spot, frame)) => Err(format!("the process is gone, {} still names {}", name(*spot), at(*frame))),
            None => Ok(()),
        }
    }

    /// One operation, in ring order.
    pub fn operation(&mut self, operation: &PagingOp<'_>, contract: &Contract) -> Result<(), Broken> {
        match *operation {
            PagingOp::SpecialLockTransfer { .. } => Err("no allocation is locked through an alternate address".into()),
            PagingOp::Transfer { allocation, transfer_offset, size_bytes, source, destination, mdl_offset, .. } => {
                let Some(allocation) = allocation else { return Ok(()) };
                contract.allocation(allocation)?;
                for (end, incoming) in [(source, false), (destination, true)] {
                    match end {
                        TransferEnd::Segment { segment, address } => {
                            let frames = self.frames(segment, address + transfer_offset, size_bytes)?;
                            if incoming { self.enter(allocation, frames)? } else { self.leave(allocation, frames)? }
                        }
                        TransferEnd::Mdl(mdl) => self.system_pages(allocation, mdl, mdl_offset, size_bytes)?,
                    }
                }
                Ok(())
            }
            PagingOp::Fill { allocation, size_bytes, segment, address, .. } => {
                let Some(allocation) = allocation else { return Ok(()) };
                contract.allocation(allocation)?;
                let frames = self.frames(segment, address, size_bytes)?;
                self.enter(allocation, frames)
            }
            PagingOp::MapApertureSegment { segment, offset_in_pages, number_of_pages, .. }
            | PagingOp::MapApertureSegment2 { segment, offset_in_pages, number_of_pages, .. } => {
                self.frames(segment, self.base(segment)? + offset_in_pages * PAGE_BYTES, number_of_pages * PAGE_BYTES)?;
                for page in offset_in_pages..offset_in_pages + number_of_pages {
                    if !self.aperture.insert(page) {
                        return Err(format!("aperture page {page} is mapped twice"));
                    }
                }
                Ok(())
            }
            PagingOp::UnmapApertureSegment { offset_in_pages, number_of_pages, .. } => {
                for page in offset_in_pages..offset_in_pages + number_of_pages {
                    if !self.aperture.remove(&page) {
                        return Err(format!("aperture page {page} is unmapped without a map"));
                    }
                }
                Ok(())
            }
            PagingOp::UpdatePageTable {
                level,
                table,
                start_index,
                count,
                first,
                repeat,
                initial,
                process,
                first_va,
                ..
            } => {
                contract.process(process)?;
                if initial && self.is_resizable(level) {
                    self.new_root(process, frame(table), start_index + count);
                }
                let entries = self.entries(level, process)?;
                if start_index + count > entries {
                    return Err(format!("entries {start_index}+{count} of a table of {entries}"));
                }
                self.table(level, table, process, contract)?;
                let covers = self.coverage(level);
                for index in 0..u64::from(count) {
                    let va = first_va.0 + index * covers;
                    if level == 0 {
                        let step = if repeat { 0 } else { index * PAGE_BYTES };
                        self.entry((process, va / PAGE_BYTES), first, step, contract)?;
                    } else if first.flags.contains(PteFlags::LARGE_PAGE) {
                        // CAST: below the table's entries, checked above.
                        let place = (frame(table), start_index + index as u32);
                        self.link(place, level, Pte::INVALID, (process, va), covers)?;
                        for page in 0..covers / PAGE_BYTES {
                            self.entry((process, va / PAGE_BYTES + page), first, page * PAGE_BYTES, contract)?;
                        }
                    } else {
                        // CAST: below the table's entries, checked above.
                        let place = (frame(table), start_index + index as u32);
                        self.link(place, level, first, (process, va), covers)?;
                    }
                }
                Ok(())
            }
            PagingOp::FlushTlb { process, start, end, .. } => {
                contract.process(process)?;
                if start.0 != 0 || end.0 != 0 {
                    self.flush(process, start.0 / PAGE_BYTES, end.0 / PAGE_BYTES);
                    return Ok(());
                }
                // The kernel flushes a whole space only when the space ends; nothing may run in it any more.
                if contract.has_contexts(process) {
                    return Err(format!("the space of {process:?} ends while contexts of it are there"));
                }
                self.below(process, 0, u64::MAX);
                self.flush(process, 0, u64::MAX);
                self.tables.retain(|_, of| *of != process);
                self.roots.remove(&process);
                let Frames { links, tables, .. } = self;
                links.retain(|(parent, _), _| tables.contains_key(parent));
                Ok(())
            }
            PagingOp::DiscardContent { allocation, .. }
            | PagingOp::VirtualTransfer { allocation, .. }
            | PagingOp::VirtualFill { allocation, .. }
            | PagingOp::NotifyResidency { allocation, .. }
            | PagingOp::NotifyAlloc { allocation, .. } => contract.allocation(allocation),
            PagingOp::ReadPhysical { segment, address } | PagingOp::WritePhysical { segment, address } => {
                self.frames(segment, address / PAGE_BYTES * PAGE_BYTES, PAGE_BYTES).map(drop)
            }
            PagingOp::SignalMonitoredFence { .. }
            | PagingOp::InitContextResource { .. }
            | PagingOp::UpdateContextAllocation { .. }
            | PagingOp::CopyPageTableEntries { .. }
            | PagingOp::NotifyFenceResidency { .. } => Ok(()),
        }
    }

    /// Content enters frames: nobody else can be looking.
    fn enter(&mut self, allocation: KmdAllocation, frames: Vec<Frame>) -> Result<(), Broken> {
        for frame in frames {
            if let Some(spot) = self.reached.get(&frame).and_then(|spots| spots.keys().next()) {
                let how =
                    if self.live.get(spot) == Some(&frame) { "a valid entry" } else { "an entry that a TLB may hold" };
                return Err(format!(
                    "content of {allocation:?} enters {} while {} leads there by {how}",
                    at(frame),
                    name(*spot)
                ));
            }
            if self.tables.contains_key(&frame) {
                return Err(format!("content of {allocation:?} enters {}, which is a page table", at(frame)));
            }
            self.owner.insert(frame, allocation);
        }
        Ok(())
    }

    /// Content leaves frames: it must be there.
    fn leave(&mut self, allocation: KmdAllocation, frames: Vec<Frame>) -> Result<(), Broken> {
        for frame in frames {
            match self.owner.get(&frame) {
                Some(owner) if *owner == allocation => {}
                other => return Err(format!("{allocation:?} is copied out of {}, which holds {other:?}", at(frame))),
            }
        }
        Ok(())
    }

    fn system_pages(&self, allocation: KmdAllocation, mdl: Mdl<'_>, mdl_offset: u64, bytes: u64) -> Result<(), Broken> {
        let own = self.process_of.get(&allocation).copied();
        let pages = mdl.runs.iter().flat_map(|run| run.first..run.end());
        let mut count = 0;
        for page in pages.skip(mdl_offset as usize).take(bytes.div_ceil(PAGE_BYTES) as usize) {
            count += 1;
            if (page + 1) * PAGE_BYTES > self.system_bytes {
                return Err(format!("system page {page} does not exist"));
            }
            let foreign = self.reached.get(&(0, page)).and_then(|spots| spots.keys().find(|(of, _)| Some(*of) != own));
            if let Some(spot) = foreign {
                return Err(format!("system page {page} holds {allocation:?} while {} leads there", name(*spot)));
            }
        }
        if count * PAGE_BYTES < bytes { Err(format!("an MDL of {count} pages for {bytes} bytes")) } else { Ok(()) }
    }

    fn entry(&mut self, spot: Spot, first: Pte, step: u64, contract: &Contract) -> Result<(), Broken> {
        let target = first
            .flags
            .contains(PteFlags::VALID)
            .then(|| (first.address.segment.0, (first.address.offset + step) / PAGE_BYTES));
        let target = target.filter(|_| !first.flags.contains(PteFlags::ZERO));
        if let Some(old) = self.live.get(&spot).copied()
            && Some(old) != target
        {
            self.live.remove(&spot);
            if !self.stale.insert((spot, old)) {
                self.unreach(spot, old);
            }
        }
        let Some(frame) = target else { return Ok(()) };
        self.may_name(spot, frame, contract)?;
        if self.live.insert(spot, frame).is_none() {
            *self.reached.entry(frame).or_default().entry(spot).or_insert(0) += 1;
        }
        Ok(())
    }

    fn may_name(&self, spot: Spot, frame: Frame, contract: &Contract) -> Result<(), Broken> {
        let (segment, page) = frame;
        if segment == 0 {
            if (page + 1) * PAGE_BYTES > self.system_bytes {
                return Err(format!("{} names {}, which does not exist", name(spot), at(frame)));
            }
        } else {
            self.frames(SegmentId(segment), self.base(SegmentId(segment))? + page * PAGE_BYTES, PAGE_BYTES)?;
            if !self.is_aperture(SegmentId(segment)) {
                let owner = self.owner.get(&frame).and_then(|owner| self.process_of.get(owner));
                // The paging process may see page tables: where nobody's content is.
                let own = owner.is_none() && contract.is_system(spot.0);
                if !own && owner != Some(&spot.0) {
                    return Err(format!("{} names {}, which holds content of {owner:?}", name(spot), at(frame)));
                }
            }
        }
        let foreign = |other: &KmdProcess| *other != spot.0 && !contract.is_system(*other);
        let spots = self.reached.get(&frame);
        match spots.and_then(|spots| spots.keys().find(|(other, _)| foreign(other))) {
            Some(other) if !contract.is_system(spot.0) => {
                Err(format!("{} names {} while {} leads there too", name(spot), at(frame), name(*other)))
            }
            _ => Ok(()),
        }
    }

    fn flush(&mut self, process: KmdProcess, first: u64, last: u64) {
        let low = ((process, first), (0, 0));
        let high = ((process, last), (u8::MAX, u64::MAX));
        let gone: Vec<(Spot, Frame)> = self.stale.range(low..=high).copied().collect();
        for (spot, frame) in gone {
            self.stale.remove(&(spot, frame));
            self.unreach(spot, frame);
        }
    }

    fn unreach(&mut self, spot: Spot, frame: Frame) {
        if let Some(spots) = self.reached.get_mut(&frame) {
            if let Some(count) = spots.get_mut(&spot) {
                *count -= 1;
                if *count == 0 {
                    spots.remove(&spot);
                }
            }
            if spots.is_empty() {
                self.reached.remove(&frame);
            }
        }
    }

    fn base(&self, segment: SegmentId) -> Result<u64, Broken> {
        let at = usize::from(segment.0).wrapping_sub(1);
        self.segments
            .get(at)
            .map(|segment| segment.base_address)
            .ok_or_else(|| format!("segment {} does not exist", segment.0))
    }

    fn is_aperture(&self, segment: SegmentId) -> bool {
        self.segments[usize::from(segment.0) - 1].flags.contains(SegmentFlags::APERTURE)
    }

    /// The frames of a range of a segment, which lies inside it and begins at a page.
    fn frames(&self, segment: SegmentId, address: u64, bytes: u64) -> Result<Vec<Frame>, Broken> {
        let base = self.base(segment)?;
        let size = self.segments[usize::from(segment.0) - 1].size_bytes;
        let offset = address.checked_sub(base).filter(|offset| offset.is_multiple_of(PAGE_BYTES));
        let inside = offset.filter(|offset| offset.checked_add(bytes).is_some_and(|end| end <= size));
        let Some(offset) = inside else {
            return Err(format!("{bytes} bytes at {address:#x} are not in segment {}", segment.0));
        };
        Ok((offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES)).map(|page| (segment.0, page)).collect())
    }
}

fn frame(address: PhysicalAddress) -> Frame {
    (address.segment.0, address.offset / PAGE_BYTES)
}

fn from(process: KmdProcess) -> Spot {
    (process, 0)
}

fn name((process, page): Spot) -> String {
    format!("process {} at {:#x}", process.0, page * PAGE_BYTES)
}

fn at((segment, page): Frame) -> String {
    if segment == 0 { format!("system page {page}") } else { format!("frame {page} of segment {segment}") }
}
