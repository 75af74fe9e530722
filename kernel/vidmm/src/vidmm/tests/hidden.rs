//! Hidden memory: what a driver keeps to itself, inside segments (invalid ranges, the protected region) and between them, is
//! never filled, copied, mapped, locked or made a page table, whatever clients do.

use std::collections::BTreeSet;

use ddi::{AllocationFlags as F, AllocationInfo, CpuAccess, MemoryRange, PteFlags, SegmentDescriptor4, SegmentFlags};
use proptest::prelude::*;
use wddm_types::{CpuPlace, CpuRun, GpuVa, PAGE_BYTES, Pages, SegmentId};

use super::world::*;
use crate::{
    AllocationId, DeviceId, EvictFlags, LockPlan, MapRequest, MemoryLayout, OfferFlags, OfferPriority, Operation,
    Protection, Sleep, SpaceId, SpaceKind, Target, VidMm, Work,
};

/// Pages of each memory segment.
const PAGES: u64 = 64;

/// A driver's description of one memory segment: invalid ranges `(page, pages)`, and a protected region `(offset, bytes)`, which may begin
/// and end within a page.
#[derive(Clone, Debug)]
struct Told {
    invalid: Vec<(u64, u64)>,
    protected: (u64, u64),
}

fn told() -> impl Strategy<Value = Told> {
    let gaps = prop::collection::vec((0..12u64, 1..6u64), 0..4);
    (gaps, 0..(PAGES - 8) * PAGE_BYTES, 0..8 * PAGE_BYTES).prop_map(|(gaps, at, bytes)| {
        let mut next = 0;
        let mut invalid = Vec::new();
        for (gap, count) in gaps {
            invalid.push((next + gap, count));
            next += gap + count;
        }
        Told { invalid, protected: (at, bytes) }
    })
}

impl Told {
    /// Every page of which a part is hidden.
    fn hidden(&self) -> BTreeSet<u64> {
        let (at, bytes) = self.protected;
        let protected = if bytes == 0 { 0..0 } else { at / PAGE_BYTES..(at + bytes).div_ceil(PAGE_BYTES) };
        let invalid = self.invalid.iter().flat_map(|&(page, pages)| page..page + pages);
        invalid.chain(protected).collect()
    }
}

/// An adapter of two memory segments with a gap between their addresses, and the hidden pages of both.
struct World {
    mm: Mm,
    space: SpaceId,
    device: DeviceId,
    hidden: [BTreeSet<u64>; 2],
    made: Vec<AllocationId>,
}

fn world(told: &[Told; 2], windowed: bool) -> World {
    let access = if windowed { SegmentFlags::SUPPORTS_CPU_HOST_APERTURE } else { SegmentFlags::CPU_VISIBLE };
    let flags = access | SegmentFlags::VPR_SUPPORTED;
    let describe = |told: &Told, id, base, reserve| SegmentDescriptor4 {
        flags,
        base_address: base,
        size_bytes: (PAGES + reserve) * PAGE_BYTES,
        cpu: if windowed {
            CpuAccess::HostAperture(window_range(id))
        } else {
            CpuAccess::Translated(if id == VRAM { VRAM_BAR } else { EXTRA_BAR })
        },
        vpr_range_start_offset: told.protected.0,
        vpr_range_size: told.protected.1,
        ..Default::default()
    };
    let descriptors = [
        describe(&told[0], VRAM, VRAM_BASE, RESERVE),
        aperture_descriptor(64),
        describe(&told[1], EXTRA, EXTRA_BASE, 0),
    ];
    let mut layout = MemoryLayout::from(&descriptors);
    for (told, index) in told.iter().zip([0, 2]) {
        let range = |&(page, pages): &(u64, u64)| MemoryRange {
            segment_offset: page * PAGE_BYTES,
            size_bytes: pages * PAGE_BYTES,
        };
        layout.segments[index].invalid_ranges = told.invalid.iter().map(range).collect();
    }
    let bits = [5, 5, 6];
    let mut mm: Mm = VidMm::new(policy(), layout, mmu(&bits), &levels(&bits)).expect("the rules");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    World { mm, space, device, hidden: told.each_ref().map(Told::hidden), made: Vec::new() }
}

