//! Content that crosses from GPU to GPU: a section of system memory, in which a cross-adapter allocation of each adapter lies.
//! The engines copy; the pages go behind the last allocation, whichever adapter it is of.

use std::sync::Arc;

use d3dkmt::{
    Allocation, AllocationRequest, CreateAllocationFlags, MakeResidentFlags, Refusal, Residency, Resource,
    ResourceRequest, Section,
};
use ddi::PowerState;
use softgpu_umd::{Lane, SurfaceKind};
use wddm_types::{GpuVa, NtStatus, PAGE_BYTES};

use super::*;
use stack::world::VIRTUAL;

const BYTES: u64 = 16 * PAGE_BYTES;
const PLAIN: CreateAllocationFlags = CreateAllocationFlags::CREATE_RESOURCE
    .union(CreateAllocationFlags::CREATE_SHARED)
    .union(CreateAllocationFlags::EXISTING_SECTION);
const STAGING: CreateAllocationFlags =
    PLAIN.union(CreateAllocationFlags::CROSS_ADAPTER).union(CreateAllocationFlags::STANDARD_ALLOCATION);

/// Two adapters, and a process with a device on each.
struct Pair {
    world: World,
    link: Arc<ProcessLink>,
    gpus: [Gpu; 2],
}

impl Pair {
    fn new(profiles: [&str; 2]) -> Pair {
        Pair::of(World::new(VIRTUAL, &profiles))
    }

    fn of(world: World) -> Pair {
        let link = ProcessLink::new(Arc::clone(&world.host));
        let gpus = [0, 1].map(|adapter| gpu_on(&world.host, &link, adapter));
        Pair { world, link, gpus }
    }

    fn section(&self) -> Section {
        Section::create(self.gpus[0].adapter(), BYTES).expect("a section")
    }

    /// Takes all free pages of the first adapter's share.
    fn everything_free(&self) -> Vec<Section> {
        std::iter::from_fn(|| Section::create(self.gpus[0].adapter(), BYTES).ok()).collect()
    }

    /// Free system pages of the first adapter's share, as the state tells of them: equal when as many are free.
    fn pages_at_rest(&self) -> dxgk_host::StateDigest {
        self.world.drain();
        // The next turn of each adapter frees the objects that the paging ring has got past.
        for gpu in &self.gpus {
            let _ = gpu.device().create_monitored_fence(FenceFlags::empty(), 0);
        }
        self.world.drain();
        self.world.host.check_invariants().unwrap();
        self.world.host.state_digest()
    }

    /// Whether every system page is free that was then, and no section is there that was not.
    fn as_before(&self, before: &dxgk_host::StateDigest) -> bool {
        let differences = before.differences(&self.pages_at_rest());
        !differences.iter().any(|line| line.contains("system pages") || line.contains("section"))
    }
}

/// An allocation of a GPU over part of a section.
fn over(
    gpu: &Gpu,
    section: &Section,
    (offset, bytes): (u64, u64),
    flags: CreateAllocationFlags,
) -> Result<Resource, Refusal> {
    let request = AllocationRequest { existing: Some(section.range(offset, bytes)), ..AllocationRequest::default() };
    Resource::create(gpu.device(), vec![request], ResourceRequest { flags, ..ResourceRequest::default() })
}

fn staging(gpu: &Gpu, section: &Section) -> Resource {
    over(gpu, section, (0, BYTES), STAGING).expect("a staging allocation")
}

/// Where a GPU sees an allocation that is resident for good.
fn seen(gpu: &Gpu, allocation: &Allocation) -> GpuVa {
    let (va, mapped_at) = match allocation.address() {
        address if !address.is_null() => (address.for_gpu(), 0),
        _ => gpu.paging().map(allocation, BYTES / PAGE_BYTES, true).expect("addresses"),
    };
    let value = match gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).expect("room") {
        Residency::Resident => mapped_at,
        Residency::Pending { paging_fence_value, .. } => paging_fence_value.max(mapped_at),
    };
    gpu.device().wait(&[(gpu.paging().fence(), value)]).expect("it comes");
    va
}

