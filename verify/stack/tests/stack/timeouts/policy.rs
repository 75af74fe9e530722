//! A host's policy for hangs: whether one stops its adapter, and how many a process may cause.

use std::sync::Arc;

use d3dkmt::DeviceState;
use dxgk_host::{AdapterSetup, Host, OnTimeout, ProcessLink, Profile, RecoveryPolicy};
use events::Event;
use kmt_link::Link;
use softgpu_umd::{Gpu, Stream, StreamConfig, SurfaceKind};
use wddm_types::NodeId;

use super::{DELAY, Fault, Hold, awaits, drain, host, host_with, impatient, state, works};
use stack::world::{Client, MIB, client, gpu_on};

/// One more device of a process, on the first adapter.
fn device_of(link: &Arc<ProcessLink>) -> Client {
    let gpu = Gpu::open(Arc::clone(link) as Arc<dyn Link>).expect("the adapter opens");
    let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    Client { stream, gpu, link: Arc::clone(link) }
}

/// Its work does not end.
fn hang(host: &Host, fault: &Fault, hung: &mut Client) {
    fault.hold(Hold::Runs);
    let surface = hung.pinned(SurfaceKind::Local, MIB);
    let never = works(hung, &surface, 1_000);
    let asleep = awaits(host, hung, hung.stream.progress(), never);
    drain(host);
    host.take_answer(asleep).expect("it is over").expect_err("the device is lost");
}

#[test]
fn at_level_one_a_hang_is_the_end_of_its_adapter_and_of_no_other() {
    // spec: sync §4.4
    let policy = RecoveryPolicy { on_timeout: OnTimeout::Stop, ..impatient() };
    let (host, heard, fault) = host_with(policy, |config| {
        let profile = Profile::named("discrete-4k").expect("a built-in profile");
        let sizes = AdapterSetup {
            vram_bytes: 8 * MIB,
            system_bytes: 64 * MIB,
            ..AdapterSetup::new(profile, stack::world::VIRTUAL)
        };
        config.others.push(AdapterSetup { page_table_bytes: 16 * MIB, ..sizes });
    });
    let link = ProcessLink::new(Arc::clone(&host));
    let other = gpu_on(&host, &link, 1);
    let mut hung = client(&host);
    hang(&host, &fault, &mut hung);
    let stopped = host.stopped().expect("a bug check");
    assert!(stopped.contains("did not end"), "{stopped}");
    assert_eq!((state(&hung), other.device().state().expect("a state")), (DeviceState::Stopped, DeviceState::Active));
    let reset = |event: &Event| matches!(event, Event::EngineReset { .. } | Event::AdapterReset { .. });
    assert_eq!(heard.count(reset), 0, "nothing was tried");
    let mut stream = Stream::create(&other, NodeId(0), StreamConfig::default()).expect("a stream");
    let value = stream.submit(&other, &[], &softgpu_umd::Commands::new()).expect("a submission");
    stream.wait(&other, value).expect("it runs");
}

/// Its limit is one less than that of the adapter.
#[test]
fn a_process_whose_engines_are_reset_too_often_is_kept_away() {
    // spec: sync §4.4
    for (limit_time_ns, blocked) in [(60 * 10 * DELAY, true), (2 * DELAY, false)] {
        let policy = RecoveryPolicy { limit_count: 3, limit_time_ns, ..impatient() };
        let (host, _, fault) = host(policy);
        let link = ProcessLink::new(Arc::clone(&host));
        let (bystander, other) = (device_of(&link), client(&host));
        for _ in 0..2 {
            hang(&host, &fault, &mut device_of(&link));
            assert_eq!(state(&bystander), DeviceState::Active, "its other devices go on");
        }
        hang(&host, &fault, &mut device_of(&link));
        let again = Gpu::open(Arc::clone(&link) as Arc<dyn Link>);
        if blocked {
            let refused = again.err().expect("no device any more").to_string();
            assert!(refused.contains("ACCESS_DENIED") && refused.contains("too often"), "{refused}");
            assert_eq!(state(&bystander), DeviceState::Hung);
        } else {
            assert!(again.is_ok());
            assert_eq!(state(&bystander), DeviceState::Active);
        }
        assert_eq!((state(&other), host.stopped()), (DeviceState::Active, None));
        drop((bystander, link));
        device_of(&ProcessLink::new(Arc::clone(&host)));
        host.check_invariants().unwrap();
    }
}