impl World {
    fn see(&self, segment: SegmentId, first: u64, pages: u64) {
        let (index, end) = match segment {
            VRAM => (0, PAGES + RESERVE),
            EXTRA => (1, PAGES),
            _ => return,
        };
        assert!(first + pages <= end, "pages {first}+{pages} leave segment {segment:?}");
        let seen = (first..first + pages).find(|page| self.hidden[index].contains(page));
        assert_eq!(seen, None, "a hidden page of {segment:?} in {first}+{pages}");
    }

    fn see_address(&self, segment: SegmentId, address: u64, bytes: u64) {
        let base = if segment == VRAM { VRAM_BASE } else { EXTRA_BASE };
        self.see(segment, (address - base) / PAGE_BYTES, bytes.div_ceil(PAGE_BYTES));
    }

    fn see_cpu(&self, runs: &[CpuRun]) {
        for seen in runs.iter().filter(|seen| seen.place == CpuPlace::Bar) {
            let page = seen.run.first;
            // A window's pages say nothing of what they show.
            let of = [(VRAM, VRAM_BAR), (EXTRA, EXTRA_BAR)];
            let near = |base: u64| page >= base / PAGE_BYTES && page < base / PAGE_BYTES + (1 << 20);
            if let Some((segment, base)) = of.into_iter().find(|(_, base)| near(*base)) {
                self.see(segment, page - base / PAGE_BYTES, seen.run.count.0);
            }
        }
    }

    fn work(&self, work: &Work<u8>) {
        for operation in &work.operations {
            match operation {
                Operation::Transfer { segment, address, size_bytes, .. }
                | Operation::Fill { segment, address, size_bytes, .. } => {
                    self.see_address(*segment, *address, *size_bytes);
                }
                Operation::Discard { segment, address, .. } => self.see_address(*segment, *address, PAGE_BYTES),
                Operation::UpdatePageTable { table, first, count, repeat, .. } => {
                    self.see(table.segment, table.offset / PAGE_BYTES, 1);
                    if first.flags.contains(PteFlags::VALID) {
                        let pages = if *repeat { 1 } else { u64::from(*count) };
                        self.see(first.address.segment, first.address.offset / PAGE_BYTES, pages);
                    }
                }
                _ => {}
            }
        }
        work.rotations.iter().for_each(|rotation| self.see_cpu(&rotation.runs));
    }

    fn lock(&self, plan: &LockPlan<u8>) {
        plan.work.iter().for_each(|work| self.work(work));
        self.see_cpu(&plan.runs);
        if let Some(map) = &plan.window {
            map.memory_pages.iter().for_each(|page| self.see(map.segment, *page, 1));
        }
    }

