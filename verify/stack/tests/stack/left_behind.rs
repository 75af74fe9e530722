//! A process dies with work of its own in flight, or the last name of what it made ends: as soon as the hardware is idle, the kernel lends no
//! page that it did not lend before and has nothing left to do, and no other process has to make a call for that.

use std::sync::Arc;

use d3dkmt::{
    AllocationRequest, CreateAllocationFlags, DestroyFlags, FenceFlags, MakeResidentFlags, NativeFenceRequest,
    Residency, Resource, ResourceRequest, ShareName, SyncObjectAccess,
};
use dxgk_host::{Host, HostConfig, ProcessLink, Profile};
use kmt_calls::{Call, Reply, ShareCall};
use kmt_link::Link;
use softgpu_spec::private_data::{self, Kind};
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, SurfaceKind};
use wddm_types::{NodeId, PAGE_BYTES};

use stack::world::{MIB, VIRTUAL, client};

fn host(profile: &str) -> Arc<Host> {
    let profile = Profile::named(profile).expect("a built-in profile");
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        isolates_processes: true,
        ..HostConfig::new(profile, VIRTUAL)
    };
    Host::start(config).expect("the host starts")
}

/// Pages of system memory that some process may map.
fn lent(host: &Host) -> usize {
    let system = host.system_memory();
    (0..system.bytes()).step_by(PAGE_BYTES as usize).filter(|page| system.lent_at(*page).is_some()).count()
}

/// A process's last act before it dies; the process never destroys the objects that this makes.
type Last = fn(&Gpu) -> Box<dyn std::any::Any>;

fn fences(gpu: &Gpu, flags: FenceFlags, count: usize) -> Vec<d3dkmt::Fence> {
    let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
    (0..count).map(|_| gpu.device().create_native_fence(request).expect("a fence")).collect()
}

/// Resources that go by NT handle, mapped, and resident where the adapter has addresses; and their names.
fn named(gpu: &Gpu, count: usize) -> Vec<(Resource, ShareName)> {
    let flags = CreateAllocationFlags::CREATE_RESOURCE
        | CreateAllocationFlags::CREATE_SHARED
        | CreateAllocationFlags::NT_SECURITY_SHARING;
    let wanted = private_data::AllocationRequest {
        kind: Kind::LocalThenSystem,
        cpu_visible: false,
        cached: false,
        accessed_physically: false,
        size_bytes: MIB,
    };
    let made = |_| {
        let request = AllocationRequest { private_data: wanted.encode().to_vec(), ..AllocationRequest::default() };
        let resource = ResourceRequest { flags, ..ResourceRequest::default() };
        let resource = Resource::create(gpu.device(), vec![request], resource).expect("a resource");
        let allocation = &resource.allocations()[0];
        let (_, mapped_at) = gpu.paging().map(allocation, MIB / PAGE_BYTES, true).expect("addresses");
        let resident = gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty());
        let value = match resident.expect("room for it") {
            Residency::Resident => mapped_at,
            Residency::Pending { paging_fence_value, .. } => paging_fence_value.max(mapped_at),
        };
        gpu.device().wait(&[(gpu.paging().fence(), value)]).expect("it gets there");
        let name = resource.share().expect("an NT handle");
        (resource, name)
    };
    (0..count).map(made).collect()
}

const LASTS: [(&str, Last); 6] = [
    ("it has resources by NT handle in the segment", |gpu| Box::new(named(gpu, 4))),
    ("it has opened the adapter", |_| Box::new(())),
    ("it floods the kernel with fences", |gpu| Box::new(fences(gpu, FenceFlags::empty(), 600))),
    ("it floods the kernel with fences that it has shared", |gpu| {
        let fences = fences(gpu, FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING, 40);
        let shared: Vec<_> =
            fences.iter().map(|fence| fence.share(SyncObjectAccess::ALL_ACCESS).expect("a name")).collect();
        Box::new((fences, shared))
    }),
    ("it has memory on its way to the segment", |gpu| {
        let surfaces: Vec<_> = (0..4)
            .map(|_| {
                let surface = gpu.create_surface(SurfaceKind::LocalThenSystem, MIB).expect("a surface");
                gpu.pin(&surface).expect("room for it");
                surface
            })
            .collect();
        Box::new(surfaces)
    }),
    ("it feeds a queue itself", |gpu| {
        Box::new(Stream::create(gpu, NodeId(0), StreamConfig::default()).expect("a stream"))
    }),
];

#[test]
fn a_process_that_dies_leaves_no_page_lent() {
    // spec: sync §3.4 (process exit), sync §1.5
    for profile in ["discrete-4k", "by-address", "intra-gpu-fences"] {
        for (what, last) in LASTS {
            let host = host(profile);
            let before = lent(&host);
            let link = ProcessLink::new(Arc::clone(&host));
            let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
            let made = last(&gpu);
            assert!(lent(&host) > before, "{profile}: {what}");
            host.process_died(link.process());
            while host.step() {}
            assert_eq!(lent(&host), before, "{profile}: {what}, and dies");
            host.check_nothing_left().unwrap_or_else(|left| panic!("{profile}: {what}, and dies: {left}"));
            host.check_invariants().expect("in order");
            drop((made, gpu));
        }
    }
}

#[test]
fn with_the_last_name_goes_what_a_process_that_died_has_made() {
    // spec: memory §2.7, sync §2.2
    for profile in ["discrete-4k", "by-address"] {
        let host = host(profile);
        let [maker, keeper] = [(); 2].map(|()| ProcessLink::new(Arc::clone(&host)));
        let gpu = Gpu::open(Arc::clone(&maker) as Arc<dyn Link>).expect("the adapter opens");
        let made = named(&gpu, 4);
        let kept = made.iter().map(|(_, name)| {
            let ShareName::NtHandle(handle) = *name else { panic!("an NT handle") };
            match keeper.call(Call::Share(ShareCall::TakeNtHandle { handle })) {
                Ok(Reply::NtHandle(handle)) => handle,
                other => panic!("{other:?}"),
            }
        });
        let kept: Vec<u64> = kept.collect();
        host.process_died(maker.process());
        while host.step() {}
        host.check_nothing_left().unwrap_or_else(|left| panic!("{profile}: {left}"));
        for handle in kept {
            keeper.call(Call::Share(ShareCall::CloseNtHandle { handle })).expect("it is the keeper's");
            while host.step() {}
            host.check_nothing_left().unwrap_or_else(|left| panic!("{profile}, a name less: {left}"));
        }
        host.check_invariants().expect("in order");
        drop((made, gpu));
    }
}

#[test]
fn a_death_has_the_kernel_hear_of_the_destructions_of_others_too() {
    // spec: memory §6.2
    let host = host("discrete-4k");
    let mut lives = client(&host);
    let surface = lives.gpu.create_surface(SurfaceKind::LocalThenSystem, MIB).expect("a surface");
    lives.gpu.pin(&surface).expect("room for it");
    let dies = ProcessLink::new(Arc::clone(&host));
    let gpu = Gpu::open(Arc::clone(&dies) as Arc<dyn Link>).expect("the adapter opens");
    let mut commands = Commands::new();
    commands.work(50_000_000).touch(surface.va(), MIB, true);
    lives.stream.submit(&lives.gpu, &[], &commands).expect("a submission");
    // It is used until the GPU has done that, and its process makes no other call.
    surface.allocation().destroy(DestroyFlags::empty()).expect("it is there");
    host.process_died(dies.process());
    while host.step() {}
    host.check_nothing_left().unwrap_or_else(|left| panic!("{left}"));
    drop(gpu);
}
