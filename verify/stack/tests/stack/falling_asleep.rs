//! Ends of objects and of processes while the adapter falls asleep, and while it sleeps: neither do they hang nor does the
//! sleep, and a device without power is given nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ddi::{PowerState, SegmentFlags};
use dxgk_host::{Host, HostConfig, Profile, RecoveryPolicy};
use events::{Event, Tracer};
use kmt_calls::{Call, DeviceCall, QueueCall, QueueFlags, Reply};
use kmt_link::Link;
use softgpu_umd::{Commands, Surface, SurfaceKind, pattern};
use wddm_types::{NodeId, NtStatus};

use crate::stubborn::{Whims, host_with, wrapped};
use crate::timeouts::{self, Fault, Hold};
use stack::world::{Client, MIB, VIRTUAL, client, host};

const STATES: [PowerState; 2] = [PowerState::Standby, PowerState::Hibernate];

/// A host whose hardware may run one command for any time.
pub fn patient_host() -> (Arc<Host>, Arc<Fault>) {
    let (host, _, fault) = timeouts::host(RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() });
    (host, fault)
}

/// A process whose command runs without end, on memory that the process has destroyed: the paging ring waits for that work, and the hardware
/// suspends no queue of the process.
pub fn busy_client(host: &Arc<Host>, fault: &Fault) -> Client {
    let mut busy = client(host);
    fault.hold(Hold::Runs);
    let target = busy.pinned(SurfaceKind::Local, MIB);
    let mut commands = Commands::new();
    commands.work(u64::MAX).touch(target.va(), MIB, false);
    busy.stream.submit(&busy.gpu, &[], &commands).expect("a submission");
    busy
}

fn written(client: &mut Client) -> Surface {
    let surface = client.pinned(SurfaceKind::Local, MIB);
    client.run(|commands| {
        commands.pattern(surface.va(), MIB, 7);
    });
    surface
}

fn assert_kept(client: &mut Client, surface: &Surface) {
    let copy = client.pinned(SurfaceKind::System, MIB);
    client.run(|commands| {
        commands.copy(surface.va(), copy.va(), MIB);
    });
    let lock = copy.lock().expect("system memory");
    assert!((0..MIB).step_by(8 * 101).all(|at| lock.read_word(at) == pattern::word(7, at)), "content was lost");
}

#[test]
fn who_is_in_the_way_of_a_sleep_may_die() {
    // spec: memory §1.10, memory §8.4
    for state in STATES {
        let (host, fault) = patient_host();
        let mut other = client(&host);
        let surface = written(&mut other);
        let busy = busy_client(&host, &fault);
        assert_eq!(host.power_transition(state).expect_err("it waits for the work").status, NtStatus::TIMEOUT);
        assert_eq!(host.power_transition(PowerState::On).expect_err("not asleep yet").status, NtStatus::RETRY);
        drop(busy);
        while host.step() {}
        host.power_transition(PowerState::On).expect("it slept, and wakes");
        host.check_invariants().expect("in order");
        assert_kept(&mut other, &surface);
    }
}

#[test]
fn an_adapter_stops_behind_who_was_in_the_way() {
    // spec: memory §8.4
    let (host, fault) = patient_host();
    let busy = busy_client(&host, &fault);
    assert_eq!(host.stop_adapter().expect_err("it waits for the work").status, NtStatus::TIMEOUT);
    drop(busy);
    while host.step() {}
    assert_eq!(host.stop_adapter().expect_err("it has stopped").status, NtStatus::DEVICE_REMOVED);
    assert_eq!(host.device_register(softgpu_spec::register::ENGINE_ENABLE), 0, "behind the last one the driver stops");
}

/// A host whose driver counts the paging operations that it is asked to build while `off`.
fn watched(off: &Arc<AtomicBool>, built: &Arc<AtomicU64>) -> (Arc<Host>, Arc<Mutex<u64>>) {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let mut config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 32 * MIB,
        ..HostConfig::new(profile, VIRTUAL)
    };
    config.profile.driver.preserved = SegmentFlags::PRESERVED_DURING_STANDBY;
    let freed: Arc<Mutex<u64>> = Arc::default();
    config.tracer = Box::new(Freed(Arc::clone(&freed)));
    let (off, built) = (Arc::clone(off), Arc::clone(built));
    let build = move |driver: &mut dyn ddi::Miniport, build: &mut ddi::BuildPagingBuffer<'_>| {
        built.fetch_add(u64::from(off.load(Ordering::Relaxed)), Ordering::Relaxed);
        driver.build_paging_buffer(build)
    };
    config.wrap_miniport = Some(wrapped(Whims { build: Box::new(build), ..Whims::default() }));
    (Host::start(config).expect("the host starts"), freed)
}

