//! A machine that carries paging work out on pages of one number each.

use super::*;

/// Page within a memory segment of a GPU address.
fn page_in(segment: SegmentId, address: u64) -> u64 {
    let start = if segment == VRAM { VRAM_BASE } else { EXTRA_BASE };
    (address - start) / PAGE_BYTES
}

/// The state of the machine: pages of numbers, tables of entries, and the ring of works not yet carried out.
#[derive(Default)]
pub struct Machine {
    pub ring: VecDeque<Work<u8>>,
    /// Pages by segment and page number; segment 0 is system memory.
    pub memory: BTreeMap<(SegmentId, u64), u64>,
    pub entries: BTreeMap<(PhysicalAddress, u32), Pte>,
    /// The second halves of dual entries.
    pub second_halves: BTreeMap<(PhysicalAddress, u32), Pte>,
    /// The platform's entries of a space's pages: the system page, and whether it may be written.
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
                Operation::EvictTable { level, table, count, use_64kb, halves, .. } => {
                    for index in 0..*count / if *use_64kb { 16 } else { 1 } {
                        let second = self.second_halves.remove(&(*table, index));
                        let has_halves = *level == 1 && second.is_some();
                        assert_eq!(*halves, has_halves, "second halves become invalid with the first");
                        // A later walk to this entry follows a pointer to a missing table, and finds no entry.
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

    /// Walks both halves of an entry of level 1: of each 64 KB at most one of the two forms is valid.
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
