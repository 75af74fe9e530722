//! Sleep and waking through the whole stack: memory really loses the content that its segment does not keep, and no allocation loses any.

use std::sync::{Arc, Mutex};

use d3dkmt::{DestroyFlags, EvictFlags, MakeResidentFlags, Residency};
use ddi::{PowerState, SegmentFlags as F};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use events::{Cause, Event, Move, Tracer};
use softgpu_umd::{Gpu, Lane, Stage, Surface, SurfaceKind, pattern};
use wddm_types::{NodeId, NtStatus};

use stack::world::{Client, MIB, VIRTUAL, client};

/// Bytes moved because of power: out of memory.
#[derive(Clone, Default)]
struct Moves(Arc<Mutex<u64>>);

impl Tracer for Moves {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        if let Event::Moved { bytes, how: Move::PageOut, why: Cause::Power, .. } = event {
            *self.0.lock().unwrap() += bytes;
        }
    }
}

fn host_keeping(mode: Mode, name: &str, preserved: F) -> (Arc<Host>, Moves) {
    let mut profile = *Profile::named(name).expect("a built-in profile");
    profile.driver.preserved = preserved;
    let moves = Moves::default();
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 8 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(moves.clone()),
        ..HostConfig::new(&profile, mode)
    };
    (Host::start(config).expect("the host starts"), moves)
}

/// Waits until a surface is there and on the list.
fn arrive(client: &Client, surface: &Surface) {
    let handles = vec![surface.allocation().handle()];
    let made = client.gpu.paging().make_resident(handles, MakeResidentFlags::empty()).expect("there is room");
    if let Residency::Pending { paging_fence_value, .. } = made {
        client.gpu.device().wait(&[(client.gpu.paging().fence(), paging_fence_value)]).expect("it comes");
    }
}

