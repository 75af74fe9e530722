//! Failures on demand, as a driver's own tests would use them: every call of a user-mode driver's life fails once, in turn; engines hang,
//! the device goes, interrupts get lost. Virtual time makes all of it exact.

use std::sync::Arc;

use d3dkmt::DeviceState;
use dxgk_host::{FAULT_CALLS, Host, HostConfig, ProcessLink, Profile};
use events::Event;
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, SurfaceKind, UmdError};
use stack::heard::Heard;
use stack::world::{Client, MIB, VIRTUAL, client};
use wddm_types::{NodeId, NtStatus};

fn host(faults: &str) -> (Arc<Host>, Heard) {
    let heard = Heard::of(|event| {
        matches!(event, Event::AdapterReset { .. } | Event::AdapterStopped { .. } | Event::DeviceInError { .. })
    });
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(heard.clone()),
        faults: Some(faults.parse().expect("faults")),
        ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), VIRTUAL)
    };
    (Host::start(config).expect("the host starts"), heard)
}

fn drain(host: &Host) {
    while host.step() {}
}

/// The life of a small program: a device, a queue, a surface, work on it.
fn life(host: &Arc<Host>) -> Result<(), UmdError> {
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>)?;
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default())?;
    let surface = gpu.create_surface(SurfaceKind::Local, 65536)?;
    gpu.pin(&surface)?;
    let mut commands = Commands::new();
    commands.fill(surface.va(), 65536, 7);
    let value = stream.submit(&gpu, &[], &commands)?;
    stream.wait(&gpu, value)
}

#[test]
fn each_call_of_a_drivers_life_fails_once_and_the_next_life_is_whole() {
    let mut failed = Vec::new();
    for name in FAULT_CALLS {
        for number in 1.. {
            let (host, _) = host(&format!("{name}#{number}=NO_MEMORY"));
            let Err(error) = life(&host) else { break };
            let UmdError::Refused(refusal) = error else { panic!("{name}#{number}: {error}") };
            assert_eq!(refusal.status, NtStatus::NO_MEMORY, "{name}#{number}: {refusal}");
            assert!(refusal.reason.contains(name), "{name}#{number}: {refusal}");
            drain(&host);
            host.check_invariants().unwrap_or_else(|broken| panic!("{name}#{number}: {broken:?}"));
            life(&host).unwrap_or_else(|error| panic!("behind {name}#{number}: {error}"));
            failed.push((*name, number));
        }
    }
    // The driver's own life has these calls at least, so the loop above was not empty.
    for name in ["CreateDevice", "CreateAllocation", "MapGpuVirtualAddress", "MakeResident", "CreateHwQueue"] {
        assert!(failed.contains(&(name, 1)), "{failed:?}");
    }
}

/// A client that is set up, and the time by then: the same in every world, whose faults come later.
fn set_up(faults: &str) -> (Arc<Host>, Heard, Client, u64) {
    let (host, heard) = host(faults);
    let client = client(&host);
    drain(&host);
    let now = host.now_ns();
    (host, heard, client, now)
}

fn fills(client: &mut Client) -> Result<(), UmdError> {
    let surface = client.gpu.create_surface(SurfaceKind::Local, MIB)?;
    client.gpu.pin(&surface)?;
    let mut commands = Commands::new();
    commands.fill(surface.va(), MIB, 7);
    let value = client.stream.submit(&client.gpu, &[], &commands)?;
    client.stream.wait(&client.gpu, value)
}

fn state(of: &Client) -> DeviceState {
    of.gpu.device().state().expect("a state")
}

#[test]
fn an_engine_that_hangs_costs_the_device_on_it_and_runs_again() {
    // spec: sync §4.4
    let (.., now) = set_up("tdr=100ms");
    let (host, heard, mut hung, _) = set_up(&format!("tdr=100ms; engine 0=hang@{}ns", now + 1));
    fills(&mut hung).expect_err("the device is lost");
    drain(&host);
    let heard = heard.take();
    assert!(matches!(heard.as_slice(), [Event::DeviceInError { state: 3, .. }]), "{heard:?}");
    assert!((now + 200_000_000..now + 400_000_000).contains(&host.now_ns()), "{}", host.now_ns() - now);
    assert_eq!((host.stopped(), state(&hung)), (None, DeviceState::Hung));
    drop(hung);
    fills(&mut client(&host)).expect("another device is not concerned");
    host.check_invariants().unwrap();
}

#[test]
fn paging_that_hangs_costs_the_adapter_a_reset() {
    // spec: sync §4.4
    let (.., now) = set_up("tdr=100ms");
    let (host, heard, mut hung, _) = set_up(&format!("tdr=100ms; paging=hang@{}ns", now + 1));
    fills(&mut hung).expect_err("the device is lost");
    drain(&host);
    let resets = heard.count(|event| matches!(event, Event::AdapterReset { .. }));
    assert_eq!((resets, host.stopped(), state(&hung)), (1, None, DeviceState::Reset));
    drop(hung);
    fills(&mut client(&host)).expect("the adapter goes on");
    host.check_invariants().unwrap();
}

#[test]
fn a_device_that_is_pulled_out_stops_its_adapter() {
    let (.., now) = set_up("tdr=100ms");
    let (host, heard, mut lost, _) = set_up(&format!("tdr=100ms; device=remove@{}ns", now + 1));
    fills(&mut lost).expect_err("the device is gone");
    drain(&host);
    assert_eq!(heard.count(|event| matches!(event, Event::AdapterStopped { .. })), 1);
    assert!(host.stopped().is_some());
    let Err(error) = life(&host) else { panic!("nothing is left to run on") };
    assert!(matches!(&error, UmdError::Refused(refusal) if refusal.status == NtStatus::DEVICE_REMOVED), "{error}");
    host.check_invariants().unwrap();
}

#[test]
fn lost_interrupts_cost_time_and_nothing_else() {
    // spec: sync §4.4
    let times = ["tdr=100ms", "tdr=100ms; interrupt=drop 1/3", "tdr=100ms; interrupt=drop 1/3; seed=5"].map(|faults| {
        let (host, heard, mut client, _) = set_up(faults);
        for _ in 0..20 {
            fills(&mut client).unwrap_or_else(|error| panic!("{faults}: {error}"));
        }
        assert_eq!((heard.take(), state(&client)), (Vec::new(), DeviceState::Active));
        host.check_invariants().unwrap();
        host.now_ns()
    });
    assert!(times[0] < times[1] && times[0] < times[2], "{times:?}");
}
