//! Addresses under random reservations, mappings, updates that wait, frees and evictions, against a naive map from page
//! to state: the tables that the operations wrote are walked after each step.

mod updates;

use std::collections::BTreeMap;

use ddi::{GpuMmuFlags, PteFlags};
use proptest::prelude::*;
use wddm_types::{GpuVa, PAGE_BYTES, Pages, SegmentId};

use super::world::*;
use crate::{
    AllocationId, DeviceId, EvictFlags, MapError, MapRequest, Policy, Protection, ReserveRequest, Reserved, SpaceId,
    SpaceKind, Target, Update, VidMm,
};

use updates::{Operation, names};

/// Pages that the test looks at.
const AREA: u64 = 96;
const UNIT: u64 = 16;

/// The target of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Nothing,
    Zero,
    Shows(usize, u64),
}

/// One page of the naive map: the reservation that it belongs to (`None`: a range from Map) and what it shows.
type Naive = BTreeMap<u64, (Option<(u64, Page)>, Page)>;

struct World {
    mm: Mm,
    machine: Machine,
    space: SpaceId,
    device: DeviceId,
    bits: &'static [u32],
    sees: bool,
    lowest: u64,
    allocations: Vec<Option<AllocationId>>,
    naive: Naive,
    /// Updates that wait, with what the naive map makes of them.
    waiting: Vec<(Update, Vec<Operation>, Vec<u64>)>,
    next_reservation: u64,
}

impl World {
    fn new(bits: &'static [u32], flags: GpuMmuFlags, sees: bool) -> World {
        let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
        let mut caps = mmu(bits);
        caps.flags = flags;
        let policy = Policy { paging_has_addresses: sees, ..policy() };
        let mut mm: Mm = VidMm::new(policy, &descriptors, caps, &levels(bits)).expect("rules are kept");
        let mut machine = Machine::default();
        let (space, made) = mm.create_space(SpaceKind::Process).expect("tables");
        machine.carry_out(&made);
        let device = mm.create_device(space);
        let allocations = (0..3).map(|_| Some(create(&mut mm, device, 20, &[VRAM]))).collect();
        let lowest = (1u64 << bits[..bits.len() - 1].iter().sum::<u32>()).next_multiple_of(UNIT);
        let (naive, waiting) = (Naive::new(), Vec::new());
        World { mm, machine, space, device, bits, sees, lowest, allocations, naive, waiting, next_reservation: 1 }
    }

    fn va(&self, page: u64) -> GpuVa {
        GpuVa((self.lowest + page) * PAGE_BYTES)
    }

    fn step(&mut self, kind: u8, a: u64, b: u64, c: u64) {
        let (at, pages) = (a % AREA, 1 + b % 24);
        let (at, pages) = (at, pages.min(AREA - at));
        let which = (c % 3) as usize;
        match kind {
            0 => self.reserve(a % (AREA / UNIT) * UNIT, (1 + b % 3) * UNIT, c.is_multiple_of(2)),
            1 | 2 => self.map(at, pages.min(20), which, c % 5),
            3 => self.map_reserved(at, pages, c.is_multiple_of(2)),
            4 => self.free(at, pages),
            5 | 6 => self.update(a, b, c),
            7 => self.apply(),
            8 => self.reside(which, b),
            _ => self.die(which, b),
        }
        self.run();
    }

    /// Carries out what is queued, and compares. No operation needs windows onto tables that paging work does not see.
    // spec: memory §3.4 operation 14, memory §4.8
    fn run(&mut self) {
        let mut operations = self.machine.ring.iter().flat_map(|work| &work.operations);
        let copies = operations.any(|operation| matches!(operation, crate::Operation::CopyEntries { .. }));
        assert!(self.sees || !copies, "entries are copied, and paging work sees no tables");
        self.machine.run(&mut self.mm);
        self.compare();
    }

