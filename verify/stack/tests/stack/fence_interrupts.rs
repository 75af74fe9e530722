//! The kernel's response to native-fence interrupts: with exact lists, without one, and with incomplete ones; and the access to the words of a
//! fence. `named_fences` has folded interrupts and wrong names.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::{DeviceState, Fence, FenceFlags, NativeFenceRequest};
use ddi::{HwQueueFlags, Interrupt, InterruptFlags, Notify, OsGlobalFence};
use dxgk_host::{Host, HostConfig, Pending, Profile};
use events::Event;
use kmt_calls::{Call, QueueCall, QueueFlags, Reply, SyncCall, WaitFlags};
use kmt_link::Link;
use softgpu_umd::{Commands, KernelFedStream, StreamConfig};
use wddm_types::NodeId;

use crate::stubborn::{Whims, wrapped};
use stack::heard::Heard;
use stack::world::{Client, MIB, VIRTUAL, client, host, unnamed};

type Names = Option<Vec<OsGlobalFence>>;

fn host_naming(name: impl Fn(Names) -> Names + Send + 'static) -> Arc<Host> {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let whims = Whims { name_fences: Box::new(name), ..Whims::default() };
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(wrapped(whims)),
        ..HostConfig::new(profile, VIRTUAL)
    };
    Host::start(config).expect("the host starts")
}

/// A wait of the CPU for a value that has not come.
pub fn begin_wait(host: &Arc<Host>, of: &Client, fence: &Fence, value: u64) -> Pending {
    let device = of.gpu.device().handle();
    let points = vec![(fence.handle(), value)];
    let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
        device,
        points,
        async_event: wddm_types::RawHandle::NONE,
        flags: WaitFlags::empty(),
    });
    host.begin_call(of.link.process(), call).expect_err("the value has not come")
}

/// One submission signals two fences, each with a waiter; returns which waits were released.
fn signal_two(host: &Arc<Host>) -> [bool; 2] {
    let mut client = client(host);
    let fences: Vec<_> =
        (0..2).map(|_| client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap()).collect();
    let waits: Vec<_> = fences.iter().map(|fence| begin_wait(host, &client, fence, 5)).collect();
    let mut commands = Commands::new();
    for fence in &fences {
        commands.signal(fence, 5);
    }
    while host.step() {}
    client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
    while host.step() {}
    [host.take_answer(waits[0]).is_some(), host.take_answer(waits[1]).is_some()]
}

#[test]
fn an_exact_list_and_no_list_release_the_same_waiters() {
    // spec: sync §3.10, sync §6 B16, sync §6 B17, sync §3.19 item 6
    // seed: N54, N55, N57
    assert_eq!(signal_two(&host_naming(|known| known)), [true; 2], "exactly these");
    assert_eq!(signal_two(&host_naming(|_| None)), [true; 2], "it does not know: all are looked at");
    assert_eq!(signal_two(&host_naming(|_| Some(Vec::new()))), [true; 2], "an empty list says the same");
}

/// The driver lists the fence, reports none by name, or omits it: the third breaks the contract, and `unreported_fences` names the fence when
/// no work is in flight.
#[test]
fn a_signal_of_which_the_driver_tells_nothing_is_found() {
    // spec: sync §3.10
    // seed: N59
    // The fence that it named first, whatever is signalled.
    let first = Mutex::new(None);
    let first_only = move |known: Names| {
        let mut first = first.lock().unwrap();
        let fence = *first.get_or_insert(known.as_ref()?[0]);
        Some(vec![fence])
    };
    type Case = (Box<dyn Fn(Names) -> Names + Send>, [bool; 2]);
    let cases: [Case; 3] =
        [(Box::new(|known| known), [true; 2]), (Box::new(|_| None), [true; 2]), (Box::new(first_only), [true, false])];
    for (name, released) in cases {
        let now = Arc::new(AtomicBool::new(false));
        let armed = Arc::clone(&now);
        let host = host_naming(move |known| if armed.load(Ordering::Relaxed) { name(known) } else { known });
        let mut client = client(&host);
        let fences = [(); 2].map(|()| client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap());
        let waits = [0, 1].map(|at| begin_wait(&host, &client, &fences[at], 5));
        while host.step() {}
        assert_eq!(host.unreported_fences(), []);
        now.store(true, Ordering::Relaxed);
        let mut commands = Commands::new();
        commands.signal(&fences[0], 5).signal(&fences[1], 5);
        client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
        while host.step() {}
        assert_eq!(waits.map(|wait| host.take_answer(wait).is_some()), released);
        let found: Vec<(u64, u64)> =
            host.unreported_fences().iter().map(|(_, current, monitored)| (*current, *monitored)).collect();
        assert_eq!(found, if released[1] { vec![] } else { vec![(5, 4)] });
        now.store(false, Ordering::Relaxed);
    }
}

