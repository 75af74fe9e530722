//! Page tables in every form against a naive map from page to place and permission: two to six levels, leaf tables of
//! 4-KB and of 64-KB entries, large pages, before, at and after conversions (memory §4.3, §4.5).

mod conversions;
mod dual;
mod pairs;

use std::collections::{BTreeMap, BTreeSet};

use ddi::{GpuMmuFlags, PteFlags, SegmentFlags};
use proptest::prelude::*;
use wddm_types::{GpuVa, PAGE_BYTES, Pages, PhysicalAddress, SegmentId};

use super::world::*;
use crate::space::page_of;
use crate::{
    AllocationId, DeviceId, EvictFlags, MapRequest, Operation, Protection, ReserveRequest, Reserved, SpaceId,
    SpaceKind, Target, UpdateOperation, VidMm, Work,
};

/// The page-table abilities of an adapter.
#[derive(Clone, Debug)]
struct Shape {
    bits: Vec<u32>,
    flags: GpuMmuFlags,
    /// Leaf tables of 64-KB entries.
    leaf_64kb: bool,
    /// The memory segment has 64-KB pages.
    pages_64kb: bool,
}

/// A space under test, and what should be seen in it.
struct Bench {
    shape: Shape,
    mm: Mm,
    machine: Machine,
    space: SpaceId,
    device: DeviceId,
    allocations: Vec<AllocationId>,
    base: GpuVa,
    pages: u64,
    /// By page of the reservation.
    naive: Vec<Seen>,
    links: Links,
}

/// The target of a page of the reservation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Nothing,
    Zero,
    Page { allocation: AllocationId, page: u64, write: bool },
}

impl Bench {
    /// A reservation of `pages` pages, allocations of these sizes.
    fn new(shape: Shape, vram: u64, pages: u64, sizes: &[u64]) -> Bench {
        let flags = if shape.pages_64kb { SegmentFlags::USE_64KB_PAGES } else { SegmentFlags::empty() };
        let mut caps = mmu(&shape.bits);
        caps.flags = shape.flags | GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED;
        caps.leaf_table_64kb_bytes = if shape.leaf_64kb { 4096 } else { 0 };
        if !shape.leaf_64kb || shape.bits[0] < 4 {
            caps.flags -= GpuMmuFlags::DUAL_PTE_SUPPORTED;
        }
        let descriptors = [vram_descriptor(vram, flags), aperture_descriptor(vram)];
        let mut mm: Mm = VidMm::new(policy(), &descriptors, caps, &levels(&shape.bits)).expect("rules are kept");
        let mut machine = Machine::default();
        let (space, made) = mm.create_space(SpaceKind::Process).expect("tables");
        machine.carry_out(&made);
        let device = mm.create_device(space);
        let mut info = |size: u64| {
            let mut info = info(size, &[VRAM, APERTURE]);
            info.alignment_bytes = if shape.pages_64kb { 65536 } else { 0 };
            mm.create_allocation(device, info).expect("it fits")
        };
        let allocations = sizes.iter().map(|size| info(*size)).collect();
        let request = ReserveRequest {
            size_bytes: pages * PAGE_BYTES,
            base: None,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            reserved: Reserved::NoAccess,
            driver_protection: 0,
        };
        let (base, work) = mm.reserve_gpu_va(space, request).expect("room");
        assert!(work.is_none());
        let naive = vec![Seen::Nothing; pages as usize];
        Bench { shape, mm, machine, space, device, allocations, base, pages, naive, links: Links::default() }
    }

    fn va(&self, page: u64) -> GpuVa {
        self.base.offset(page * PAGE_BYTES)
    }

    fn pages_of(&self, id: AllocationId) -> u64 {
        self.mm.allocations[id].pages
    }

    /// Queues a work after looking at its page-table operations.
    fn queue(&mut self, work: Option<Work<u8>>) {
        if let Some(work) = &work {
            self.links.check(work, self.shape.flags, self.space);
        }
        self.machine.queue(work);
    }