    fn reserve(&mut self, at: u64, pages: u64, zero: bool) {
        let reserved = if zero { Reserved::Zero } else { Reserved::NoAccess };
        let request = ReserveRequest {
            size_bytes: pages * PAGE_BYTES,
            base: Some(self.va(at)),
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            reserved,
            driver_protection: 0,
        };
        let free = (at..at + pages).all(|page| !self.naive.contains_key(&page));
        match self.mm.reserve_gpu_va(self.space, request) {
            Ok((base, work)) => {
                assert!(free && base == self.va(at));
                self.machine.queue(work);
                let empty = if zero { Page::Zero } else { Page::Nothing };
                let origin = Some((self.next_reservation, empty));
                self.next_reservation += 1;
                self.naive.extend((at..at + pages).map(|page| (page, (origin, empty))));
            }
            Err(error) => assert!(!free && error == MapError::ConflictingAddresses, "{error}"),
        }
    }

    /// Whether all pages are of one reservation.
    fn one_reservation(&self, runs: &[(u64, u64)]) -> bool {
        let mut origins = runs
            .iter()
            .flat_map(|&(at, pages)| at..at + pages)
            .map(|page| self.naive.get(&page).and_then(|page| page.0));
        let first = origins.next().flatten().map(|origin| origin.0);
        first.is_some() && origins.all(|origin| origin.map(|origin| origin.0) == first) && self.unbroken(runs)
    }

    /// Pieces that a free cut off are reservations of their own: no hole lies between the runs.
    fn unbroken(&self, runs: &[(u64, u64)]) -> bool {
        let first = runs.iter().map(|run| run.0).min().unwrap_or(0);
        let end = runs.iter().map(|run| run.0 + run.1).max().unwrap_or(0);
        let id = |page| self.naive.get(&page).and_then(|page: &(Option<(u64, Page)>, Page)| page.0).map(|o| o.0);
        (first..end).all(|page| id(page) == id(first))
    }

    fn map(&mut self, at: u64, pages: u64, which: usize, from: u64) {
        let Some(allocation) = self.allocations[which] else { return };
        let pages = pages.min(20 - from).min(AREA - at);
        let request = self.request(Target::Allocation { allocation, offset_pages: Pages(from) }, at, pages);
        let free = (at..at + pages).all(|page| !self.naive.contains_key(&page));
        match self.mm.map_gpu_va(self.space, request) {
            Ok((_, work)) => {
                self.machine.queue(work);
                for page in at..at + pages {
                    let origin = self.naive.get(&page).and_then(|page| page.0);
                    assert!(free || self.naive.contains_key(&page));
                    self.naive.insert(page, (origin, Page::Shows(which, from + page - at)));
                }
            }
            Err(error) => {
                assert_eq!(error, MapError::ConflictingAddresses);
                assert!(!free && !self.one_reservation(&[(at, pages)]));
            }
        }
    }

    fn map_reserved(&mut self, at: u64, pages: u64, zero: bool) {
        let reserved = if zero { Reserved::Zero } else { Reserved::NoAccess };
        let request = self.request(Target::Reserved(reserved), at, pages);
        match self.mm.map_gpu_va(self.space, request) {
            Ok((_, work)) => {
                assert!(self.one_reservation(&[(at, pages)]));
                self.machine.queue(work);
                let shows = if zero { Page::Zero } else { Page::Nothing };
                (at..at + pages).for_each(|page| self.naive.get_mut(&page).expect("reserved").1 = shows);
            }
            Err(error) => {
                assert!(error == MapError::NotReserved && !self.one_reservation(&[(at, pages)]));
            }
        }
    }

    fn request(&self, target: Target, at: u64, pages: u64) -> MapRequest {
        MapRequest {
            target,
            size_pages: Pages(pages),
            base: Some(self.va(at)),
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            protection: Protection::READ_WRITE,
        }
    }

    fn free(&mut self, at: u64, pages: u64) {
        let (base, bytes) = (self.va(at), pages * PAGE_BYTES);
        let taken = (at..at + pages).all(|page| self.naive.contains_key(&page));
        match self.mm.free_gpu_va(self.space, base, bytes) {
            Ok(work) => {
                assert!(taken);
                self.machine.queue(work);
                self.naive.retain(|page, _| !(at..at + pages).contains(page));
                for (update, _, gone) in &mut self.waiting {
                    self.mm.update_loses_range(update, self.space, base, bytes);
                    gone.extend(at..at + pages);
                }
            }
            Err(error) => assert!(!taken && error == MapError::NotMapped),
        }
    }