#[test]
fn fences_that_are_listed_beside_are_harmless() {
    // spec: sync §3.10
    let twice = host_naming(|known| known.map(|list| list.iter().chain(&list).copied().collect()));
    assert_eq!(signal_two(&twice), [true; 2]);
    assert_eq!(twice.stopped(), None);
}

/// A monitored and a native fence, both waited for by the CPU and signalled by an engine of hardware that has one interrupt for
/// both kinds: its driver always says 19 without a list, with these flags. Which waits are over then, and how often all monitored
/// fences were looked at for interrupts.
fn signalled_with_one_interrupt(flags: InterruptFlags) -> ([bool; 2], usize) {
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| match interrupt {
        Interrupt::MonitoredFenceSignaled { node, engine } | Interrupt::NativeFenceSignaled { node, engine, .. } => {
            notify.interrupt(Interrupt::NativeFenceSignaled { node, engine, fences: None, queues: &[], flags });
        }
        other => notify.interrupt(other),
    };
    let heard = Heard::of(|event| matches!(event, Event::MonitoredFenceInterrupt { .. }));
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(wrapped(Whims { say: Box::new(say), ..Whims::default() })),
        tracer: Box::new(heard.clone()),
        ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), VIRTUAL)
    };
    let host = Host::start(config).expect("the host starts");
    let client = client(&host);
    let device = client.gpu.device();
    let mut queue = KernelFedStream::hardware(&client.gpu, NodeId(0), StreamConfig::default()).unwrap();
    let monitored = device.create_monitored_fence(FenceFlags::empty(), 0).unwrap();
    let native = device.create_native_fence(NativeFenceRequest::default()).unwrap();
    let waits = [&monitored, &native].map(|fence| begin_wait(&host, &client, fence, 5));
    let mut commands = Commands::new();
    commands.signal_monitored(monitored.current_va(), 5);
    commands.signal(&native, 5);
    while host.step() {}
    heard.take();
    queue.submit(&client.gpu, None, &commands).expect("a submission");
    while host.step() {}
    assert_eq!((monitored.current(), native.current()), (5, 5), "the engine has signalled both");
    (waits.map(|wait| host.take_answer(wait).is_some()), heard.take().len())
}

#[test]
fn an_interrupt_19_without_a_list_looks_at_native_fences_only() {
    // spec: sync §3.10, sync §2.8
    // seed: N60
    let (released, looks) = signalled_with_one_interrupt(InterruptFlags::empty());
    assert_eq!((released, looks), ([false, true], 0));
}

#[test]
fn with_evaluate_legacy_monitored_fences_it_looks_at_all() {
    // spec: sync §3.10, sync §2.8
    // seed: N61
    let (released, looks) = signalled_with_one_interrupt(InterruptFlags::EVALUATE_LEGACY_MONITORED_FENCES);
    assert_eq!(released, [true, true]);
    assert_eq!(looks, 2, "one for each signal");
}

/// The engine writes CurrentValue and only reads MonitoredValue: a process that wrote MonitoredValue could suppress or forge interrupts.
#[test]
fn the_gpu_writes_the_current_value_and_not_the_monitored_one() {
    // spec: sync §1.4, sync §6 A1
    // seed: N10, N13
    let host = host(VIRTUAL, 4 * MIB);
    let (mut good, mut bad) = (client(&host), client(&host));
    for client in [&mut good, &mut bad] {
        let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
        client.run(|commands| {
            commands.signal(&fence, 3).wait(&fence, 3);
        });
        assert_eq!(fence.current(), 3, "the CPU reads what the engine wrote");
    }
    let fence = bad.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    let mut commands = Commands::new();
    commands.signal(unnamed(fence.monitored_va(), fence.current_va()), 7);
    bad.stream.submit(&bad.gpu, &[], &commands).unwrap();
    while host.step() {}
    assert_eq!(bad.gpu.device().state().unwrap(), DeviceState::ErrorDmaPageFault);
    assert_eq!(good.gpu.device().state().unwrap(), DeviceState::Active, "and no other device notices");
}

#[test]
fn a_queue_says_that_its_progress_fence_is_native() {
    // spec: sync §2.5, sync §3.11
    // seed: N53
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let owned = client.gpu.device().create_context(NodeId(0)).unwrap();
    let context = owned.handle();
    for flags in [QueueFlags::empty(), QueueFlags::USER_MODE_SUBMISSION] {
        let made = client
            .link
            .call(Call::Queue(QueueCall::CreateHwQueue { context, flags, private_data: Vec::new() }))
            .unwrap();
        let Reply::HwQueue(made) = made else { panic!("{made:?}") };
        assert!(made.flags.contains(QueueFlags::NATIVE_PROGRESS_FENCE));
        assert_eq!(made.flags.bits(), flags.bits() | HwQueueFlags::NATIVE_PROGRESS_FENCE.bits());
        assert!(!made.progress.monitored_va.is_null(), "it has both words");
    }
}
