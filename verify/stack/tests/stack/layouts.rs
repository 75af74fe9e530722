//! Adapters of every layout through the whole stack: content moves where there is pressure and is never lost, whatever
//! segments the driver reports; and a segment that a driver hides stays hidden.

use std::sync::Arc;

use d3dkmt::{EvictFlags, FenceFlags, NativeFenceRequest};
use dxgk_host::{Host, HostConfig, HostError, Mode, PROFILES, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::{Gpu, Lane, SurfaceKind, pattern};
use wddm_types::NodeId;

use crate::stubborn::{Whims, wrapped};
use stack::world::{MIB, VIRTUAL};

/// A host with this profile in small.
fn host_of(name: &str, mode: Mode, vram_bytes: u64) -> Result<Arc<Host>, HostError> {
    let profile = Profile::named(name).expect("a built-in profile");
    Host::start(HostConfig {
        vram_bytes,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(profile, mode)
    })
}

/// Six surfaces of a mebibyte through `vram_bytes`, each checked by the GPU in every round.
fn exercise(host: &Arc<Host>, kind: SurfaceKind) {
    let link = ProcessLink::new(Arc::clone(host));
    let gpu = Gpu::open(link as Arc<dyn Link>).expect("the adapter opens");
    let mut lane = Lane::create(&gpu, NodeId(0)).expect("a lane");
    let report = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
    gpu.pin(&report).expect("room for it");
    let surfaces: Vec<_> = (0..6).map(|_| gpu.create_surface(kind, MIB).expect("a surface")).collect();
    for round in 0..3u64 {
        for (index, surface) in surfaces.iter().enumerate() {
            let seed = |round| pattern::seed(index as u64, round);
            gpu.pin(surface).expect("there is room");
            if round > 0 {
                lane.check(surface, seed(round - 1), &report, round << 8 | index as u64);
            }
            lane.pattern(surface, seed(round));
            let value = lane.submit(&gpu, None).expect("a submission");
            lane.wait(&gpu, value).expect("it completes");
            let handles = vec![surface.allocation().handle()];
            gpu.device().evict(handles, EvictFlags::EVICT_ONLY_IF_NECESSARY).expect("it is on the list");
        }
    }
    assert_eq!(report.lock().expect("system memory").read_word(0), 0, "content was lost");
}

#[test]
fn content_survives_pressure_in_every_layout() {
    // spec: memory §1.6, memory §4.3, memory §1.7, memory §5.6
    // seed: M02, M07, M19, M22
    for profile in PROFILES {
        for mode in [VIRTUAL, Mode::Real] {
            let host = host_of(profile.name, mode, 4 * MIB).unwrap_or_else(|e| panic!("{}: {e}", profile.name));
            exercise(&host, SurfaceKind::Local);
            exercise(&host, SurfaceKind::System);
        }
    }
}

#[test]
fn a_client_learns_what_the_segments_are() {
    // spec: memory §1.5, memory §5.5
    for profile in PROFILES {
        let host = host_of(profile.name, VIRTUAL, 4 * MIB).unwrap_or_else(|e| panic!("{}: {e}", profile.name));
        let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).expect("the adapter opens");
        let (told, known) = (gpu.adapter().info().expect("the adapter is there").segments, host.describe());
        assert_eq!(told.len(), known.segments.len(), "{}", profile.name);
        for (told, known) in told.iter().zip(&known.segments) {
            let all = (known.flags.bits(), known.commit_limit_bytes, known.local, known.capacity_bytes);
            assert_eq!((told.flags, told.commit_limit_bytes, told.local, told.size_bytes), all, "{}", profile.name);
            assert!(told.aperture == known.aperture && told.flags != 0);
        }
        // No other process is here: the whole group is this process's budget.
        for (local, bytes) in [true, false].into_iter().zip(known.budget_bytes) {
            let budget = gpu.adapter().video_memory_info(local).expect("the adapter is there").budget_bytes;
            assert_eq!(budget, bytes, "{}, local {local}", profile.name);
        }
    }
}

#[test]
fn the_paging_process_has_as_many_addresses_as_its_driver_wants() {
    // spec: memory §4.7
    let start = |paging_space_mb, vram_bytes| {
        let whims = Whims { paging_space_mb, ..Whims::default() };
        Host::start(HostConfig {
            vram_bytes,
            page_table_bytes: 16 * MIB,
            system_bytes: 128 * MIB,
            wrap_miniport: Some(wrapped(whims)),
            ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), VIRTUAL)
        })
    };
    let size = |megabytes| start(megabytes, 4 * MIB).expect("it starts").describe().reported.paging_space_bytes;
    assert_eq!([size(Some(64)), size(Some(0)), size(None)], [64 * MIB, 4096 * MIB, 4096 * MIB]);
    // The kernel maps words of fences there, and eight megabytes do not even hold its mappings at the start.
    let host = start(Some(40), 4 * MIB).expect("it starts");
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).expect("the adapter opens");
    // A shareable fence takes two pages there; the kernel's mappings at the start leave a tenth of 40 MiB.
    let shareable = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let request = NativeFenceRequest { flags: shareable, ..NativeFenceRequest::default() };
    let mut fences = Vec::new();
    let refused = loop {
        match gpu.device().create_native_fence(request) {
            Ok(fence) => fences.push(fence),
            Err(refused) => break refused,
        }
    };
    assert!((100..1_000).contains(&fences.len()), "{}", fences.len());
    assert!(refused.reason.contains("no free range"), "{}", refused.reason);
    assert_eq!(host.check_invariants(), Ok(()));
    assert!(start(Some(8), 4 * MIB).is_err());
}