/// Has an engine of a GPU carry out commands.
fn run(gpu: &Gpu, build: impl FnOnce(&mut Commands)) {
    let mut lane = Lane::create(gpu, NODE).expect("a lane");
    match &mut lane {
        Lane::Addressed(_, commands) | Lane::KernelFed(_, commands) => build(commands),
        Lane::Patched(_) => panic!("it has addresses"),
    }
    let value = lane.submit(gpu, None).expect("a submission");
    lane.wait(gpu, value).expect("it completes");
}

#[test]
fn what_one_gpu_copies_there_another_reads() {
    // spec: memory §2.2 bit 4, memory §2.7
    for profiles in [
        ["discrete-4k", "integrated"],
        ["iommu", "discrete-64k"],
        ["small-bar", "iommu-packets"],
        ["compute-only", "tables-by-cpu"],
        ["leaves-64k", "wddm2-packets"],
        ["two-memories", "noncoherent"],
    ] {
        let pair = Pair::new(profiles);
        let section = pair.section();
        let shown = [0, 1].map(|adapter| staging(&pair.gpus[adapter], &section));
        for (from, to, seed) in [(0, 1, 7), (1, 0, 8)] {
            let [source, target] = [from, to].map(|adapter: usize| &pair.gpus[adapter]);
            let across = seen(source, &shown[from].allocations()[0]);
            let own = source.create_surface(SurfaceKind::Local, BYTES).expect("a surface");
            source.pin(&own).expect("room");
            run(source, |commands| {
                commands.pattern(own.va(), BYTES, seed).copy(own.va(), across, BYTES);
            });
            let across = seen(target, &shown[to].allocations()[0]);
            let [own, report] = [SurfaceKind::Local, SurfaceKind::System].map(|kind| {
                let surface = target.create_surface(kind, BYTES).expect("a surface");
                target.pin(&surface).expect("room");
                surface
            });
            run(target, |commands| {
                commands.copy(across, own.va(), BYTES).check(own.va(), BYTES, seed, report.va(), 1);
            });
            assert_eq!(report.lock().unwrap().read_word(0), 0, "{profiles:?}: every byte came across");
        }
        pair.world.host.check_invariants().unwrap();
    }
}

#[test]
fn who_does_not_go_across_finds_no_section_of_another_adapter() {
    // spec: memory §2.7, memory §1.14 bit 4
    let pair = Pair::of(World::new(VIRTUAL, &["discrete-4k", "integrated", "wddm1-banks"]));
    let old = gpu_on(&pair.world.host, &pair.link, 2);
    let (section, other) = (pair.section(), ProcessLink::new(Arc::clone(&pair.world.host)));
    let stranger = gpu_on(&pair.world.host, &other, 1);
    pair.world.drain();
    let before = pair.world.host.state_digest();
    let whole = (0, BYTES);
    for (gpu, range, flags, reason) in [
        (&pair.gpus[1], whole, PLAIN, "another adapter"),
        (&old, whole, STAGING, "CrossAdapterResource"),
        (&stranger, whole, STAGING, "section of this process"),
        (&pair.gpus[1], (0, 0), STAGING, "pages of its section"),
        (&pair.gpus[1], (1, PAGE_BYTES), STAGING, "pages of its section"),
        (&pair.gpus[1], (0, PAGE_BYTES + 1), STAGING, "pages of its section"),
        (&pair.gpus[1], (PAGE_BYTES, BYTES), STAGING, "pages of its section"),
        (&pair.gpus[1], (u64::MAX - 4095, PAGE_BYTES), STAGING, "pages of its section"),
    ] {
        let refusal = over(gpu, &section, range, flags).err().expect(reason);
        assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER, "{refusal}");
        assert!(refusal.reason.contains(reason), "{refusal}");
        assert_eq!(before.differences(&pair.world.host.state_digest()), Vec::<String>::new());
    }
    staging(&pair.gpus[1], &section);
}