    fn map(&mut self, at: u64, pages: u64, target: Target, write: bool) {
        let request = MapRequest {
            target,
            size_pages: Pages(pages),
            base: Some(self.va(at)),
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            protection: Protection { write, execute: false, driver: 0 },
        };
        let (_, work) = self.mm.map_gpu_va(self.space, request).expect("reserved, and there are tables");
        self.queue(work);
        for page in 0..pages {
            self.naive[(at + page) as usize] = match target {
                Target::Allocation { allocation, offset_pages } => {
                    Seen::Page { allocation, page: offset_pages.0 + page, write }
                }
                Target::Reserved(Reserved::Zero) => Seen::Zero,
                _ => Seen::Nothing,
            };
        }
    }

    fn copy(&mut self, from: u64, to: u64, pages: u64) {
        let operation =
            UpdateOperation::Copy { source: self.va(from), size_bytes: pages * PAGE_BYTES, destination: self.va(to) };
        let (update, work) = self.mm.prepare_update(self.space, &[operation]).expect("one reservation");
        self.queue(work);
        let work = self.mm.apply_update(update);
        self.queue(work);
        let read: Vec<Seen> = self.naive[from as usize..(from + pages) as usize].to_vec();
        self.naive[to as usize..(to + pages) as usize].copy_from_slice(&read);
    }

    /// Maps several ranges at once: page, pages, and the page of the allocation.
    fn update(&mut self, allocation: AllocationId, ranges: &[(u64, u64, u64)]) -> Option<Work<u8>> {
        let map = |&(at, pages, from): &(u64, u64, u64)| UpdateOperation::Map {
            base: self.va(at),
            size_bytes: pages * PAGE_BYTES,
            allocation,
            offset_bytes: from * PAGE_BYTES,
            allocation_size_bytes: 0,
            protection: None,
        };
        let operations: Vec<_> = ranges.iter().map(map).collect();
        let (update, work) = self.mm.prepare_update(self.space, &operations).expect("one reservation");
        self.queue(work);
        let work = self.mm.apply_update(update);
        self.queue(work.clone());
        for &(at, pages, from) in ranges {
            for page in 0..pages {
                self.naive[(at + page) as usize] = Seen::Page { allocation, page: from + page, write: true };
            }
        }
        work
    }

    /// The allocation comes, or all others go first.
    fn resident(&mut self, id: AllocationId) {
        if self.mm.allocations[id].count > 0 {
            return;
        }
        for other in self.allocations.clone() {
            if self.mm.allocations[other].count > 0 {
                let how = EvictFlags { only_if_necessary: true, not_written_to: false };
                let work = self.mm.evict(self.device, &[other], how, &[]).expect("listed");
                self.queue(work);
            }
        }
        let work = self.mm.make_resident(self.device, &[id]).expect("room");
        self.queue(work);
    }

    /// Carries everything out and compares the walk of every page with the naive map.
    fn check(&mut self) -> Result<(), TestCaseError> {
        self.machine.run(&mut self.mm);
        for page in 0..self.pages {
            let walked = self.machine.walk(self.mm.root(self.space), &self.shape.bits, self.va(page));
            let flags = PteFlags::ZERO | PteFlags::READ_ONLY;
            let found = walked.map(|entry| {
                let zero = entry.flags.contains(PteFlags::ZERO);
                let place = (entry.address.segment, page_of(entry.address.offset));
                (if zero { (SegmentId::SYSTEM, 0) } else { place }, entry.flags & flags)
            });
            let expected = match self.naive[page as usize] {
                Seen::Nothing => None,
                Seen::Zero => Some(match self.mm.spaces[self.space].zero_page() {
                    Some(page) => ((SegmentId::SYSTEM, page.first), PteFlags::READ_ONLY),
                    None => ((SegmentId::SYSTEM, 0), PteFlags::ZERO),
                }),
                Seen::Page { allocation, page, write } => {
                    let piece = self.mm.allocations[allocation].resident_pieces(page, 1).first().copied();
                    let flags = if write { PteFlags::empty() } else { PteFlags::READ_ONLY };
                    piece.map(|(_, _, segment, frame)| ((segment, frame), flags))
                }
            };
            prop_assert_eq!(found, expected, "page {} of {:?}", page, self.shape);
        }
        Ok(())
    }
}

/// The entries of level 1 as they were written: which name tables of 64-KB entries, and which once did and may not again.
#[derive(Default)]
struct Links {
    coarse: BTreeSet<(PhysicalAddress, u32)>,
    converted: BTreeSet<(PhysicalAddress, u32)>,
    conversions: usize,
    /// Entries copied from table to table.
    copied: u64,
}

