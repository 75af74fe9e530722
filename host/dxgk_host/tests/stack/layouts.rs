//! Adapters of every layout through the whole stack: content moves where there is pressure and is never lost, whatever
//! segments the driver reports; and what a driver hides stays hidden.

use std::sync::Arc;

use d3dkmt::EvictFlags;
use dxgk_host::{Host, HostConfig, HostError, Mode, PROFILES, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_umd::{Gpu, Lane, SurfaceKind, pattern};
use wddm_types::NodeId;

use crate::world::{MIB, VIRTUAL};

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