#[test]
fn the_pages_go_behind_the_last_of_all_adapters() {
    // spec: memory §2.2 bit 4, memory §6.2
    let pair = Pair::new(["discrete-4k", "integrated"]);
    let before = pair.pages_at_rest();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let section = pair.section();
        let [first, second] = [0, 1].map(|adapter| staging(&pair.gpus[adapter], &section));
        let mut section = Some(section);
        let mut shown = [Some(first), Some(second)];
        for (nth, at) in order.into_iter().enumerate() {
            match at {
                0 => drop(section.take()),
                at => drop(shown[at - 1].take()),
            }
            assert_eq!(pair.as_before(&before), nth == 2, "{order:?}, {nth}");
        }
    }
}

#[test]
fn an_allocation_that_its_gpu_still_works_on_keeps_the_pages() {
    // spec: memory §6.2
    let pair = Pair::new(["discrete-4k", "integrated"]);
    let gpu = &pair.gpus[1];
    let before = pair.pages_at_rest();
    let gate = gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let section = pair.section();
    let shown = staging(gpu, &section);
    let va = seen(gpu, &shown.allocations()[0]);
    let mut stream = Stream::create(gpu, NODE, StreamConfig::default()).expect("a stream");
    let mut commands = Commands::new();
    commands.wait(&gate, 1).fill(va, BYTES, 5);
    let done = stream.submit(gpu, &[], &commands).expect("a submission");
    drop((section, shown));
    assert!(!pair.as_before(&before), "the engine is to write there");
    gpu.device().signal(&gate, 1).unwrap();
    stream.wait(gpu, done).unwrap();
    drop((stream, gate));
    assert!(pair.as_before(&before));
}

#[test]
fn a_process_that_dies_leaves_it_on_every_adapter_and_others_keep_it() {
    // spec: memory §2.7
    let pair = Pair::new(["integrated", "iommu"]);
    let before = pair.pages_at_rest();
    for kept in [false, true] {
        let link = ProcessLink::new(Arc::clone(&pair.world.host));
        let gpus = [0, 1].map(|adapter| gpu_on(&pair.world.host, &link, adapter));
        let section = Section::create(gpus[0].adapter(), BYTES).expect("a section");
        section.bytes().write(8, &77u64.to_le_bytes());
        let shown = [0, 1].map(|adapter| staging(&gpus[adapter], &section));
        let held = kept.then(|| Resource::open(pair.gpus[1].device(), shown[1].global_share()).expect("it is shared"));
        pair.world.host.process_died(link.process());
        assert_eq!(pair.as_before(&before), !kept);
        if let Some(held) = held {
            let va = seen(&pair.gpus[1], &held.allocations()[0]);
            let own = pair.gpus[1].create_surface(SurfaceKind::System, 4096).expect("a surface");
            pair.gpus[1].pin(&own).expect("room");
            run(&pair.gpus[1], |commands| {
                commands.copy(va, own.va(), 64);
            });
            assert_eq!(own.lock().unwrap().read_word(8), 77, "the content outlives its maker");
        }
        assert!(pair.as_before(&before));
    }
}

#[test]
fn an_adapter_that_goes_takes_no_pages_of_others_along() {
    // spec: memory §8.4, memory §8.6
    for gone in [0, 1] {
        let pair = Pair::new(["discrete-4k", "integrated"]);
        let section = pair.section();
        let shown = [0, 1].map(|adapter| staging(&pair.gpus[adapter], &section));
        pair.world.host.adapter(gone).stop().expect("it stops");
        let stays = 1 - gone;
        let va = seen(&pair.gpus[stays], &shown[stays].allocations()[0]);
        run(&pair.gpus[stays], |commands| {
            commands.fill(va, BYTES, 9);
        });
        assert_eq!(section.bytes().read_word(BYTES - 8), 9 << 32 | 9);
        let refusal = over(&pair.gpus[gone], &section, (0, BYTES), STAGING).err().expect("it has gone");
        assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED);
        drop((shown, section));
        pair.world.drain();
        pair.world.host.check_invariants().unwrap();
    }
}