impl Links {
    /// The rules of one work's page-table operations:
    /// - one flush behind all entries made invalid, one behind all made valid, the second only where the hardware remembers
    ///   invalid entries (memory §3.4, operation 12);
    /// - a leaf table is linked again with 4-KB entries only after these are written, while the process is quiesced, and a
    ///   flush of all of it follows; it never has 64-KB entries again as long as it is (memory §4.5).
    fn check(&mut self, work: &Work<u8>, flags: GpuMmuFlags, space: SpaceId) {
        let fresh: BTreeMap<PhysicalAddress, usize> = (0..)
            .zip(&work.operations)
            .filter_map(|(at, operation)| match operation {
                Operation::UpdatePageTable { initial: true, use_64kb: false, table, .. } => Some((*table, at)),
                _ => None,
            })
            .collect();
        let (mut changed, mut flushes, mut converting) = (false, 0, false);
        for (at, operation) in work.operations.iter().enumerate() {
            match operation {
                Operation::UpdatePageTable { level, first, table, start_index, .. } => {
                    changed = true;
                    if *level != 1 {
                        continue;
                    }
                    let place = (*table, *start_index);
                    let was = self.coarse.remove(&place);
                    let (valid, large) = (PteFlags::VALID, PteFlags::LARGE_PAGE);
                    if !first.flags.contains(valid) {
                        self.converted.remove(&place);
                    } else if first.flags.contains(PteFlags::LEAF_64KB) {
                        assert!(!self.converted.contains(&place), "never back");
                        self.coarse.insert(place);
                    } else if was && !first.flags.contains(large) {
                        assert!(fresh[&first.address] < at, "the entries are written first");
                        assert!(work.idle_spaces.contains(&space), "the contexts quiesce");
                        self.converted.insert(place);
                        (converting, self.conversions) = (true, self.conversions + 1);
                    }
                }
                Operation::CopyEntries { count, .. } => {
                    (changed, self.copied) = (true, self.copied + u64::from(*count));
                }
                Operation::FlushTlb { .. } => {
                    assert!(changed, "a flush follows changes: {:?}", work.operations);
                    (changed, converting, flushes) = (false, false, flushes + 1);
                }
                _ => {}
            }
        }
        assert!(!converting, "the hardware forgets the table that was converted");
        let limit = if flags.contains(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED) { 1 } else { 2 };
        assert!(flushes <= limit, "{flushes} flushes in {:?}", work.operations);
        let idle = flags.contains(GpuMmuFlags::PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE);
        let changes = work
            .operations
            .iter()
            .any(|operation| matches!(operation, Operation::UpdatePageTable { .. } | Operation::FlushTlb { .. }));
        assert!(!idle || !changes || work.idle_spaces == [space], "an idle address space");
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let bits = prop_oneof![
        Just(vec![9, 5]),
        Just(vec![4, 10]),
        Just(vec![9, 3, 4]),
        Just(vec![5, 3, 3, 4]),
        Just(vec![9, 2, 1, 2, 2]),
        Just(vec![6, 1, 3, 1, 2, 2]),
    ];
    (bits, any::<u16>(), any::<bool>(), any::<bool>()).prop_map(|(bits, chosen, leaf_64kb, pages_64kb)| {
        let optional = GpuMmuFlags::ZERO_IN_PTE_SUPPORTED
            | GpuMmuFlags::PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE
            | GpuMmuFlags::LARGE_PAGE_SUPPORTED
            | GpuMmuFlags::DUAL_PTE_SUPPORTED
            | GpuMmuFlags::ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS
            | GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED;
        let flags = GpuMmuFlags::from_bits_truncate(u32::from(chosen)) & optional;
        Shape { bits, flags, leaf_64kb, pages_64kb }
    })
}

/// A shape with 64-KB pages in every sense.
fn coarse_shape(flags: GpuMmuFlags) -> Shape {
    Shape { bits: vec![9, 3, 4], flags, leaf_64kb: true, pages_64kb: true }
}

/// How many leaf operations have 64-KB entries, and how many 4-KB ones.
fn forms(work: &Option<Work<u8>>) -> (usize, usize) {
    let operations = work.iter().flat_map(|work| &work.operations);
    operations.fold((0, 0), |(coarse, fine), operation| match operation {
        Operation::UpdatePageTable { level: 0, use_64kb: true, first, .. } if first.flags != PteFlags::empty() => {
            (coarse + 1, fine)
        }
        Operation::UpdatePageTable { level: 0, use_64kb: false, first, .. } if first.flags != PteFlags::empty() => {
            (coarse, fine + 1)
        }
        _ => (coarse, fine),
    })
}

#[test]
fn entries_of_64_kb_are_for_whole_pages_of_segments_that_have_them() {
    // spec: memory §4.5
    let zero = GpuMmuFlags::ZERO_IN_PTE_SUPPORTED;
    let whole = coarse_shape(zero);
    // An adapter; the mapped page, the allocation's first page, how many pages; which entries stand there in the end.
    let rows = [
        ("whole pages", whole.clone(), (16, 16, 32), (1, 0)),
        ("the driver has no such tables", Shape { leaf_64kb: false, ..whole.clone() }, (16, 16, 32), (0, 1)),
        ("the segment has no such pages", Shape { pages_64kb: false, ..whole.clone() }, (16, 16, 32), (0, 1)),
        ("at another place in the page", whole.clone(), (17, 16, 16), (0, 1)),
        ("from within a page", whole.clone(), (16, 17, 16), (0, 1)),
        ("less than a page", whole.clone(), (16, 16, 8), (0, 1)),
        ("leaf tables are too small", Shape { bits: vec![3, 3, 6], ..whole }, (16, 16, 16), (0, 2)),
    ];
    for (name, shape, (at, from, pages), expected) in rows {
        let mut bench = Bench::new(shape, 128, 64, &[64]);
        let allocation = bench.allocations[0];
        bench.map(at, pages, Target::Allocation { allocation, offset_pages: Pages(from) }, true);
        let work = bench.mm.make_resident(bench.device, &[allocation]).expect("room");
        assert_eq!(forms(&work), expected, "{name}");
        bench.queue(work);
        bench.check().expect(name);
        assert_eq!(bench.links.conversions, 0, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    // spec: memory §4.3, memory §4.4, memory §4.5, memory §4.10
    #[test]
    fn every_form_translates_as_the_naive_map_says(
        shape in shapes(),
        steps in prop::collection::vec((0u8..9, any::<bool>(), 0u64..1024, 1u64..700, 0u64..640), 1..24),
    ) {
        let mut bench = Bench::new(shape, 1024, 1024, &[640, 640, 48]);
        for (kind, whole, at, pages, from) in steps {
            // Whole 64-KB pages are likely, whole tables sometimes.
            let unit = if whole { 16 } else { 1 };
            let id = bench.allocations[(at % 3) as usize];
            let from = (from % bench.pages_of(id)) / unit * unit;
            let at = at / unit * unit;
            let pages = (pages / unit * unit).max(unit).min(1024 - at).min(bench.pages_of(id) - from);
            let target = Target::Allocation { allocation: id, offset_pages: Pages(from) };
            match kind {
                0..=2 => bench.map(at, pages, target, kind > 0),
                3 => bench.map(at, pages, Target::Reserved(Reserved::NoAccess), true),
                4 => bench.map(at, pages, Target::Reserved(Reserved::Zero), true),
                5 => {
                    let to = (from * 37) % (1024 - pages + 1) / unit * unit;
                    bench.copy(at, to, pages);
                }
                6 => {
                    let small = (at + 16 + pages).min(1023);
                    drop(bench.update(id, &[(at, pages, from), (small, 1, from)]));
                }
                _ => bench.resident(id),
            }
            bench.check()?;
        }
        for id in bench.allocations.clone() {
            let work = bench.mm.destroy_allocation(id, &[]);
            bench.queue(work);
        }
        let work = bench.mm.free_gpu_va(bench.space, bench.base, bench.pages * PAGE_BYTES).expect("reserved");
        bench.queue(work);
        bench.naive.fill(Seen::Nothing);
        bench.check()?;
        prop_assert_eq!(bench.mm.table_bytes(SpaceKind::Process), PAGE_BYTES, "only the root is left");
    }
}
