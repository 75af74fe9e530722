//! Adapters of the IoMmu model: addresses are a process's own, the platform translates them, nothing has a page table.

use wddm_types::{CpuVa, PAGE_BYTES, Pages, SegmentId};

use super::world::{Machine, Mm, aperture_descriptor, info, point, policy, vram_descriptor};
use crate::{AllocationId, DeviceId, EvictFlags, MapError, Operation, SegmentError, SpaceId, SpaceKind, VidMm, Work};

/// The aperture is the only segment.
const SHARED: SegmentId = SegmentId(1);
const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };

fn adapter() -> Mm {
    VidMm::with_cpu_addresses(policy(), &[aperture_descriptor(64)]).expect("the description keeps the rules")
}

struct World {
    mm: Mm,
    machine: Machine,
    processes: Vec<(SpaceId, DeviceId)>,
}

fn world(processes: usize) -> World {
    let mut mm = adapter();
    let processes = (0..processes)
        .map(|_| {
            let (space, operations) = mm.create_space(SpaceKind::Process).expect("it takes nothing");
            assert_eq!(operations, [], "there is no root to be written");
            (space, mm.create_device(space))
        })
        .collect();
    World { mm, machine: Machine::default(), processes }
}

impl World {
    fn create(&mut self, process: usize, pages: u64) -> (AllocationId, CpuVa) {
        let (space, device) = self.processes[process];
        let id = self.mm.create_allocation(device, info(pages, &[SHARED])).expect("it fits");
        let work = self.mm.give_cpu_address(space, id, true).expect("there is room");
        assert_eq!(work, None, "nothing of it is resident yet");
        (id, self.mm.cpu_address(space, id).expect("it was given one"))
    }

    fn run(&mut self, work: Option<Work<u8>>) {
        self.machine.queue(work);
        self.machine.run(&mut self.mm);
        self.mm.check_invariants(&[]).expect("all rules hold");
    }

    /// The system pages that the platform's table maps.
    fn shown(&self, process: usize, at: CpuVa, pages: u64) -> Vec<Option<(u64, bool)>> {
        let first = at.0 / PAGE_BYTES;
        let (space, _) = self.processes[process];
        (first..first + pages).map(|page| self.machine.platform.get(&(space, page)).copied()).collect()
    }

    /// The pages that the platform's table should map: the backing store.
    fn backing(&self, id: AllocationId, write: bool) -> Vec<Option<(u64, bool)>> {
        let runs = self.mm.backing(id);
        runs.iter().flat_map(|run| run.first..run.end()).map(|page| Some((page, write))).collect()
    }
}

#[test]
fn what_is_resident_is_shown_at_its_address_and_what_is_evicted_is_not() {
    // spec: memory §4.1
    let mut world = world(1);
    let (_, device) = world.processes[0];
    let (a, at) = world.create(0, 5);
    let (b, beside) = world.create(0, 3);
    assert!(!at.is_null() && beside.0 >= at.0 + 5 * PAGE_BYTES, "addresses are apart");
    assert_eq!(world.shown(0, at, 5), [None; 5], "an access before it is resident faults");
    let work = world.mm.make_resident(device, &[a, b]).expect("room");
    world.run(work);
    assert_eq!(world.shown(0, at, 5), world.backing(a, true));
    assert_eq!(world.shown(0, beside, 3), world.backing(b, true));
    let tables = world.mm.table_bytes(SpaceKind::Process) + world.mm.table_bytes(SpaceKind::Paging);
    assert_eq!(tables, 0, "and no table has a frame");

    assert_eq!(world.mm.evict(device, &[a], NOW, &[point(1, 9)]), Ok(None), "queued work uses it");
    assert_eq!(world.shown(0, at, 5), world.backing(a, true));
    let (_, work) = world.mm.evictions_over(&|point| point.value <= 9).pop().expect("it leaves behind its last use");
    let unmap = |what: &Operation| matches!(what, Operation::PlatformEntries { shows: None, .. });
    let flush = |what: &Operation| matches!(what, Operation::FlushTlb { .. });
    let at_unmap = work.operations.iter().position(unmap).expect("the addresses lead nowhere");
    let at_flush = work.operations.iter().position(flush).expect("and devices forget where they led");
    assert!(at_unmap < at_flush);
    world.run(Some(work));
    assert_eq!(world.shown(0, at, 5), [None; 5]);
    assert_eq!(world.shown(0, beside, 3), world.backing(b, true), "others stay");
    assert_eq!(world.mm.cpu_address(world.processes[0].0, a), Some(at), "the address stays its own");
    let work = world.mm.make_resident(device, &[a]).expect("room");
    world.run(work);
    assert_eq!(world.shown(0, at, 5), world.backing(a, true), "and shows it again");
}