    fn reside(&mut self, which: usize, b: u64) {
        let Some(allocation) = self.allocations[which] else { return };
        let counted = self.mm.allocations[allocation].count > 0;
        let work = if counted {
            let how = EvictFlags { only_if_necessary: b.is_multiple_of(2), not_written_to: false };
            self.mm.evict(self.device, &[allocation], how, &[]).expect("it is listed")
        } else {
            let made = self.mm.make_resident(self.device, &[allocation]);
            made.expect("three times 20 pages fit into 64")
        };
        self.machine.queue(work);
    }

    fn die(&mut self, which: usize, b: u64) {
        if let Some(allocation) = self.allocations[which].take() {
            for (update, ..) in &mut self.waiting {
                self.mm.update_loses_allocation(update, allocation);
            }
            let work = self.mm.destroy_allocation(allocation, &[]);
            self.machine.queue(work);
            self.naive.retain(|_, (origin, shows)| {
                if !matches!(shows, Page::Shows(shown, _) if *shown == which) {
                    return true;
                }
                *shows = origin.map_or(Page::Nothing, |(_, empty)| empty);
                origin.is_some()
            });
        } else if b.is_multiple_of(2) && !self.waiting.iter().any(|(_, operations, _)| names(operations, which)) {
            self.allocations[which] = Some(create(&mut self.mm, self.device, 20, &[VRAM]));
        }
    }

    fn compare(&self) {
        let root = self.mm.root(self.space);
        let says_zero = self.mm.spaces.entries_say_zero();
        for page in 0..AREA {
            let walked = self.machine.walk(root, self.bits, self.va(page));
            match self.naive.get(&page).map_or(Page::Nothing, |page| page.1) {
                Page::Nothing => assert_eq!(walked, None, "page {page}"),
                Page::Zero if says_zero => {
                    assert_eq!(walked.map(|entry| entry.flags), Some(PteFlags::VALID | PteFlags::ZERO), "page {page}");
                }
                Page::Zero => {
                    let entry = walked.expect("a page of zeros");
                    assert_eq!(self.machine.read(SegmentId::SYSTEM, entry.address.offset / PAGE_BYTES), 0);
                }
                Page::Shows(which, shown) => {
                    let id = self.allocations[which].expect("what has died is shown nowhere");
                    let place =
                        self.mm.allocations[id].resident_pieces(shown, 1).first().map(|piece| (piece.2, piece.3));
                    let there = walked.map(|entry| (entry.address.segment, entry.address.offset / PAGE_BYTES));
                    assert_eq!(there, place, "page {page}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // spec: memory §4.3, §4.8, §4.10
    #[test]
    fn walked_tables_equal_the_naive_map_of_tiles(
        shape in 0usize..3,
        zero_in_entries in any::<bool>(),
        sees in any::<bool>(),
        steps in prop::collection::vec((0u8..10, any::<u64>(), any::<u64>(), any::<u64>()), 1..60),
    ) {
        let bits: &'static [u32] = [&[5u32, 6][..], &[3, 3, 4], &[1, 2, 3, 2, 2, 3]][shape];
        let flags = if zero_in_entries { GpuMmuFlags::ZERO_IN_PTE_SUPPORTED } else { GpuMmuFlags::empty() };
        let mut world = World::new(bits, flags, sees);
        for (kind, a, b, c) in steps {
            world.step(kind, a, b, c);
        }
        while !world.waiting.is_empty() {
            world.apply();
            world.run();
        }
        // Nothing is left but the root.
        for page in world.naive.keys().copied().collect::<Vec<_>>() {
            world.free(page, 1);
        }
        world.machine.run(&mut world.mm);
        prop_assert_eq!(world.mm.table_bytes(SpaceKind::Process), PAGE_BYTES);
    }
}
