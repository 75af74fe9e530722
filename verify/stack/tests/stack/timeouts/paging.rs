//! Paging work that does not end: only the kernel waits for it, and the kernel watches it. A fill of a megabyte takes a second here.

use std::sync::atomic::Ordering;

use d3dkmt::DeviceState;
use dxgk_host::{HostConfig, Profile, RecoveryPolicy};
use events::{Event, PreemptedFor};
use softgpu_umd::SurfaceKind;

use super::{DELAY, Hold, drain, host_with, impatient, resets, state, works};
use crate::stubborn::{Whims, wrapped};
use stack::world::{MIB, client};

/// The device queue that the kernel makes first.
const PAGING: u64 = 0;

fn slow(config: &mut HostConfig) {
    config.profile.timing.local_copy_bytes_per_us = 1;
}

#[test]
fn paging_that_makes_room_takes_its_time() {
    // spec: sync §4.4
    let (host, heard, _) = host_with(impatient(), slow);
    let mut client = client(&host);
    drain(&host);
    let begins = host.now_ns();
    let surface = client.pinned(SurfaceKind::Local, MIB);
    drain(&host);
    assert!(host.now_ns() > begins + 5 * DELAY, "it took its time");
    let done = works(&mut client, &surface, 10);
    drain(&host);
    assert!(client.stream.progress().current() >= done);
    assert_eq!(resets(&heard), []);
    assert_eq!((host.stopped(), state(&client)), (None, DeviceState::Active));
    host.check_invariants().unwrap();
}

/// The engine loses the kernel's paging work, and the kernel cannot tell whose content that was.
#[test]
fn a_paging_queue_that_does_not_leave_its_engine_costs_the_adapter_a_reset() {
    // spec: sync §4.4
    for (how, engine) in [(Hold::Runs, true), (Hold::Sticks, false)] {
        let (host, heard, fault) = host_with(impatient(), slow);
        let first = client(&host);
        drain(&host);
        heard.take();
        fault.hold_queue(PAGING, how);
        let begins = host.now_ns();
        let hung = first.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
        first.gpu.pin(&hung).expect_err("the device is lost");
        drain(&host);
        let resets = resets(&heard);
        let reset = resets.iter().find(|(_, event)| matches!(event, Event::AdapterReset { .. }));
        let (at, _) = reset.unwrap_or_else(|| panic!("{how:?}: {resets:?}"));
        assert!((2 * DELAY..3 * DELAY).contains(&(at - begins)), "{how:?}: {}", at - begins);
        let first_of_all = &resets[0].1;
        assert_eq!(matches!(first_of_all, Event::EngineReset { device: 0, .. }), engine, "{how:?}: {resets:?}");
        assert_eq!((host.stopped(), state(&first)), (None, DeviceState::Reset));
        drop((hung, first));
        let mut new = client(&host);
        let surface = new.pinned(SurfaceKind::Local, 65536);
        let done = works(&mut new, &surface, 10);
        drain(&host);
        assert!(new.stream.progress().current() >= done, "{how:?}");
        host.check_invariants().unwrap();
    }
}

/// The record of the fault is lost. The idle queue leaves its engine when it is preempted, and its driver then sees the fault.
#[test]
fn a_fault_without_a_record_is_found() {
    // spec: sync §4.4, memory §5.8
    let (host, heard, fault) = host_with(impatient(), |config| {
        let mut broken = 0;
        let build = Box::new(move |driver: &mut dyn ddi::Miniport, build: &mut ddi::BuildPagingBuffer<'_>| {
            driver.build_paging_buffer(build)?;
            let fills = matches!(build.operation, ddi::PagingOp::Fill { .. });
            if fills && !build.immediate && build.written > 0 && broken == 0 {
                broken += 1;
                // No such opcode: the engine stops.
                build.buffer[0] = 0x7f | 1 << 8;
            }
            Ok(())
        });
        config.wrap_miniport = Some(wrapped(Whims { build, ..Whims::default() }));
    });
    let first = client(&host);
    drain(&host);
    fault.swallows_faults.store(1, Ordering::SeqCst);
    let surface = first.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    let _ = first.gpu.pin(&surface);
    drain(&host);
    assert_eq!(fault.swallows_faults.load(Ordering::SeqCst), 0, "the record was lost");
    let resets = resets(&heard);
    assert!(matches!(resets.first(), Some((_, Event::AdapterReset { .. }))), "{resets:?}");
    assert_eq!((host.stopped(), state(&first)), (None, DeviceState::Reset));
    drop((surface, first));
    let mut new = client(&host);
    let surface = new.pinned(SurfaceKind::Local, 65536);
    let done = works(&mut new, &surface, 10);
    drain(&host);
    assert!(new.stream.progress().current() >= done);
    host.check_invariants().unwrap();
}

#[test]
fn a_paging_packet_that_is_not_given_back_costs_the_adapter_a_reset() {
    // spec: sync §4.3, sync §4.4
    let hear = stack::heard::Heard::of(|event| {
        matches!(
            event,
            Event::PreemptionRequested { .. }
                | Event::EngineReset { .. }
                | Event::AdapterReset { .. }
                | Event::AdapterStopped { .. }
        )
    });
    let (host, _, _) = host_with(RecoveryPolicy::default(), |config| {
        config.profile = *Profile::named("wddm2-packets").expect("a built-in profile");
        (config.memory_policy, config.features) = {
            let usual = HostConfig::new(&config.profile, config.mode);
            (usual.memory_policy, usual.features)
        };
        config.recovery = impatient();
        config.tracer = Box::new(hear.clone());
        slow(config);
    });
    let gpu = stack::world::gpu_on(&host, &dxgk_host::ProcessLink::new(std::sync::Arc::clone(&host)), 0);
    drain(&host);
    hear.take();
    let surface = gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    let _ = gpu.pin(&surface);
    drain(&host);
    let events = hear.take();
    let [
        Event::PreemptionRequested { why: PreemptedFor::Timeout, .. },
        Event::EngineReset { device: 0, .. },
        Event::AdapterReset { reason, .. },
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert!(reason.contains("under paging work"), "{reason}");
    assert_eq!((host.stopped(), gpu.device().state().expect("a state")), (None, DeviceState::Reset));
    host.check_invariants().unwrap();
}
