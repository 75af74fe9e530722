//! Which process may reach which page: a model of every page table and of the translations that TLBs may hold, fed with the paging
//! operations in the order in which the ring executes them.
//!
//! A *translation* is a virtual page of a process that the hardware may still turn into a frame: *live* while its entry is
//! valid, *stale* from the moment when the entry went until a flush covers its address. The rules:
//! - content enters a frame only when no translation leads to it;
//! - an entry of a process names only frames that hold content of that process's own allocations, or system pages that
//!   no other process's translation reaches (the paging process excepted, which may also see page tables; and the words of a
//!   fence that both have open);
//! - entries that show words of a fence name frames without content, others never name those;
//! - content is copied out only of frames that hold it, and into system pages that no other process reaches;
//! - content that moves by addresses of the paging process moves where its windows lead then;
//! - nothing names a place outside of its segment; page tables never lie in frames that hold content;
//! - the frames of an unlinked table get another use only after a flush of the TLBs;
//! - contexts quiesce while a leaf table gets another form, and for every change if the hardware wants it.

mod leaves;
mod names;
mod places;
mod tables;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ddi::{
    GpuMmuCaps, GpuMmuFlags, KmdAllocation, KmdGlobalFence, KmdProcess, Mdl, OsGlobalFence, PageTableLevelDesc,
    PagingOp, Pte, PteFlags, SegmentDescriptor4, SegmentFlags, TransferEnd,
};
use wddm_types::{GpuVa, PAGE_BYTES, PhysicalAddress, SegmentId};

use crate::check::contract::{Broken, Contract};
use leaves::Run;
use names::{at, frame, from, lead_together, name, named};

type Frame = (u8, u64);
type Spot = (KmdProcess, u64);
/// An entry of a table; its second half, where it has two.
type Place = (Frame, u32, bool);

/// The model.
#[derive(Debug, Default)]
pub struct Frames {
    segments: Vec<SegmentDescriptor4>,
    levels: Vec<PageTableLevelDesc>,
    system_bytes: u64,
    /// The allocation whose content a frame of a memory segment holds.
    owner: BTreeMap<Frame, KmdAllocation>,
    /// Frames that hold no allocation's content but what the kernel keeps there: words of fences, or nothing yet.
    kept: BTreeSet<Frame>,
    process_of: BTreeMap<KmdAllocation, KmdProcess>,
    live: BTreeMap<Spot, Frame>,
    stale: BTreeSet<(Spot, Frame)>,
    /// The translations of a frame, live and stale.
    reached: BTreeMap<Frame, BTreeMap<Spot, u32>>,
    tables: BTreeMap<Frame, KmdProcess>,
    /// Roots whose length is not fixed: where, and how many entries.
    roots: BTreeMap<KmdProcess, (Frame, u32)>,
    /// The entries of leaf tables.
    leaves: BTreeMap<Frame, leaves::Leaf>,
    /// Frames of tables that a TLB may still walk through: of which process, for which pages.
    left: BTreeMap<Frame, (KmdProcess, u64, u64)>,
    /// Pages whose entries were copied, not written.
    copied: BTreeSet<Spot>,
    mmu: GpuMmuCaps,
    /// The table that an entry of an upper table leads to, or a half of one.
    links: BTreeMap<Place, Frame>,
    aperture: BTreeSet<u64>,
    /// Pages that it mapped when power went: the driver unmaps released ones once there is power again.
    dark: BTreeSet<u64>,
    /// The kernel's name of each fence that the driver has had.
    fences: BTreeMap<KmdGlobalFence, OsGlobalFence>,
    /// Content moves through windows of the paging process.
    by_address: bool,
    /// The paging process.
    paging: Option<KmdProcess>,
    /// The entries that are written show words of native fences.
    shows_words: bool,
    /// Frames that the paging process is shown ahead of the first content of a page of words, in the order of the pages. `None` stands for
    /// a page that is shown there no more, and whose content is still to come.
    ahead: BTreeMap<Frame, VecDeque<Option<Spot>>>,
    /// Where the paging process was shown content for a notice to the driver. The notice reads it when it stands in the ring, and the window
    /// is emptied some time after.
    noticed: BTreeSet<Spot>,
    /// Where processes were shown a fence's words, the last one on each page.
    words: BTreeMap<Spot, OsGlobalFence>,
    /// Two translations of one system page, the younger first.
    doubts: Vec<(Spot, Spot, Frame)>,
}

impl Frames {
    /// Takes in the driver's description of its memory.
    pub fn segments(&mut self, segments: &[SegmentDescriptor4]) {
        self.segments = segments.to_vec();
    }

    /// How the device translates addresses.
    pub fn mmu(&mut self, mmu: GpuMmuCaps) {
        self.mmu = mmu;
        self.levels.resize(mmu.page_table_levels as usize, PageTableLevelDesc::default());
    }