#[test]
fn a_driver_that_fails_while_its_adapter_falls_asleep_leaves_no_call_waiting() {
    // spec: memory §1.10, memory §8.4, memory §8.6, sync §3.5
    for stops in [false, true] {
        let broken = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&broken);
        let build = move |driver: &mut dyn ddi::Miniport, build: &mut ddi::BuildPagingBuffer<'_>| {
            if fails.load(Ordering::Relaxed) {
                return Err(ddi::PagingStatus::Fatal("it is broken"));
            }
            driver.build_paging_buffer(build)
        };
        let host = host_with(4 * MIB, Whims { build: Box::new(build), ..Whims::default() });
        let mut client = client(&host);
        let _content = written(&mut client);
        let device = client.gpu.device();
        let fence = device.create_monitored_fence(d3dkmt::FenceFlags::empty(), 1).expect("a fence");
        let event = d3dkmt::Event::create(device.link(), true).expect("an event");
        device.wait_async(&[(&fence, 2)], &event, d3dkmt::WaitFlags::empty()).expect("it is asked for");
        assert_eq!(event.take(), Ok(false));
        broken.store(true, Ordering::Relaxed);
        let fell = if stops { host.stop_adapter() } else { host.power_transition(PowerState::Standby) };
        assert_eq!(fell.expect_err("its content cannot be saved").status, NtStatus::DEVICE_REMOVED);
        assert_eq!(event.take(), Ok(true), "nothing else has to happen first");
    }
}

#[test]
fn a_device_without_power_is_told_of_no_work() {
    // spec: memory §1.10, sync §2.9
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let ring = client.pinned(SurfaceKind::System, 4096);
    let device = client.gpu.device().handle();
    let made =
        client.link.call(Call::Queue(QueueCall::CreateHwContext { device, node: NodeId(0), private_data: Vec::new() }));
    let Ok(Reply::Handle(context)) = made else { panic!("no context: {made:?}") };
    let made = client.link.call(Call::Queue(QueueCall::CreateHwQueue {
        context,
        flags: QueueFlags::USER_MODE_SUBMISSION,
        private_data: Vec::new(),
    }));
    let Ok(Reply::HwQueue(queue)) = made else { panic!("no queue: {made:?}") };
    let (ring_va, handle) = (ring.va(), ring.allocation().handle());
    let made = client.link.call(Call::Queue(QueueCall::CreateDoorbell {
        queue: queue.queue,
        ring: handle,
        ring_va,
        private_data: Vec::new(),
    }));
    let Ok(Reply::Doorbell(made)) = made else { panic!("no doorbell: {made:?}") };
    let doorbell = made.doorbell;
    client.link.call(Call::Queue(QueueCall::ConnectDoorbell { doorbell })).expect("it connects");
    let notify = || client.link.call(Call::Queue(QueueCall::NotifyWorkSubmission { doorbell }));
    notify().expect("it is told");
    host.power_transition(PowerState::Standby).expect("it falls asleep");
    assert_eq!(notify().expect_err("it sleeps").status, NtStatus::RETRY);
    host.power_transition(PowerState::On).expect("it wakes");
    notify().expect("it is told again");
    host.stop_adapter().expect("it stops");
    assert_eq!(notify().expect_err("it is gone").status, NtStatus::DEVICE_REMOVED);
}

struct Freed(Arc<Mutex<u64>>);

impl Tracer for Freed {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        if let Event::AllocationDestroyed { .. } = event {
            *self.0.lock().expect("a test") += 1;
        }
    }
}

#[test]
fn what_ends_during_a_sleep_ends_at_once_and_its_memory_comes_free_with_the_wake() {
    // spec: memory §1.10, memory §6.2
    for state in STATES {
        let (off, built) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (host, destroyed) = watched(&off, &built);
        let (mut stays, mut leaves, dies) = (client(&host), client(&host), client(&host));
        let kept = written(&mut stays);
        let gone = written(&mut leaves);
        let lost = dies.pinned(SurfaceKind::Local, MIB);
        while host.step() {}
        host.power_transition(state).expect("it falls asleep");
        off.store(true, Ordering::Relaxed);
        let before = *destroyed.lock().expect("a test");
        drop(gone);
        drop(lost);
        drop(dies);
        let device = leaves.gpu.device().handle();
        leaves.link.call(Call::Device(DeviceCall::DestroyDevice { device })).expect("it goes, asleep or not");
        while host.step() {}
        host.check_invariants().expect("in order");
        assert!(*destroyed.lock().expect("a test") > before + 2, "the destructions do not wait for the wake");
        assert_eq!(built.load(Ordering::Relaxed), 0, "a device without power is given nothing");
        off.store(false, Ordering::Relaxed);
        host.power_transition(PowerState::On).expect("it wakes");
        while host.step() {}
        host.check_invariants().expect("in order");
        assert_kept(&mut stays, &kept);
        // The memory of the destroyed allocations is free again.
        let all = stays.pinned(SurfaceKind::Local, 2 * MIB + MIB / 2);
        drop((all, leaves));
    }
}
