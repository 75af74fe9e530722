//! Events for a tool that traces: each submitted wait and signal, by the processor's clock, and its completion, by the device's clock.

use std::sync::Arc;

use d3dkmt::{QueuedFence, VirtualContext};
use dxgk_host::Host;
use events::Event;
use kmt_calls::{Call, QueueCall, QueueFlags, Reply};
use kmt_link::Link;
use softgpu_umd::{Commands, Stream, StreamConfig, SurfaceKind};
use wddm_types::{GpuVa, NodeId, NtStatus};

use super::read::new_fence;
use stack::heard::{Heard, heard_on};
use stack::world::{Client, MIB, VIRTUAL, client, host};

pub fn traced() -> (Arc<Host>, Heard, Client) {
    let (host, heard) = heard_on("discrete-4k", VIRTUAL, 4 * MIB, |event| {
        matches!(
            event,
            Event::FenceWaitQueued { .. }
                | Event::FenceSignalQueued { .. }
                | Event::FenceSignalExecuted { .. }
                | Event::FenceWaitUnblocked { .. }
                | Event::FenceLogOverrun { .. }
                | Event::GpuClockCalibrated { .. }
        )
    });
    host.trace_fences(true);
    let client = client(&host);
    (host, heard, client)
}

#[test]
fn what_was_submitted_and_what_became_of_it_lie_on_one_line() {
    // spec: sync §3.14
    // seed: N89, N91, N92, N100, N101
    let (host, heard, mut client) = traced();
    let mut other = Stream::create(&client.gpu, NodeId(1), StreamConfig::default()).unwrap();
    let fence = new_fence(&client);
    let [(set_ns, Event::GpuClockCalibrated { frequency_hz: 1_000_000_000, counter, .. }), ..] = heard.take_timed()[..]
    else {
        panic!("the clocks are set when tracing begins")
    };
    let gpu_time = |end: u64| end - counter + set_ns;
    let mut waits = Commands::new();
    waits.wait(&fence, 3);
    let waited_ns = host.now_ns();
    let waiting = client.stream.submit(&client.gpu, &[], &waits).unwrap();
    while host.step() {}
    let mut signals = Commands::new();
    signals.signal(&fence, 3);
    let signalled_ns = host.now_ns();
    let done = other.submit(&client.gpu, &[], &signals).unwrap();
    while host.step() {}
    assert_eq!((client.stream.progress().current(), other.progress().current()), (waiting, done));
    let before = heard.take_timed();
    let queued: Vec<_> = before.iter().map(|(at, event)| (*at, event.name())).collect();
    let (wait, signal) = ("FenceWaitQueued", "FenceSignalQueued");
    assert_eq!(queued, [(waited_ns, wait), (waited_ns, signal), (signalled_ns, signal), (signalled_ns, signal)]);

    host.trace_fences(false);
    let told = heard.take();
    let Event::FenceWaitQueued { queue: a, fence: number, value: 3, .. } = before[0].1 else { panic!("{before:?}") };
    let unblocked = told.iter().find_map(|event| match event {
        Event::FenceWaitUnblocked { queue, fence, value: 3, observed, end } if (*queue, *fence) == (a, number) => {
            Some((gpu_time(*observed), gpu_time(*end)))
        }
        _ => None,
    });
    let executed = told.iter().find_map(|event| match event {
        Event::FenceSignalExecuted { fence, value: 3, end, .. } if *fence == number => Some(gpu_time(*end)),
        _ => None,
    });
    let ((observed, unblocked), executed) = (unblocked.expect("A's log"), executed.expect("B's log"));
    assert!(waited_ns < observed && observed <= signalled_ns, "{waited_ns} {observed} {signalled_ns}");
    assert!(signalled_ns < executed && executed <= unblocked && unblocked <= host.now_ns());
}