    /// The shape of a level of its tables.
    pub fn shape(&mut self, level: u32, shape: PageTableLevelDesc) {
        self.levels[level as usize] = shape;
    }

    /// Whether the driver moves content by addresses of the paging process.
    pub fn moves_by_address(&mut self, by_address: bool) {
        self.by_address = by_address;
    }

    /// How much system memory there is.
    pub fn system_bytes(&mut self, bytes: u64) {
        self.system_bytes = bytes;
    }

    /// An allocation belongs to a process.
    pub fn allocation(&mut self, allocation: KmdAllocation, process: KmdProcess) {
        self.process_of.insert(allocation, process);
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
        self.paging = contract.system();
        match *operation {
            PagingOp::SpecialLockTransfer { .. } => Err("no allocation is locked through an alternate address".into()),
            PagingOp::Transfer { allocation, transfer_offset, size_bytes, source, destination, mdl_offset, .. } => {
                let Some(allocation) = allocation else {
                    return self.keep_at(destination, transfer_offset, size_bytes);
                };
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
                let frames = self.frames(segment, address, size_bytes)?;
                let Some(allocation) = allocation else { return self.first_kept(frames) };
                contract.allocation(allocation)?;
                self.enter(allocation, frames)
            }
            PagingOp::MapApertureSegment { segment, offset_in_pages, number_of_pages, .. }
            | PagingOp::MapApertureSegment2 { segment, offset_in_pages, number_of_pages, .. } => {
                self.frames(segment, self.base(segment)? + offset_in_pages * PAGE_BYTES, number_of_pages * PAGE_BYTES)?;
                for page in offset_in_pages..offset_in_pages + number_of_pages {
                    self.dark.remove(&page);
                    if !self.aperture.insert(page) {
                        return Err(format!("aperture page {page} is mapped twice"));
                    }
                }
                Ok(())
            }
            PagingOp::UnmapApertureSegment { offset_in_pages, number_of_pages, .. } => {
                for page in offset_in_pages..offset_in_pages + number_of_pages {
                    if !self.aperture.remove(&page) && !self.dark.remove(&page) {
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
                use_64kb_pages,
                native_fence,
                first_64kb,
                ..
            } => {
                self.shows_words = native_fence;
                contract.process(process)?;
                if self.mmu.flags.contains(GpuMmuFlags::PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE) {
                    self.is_quiesced(process, contract)?;
                }
                if initial && self.is_resizable(level) {
                    self.new_root(process, frame(table), start_index + count);
                }
                let entries = self.entries(level, process)?;
                if start_index + count > entries {
                    return Err(format!("entries {start_index}+{count} of a table of {entries}"));
                }
                let covers = self.coverage(level);
                let from = first_va.0.saturating_sub(u64::from(start_index) * covers);
                self.table((level, use_64kb_pages), table, (process, from), contract)?;
                if level == 0 {
                    let target = named(first);
                    let (va, index) = (first_va.0 / PAGE_BYTES, u64::from(start_index));
                    let written = (process, va)..(process, va + u64::from(count));
                    let gone: Vec<Spot> = self.copied.range(written).copied().collect();
                    for spot in &gone {
                        self.copied.remove(spot);
                    }
                    let run = Run {
                        process,
                        va,
                        index,
                        count: u64::from(count),
                        target,
                        repeat,
                        coarse: use_64kb_pages,
                        initial,
                    };
                    return self.write_leaf(frame(table), run, contract);
                }
                // spec: memory §4.5
                if first_64kb.is_some() != (self.has_halves() && level == 1) {
                    return Err(format!("an entry of level {level} with a second half {first_64kb:?}"));
                }
                for index in 0..u64::from(count) {
                    let va = first_va.0 + index * covers;
                    // CAST: below the table's entries, checked above.
                    let (parent, at) = (frame(table), start_index + index as u32);
                    let large = first.flags.contains(PteFlags::LARGE_PAGE);
                    let below = if large { Pte::INVALID } else { first };
                    self.link((parent, at, false), level, below, (process, va), contract)?;
                    if let Some(second) = first_64kb {
                        self.link((parent, at, true), level, second, (process, va), contract)?;
                    }
                    let pages = if large { covers / PAGE_BYTES } else { 0 };
                    for page in 0..pages {
                        let target = named(first).map(|(segment, at)| (segment, at + page));
                        self.translate((process, va / PAGE_BYTES + page), target, contract)?;
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
                self.leaves.retain(|_, leaf| !leaf.is_of(process));
                self.copied.retain(|(of, _)| *of != process);
                self.tables.retain(|_, of| *of != process);
                self.roots.remove(&process);
                let Frames { links, tables, .. } = self;
                links.retain(|(parent, ..), _| tables.contains_key(parent));
                Ok(())
            }
            PagingOp::DiscardContent { allocation, .. } | PagingOp::NotifyResidency { allocation, .. } => {
                contract.allocation(allocation)
            }
            PagingOp::NotifyAlloc { allocation, va, size_bytes, .. } => {
                if let Some(paging) = self.paging {
                    let pages = va.0 / PAGE_BYTES..(va.0 + size_bytes).div_ceil(PAGE_BYTES);
                    self.noticed.extend(pages.map(|page| (paging, page)));
                }
                contract.allocation(allocation)
            }
            PagingOp::VirtualTransfer { allocation, source, destination, size_bytes, .. } => {
                let Some(allocation) = allocation else { return Ok(()) };
                contract.allocation(allocation)?;
                self.left_through(allocation, source, size_bytes)?;
                self.entered_through(allocation, destination, size_bytes)
            }
            PagingOp::VirtualFill { allocation, destination, size_bytes, .. } => {
                let Some(allocation) = allocation else { return Ok(()) };
                contract.allocation(allocation)?;
                self.entered_through(allocation, destination, size_bytes)
            }
            PagingOp::ReadPhysical { segment, address } | PagingOp::WritePhysical { segment, address } => {
                self.frames(segment, address / PAGE_BYTES * PAGE_BYTES, PAGE_BYTES).map(drop)
            }
            PagingOp::CopyPageTableEntries { ranges } => {
                ranges.iter().try_for_each(|range| self.copy_entries(range, contract))
            }
            PagingOp::SignalMonitoredFence { .. }
            | PagingOp::InitContextResource { .. }
            | PagingOp::UpdateContextAllocation { .. }
            | PagingOp::NotifyFenceResidency { .. } => Ok(()),
        }
    }

    fn may_name(&mut self, spot: Spot, frame: Frame, contract: &Contract) -> Result<(), Broken> {
        let (segment, page) = frame;
        if segment == 0 {
            if (page + 1) * PAGE_BYTES > self.system_bytes {
                return Err(format!("{} names {}, which does not exist", name(spot), at(frame)));
            }
        } else {
            self.frames(SegmentId(segment), self.base(SegmentId(segment))? + page * PAGE_BYTES, PAGE_BYTES)?;
            if !self.is_aperture(SegmentId(segment)) {
                let owner = self.owner.get(&frame).and_then(|owner| self.process_of.get(owner));
                // The paging process may see page tables in frames without content, content that it moves, and words ahead of their
                // arrival.
                let own = contract.is_system(spot.0) && (owner.is_none() || self.by_address || self.shows_words);
                let words = self.shows_words && self.kept.contains(&frame);
                if !own && !words && owner != Some(&spot.0) {
                    return Err(format!("{} names {}, which holds content of {owner:?}", name(spot), at(frame)));
                }
            }
        }
        let foreign = |other: &KmdProcess| *other != spot.0 && !contract.is_system(*other);
        if contract.is_system(spot.0) {
            return Ok(());
        }
        let spots = self.reached.get(&frame);
        match spots.and_then(|spots| spots.keys().find(|other| foreign(&other.0)).copied()) {
            Some(other) if segment == 0 => {
                self.doubts.push((spot, other, frame));
                Ok(())
            }
            Some(other) => Err(lead_together(spot, other, frame)),
            None => Ok(()),
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
        // A flush of an address forgets how it was walked to.
        self.left.retain(|_, (of, from, to)| *of != process || *to < first || *from > last);
    }

    /// A device without power remembers no translation, and its tables are written anew afterwards.
    // spec: memory §8.4
    pub fn power_lost(&mut self) {
        (self.live, self.stale, self.reached) = Default::default();
        (self.links, self.leaves, self.left, self.copied) = Default::default();
        (self.words, self.ahead, self.noticed) = Default::default();
        self.dark.append(&mut self.aperture);
        self.doubts.clear();
    }

    /// Pages that the aperture shows.
    pub fn aperture_pages(&self) -> usize {
        self.aperture.len()
    }

    /// No TLB may remember a page table where something else comes.
    fn not_left(&self, frame: Frame) -> Result<(), Broken> {
        match self.left.get(&frame) {
            Some((process, first, _)) => Err(format!(
                "{} is used again while a TLB may walk through it as a table of {}",
                at(frame),
                name((*process, *first))
            )),
            None => Ok(()),
        }
    }

    /// Nothing of a process runs now.
    // spec: memory §4.2, memory §4.5
    fn is_quiesced(&self, process: KmdProcess, contract: &Contract) -> Result<(), Broken> {
        if contract.is_system(process) {
            return Ok(());
        }
        match contract.running_context(process) {
            Some(context) => Err(format!("tables of {process:?} change while {context:?} may run")),
            None => Ok(()),
        }
    }
}
