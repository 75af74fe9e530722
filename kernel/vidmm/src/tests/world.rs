//! What the tests stand on: descriptions of small adapters, and a naive machine that carries out paging work on
//! memory of one number per page.

use std::collections::{BTreeMap, VecDeque};

use ddi::{
    AllocationInfo, CpuAccess, CpuHostAperture, GpuMmuCaps, GpuMmuFlags, KmdAllocation, PRIORITY_NORMAL,
    PageTableLevelDesc, PageTableUpdateMode, Pte, PteFlags, SegmentDescriptor4, SegmentFlags, SegmentPreference,
};
use wddm_types::{FencePoint, GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId, SegmentSet};

use crate::{AllocationId, DeviceId, Direction, Operation, Policy, SpaceId, SpaceKind, VidMm, Work};

pub type Mm = VidMm<u8>;
pub const VRAM: SegmentId = SegmentId(1);
pub const APERTURE: SegmentId = SegmentId(2);
pub const EXTRA: SegmentId = SegmentId(3);
pub const VRAM_BASE: u64 = 1 << 32;
pub const EXTRA_BASE: u64 = 2 << 32;
pub const APERTURE_BASE: u64 = 1 << 40;
pub const RESERVE: u64 = 512;
/// What memory holds before anybody wrote it.
pub const GARBAGE: u64 = u64::MAX;

/// The window of a segment: 24 pages.
pub fn window_range(segment: SegmentId) -> CpuHostAperture {
    CpuHostAperture { physical_address: (8 + u64::from(segment.0)) << 41, size_in_pages: 24 }
}

fn cpu_access(flags: SegmentFlags, base: u64, segment: SegmentId) -> CpuAccess {
    if flags.contains(SegmentFlags::SUPPORTS_CPU_HOST_APERTURE) {
        CpuAccess::HostAperture(window_range(segment))
    } else {
        CpuAccess::Translated(base)
    }
}

pub fn vram_descriptor(pages: u64, flags: SegmentFlags) -> SegmentDescriptor4 {
    let size_bytes = (pages + RESERVE) * PAGE_BYTES;
    SegmentDescriptor4 {
        flags,
        base_address: VRAM_BASE,
        size_bytes,
        commit_limit_bytes: size_bytes,
        cpu: cpu_access(flags, VRAM_BASE, VRAM),
        ..Default::default()
    }
}

pub fn aperture_descriptor(pages: u64) -> SegmentDescriptor4 {
    SegmentDescriptor4 {
        flags: SegmentFlags::APERTURE,
        base_address: APERTURE_BASE,
        size_bytes: pages * PAGE_BYTES,
        commit_limit_bytes: pages * PAGE_BYTES,
        ..Default::default()
    }
}

pub fn mmu(index_bits: &[u32]) -> GpuMmuCaps {
    GpuMmuCaps {
        flags: GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED,
        update_mode: PageTableUpdateMode::GpuPhysical,
        virtual_address_bits: 12 + index_bits.iter().sum::<u32>(),
        page_table_levels: index_bits.len() as u32,
        leaf_table_64kb_bytes: 0,
    }
}

pub fn levels(index_bits: &[u32]) -> Vec<PageTableLevelDesc> {
    let level = |&index_bits: &u32| PageTableLevelDesc {
        index_bits,
        segment: VRAM,
        paging_process_segment: VRAM,
        size_bytes: 4096,
        alignment_bytes: 4096,
    };
    index_bits.iter().map(level).collect()
}

pub fn policy() -> Policy {
    Policy {
        page_table_reserve: Pages(RESERVE),
        paging_table_reserve: Pages(64),
        ..Policy::new(PageRun { first: 1000, count: Pages(100_000) })
    }
}

/// An adapter of `pages` pages of video memory and an aperture of 64 pages, with small tables.
pub fn adapter(pages: u64, flags: SegmentFlags) -> Mm {
    let bits = [5, 5, 6];
    VidMm::new(policy(), &[vram_descriptor(pages, flags), aperture_descriptor(64)], mmu(&bits), &levels(&bits))
        .expect("the description keeps the rules")
}

/// The same with a second memory segment of 32 pages, number 3.
pub fn adapter_of_two(pages: u64, flags: SegmentFlags) -> Mm {
    adapter_with(policy(), pages, flags)
}

/// The same under a policy.
pub fn adapter_with(policy: Policy, pages: u64, flags: SegmentFlags) -> Mm {
    let bits = [5, 5, 6];
    let extra = SegmentDescriptor4 {
        flags,
        base_address: EXTRA_BASE,
        size_bytes: 32 * PAGE_BYTES,
        commit_limit_bytes: 32 * PAGE_BYTES,
        cpu: cpu_access(flags, EXTRA_BASE, EXTRA),
        ..Default::default()
    };
    let descriptors = [vram_descriptor(pages, flags), aperture_descriptor(64), extra];
    VidMm::new(policy, &descriptors, mmu(&bits), &levels(&bits)).expect("the description keeps the rules")
}

