//! Random calls against a naive model of contents: no content is ever lost or shown to another, counts are right, a
//! failure changes nothing, every frame has at most one owner; victims follow the naive order, a running device has all
//! of its list, and a protected process loses nothing while a lower one holds anything.

mod check;
mod cpu;
mod create;
mod end;
mod moves;
mod order;
mod policy;
mod relocation;
mod soak;
mod step;

use std::collections::BTreeMap;

use ddi::SegmentFlags;
use proptest::prelude::*;
use wddm_types::{CpuRun, GpuVa, PAGE_BYTES, Pages, SegmentId};

use self::moves::ReplayedMoves;
use self::step::{Step, step};
use super::world::*;
use crate::foreseen::Foreseen;
use crate::{
    AllocationId, DeviceId, EvictError, EvictFlags, Eviction, LockError, MakeResidentError, MakeResidentFlags,
    MapError, MapRequest, Protection, SpaceId, SpaceKind, Target,
};

const BITS: [u32; 3] = [5, 5, 6];
const VRAM_PAGES: u64 = 96;
const PROCESSES: usize = 3;
const DEVICES: usize = 4;

/// The room for page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tables {
    /// Room for those of all processes.
    Roomy,
    /// They do not fit beside each other.
    Tight,
    /// Neither do they, and each level has its own segment.
    Apart,
    /// No room for those of all either, and leaf tables in pairs.
    Dual,
}

/// The model's record of one allocation.
struct Known {
    id: AllocationId,
    va: GpuVa,
    /// A second mapping, of the pages from here on.
    second: (GpuVa, u64),
    content: Vec<u64>,
    counts: [u64; DEVICES],
    wrote: [bool; DEVICES],
    locks: u32,
    /// Where the CPU sees it, while locked.
    runs: Vec<CpuRun>,
    pins: u32,
    /// Only system memory, or physically accessed: for the rules of failure.
    aperture: bool,
}

struct Model {
    mm: Mm,
    machine: Machine,
    spaces: [SpaceId; PROCESSES],
    /// Two of the first process, one of each other.
    devices: [DeviceId; DEVICES],
    known: Vec<Known>,
    /// Destroyed, last use pending.
    doomed: Vec<AllocationId>,
    now_ns: u64,
    stamp: u64,
    /// The segment pages that the windows map, by bus page.
    windows: BTreeMap<u64, (SegmentId, u64)>,
    reach: SegmentFlags,
    /// How often content moved up.
    promoted: u64,
    /// How often page tables left their frames.
    tables_left: u64,
    /// Pages that came, left or were copied ahead of need.
    came_and_went: u64,
    /// Bytes that moved within their segments.
    relocated_bytes: u64,
    /// Moves of evictions that had stood aside.
    evicted_late: u64,
    /// The residence as the reported moves add up.
    replayed: ReplayedMoves,
}

impl Model {
    fn new(flags: SegmentFlags, tables: Tables, eviction: Eviction) -> Self {
        let mut mm = match tables {
            Tables::Roomy => adapter_with(policy(), VRAM_PAGES, flags),
            Tables::Tight => {
                let paging_table_reserve = Pages(RESERVE - PROCESSES as u64 - 28);
                adapter_with(crate::Policy { paging_table_reserve, ..policy() }, VRAM_PAGES, flags)
            }
            Tables::Apart => adapter_of_levels_apart(VRAM_PAGES, flags),
            Tables::Dual => adapter_of_dual_entries(VRAM_PAGES, PROCESSES as u64 + 52, flags),
        };
        mm.policy.eviction = eviction;
        mm.foreseen = Foreseen::open(eviction, &mm.segments);
        let mut machine = Machine::default();
        mm.policy.suspend_others = true;
        mm.policy.write_back_ahead = true;
        mm.policy.clear_ahead = Pages(24);
        let spaces = [(); PROCESSES].map(|()| {
            let (space, made) = mm.create_space(SpaceKind::Process).expect("tables");
            machine.carry_out(&made);
            space
        });
        let reach = flags & (SegmentFlags::CPU_VISIBLE | SegmentFlags::SUPPORTS_CPU_HOST_APERTURE);
        let [one, two, three] = spaces;
        let devices = [one, one, two, three].map(|space| mm.create_device(space));
        let (known, doomed, windows) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (tables_left, relocated_bytes, promoted) = (0, 0, 0);
        Model {
            mm,
            machine,
            spaces,
            devices,
            known,
            doomed,
            now_ns: 0,
            stamp: 0,
            windows,
            reach,
            tables_left,
            relocated_bytes,
            promoted,
            came_and_went: 0,
            evicted_late: 0,
            replayed: ReplayedMoves::default(),
        }
    }

    fn pick(&self, which: usize) -> Option<usize> {
        (!self.known.is_empty()).then(|| which % self.known.len())
    }

    /// The next allocation, from this one on, that the device's list holds.
    fn pick_held(&self, which: usize, device: usize) -> Option<usize> {
        let count = self.known.len();
        (0..count).map(|step| (which + step) % count).find(|&which| self.known[which].counts[device] > 0)
    }