/// Content of four surfaces, on the list and off it, through a sleep.
fn sleep_and_compare(mode: Mode, name: &str, preserved: F, state: PowerState) -> u64 {
    let (host, moves) = host_keeping(mode, name, preserved);
    let mut client = client(&host);
    let report = client.pinned(SurfaceKind::System, 4096);
    let surfaces: Vec<_> =
        (0..4).map(|_| client.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface")).collect();
    for (index, surface) in surfaces.iter().enumerate() {
        arrive(&client, surface);
        client.run(|commands| {
            commands.pattern(surface.va(), MIB, pattern::seed(index as u64, 7));
        });
    }
    let off = vec![surfaces[3].allocation().handle()];
    client.gpu.device().evict(off, EvictFlags::EVICT_ONLY_IF_NECESSARY).expect("it is on the list");
    for _ in 0..2 {
        host.power_transition(state).expect("it falls asleep");
        let refused = client.gpu.device().evict(vec![surfaces[0].allocation().handle()], EvictFlags::empty());
        assert_eq!(refused.expect_err("it sleeps").status, NtStatus::RETRY);
        assert!(host.power_transition(state).is_err(), "it sleeps already");
        host.power_transition(PowerState::On).expect("it wakes");
        assert!(host.power_transition(PowerState::On).is_err(), "it is awake");
        arrive(&client, &surfaces[3]);
        for (index, surface) in surfaces.iter().enumerate() {
            let seed = pattern::seed(index as u64, 7);
            client.run(|commands| {
                commands.check(surface.va(), MIB, seed, report.va(), index as u64);
            });
        }
        assert_eq!(report.lock().expect("system memory").read_word(0), 0, "content was lost");
    }
    *moves.0.lock().unwrap()
}

#[test]
fn content_survives_whatever_its_segment_keeps() {
    // spec: memory §1.10, memory §8.4
    // seed: M12, M13
    let (standby, whole) = (F::PRESERVED_DURING_STANDBY, F::PRESERVED_DURING_HIBERNATE);
    for mode in [VIRTUAL, Mode::Real] {
        for (preserved, state, saved) in [
            (F::empty(), PowerState::Standby, true),
            (standby, PowerState::Standby, false),
            (standby, PowerState::Hibernate, true),
            (standby | whole, PowerState::Hibernate, false),
        ] {
            let bytes = sleep_and_compare(mode, "discrete-4k", preserved, state);
            assert_eq!(bytes > 0, saved, "{preserved:?} {state:?}: {bytes} bytes were copied out");
            if saved {
                // The first sleep saves all content; the second saves content that came back in between, unless it is clean.
                assert!(bytes >= 4 * MIB, "{bytes}");
            }
        }
    }
}

#[test]
fn every_layout_wakes_again() {
    // spec: memory §1.10, memory §4.7
    for name in ["discrete-64k", "integrated", "two-memories", "compute-only"] {
        sleep_and_compare(VIRTUAL, name, F::empty(), PowerState::Hibernate);
    }
}

#[test]
fn of_a_segment_that_is_kept_in_part_the_rest_is_saved() {
    // spec: memory §1.10, memory §10.2
    let partly = F::PRESERVED_DURING_STANDBY | F::PARTIALLY_PRESERVED_DURING_HIBERNATE;
    assert_eq!(sleep_and_compare(VIRTUAL, "discrete-4k", partly, PowerState::Standby), 0);
    // The first half of 16 MiB survives, and the surfaces lie there: nothing is to be saved.
    assert_eq!(sleep_and_compare(VIRTUAL, "discrete-4k", partly, PowerState::Hibernate), 0);
}

#[test]
fn a_stopped_adapter_has_emptied_its_memory_and_leaves_its_processes_only_destruction() {
    // spec: memory §8.4, memory §8.6, memory §9.3
    for mode in [VIRTUAL, Mode::Real] {
        let (host, moves) = host_keeping(mode, "discrete-4k", F::PRESERVED_DURING_STANDBY);
        let mut client = client(&host);
        let surface = client.gpu.create_lockable_surface(SurfaceKind::Local, MIB, false).expect("a surface");
        arrive(&client, &surface);
        client.run(|commands| {
            commands.fill(surface.va(), MIB, 7);
        });
        let lock = surface.lock().expect("behind the BAR");
        assert_eq!(lock.read_word(0), 7 << 32 | 7);
        let other = stack::world::client(&host);
        let unused = client.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
        host.stop_adapter().expect("it stops");
        assert!(*moves.0.lock().unwrap() >= MIB, "the kernel copied the GPU's writes out, whatever survives a standby");
        assert_eq!(client.gpu.device().state().expect("a state"), d3dkmt::DeviceState::Stopped);
        let handles = vec![surface.allocation().handle()];
        let refused = client.gpu.paging().make_resident(handles, MakeResidentFlags::empty());
        assert_eq!(refused.expect_err("it is removed").status, NtStatus::DEVICE_REMOVED);
        assert_eq!(surface.allocation().lock().map(drop).expect_err("removed").status, NtStatus::DEVICE_REMOVED);
        assert_eq!(host.stop_adapter().expect_err("once").status, NtStatus::DEVICE_REMOVED);
        assert_eq!(host.power_transition(PowerState::Standby).expect_err("gone").status, NtStatus::DEVICE_REMOVED);
        unused.allocation().destroy(DestroyFlags::SYNCHRONOUS_DESTROY).expect("nothing is left to be waited for");
        drop(lock);
        drop(surface);
        drop(client);
        let engines = || host.device_register(softgpu_spec::register::ENGINE_ENABLE);
        assert_ne!(engines(), 0, "a process still has objects there");
        drop(other);
        assert_eq!(engines(), 0, "behind the last one the driver stops");
        // The same computer starts another.
        let (again, _) = host_keeping(mode, "discrete-4k", F::empty());
        let mut client = stack::world::client(&again);
        let target = client.pinned(SurfaceKind::System, 4096);
        client.run(|commands| {
            commands.fill(target.va(), 8, 3);
        });
        assert_eq!(target.lock().unwrap().read_word(0), 3 << 32 | 3);
    }
}

#[test]
fn what_is_pinned_leaves_when_the_adapter_stops() {
    // spec: memory §8.4, memory §2.2
    let (host, moves) = host_keeping(VIRTUAL, "discrete-4k", F::empty());
    let client = client(&host);
    let request = softgpu_spec::private_data::AllocationRequest {
        kind: SurfaceKind::Local,
        cpu_visible: false,
        cached: false,
        accessed_physically: true,
        size_bytes: MIB,
    };
    // 1 << 8: Overlay.
    let details = softgpu_spec::private_data::Details { flags: 1 << 8, ..Default::default() };
    let overlay = client.gpu.device().create_allocation(request.encode_with(&details).to_vec()).expect("an overlay");
    let made = client.gpu.paging().make_resident(vec![overlay.handle()], MakeResidentFlags::empty()).expect("room");
    if let Residency::Pending { paging_fence_value, .. } = made {
        client.gpu.device().wait(&[(client.gpu.paging().fence(), paging_fence_value)]).expect("it comes");
    }
    let off = vec![overlay.handle()];
    client.gpu.device().evict(off, EvictFlags::empty()).expect("it is on the list");
    assert_eq!(*moves.0.lock().unwrap(), 0, "pinned, it stays");
    host.stop_adapter().expect("it stops");
    assert_eq!(*moves.0.lock().unwrap(), MIB);
}

/// Where nothing has to be brought back no interrupt tells that one has gone on: the next does all the same.
#[test]
fn all_devices_go_on_behind_a_sleep_though_nothing_moves_for_them() {
    // spec: memory §8.4, memory §8.6
    let profile = Profile::named("iommu").expect("a built-in profile");
    let host = Host::start(HostConfig::new(profile, VIRTUAL)).expect("the host starts");
    let worker = |_| {
        let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host))).expect("the host has an adapter");
        let surface = gpu.create_surface(SurfaceKind::Local, MIB).expect("there is room");
        gpu.pin(&surface).expect("there is room");
        let mut lane = Lane::create_at(&gpu, NodeId(0), Stage::Hardware).expect("it has hardware queues");
        for _ in 0..50 {
            lane.fill(&surface, 0, MIB, 1);
        }
        let done = lane.submit(&gpu, None).expect("there is room");
        (lane, done, surface, gpu)
    };
    let workers: Vec<_> = (0..4).map(worker).collect();
    host.power_transition(PowerState::Standby).expect("it sleeps");
    host.power_transition(PowerState::On).expect("it wakes");
    let soon = host.now_ns() + 15_000_000;
    while host.step_until(soon) {}
    for (lane, done, ..) in &workers {
        assert_eq!(lane.progress().current(), *done);
    }
    host.check_invariants().expect("all is in order");
}