/// The same with tables apart: leaf tables in the second memory segment, roots in the first, where all of the paging
/// process's are, what is between in system memory; and room for so few that those of three processes do not fit.
pub fn adapter_of_levels_apart(pages: u64, flags: SegmentFlags) -> Mm {
    let policy = Policy {
        page_table_reserve: Pages(32),
        paging_table_reserve: Pages(16),
        directory_reserve: Pages(64),
        ..policy()
    };
    let memory = |base_address, pages: u64, segment| {
        let size_bytes = (pages + 32) * PAGE_BYTES;
        let cpu = cpu_access(flags, base_address, segment);
        SegmentDescriptor4 {
            flags,
            base_address,
            size_bytes,
            commit_limit_bytes: size_bytes,
            cpu,
            ..Default::default()
        }
    };
    let descriptors = [memory(VRAM_BASE, pages, VRAM), aperture_descriptor(64), memory(EXTRA_BASE, 32, EXTRA)];
    let bits = [5, 5, 6];
    let mut levels = levels(&bits);
    (levels[0].segment, levels[1].segment) = (EXTRA, SegmentId::SYSTEM);
    VidMm::new(policy, &descriptors, mmu(&bits), &levels).expect("the description keeps the rules")
}

/// The first with entries of level 1 that hold two leaf tables, and so many pages for the tables of processes.
pub fn adapter_of_dual_entries(pages: u64, table_pages: u64, flags: SegmentFlags) -> Mm {
    let (bits, size_bytes) = ([5, 5, 6], 32 * PAGE_BYTES);
    let mut caps = mmu(&bits);
    (caps.leaf_table_64kb_bytes, caps.flags) = (4096, caps.flags | GpuMmuFlags::DUAL_PTE_SUPPORTED);
    let cpu = cpu_access(flags, EXTRA_BASE, EXTRA);
    let extra = SegmentDescriptor4 {
        flags,
        base_address: EXTRA_BASE,
        size_bytes,
        commit_limit_bytes: size_bytes,
        cpu,
        ..Default::default()
    };
    let descriptors = [vram_descriptor(pages, flags), aperture_descriptor(64), extra];
    let policy = Policy { paging_table_reserve: Pages(RESERVE - table_pages), ..policy() };
    VidMm::new(policy, &descriptors, caps, &levels(&bits)).expect("the description keeps the rules")
}

/// The first with a space and a device.
pub fn with_device(pages: u64) -> (Mm, SpaceId, DeviceId) {
    let mut mm = adapter(pages, SegmentFlags::empty());
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, space, device)
}

/// The first with processes of one device each, whose lists may be broken for others.
pub fn with_processes<const N: usize>(pages: u64) -> (Mm, [(SpaceId, DeviceId); N]) {
    let mut mm = adapter(pages, SegmentFlags::empty());
    mm.policy.suspend_others = true;
    let processes = [(); N].map(|()| {
        let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
        (space, mm.create_device(space))
    });
    (mm, processes)
}

pub fn set(ids: &[SegmentId]) -> SegmentSet {
    ids.iter().fold(SegmentSet::NONE, |set, &id| set.with(SegmentSet::only(id)))
}

pub fn info(pages: u64, segments: &[SegmentId]) -> AllocationInfo {
    AllocationInfo {
        size_bytes: pages * PAGE_BYTES,
        preferred_segment: SegmentPreference::of(&segments[..1]),
        supported_segments: set(segments),
        allocation: KmdAllocation(pages),
        priority: PRIORITY_NORMAL,
        ..AllocationInfo::default()
    }
}

pub fn create(mm: &mut Mm, device: DeviceId, pages: u64, segments: &[SegmentId]) -> AllocationId {
    mm.create_allocation(device, info(pages, segments)).expect("it fits")
}

pub fn point(fence: u8, value: u64) -> FencePoint<u8> {
    FencePoint { fence, value }
}

/// Page within a memory segment of a GPU address.
fn page_in(segment: SegmentId, address: u64) -> u64 {
    let start = if segment == VRAM { VRAM_BASE } else { EXTRA_BASE };
    (address - start) / PAGE_BYTES
}