    fn ids(&self, list: &[usize]) -> Vec<usize> {
        list.iter().filter_map(|&which| self.pick(which)).collect()
    }

    /// `None`: there is no room for its tables.
    fn map(&mut self, which: usize, offset: u64, pages: u64) -> Option<GpuVa> {
        let id = self.known[which].id;
        let space = self.mm.devices[self.mm.allocations[id].owner.unwrap()].space();
        let target = Target::Allocation { allocation: id, offset_pages: Pages(offset) };
        let request = MapRequest {
            target,
            size_pages: Pages(pages),
            base: None,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            protection: Protection::READ_WRITE,
        };
        match self.mm.map_gpu_va(space, request) {
            Ok((va, work)) => {
                self.queue(work);
                Some(va)
            }
            Err(error) => {
                assert_eq!(error, MapError::OutOfTables, "addresses are there");
                None
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Create { pages, kind, device } => self.create(pages, kind, device),
            Step::Map { which, offset } => {
                let Some(which) = self.pick(which) else { return };
                let pages = self.known[which].content.len() as u64;
                let offset = offset.min(pages - 1);
                // The address space is small; a second mapping goes again at once when it is not for looking at.
                let Some(va) = self.map(which, offset, pages - offset) else { return };
                self.look(which, va, offset);
                let space = self.mm.devices[self.mm.allocations[self.known[which].id].owner.unwrap()].space();
                let work = self.mm.free_gpu_va(space, va, (pages - offset) * PAGE_BYTES).expect("it is mapped");
                self.queue(work);
            }
            Step::MakeResident { device, list, force } => self.make_resident(device, &list, force),
            Step::Write { which } => self.write(which),
            Step::Evict { device, list, lazily, claim_clean } => self.evict(device, &list, lazily, claim_clean),
            Step::Lock { which } => self.lock(which),
            Step::Unlock { which } => {
                let Some(which) = self.pick(which) else { return };
                let known = &mut self.known[which];
                let result = self.mm.unlock(known.id);
                assert_eq!(result, if known.locks > 0 { Ok(known.locks == 1) } else { Err(LockError::NotLocked) });
                known.locks = known.locks.saturating_sub(1);
            }
            Step::Destroy { which } => {
                let Some(which) = self.pick(which) else { return };
                let known = self.known.swap_remove(which);
                let work = self.mm.destroy_allocation(known.id, &[]);
                self.queue(work);
            }
            Step::Complete { works } => {
                let serial = self.machine.ring.iter().take(works).next_back().map_or(0, |work| work.serial);
                self.machine.run_to(&mut self.mm, serial);
            }
            other => self.policy_step(other),
        }
        self.check();
        self.check_told();
    }

    fn make_resident(&mut self, device: usize, list: &[usize], force: u8) {
        let list = self.ids(list);
        let ids: Vec<AllocationId> = list.iter().map(|&which| self.known[which].id).collect();
        let before = self.placements();
        let order = self.naive_order();
        let flags = MakeResidentFlags { cant_trim_further: force > 0, must_succeed: force > 1 };
        match self.mm.make_resident_with(self.devices[device], &ids, flags) {
            Ok(work) => {
                self.check_losers(&ids, &order, work.as_ref());
                self.queue(work);
                for &which in &list {
                    self.known[which].counts[device] += 1;
                    let waits = self.mm.is_suspended(self.devices[device]);
                    assert!(waits || self.mm.is_resident(self.known[which].id), "all is resident after success");
                }
                for &which in &list {
                    self.look_at_both(which);
                }
            }
            Err(error) => {
                assert_eq!(before, self.placements(), "a failure changes nothing");
                // A segment of large pages counts whole ones, and a list what it destroyed while its device was suspended.
                let all = self.known.iter().map(|known| known.id).chain(self.doomed.iter().copied());
                let needed: u64 = all.map(|id| self.mm.allocations[id].pages.next_multiple_of(16)).sum();
                match error {
                    MakeResidentError::OutOfMemory { bytes_to_trim } => {
                        assert!(bytes_to_trim > 0);
                        if self.mm.is_suspended(self.devices[device]) {
                            return;
                        }
                        assert!(bytes_to_trim <= needed * PAGE_BYTES, "{bytes_to_trim} bytes of {needed} pages");
                        let scattered = |&&which: &&usize| !self.mm.allocations[self.known[which].id].contiguous();
                        let only_vram = list.iter().filter(scattered).any(|&which| !self.known[which].aperture);
                        let contiguous = list.iter().any(|which| !scattered(&which));
                        assert!(only_vram || contiguous, "system memory always has room");
                    }
                    MakeResidentError::Locked { allocation } => {
                        assert!(self.mm.is_locked(allocation));
                        self.make_resident_held(device, &list, flags);
                    }
                    MakeResidentError::Offered { allocation } => assert!(self.mm.offered(allocation).is_some()),
                }
            }
        }
    }

    /// The counts of a MakeResident that a lock holds up rise at once, and its device is suspended.
    // spec: memory §10.1 row 23
    fn make_resident_held(&mut self, device: usize, list: &[usize], flags: MakeResidentFlags) {
        let ids: Vec<AllocationId> = list.iter().map(|&which| self.known[which].id).collect();
        let before = self.placements();
        match self.mm.make_resident_held(self.devices[device], &ids, flags) {
            Ok(work) => {
                self.queue(work);
                list.iter().for_each(|&which| self.known[which].counts[device] += 1);
                assert!(self.mm.is_suspended(self.devices[device]), "it does not run without it");
            }
            Err(error) => {
                assert!(matches!(error, MakeResidentError::OutOfMemory { .. }), "{error:?}");
                assert_eq!(before, self.placements(), "a failure changes nothing");
            }
        }
    }

    /// The GPU writes all of an allocation, through its addresses, if a device holds it.
    fn write(&mut self, which: usize) {
        if let Some(locked) = self.pick(which).filter(|&which| self.known[which].locks > 0) {
            return self.write_by_cpu(locked);
        }
        let runs = |device: &usize| !self.mm.is_suspended(self.devices[*device]);
        let held = (0..DEVICES).filter(runs).find_map(|device| Some((self.pick_held(which, device)?, device)));
        let Some((which, device)) = held else { return };
        if self.mm.offered(self.known[which].id).is_some() {
            return;
        }
        self.machine.run(&mut self.mm);
        let (id, va) = (self.known[which].id, self.known[which].va);
        let space = self.mm.devices[self.mm.allocations[id].owner.unwrap()].space();
        // Another process's device lists it: the owner's tables are away.
        if !self.mm.tables_resident(space) {
            return;
        }
        let root = self.mm.root(space);
        for page in 0..self.known[which].content.len() {
            self.stamp += 1;
            let entry = self.machine.walk(root, &BITS, va.offset(page as u64 * PAGE_BYTES)).expect("resident: valid");
            let place = (entry.address.segment, entry.address.offset / PAGE_BYTES);
            self.machine.memory.insert(place, self.stamp);
            self.known[which].content[page] = self.stamp;
        }
        self.known[which].wrote[device] = true;
    }

    fn evict(&mut self, device: usize, list: &[usize], lazily: bool, claim_clean: bool) {
        // Mostly what can be evicted, sometimes what cannot.
        let held = |&which: &usize| if which < 28 { self.pick_held(which, device) } else { self.pick(which) };
        let list: Vec<usize> = list.iter().filter_map(held).collect();
        let mut left: BTreeMap<usize, u64> = BTreeMap::new();
        let mut below = false;
        for &which in &list {
            let left = left.entry(which).or_insert(self.known[which].counts[device]);
            below |= *left == 0;
            *left = left.saturating_sub(1);
        }
        let not_written_to = claim_clean && !list.iter().any(|&which| self.known[which].wrote[device]);
        let flags = EvictFlags { only_if_necessary: lazily, not_written_to };
        let ids: Vec<AllocationId> = list.iter().map(|&which| self.known[which].id).collect();
        let before = self.placements();
        match self.mm.evict(self.devices[device], &ids, flags, &[point(device as u8, self.stamp)]) {
            Ok(work) => {
                assert!(!below);
                let after = work.as_ref().map_or(0, |work| work.after.len());
                assert_eq!(after, 0, "the ring waits for no use by an Evict");
                self.queue(work);
                for (which, left) in left {
                    self.known[which].counts[device] = left;
                    self.known[which].wrote[device] &= left > 0;
                }
            }
            Err(EvictError::BelowZero { .. }) => {
                assert!(below);
                assert_eq!(before, self.placements(), "a failure changes nothing");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // seed: R06
    // seed: R07
    // spec: memory §5.1, §5.2, §5.3, §8.3
    #[test]
    fn no_content_is_lost(
        large in any::<bool>(),
        tables in prop::sample::select(&[Tables::Roomy, Tables::Tight, Tables::Apart, Tables::Dual][..]),
        reach in 0..3u8,
        eviction in prop::sample::select(Eviction::ALL),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut flags = if large { SegmentFlags::USE_64KB_PAGES } else { SegmentFlags::empty() };
        flags |= match reach {
            0 => SegmentFlags::empty(),
            1 => SegmentFlags::CPU_VISIBLE,
            _ => SegmentFlags::SUPPORTS_CPU_HOST_APERTURE,
        };
        let mut model = Model::new(flags, tables, eviction);
        // Twice what fits, so that pressure is the rule.
        for (pages, kind) in [(30, 1), (23, 4), (37, 6), (18, 1), (41, 7), (29, 3)] {
            model.create(pages, kind, (pages % 2) as usize);
        }
        for step in steps {
            model.step(step);
        }
        for which in 0..model.known.len() {
            model.look_at_both(which);
        }
        model.end();
    }
}