    fn step(&mut self, what: u8, pages: u64) {
        let chosen = (!self.made.is_empty()).then(|| self.made[pages as usize % self.made.len()]);
        let mut works: Vec<Work<u8>> = Vec::new();
        match (what, chosen) {
            (0..=2, _) => {
                let segments: &[SegmentId] =
                    [&[VRAM, APERTURE][..], &[EXTRA, APERTURE], &[EXTRA, VRAM, APERTURE]][usize::from(what)];
                let mut flags = F::CPU_VISIBLE;
                flags.set(F::ACCESSED_PHYSICALLY, pages.is_multiple_of(3));
                flags.set(F::OVERLAY, pages.is_multiple_of(11));
                self.made
                    .extend(self.mm.create_allocation(self.device, AllocationInfo { flags, ..info(pages, segments) }));
            }
            (3 | 4, Some(id)) => works.extend(self.mm.make_resident(self.device, &[id]).ok().flatten()),
            (5, Some(id)) => works.extend(self.mm.evict(self.device, &[id], EvictFlags::default(), &[]).ok().flatten()),
            (6, Some(id)) => {
                if let Ok(plan) = self.mm.lock(id) {
                    self.lock(&plan);
                }
            }
            (7, Some(id)) => drop(self.mm.unlock(id)),
            (8, Some(id)) => {
                let target = Target::Allocation { allocation: id, offset_pages: Pages(0) };
                let request = MapRequest {
                    target,
                    size_pages: Pages(self.mm.allocations[id].pages),
                    base: None,
                    minimum: GpuVa::NULL,
                    maximum: GpuVa::NULL,
                    protection: Protection::READ_WRITE,
                };
                works.extend(self.mm.map_gpu_va(self.space, request).ok().and_then(|(_, work)| work));
            }
            (9, Some(id)) => drop(self.mm.offer(self.device, &[id], OfferPriority::Low, OfferFlags::default(), &[])),
            (10, _) => {
                works.extend(self.mm.power_down(if pages.is_multiple_of(2) {
                    Sleep::Standby
                } else {
                    Sleep::Hibernate
                }));
                let up = self.mm.power_up();
                works.extend(up.paging_process);
                works.extend(up.processes);
            }
            (11, _) => {
                self.mm.policy.clear_ahead = Pages(64);
                self.mm.policy.write_back_ahead = true;
                works.extend(self.mm.idle_work(pages, &|_| true));
            }
            _ => {}
        }
        for work in works {
            self.work(&work);
            self.mm.completed(self.mm.works.returned());
        }
        self.mm.check_invariants(&[]).expect("what always holds");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn hidden_memory_goes_to_no_allocation(
        first in told(),
        second in told(),
        windowed: bool,
        steps in prop::collection::vec((0..12u8, 1..40u64), 1..60),
    ) {
        // spec: memory §1.1, memory §1.4, memory §10.4 item 28
        // seed: M18, M20, M21
        let mut world = world(&[first, second], windowed);
        for (what, pages) in steps {
            world.step(what, pages);
        }
    }
}

#[test]
fn the_protected_region_goes_to_no_allocation_and_its_reserve_lies_in_it() {
    // spec: memory §1.4, memory §1.5
    let told = Told { invalid: vec![(8, 4)], protected: (10 * PAGE_BYTES, 6 * PAGE_BYTES) };
    let mut world = world(&[told.clone(), Told { invalid: vec![], ..told }], false);
    assert_eq!(world.mm.capacity_bytes(VRAM), (PAGES - 8) * PAGE_BYTES, "pages 8 to 16 are hidden, some of them twice");
    assert_eq!(world.mm.capacity_bytes(EXTRA), (PAGES - 6) * PAGE_BYTES);
    let all = create(&mut world.mm, world.device, PAGES - 8, &[VRAM]);
    let work = world.mm.make_resident(world.device, &[all]).expect("all that there is").expect("it is filled");
    world.work(&work);
}

#[test]
fn a_page_of_which_a_part_is_hidden_is_hidden_whole() {
    // spec: memory §1.1, memory §1.4
    // seed: M18, M20
    // Half a page at both ends, at the end alone, at the begin alone, and a region within one page.
    let regions = [
        (10 * PAGE_BYTES + 2048, 3 * PAGE_BYTES),
        (20 * PAGE_BYTES, 2 * PAGE_BYTES + 8),
        (30 * PAGE_BYTES + 4088, 2 * PAGE_BYTES + 8),
        (40 * PAGE_BYTES + 100, 200),
    ];
    let told = regions.map(|protected| Told { invalid: vec![], protected });
    for (first, second) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
        let mut world = world(&[told[first].clone(), told[second].clone()], false);
        for (segment, region, pages) in [(VRAM, first, [4, 3, 3, 1]), (EXTRA, second, [4, 3, 3, 1])] {
            let given = PAGES - pages[region];
            assert_eq!(world.mm.capacity_bytes(segment), given * PAGE_BYTES, "{segment:?}, {:?}", regions[region]);
            let all = create(&mut world.mm, world.device, given, &[segment]);
            let work = world.mm.make_resident(world.device, &[all]).expect("all that there is").expect("it is filled");
            world.work(&work);
            frames(&world.mm, all).into_iter().for_each(|(first, pages)| world.see(segment, first, pages));
        }
    }
}