/// What memory does: pages of numbers, tables of entries, and the ring of works not yet carried out.
#[derive(Default)]
pub struct Machine {
    pub ring: VecDeque<Work<u8>>,
    /// Pages by segment and page number; segment 0 is system memory.
    pub memory: BTreeMap<(SegmentId, u64), u64>,
    pub entries: BTreeMap<(PhysicalAddress, u32), Pte>,
    /// The second halves of dual entries.
    pub second_halves: BTreeMap<(PhysicalAddress, u32), Pte>,
    /// What the platform's table shows of a space's pages: the system page, and whether it may be written.
    pub platform: BTreeMap<(SpaceId, u64), (u64, bool)>,
    /// The last root that contexts were switched to.
    pub switched: Option<(SpaceId, PhysicalAddress, u32)>,
}

impl Machine {
    pub fn read(&self, segment: SegmentId, page: u64) -> u64 {
        self.memory.get(&(segment, page)).copied().unwrap_or(GARBAGE)
    }

    pub fn clear(&mut self, runs: &[PageRun]) {
        for page in runs.iter().flat_map(|run| run.first..run.end()) {
            self.memory.insert((SegmentId::SYSTEM, page), 0);
        }
    }

    /// Queues a work as its owner must: the CPU's part first.
    pub fn queue(&mut self, work: Option<Work<u8>>) {
        let Some(work) = work else { return };
        self.clear(&work.clear);
        if work.immediate {
            self.carry_out(&work.operations);
        } else {
            self.ring.push_back(work);
        }
    }

    /// Carries out the ring up to this serial.
    pub fn run_to(&mut self, mm: &mut Mm, serial: u64) {
        while self.ring.front().is_some_and(|work| work.serial <= serial) {
            let work = self.ring.pop_front().expect("it was just looked at");
            self.carry_out(&work.operations);
            mm.completed(work.serial);
        }
    }

    pub fn run(&mut self, mm: &mut Mm) {
        self.run_to(mm, u64::MAX);
    }

    pub fn carry_out(&mut self, operations: &[Operation]) {
        for operation in operations {
            match operation {
                Operation::Transfer { size_bytes, segment, address, backing, direction, .. } => {
                    let first = page_in(*segment, *address);
                    let pages: u64 = backing.iter().map(|run| run.count.0).sum();
                    assert_eq!(pages * PAGE_BYTES, *size_bytes);
                    for (page, system) in (first..).zip(backing.iter().flat_map(|run| run.first..run.end())) {
                        let (from, to) = match direction {
                            Direction::In => ((SegmentId::SYSTEM, system), (*segment, page)),
                            Direction::Out => ((*segment, page), (SegmentId::SYSTEM, system)),
                        };
                        let value = self.read(from.0, from.1);
                        self.memory.insert(to, value);
                    }
                }
                Operation::Relocate { size_bytes, segment, from, to, .. } => {
                    let pages = size_bytes / PAGE_BYTES;
                    let (from, to) = (page_in(*segment, *from), page_in(*segment, *to));
                    assert!(from + pages <= to || to + pages <= from, "the places do not overlap");
                    for page in 0..pages {
                        let value = self.read(*segment, from + page);
                        self.memory.insert((*segment, to + page), value);
                    }
                }
                Operation::Fill { size_bytes, segment, address, pattern, .. } => {
                    let first = page_in(*segment, *address);
                    for page in first..first + size_bytes / PAGE_BYTES {
                        self.memory.insert((*segment, page), u64::from(*pattern));
                    }
                }
                Operation::UpdatePageTable {
                    level,
                    table,
                    start_index,
                    count,
                    first,
                    first_64kb,
                    repeat,
                    use_64kb,
                    ..
                } => {
                    assert!(first_64kb.is_none() || *level == 1, "only entries of level 1 have two halves");
                    // A table of 64-KB entries has every sixteenth.
                    let unit = if *use_64kb { 16 } else { 1 };
                    assert!(start_index.is_multiple_of(unit) && count.is_multiple_of(unit), "whole entries");
                    for index in (0..*count).step_by(unit as usize) {
                        let mut entry = *first;
                        if !repeat {
                            entry.address.offset += u64::from(index) * PAGE_BYTES;
                        }
                        self.entries.insert((*table, (start_index + index) / unit), entry);
                        if let Some(second) = first_64kb {
                            assert!(*count == 1 || *repeat, "no two entries name the same table");
                            self.second_halves.insert((*table, start_index + index), *second);
                        }
                    }
                }
                Operation::EvictTable { table, count, use_64kb, .. } => {
                    for index in 0..*count / if *use_64kb { 16 } else { 1 } {
                        // Whoever reads this has followed a pointer to a table that is not there.
                        self.entries.remove(&(*table, index)).expect("a table that leaves was there");
                    }
                }
                Operation::CopyEntries { source, target, source_start, target_start, count, .. } => {
                    for index in 0..*count {
                        let entry = self.entries[&(*source, source_start + index)];
                        self.entries.insert((*target, target_start + index), entry);
                    }
                }
                Operation::PlatformEntries { space, first, count, shows, writable } => {
                    for page in 0..count.0 {
                        let at = (*space, first.0 / PAGE_BYTES + page);
                        match shows {
                            Some(system) => self.platform.insert(at, (system + page, *writable)),
                            None => self.platform.remove(&at),
                        };
                    }
                }
                Operation::MapAperture { .. }
                | Operation::UnmapAperture { .. }
                | Operation::Discard { .. }
                | Operation::NotifyResidency { .. }
                | Operation::NotifyFenceResidency { .. }
                | Operation::NotifyEviction { .. }
                | Operation::InitContext { .. }
                | Operation::UpdateContext { .. }
                | Operation::FlushTlb { .. } => {}
                Operation::SwitchRoot { space, root, entries } => self.switched = Some((*space, *root, *entries)),
            }
        }
    }

