//! An adapter without GPU virtual addresses: all work, paging too, goes as packets with lists; the kernel refuses calls that need
//! addresses by name.

use std::sync::Arc;

use d3dkmt::{DeviceState, GpuVaReservation, MakeResidentFlags, Refusal, VirtualContext};
use dxgk_host::{Host, Mode, ProcessLink};
use events::Event;
use kmt_link::Link;
use softgpu_umd::{Gpu, PatchedStream, Surface, SurfaceKind};
use wddm_types::{NodeId, NtStatus};

use stack::heard::{Heard, heard_on};
use stack::world::{MIB, VIRTUAL};

const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];

/// The packets that were handed over.
fn host(mode: Mode) -> (Arc<Host>, Heard) {
    heard_on("wddm1-banks", mode, 4 * MIB, |event| {
        matches!(event, Event::PacketStarted { .. } | Event::PagingSubmitted { .. })
    })
}

fn open(host: &Arc<Host>) -> Gpu {
    Gpu::open(ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>).expect("the adapter opens")
}

fn pinned(gpu: &Gpu, kind: SurfaceKind, bytes: u64) -> Surface {
    let surface = gpu.create_surface(kind, bytes).expect("a surface");
    gpu.pin(&surface).expect("room for it");
    surface
}

#[test]
fn what_needs_addresses_is_refused_by_name() {
    // spec: memory §5.6, memory §9.3, sync §2.2
    let (host, _) = host(VIRTUAL);
    let gpu = open(&host);
    let (device, info) = (gpu.device(), gpu.adapter().info().unwrap());
    assert!(!info.gpu_virtual_addresses && info.wddm_3_1_caps.is_empty() && !info.user_mode_submission);
    let surface = gpu.create_surface(SurfaceKind::Local, 4096).unwrap();
    let refused = |what: &str, status: NtStatus, result: Result<(), Refusal>| {
        let refusal = result.expect_err(what);
        assert_eq!(refusal.status, status, "{what}: {refusal}");
    };
    let unsupported = NtStatus::NOT_SUPPORTED;
    refused("map", unsupported, gpu.paging().map(surface.allocation(), 1, true).map(drop));
    let reservation = GpuVaReservation { size_bytes: 65536, ..GpuVaReservation::default() };
    refused("reserve", unsupported, device.reserve_gpu_va(reservation).map(drop));
    refused("free", unsupported, device.free_gpu_va(wddm_types::GpuVa(65536), 65536));
    refused("a hardware context", unsupported, device.create_context(NodeId(0)).map(drop));
    refused("a native fence", unsupported, device.create_native_fence(Default::default()).map(drop));
    let no_addresses = VirtualContext::create(device, NodeId(0), Vec::new()).map(drop);
    refused("a context with addresses", NtStatus::INVALID_PARAMETER, no_addresses);
    assert_eq!(device.state().unwrap(), DeviceState::Active);
}

/// Paging buffers and buffers of clients share the paging node: paging comes first, no buffer starves, order is kept.
#[test]
fn paging_packets_and_packets_of_clients_share_a_node() {
    // spec: memory §1.11, memory §7.4
    // seed: M39
    for mode in [VIRTUAL, Mode::Real] {
        let (host, heard) = host(mode);
        let gpu = open(&host);
        let mut streams = NODES.map(|node| PatchedStream::create(&gpu, node).expect("a stream"));
        let report = pinned(&gpu, SurfaceKind::System, 4096);
        // Twice as much as fits.
        let surfaces: Vec<_> = (0..8).map(|_| gpu.create_surface(SurfaceKind::Local, MIB).unwrap()).collect();
        for round in 0..20u64 {
            for (index, surface) in surfaces.iter().enumerate() {
                // The client does not wait for the paging fence.
                let handles = vec![surface.allocation().handle()];
                gpu.paging().make_resident(handles.clone(), MakeResidentFlags::empty()).expect("room");
                let stream = &mut streams[index % 2];
                if round > 0 {
                    stream.check(surface, round * 8 + index as u64 - 8, &report, index as u64);
                }
                stream.pattern(surface, round * 8 + index as u64);
                stream.submit(&gpu).expect("a submission");
                gpu.device().evict(handles, d3dkmt::EvictFlags::EVICT_ONLY_IF_NECESSARY).unwrap();
            }
        }
        for stream in &mut streams {
            let last = stream.last_value();
            stream.wait(&gpu, last).expect("it completes");
        }
        assert_eq!(report.lock().unwrap().read_word(0), 0, "{mode:?}: content was lost");
        let paging = heard.count(|event| matches!(event, Event::PagingSubmitted { .. }));
        assert!(paging >= 20 * 8, "{mode:?}: {paging} paging buffers");
    }
}

/// A submission that names more than a list holds is split into several buffers, and completes once.
#[test]
fn a_submission_beyond_its_list_is_split() {
    // spec: memory §7.1, memory §7.3
    let (host, heard) = host(VIRTUAL);
    let gpu = open(&host);
    let mut stream = PatchedStream::create(&gpu, NodeId(0)).unwrap();
    let surfaces: Vec<_> = (0..600).map(|_| pinned(&gpu, SurfaceKind::Local, 4096)).collect();
    for (index, surface) in surfaces.iter().enumerate() {
        stream.pattern(surface, index as u64);
    }
    let parts = stream.parts();
    assert!(parts >= 3, "600 allocations, 256 entries of a list: {parts}");
    let value = stream.submit(&gpu).unwrap();
    stream.wait(&gpu, value).unwrap();
    let started = |heard: &Heard| heard.count(|event| matches!(event, Event::PacketStarted { .. }));
    assert_eq!(started(&heard), parts);
    let report = pinned(&gpu, SurfaceKind::System, 4096);
    for (index, surface) in surfaces.iter().enumerate() {
        stream.check(surface, index as u64, &report, index as u64);
    }
    let value = stream.submit(&gpu).unwrap();
    stream.wait(&gpu, value).unwrap();
    assert_eq!(report.lock().unwrap().read_word(0), 0);
    // Far more buffers than a context may have queued at once: the rest waits for the first.
    for surface in surfaces.iter().cycle().take(20_000) {
        stream.touch(surface, true);
    }
    assert!(stream.parts() > 64);
    let value = stream.submit(&gpu).unwrap();
    stream.wait(&gpu, value).unwrap();
}