/// A list that is recorded once and submitted later, twice: each time its waits and signals are told with the times of their recording,
/// which no payload in a log has.
#[test]
fn what_was_recorded_long_before_is_told_with_the_time_of_recording() {
    // spec: sync §3.14
    // seed: N91, N102
    let (host, heard, mut client) = traced();
    let fence = new_fence(&client);
    let mut commands = Commands::recorded(&client.gpu);
    commands.wait(&fence, 0);
    let waited_ns = host.now_ns();
    host.step_until(waited_ns + 5_000);
    let later_ns = host.now_ns();
    commands.signal(&fence, 1);
    assert!(later_ns >= waited_ns + 5_000);
    let mut submitted = Vec::new();
    for _ in 0..2 {
        host.step_until(host.now_ns() + 7_000);
        heard.take();
        let value = client.stream.submit(&client.gpu, &[], &commands).unwrap();
        let at = host.now_ns();
        client.stream.wait(&client.gpu, value).unwrap();
        let told: Vec<(u64, u64)> = heard
            .take_timed()
            .iter()
            .filter_map(|(at, event)| match event {
                Event::FenceWaitQueued { recorded_ns, .. } | Event::FenceSignalQueued { recorded_ns, .. } => {
                    Some((*at, *recorded_ns))
                }
                _ => None,
            })
            .collect();
        // The progress of a submission is recorded with it.
        assert_eq!(told, [(at, waited_ns), (at, later_ns), (at, at)]);
        submitted.push(at);
    }
    assert!(submitted[0] < submitted[1] && later_ns < submitted[0]);
    // Commands without a clock count as recorded when they are submitted.
    let mut plain = Commands::new();
    plain.signal(&fence, 2);
    host.step_until(host.now_ns() + 7_000);
    heard.take();
    client.stream.submit(&client.gpu, &[], &plain).unwrap();
    let at = host.now_ns();
    let told = heard.take();
    assert!(
        told.iter().all(|event| matches!(event, Event::FenceSignalQueued { recorded_ns, .. } if *recorded_ns == at))
    );
    assert_eq!(told.len(), 2, "{told:?}");
}

/// A process can claim any time of recording: the kernel replaces a time that is still to come.
#[test]
fn a_time_of_recording_that_is_still_to_come_is_that_of_the_submission() {
    // spec: sync §3.14 (validation)
    // seed: N102
    let (host, heard, client) = traced();
    let fence = new_fence(&client);
    let owned = client.gpu.device().create_context(NodeId(0)).unwrap();
    let context = owned.handle();
    let create =
        QueueCall::CreateHwQueue { context, flags: QueueFlags::USER_MODE_SUBMISSION, private_data: Vec::new() };
    let Ok(Reply::HwQueue(made)) = client.link.call(Call::Queue(create)) else { panic!("a queue") };
    heard.take();
    let queued = |recorded_ns| QueuedFence { fence: fence.handle(), value: 3, signal: true, recorded_ns };
    client.link.fences_queued(made.queue, &[queued(0), queued(u64::MAX)]);
    let now = host.now_ns();
    let times: Vec<u64> = heard
        .take()
        .iter()
        .filter_map(|event| match event {
            Event::FenceSignalQueued { value: 3, recorded_ns, .. } => Some(*recorded_ns),
            _ => None,
        })
        .collect();
    assert_eq!(times, [0, now]);
}

/// Kernel-mode submission has no logs, and needs none: the kernel knows when each wait and each signal was submitted and when it was over.
#[test]
fn waits_and_signals_of_what_the_kernel_feeds_are_told_by_the_kernel_itself() {
    // spec: sync §3.14
    // seed: N94, N126
    let (host, heard) = heard_on("discrete-4k", VIRTUAL, 4 * MIB, |event| {
        matches!(event, Event::KernelFedFenceQueued { .. } | Event::KernelFedFenceDone { .. })
    });
    let client = client(&host);
    let device = client.gpu.device();
    let (gate, fence) = (new_fence(&client), new_fence(&client));
    let owned = device.create_context(NodeId(0)).unwrap();
    let queue = owned.create_kernel_queue().unwrap();
    let context = VirtualContext::create(device, NodeId(1), Vec::new()).unwrap();
    let drain = || while host.step() {};
    let told = || -> Vec<(u64, &'static str, bool, u64, bool)> {
        let of = |(at, event): (u64, Event)| match event {
            Event::KernelFedFenceQueued { packets, value, signal, .. } => (at, "queued", packets, value, signal),
            Event::KernelFedFenceDone { packets, value, signal, .. } => (at, "done", packets, value, signal),
            _ => unreachable!("not kept"),
        };
        // A signal's wait for its own queue is no operation of the process.
        heard.take_timed().into_iter().map(of).filter(|told| told.3 > 1).collect()
    };
    queue.submit_wait(&gate, 1).unwrap();
    drain();
    assert_eq!(told(), [], "no tool listens");
    device.signal(&gate, 1).unwrap();
    drain();
    host.trace_fences(true);
    heard.take();
    for packets in [false, true] {
        let value = if packets { 20 } else { 10 };
        let submitted_ns = host.now_ns();
        if packets {
            context.wait(&gate, value).unwrap();
            context.signal(&fence, value + 1).unwrap();
        } else {
            queue.submit_wait(&gate, value).unwrap();
            queue.submit_signal(&fence, value + 1).unwrap();
        }
        drain();
        let queued = told();
        let what: Vec<_> = queued.iter().map(|told| (told.1, told.2, told.3, told.4)).collect();
        assert_eq!(what, [("queued", packets, value, false), ("queued", packets, value + 1, true)]);
        assert!(queued.iter().all(|told| submitted_ns <= told.0 && told.0 <= host.now_ns()), "{queued:?}");
        host.step_until(host.now_ns() + 50_000);
        let opened_ns = host.now_ns();
        device.signal(&gate, value).unwrap();
        drain();
        let done = told();
        let what: Vec<_> = done.iter().map(|told| (told.1, told.2, told.3, told.4)).collect();
        assert_eq!(what, [("done", packets, value, false), ("done", packets, value + 1, true)]);
        assert!(done.iter().all(|told| opened_ns <= told.0), "not before the gate opened: {done:?}");
        // A wait for a value that is there is over at once.
        if packets { context.wait(&gate, value) } else { queue.submit_wait(&gate, value) }.unwrap();
        drain();
        let what: Vec<_> = told().iter().map(|told| (told.1, told.2, told.3, told.4)).collect();
        assert_eq!(what, [("queued", packets, value, false), ("done", packets, value, false)]);
    }
}