    /// What both halves of an entry of level 1 say: of each 64 KB at most one of the two forms is valid.
    // spec: memory §4.5
    fn walk_pair(&self, first: Pte, second: Pte, (bits, shift): (u32, u32), address: GpuVa) -> Option<Pte> {
        let within = address.0 & ((1 << shift) - 1) & !(PAGE_BYTES - 1);
        let at = |entry: Pte, within: u64| {
            let place = PhysicalAddress { offset: entry.address.offset + within, ..entry.address };
            Pte { flags: entry.flags - PteFlags::LARGE_PAGE, address: place }
        };
        if first.flags.contains(PteFlags::LARGE_PAGE) {
            return Some(at(first, within));
        }
        let index = (address.0 >> 12) as u32 & ((1 << bits) - 1);
        let entry = |table: Pte, index: u32| {
            let linked = table.flags.contains(PteFlags::VALID);
            assert!(!table.flags.contains(PteFlags::LEAF_64KB), "which half it is says the size");
            let entry = linked.then(|| self.entries.get(&(table.address, index)).expect("initialised"));
            entry.copied().filter(|entry| entry.flags.contains(PteFlags::VALID))
        };
        let coarse = entry(second, index / 16);
        let small: Vec<Pte> = (index / 16 * 16..index / 16 * 16 + 16).filter_map(|index| entry(first, index)).collect();
        assert!(coarse.is_none() || small.is_empty(), "both forms are valid at {address:?}: {coarse:?}, {small:?}");
        match coarse {
            Some(coarse) => {
                assert!(coarse.address.offset.is_multiple_of(16 * PAGE_BYTES), "aligned: {coarse:?}");
                Some(at(coarse, within % (16 * PAGE_BYTES)))
            }
            None => entry(first, index),
        }
    }

    /// Walks the tables from `root`; `bits` are the index bits, leaf first.
    pub fn walk(&self, root: PhysicalAddress, bits: &[u32], address: GpuVa) -> Option<Pte> {
        let (mut table, mut coarse) = (root, false);
        for level in (0..bits.len()).rev() {
            let shift = 12 + bits[..level].iter().sum::<u32>();
            let index = (address.0 >> shift) as u32 & ((1 << bits[level]) - 1);
            let unit = if level == 0 && coarse { 16 } else { 1 };
            let entry = *self.entries.get(&(table, index / unit)).expect("a table is initialised before it is linked");
            if let (1, Some(second)) = (level, self.second_halves.get(&(table, index))) {
                return self.walk_pair(entry, *second, (bits[0], shift), address);
            }
            if !entry.flags.contains(PteFlags::VALID) {
                return None;
            }
            if level == 0 {
                let within = u64::from(index % unit) * PAGE_BYTES;
                assert!(entry.address.offset.is_multiple_of(u64::from(unit) * PAGE_BYTES), "aligned: {entry:?}");
                let place = PhysicalAddress { offset: entry.address.offset + within, ..entry.address };
                return Some(Pte { address: place, ..entry });
            }
            coarse = entry.flags.contains(PteFlags::LEAF_64KB);
            assert!(!coarse || level == 1, "only level 1 names leaf tables");
            if entry.flags.contains(PteFlags::LARGE_PAGE) {
                let within = address.0 & ((1 << shift) - 1) & !(PAGE_BYTES - 1);
                let place = PhysicalAddress { offset: entry.address.offset + within, ..entry.address };
                return Some(Pte { flags: entry.flags - PteFlags::LARGE_PAGE, address: place });
            }
            table = entry.address;
        }
        unreachable!("there are levels")
    }
}
