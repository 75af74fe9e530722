//! Adapters of every layout through the whole stack: content moves where there is pressure and is never lost, whatever
//! segments the driver reports; and what a driver hides stays hidden.

use std::sync::Arc;

use d3dkmt::{EvictFlags, MakeResidentFlags, Residency};
use dxgk_host::{Host, HostConfig, HostError, Mode, PROFILES, Profile};
use softgpu_umd::{SurfaceKind, pattern};

use crate::world::{Client, MIB, VIRTUAL, client};

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

fn arrive(client: &Client, handle: wddm_types::RawHandle) {
    let pending = client.gpu.paging().make_resident(vec![handle], MakeResidentFlags::empty()).expect("there is room");
    if let Residency::Pending { paging_fence_value } = pending {
        client.gpu.device().wait(&[(client.gpu.paging().fence(), paging_fence_value)]).expect("it comes");
    }
}

/// Six surfaces of a mebibyte through `vram_bytes`, each checked by the GPU in every round.
fn exercise(host: &Arc<Host>, kind: SurfaceKind) {
    let mut client = client(host);
    let report = client.pinned(SurfaceKind::System, 4096);
    let surfaces: Vec<_> = (0..6).map(|_| client.gpu.create_surface(kind, MIB).expect("a surface")).collect();
    for round in 0..3u64 {
        for (index, surface) in surfaces.iter().enumerate() {
            let seed = |round| pattern::seed(index as u64, round);
            arrive(&client, surface.allocation().handle());
            client.run(|commands| {
                if round > 0 {
                    commands.check(surface.va(), MIB, seed(round - 1), report.va(), round << 8 | index as u64);
                }
                commands.pattern(surface.va(), MIB, seed(round));
            });
            let handles = vec![surface.allocation().handle()];
            client.gpu.device().evict(handles, EvictFlags::EVICT_ONLY_IF_NECESSARY).expect("it is on the list");
        }
    }
    assert_eq!(report.lock().expect("system memory").read_word(0), 0, "content was lost");
}

#[test]
fn content_survives_pressure_in_every_layout() {
    // spec: memory §1.6, memory §4.3, memory §1.7
    // seed: M02, M07, M19, M22
    for profile in PROFILES.iter().filter(|profile| profile.driver.driver_model == ddi::DriverModel::Wddm2) {
        for mode in [VIRTUAL, Mode::Real] {
            let host = host_of(profile.name, mode, 4 * MIB).unwrap_or_else(|e| panic!("{}: {e}", profile.name));
            exercise(&host, SurfaceKind::Local);
            exercise(&host, SurfaceKind::System);
        }
    }
}

#[test]
fn a_driver_of_the_first_generation_starts_as_far_as_its_engines_are_built() {
    // spec: memory §10.1
    match host_of("wddm1-banks", VIRTUAL, 4 * MIB) {
        Ok(host) => drop(host),
        Err(error) => assert!(error.to_string().contains("not supported"), "{error}"),
    }
}