#[test]
fn the_logs_of_a_traced_queue_are_long_and_read_in_time() {
    // spec: sync §3.14 (overrun)
    // seed: N106
    let (host, heard, mut client) = traced();
    let (logs, fence) = (client.stream.logs(), new_fence(&client));
    assert!(logs.signal_entries > 5_000 && logs.wait_entries == logs.signal_entries);
    heard.take();
    let (rounds, each) = (40, 250);
    for round in 0..rounds {
        // No CPU waiter needs the fence: no interrupt makes the kernel look.
        client.run(|commands| {
            for value in 1..=each {
                commands.signal(&fence, round * each + value).wait(&fence, 1);
            }
        });
    }
    host.trace_fences(false);
    let events = heard.take();
    let count = |name: &str| events.iter().filter(|event| event.name() == name).count() as u64;
    assert_eq!(count("FenceLogOverrun"), 0);
    assert_eq!((count("FenceWaitQueued"), count("FenceWaitUnblocked")), (rounds * each, rounds * each));
    assert_eq!(count("FenceSignalQueued"), rounds * each + rounds, "and each submission's progress");
    assert_eq!(count("FenceSignalExecuted"), count("FenceSignalQueued"));
}

#[test]
fn without_a_tool_no_event_tells_what_was_submitted() {
    // spec: sync §3.14
    let (host, heard, mut client) = traced();
    host.trace_fences(false);
    heard.take();
    let fence = new_fence(&client);
    client.run(|commands| {
        commands.signal(&fence, 1).wait(&fence, 1);
    });
    let queued = |event: &Event| matches!(event, Event::FenceWaitQueued { .. } | Event::FenceSignalQueued { .. });
    assert_eq!(heard.count(queued), 0);
}

/// Longer logs while a tool traces lie elsewhere: a process asks where its queue logs now. Of a queue that the kernel feeds there is no answer.
#[test]
fn a_process_asks_where_its_queue_logs() {
    // spec: sync §2.1, sync §2.9
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let owned = client.gpu.device().create_context(NodeId(0)).unwrap();
    let create = |flags| {
        let call = QueueCall::CreateHwQueue { context: owned.handle(), flags, private_data: Vec::new() };
        let Ok(Reply::HwQueue(made)) = client.link.call(Call::Queue(call)) else { panic!("a queue") };
        (made.queue, made.logs)
    };
    let asked = |queue| match client.link.call(Call::Queue(QueueCall::GetNativeFenceLogDetail { queue })) {
        Ok(Reply::NativeFenceLogs(logs)) => Ok(logs),
        Ok(reply) => panic!("{reply:?}"),
        Err(refusal) => Err(refusal.status),
    };
    let (fed, none) = create(QueueFlags::empty());
    assert_eq!((none, asked(fed)), (None, Err(NtStatus::INVALID_PARAMETER)));
    let (queue, logs) = create(QueueFlags::USER_MODE_SUBMISSION);
    assert_eq!(asked(queue), Ok(logs.expect("its process feeds it")));
    let ring = client.pinned(SurfaceKind::System, 4096);
    let ring = ring.allocation().handle();
    let call = QueueCall::CreateDoorbell { queue, ring, ring_va: GpuVa::NULL, private_data: Vec::new() };
    client.link.call(Call::Queue(call)).expect("a doorbell");
    host.trace_fences(true);
    let longer = asked(queue).expect("its process feeds it");
    let logs = logs.expect("as above");
    assert!(longer.wait_entries > logs.wait_entries && longer.signal_entries > logs.signal_entries, "{longer:?}");
    assert!(longer.wait_base != logs.wait_base && longer.signal_base != logs.signal_base, "{longer:?}");
}
