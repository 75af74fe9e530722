//! A process dies with work of its own in flight: as soon as the hardware is idle, the kernel lends no page that it did not lend before, and no
//! other process has to make a call for that.

use std::sync::Arc;

use d3dkmt::{FenceFlags, NativeFenceRequest, SyncObjectAccess};
use dxgk_host::{Host, HostConfig, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::{Gpu, Stream, StreamConfig, SurfaceKind};
use wddm_types::{NodeId, PAGE_BYTES};

use stack::world::{MIB, VIRTUAL};

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

const LASTS: [(&str, Last); 5] = [
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
            host.check_invariants().expect("in order");
            drop((made, gpu));
        }
    }
}