#[test]
fn the_sleep_of_one_adapter_costs_the_other_nothing() {
    // spec: memory §1.10
    let pair = Pair::new(["discrete-4k", "integrated"]);
    let before = pair.pages_at_rest();
    let section = pair.section();
    let shown = [0, 1].map(|adapter| staging(&pair.gpus[adapter], &section));
    let [first, second] = [0, 1].map(|adapter: usize| seen(&pair.gpus[adapter], &shown[adapter].allocations()[0]));
    let sleeper = pair.world.host.adapter(0);
    sleeper.power_transition(PowerState::Standby).expect("it falls asleep");
    run(&pair.gpus[1], |commands| {
        commands.fill(second, BYTES, 3);
    });
    sleeper.power_transition(PowerState::On).expect("it wakes");
    run(&pair.gpus[0], |commands| {
        commands.copy(first, first.offset(BYTES / 2), 64);
    });
    assert_eq!(section.bytes().read_word(BYTES / 2), 3 << 32 | 3);
    drop((shown, section));
    assert!(pair.as_before(&before));
}

#[test]
fn the_caches_forget_pages_that_the_last_adapter_leaves() {
    // spec: memory §6.7
    let pair = Pair::new(["noncoherent", "integrated"]);
    let before = pair.pages_at_rest();
    let section = pair.section();
    let shown = staging(&pair.gpus[1], &section);
    section.bytes().write(0, &77u64.to_le_bytes());
    drop(section);
    drop(shown);
    assert!(pair.as_before(&before));
    let next = pair.section();
    assert_eq!(next.bytes().read_word(0), 0, "a line of the pages' last content would show it");
}

#[test]
fn no_process_gets_pages_that_the_hardware_of_a_lost_adapter_still_writes() {
    // spec: memory §6.2, memory §8.6, sync §3.10
    for queue_goes_first in [false, true] {
        let pair = Pair::of(World::with(VIRTUAL, &["discrete-4k", "integrated"], |index, whims| {
            let value = |step: &FenceStep| matches!(step, FenceStep::Current(..));
            whims.fail_fence_update = Box::new(move |step| index == 1 && value(step));
        }));
        let free = pair.everything_free().len();
        let broken = &pair.gpus[1];
        let section = pair.section();
        let shown = staging(broken, &section);
        let va = seen(broken, &shown.allocations()[0]);
        let mut stream = Stream::create(broken, NODE, StreamConfig::default()).expect("a stream");
        let fence = native(broken.device(), FenceFlags::empty());
        // It has something to do first, so that it comes there late.
        let own = broken.create_surface(SurfaceKind::System, 8 * MIB).expect("a surface");
        broken.pin(&own).expect("room");
        let mut commands = Commands::new();
        commands.fill(own.va(), 8 * MIB, 1).fill(va, BYTES, 5);
        stream.submit(broken, &[], &commands).expect("a submission");
        let _ = broken.device().signal(&fence, 1);
        assert!(pair.world.host.adapter(1).stopped().is_some());
        assert_eq!(section.bytes().read_word(0), 0, "the engine has not come so far");
        let mut stream = Some(stream);
        if queue_goes_first {
            drop(stream.take());
        }
        drop((shown, section));
        let others = pair.everything_free();
        pair.world.drain();
        others.iter().for_each(|page| assert_eq!(page.bytes().read_word(0), 0, "it is another's by now"));
        drop((others, stream, own, fence));
        pair.pages_at_rest();
        assert_eq!(pair.everything_free().len(), free, "and they come back, queue first: {queue_goes_first}");
    }
}