#[test]
fn a_shared_allocation_has_an_address_in_each_process_with_its_own_rights() {
    // spec: memory §4.1, memory §2.7
    let mut world = world(2);
    let (_, first) = world.processes[0];
    let (space, second) = world.processes[1];
    let (a, at) = world.create(0, 4);
    let work = world.mm.make_resident(first, &[a]).expect("room");
    world.run(work);
    let work = world.mm.give_cpu_address(space, a, false).expect("there is room");
    assert!(work.is_some(), "it is resident, so it is shown");
    world.run(work);
    let there = world.mm.cpu_address(space, a).expect("given");
    assert_eq!(world.shown(1, there, 4), world.backing(a, false), "read only");
    assert_eq!(world.shown(0, at, 4), world.backing(a, true));
    assert_eq!(world.mm.give_cpu_address(space, a, true), Ok(None), "once a process");

    let work = world.mm.make_resident(second, &[a]).expect("it is there");
    world.run(work);
    let work = world.mm.evict(first, &[a], NOW, &[]).expect("counted");
    world.run(work);
    assert_eq!(world.shown(1, there, 4), world.backing(a, false), "one list is enough to keep it");
    let work = world.mm.leave_allocation(a, second, Some(first), true);
    world.run(work);
    assert_eq!(world.shown(1, there, 4), [None; 4]);
    assert_eq!(world.mm.cpu_address(space, a), None, "its last binding took the address with it");
}

#[test]
fn the_end_of_an_allocation_and_of_a_process_leave_nothing_behind() {
    // spec: memory §4.1, memory §6.2
    let mut world = world(1);
    let (space, device) = world.processes[0];
    let (a, at) = world.create(0, 6);
    let (b, _) = world.create(0, 2);
    let work = world.mm.make_resident(device, &[a, b]).expect("room");
    world.run(work);
    let work = world.mm.destroy_allocation(a, &[]);
    world.run(work);
    assert_eq!(world.shown(0, at, 6), [None; 6]);
    let (c, again) = world.create(0, 6);
    assert_eq!(again, at, "addresses are given out again");
    for id in [b, c] {
        let work = world.mm.destroy_allocation(id, &[]);
        world.run(work);
    }
    world.mm.destroy_device(device, &[]);
    let work = world.mm.destroy_space(space);
    world.run(work);
    assert!(world.machine.platform.is_empty(), "{:?}", world.machine.platform);
}

#[test]
fn an_address_can_be_taken_back_and_the_kernel_s_own_pages_have_theirs() {
    // spec: sync §1.5
    let mut world = world(1);
    let (space, device) = world.processes[0];
    let (a, at) = world.create(0, 2);
    assert_eq!(world.mm.take_cpu_address(space, a), None, "nothing was shown");
    assert_eq!(world.mm.cpu_address(space, a), None);
    let run = wddm_types::PageRun { first: 77, count: Pages(1) };
    let request = crate::MapRequest {
        target: crate::Target::SystemPages(run),
        size_pages: Pages(1),
        base: None,
        minimum: wddm_types::GpuVa::NULL,
        maximum: wddm_types::GpuVa::NULL,
        protection: crate::Protection::READ_WRITE,
    };
    let (va, work) = world.mm.map_gpu_va(space, request).expect("room");
    world.run(work);
    assert!(va.0 <= at.0, "the lowest free address");
    let shown_at = wddm_types::CpuVa(va.0);
    assert_eq!(world.shown(0, shown_at, 1), [Some((77, true))]);
    assert_eq!(world.mm.free_gpu_va(space, va, PAGE_BYTES), Err(MapError::Kernels));
    let work = world.mm.free_system_va(space, va, Pages(1));
    world.run(work);
    assert_eq!(world.shown(0, shown_at, 1), [None]);
    assert!(world.mm.make_resident(device, &[a]).is_ok(), "residency does not need an address");
}

#[test]
fn memory_of_the_gpu_s_own_is_not_behind_the_iommu() {
    // spec: memory §4.1
    let layout = [vram_descriptor(64, ddi::SegmentFlags::empty()), aperture_descriptor(64)];
    let error = VidMm::<u8>::with_cpu_addresses(policy(), &layout).expect_err("local memory");
    assert_eq!(error, SegmentError::MemoryBehindIoMmu(SegmentId(1)));
}
