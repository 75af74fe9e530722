//! A user-mode queue takes native fences only. Its user-mode driver refuses others, for it alone sees the commands' names; the kernel refuses
//! them where it sees them: in such a queue's logs, and in its process's reports for a tool.

use std::sync::Arc;

use d3dkmt::{Fence, FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess};
use dxgk_host::ProcessLink;
use events::Event;
use kmt_calls::{Call, QueueCall, QueueFlags, Reply};
use kmt_link::Link;
use softgpu_umd::{
    Commands, FenceName, GpuSignal, GpuWait, KernelFedStream, Lane, Stage, Stream, StreamConfig, UmdError,
};
use wddm_types::{NodeId, NtStatus};

use stack::heard::heard_on;
use stack::world::{MIB, VIRTUAL, client, gpu_on, host, host_of_several};

/// Adds a command that names a fence.
type Way = fn(&mut Commands, &Fence);

/// The user-mode driver refuses a monitored fence in every way in which a submission can name one; the same with a native fence goes through.
#[test]
fn a_queue_that_its_process_feeds_takes_no_monitored_fence() {
    // spec: sync §1.2, sync §5
    // seed: N64
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let device = client.gpu.device();
    let monitored = device.create_monitored_fence(FenceFlags::empty(), 7).unwrap();
    let native = device.create_native_fence(NativeFenceRequest { initial_value: 7, ..Default::default() }).unwrap();
    let store: Way = |commands, fence| {
        if fence.monitored_va().is_null() {
            commands.signal_monitored(fence.current_va(), 8);
        } else {
            commands.signal(fence, 8);
        }
    };
    let ways: [(&str, Way); 3] = [
        ("a command that interrupts always", store),
        ("a signal", |commands, fence| {
            commands.signal(fence, 8);
        }),
        ("a wait", |commands, fence| {
            commands.wait(fence, 7);
        }),
    ];
    let before = client.stream.last_value();
    let refused = |answer: Result<u64, UmdError>, what: &str| {
        let refusal = answer.expect_err(what);
        let said = refusal.to_string();
        assert!(matches!(refusal, UmdError::NotNative(va) if va == monitored.current_va().0), "{what}: {said}");
        assert!(
            said.contains(&format!("{:#x}", monitored.current_va().0)) && said.contains("native"),
            "{what}: {said}"
        );
    };
    for (what, add) in ways {
        let mut commands = Commands::new();
        add(&mut commands, &monitored);
        refused(client.stream.submit(&client.gpu, &[], &commands), what);
        commands.clear();
        add(&mut commands, &native);
        client.stream.submit(&client.gpu, &[], &commands).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let none = Commands::new();
    let wait = |fence: &Fence| [GpuWait { fence: fence.into(), value: 7 }];
    let signal = |fence: &Fence| [GpuSignal { fence: fence.into(), value: 9 }];
    refused(client.stream.submit(&client.gpu, &wait(&monitored), &none), "a wait before");
    refused(client.stream.submit_signaling(&client.gpu, &[], &none, &signal(&monitored)), "a signal behind");
    client.stream.submit_signaling(&client.gpu, &wait(&native), &none, &signal(&native)).expect("a native one");
    while host.step() {}
    assert_eq!(client.stream.last_value(), before + 4, "of what was refused nothing was submitted");
    assert_eq!((monitored.current(), native.current()), (7, 9));
    // A queue that the kernel feeds takes both.
    let mut fed = KernelFedStream::hardware(&client.gpu, NodeId(0), StreamConfig::default()).unwrap();
    let mut commands = Commands::new();
    commands.signal_monitored(monitored.current_va(), 8).signal(&native, 10);
    fed.submit(&client.gpu, None, &commands).expect("both kinds");
    while host.step() {}
    assert_eq!((monitored.current(), native.current()), (8, 10));
}

/// Waits in front of the next submission: of two fences, in either order; the driver refuses a monitored one, which holds nothing up.
#[test]
fn what_is_submitted_behind_waits_on_the_gpu_runs_when_every_fence_has_its_value() {
    // spec: sync §3.8, sync §1.2, sync §5
    // seed: N64
    for order in [[0, 1], [1, 0]] {
        let host = host(VIRTUAL, 4 * MIB);
        let mut client = client(&host);
        let mut beside = Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).expect("a stream");
        let device = client.gpu.device();
        let monitored = device.create_monitored_fence(FenceFlags::empty(), 0).unwrap();
        let gates = [0; 2].map(|_| device.create_native_fence(NativeFenceRequest::default()).unwrap());
        let (values, none) = ([3, 5], Commands::new());
        let refused = client.stream.wait_on_gpu(GpuWait { fence: (&monitored).into(), value: 1 });
        assert!(matches!(refused, Err(UmdError::NotNative(va)) if va == monitored.current_va().0), "{refused:?}");
        let one_word = FenceName { monitored: gates[0].current_va(), ..FenceName::from(&gates[0]) };
        let refused = client.stream.wait_on_gpu(GpuWait { fence: one_word, value: 1 });
        assert!(matches!(refused, Err(UmdError::MonitorsItself(_))), "{refused:?}");
        client.run(|_| {});
        for (fence, value) in gates.iter().zip(values) {
            client.stream.wait_on_gpu(GpuWait { fence: fence.into(), value }).expect("a native fence");
        }
        // A refused submission leaves the waits to the next one.
        let signal = [GpuSignal { fence: (&monitored).into(), value: 1 }];
        client.stream.submit_signaling(&client.gpu, &[], &none, &signal).expect_err("a monitored fence");
        let submitted = [0; 2].map(|_| client.stream.submit(&client.gpu, &[], &none).expect("room"));
        let other = beside.submit(&client.gpu, &[], &none).expect("room");
        let run = || while host.step() {};
        run();
        assert_eq!(beside.progress().current(), other, "another queue waits for nothing");
        for (at, value) in [(order[0], values[order[0]]), (order[1], values[order[1]] - 1)] {
            client.gpu.device().signal(&gates[at], value).expect("a signal");
            run();
            assert_eq!(client.stream.progress().current(), submitted[0] - 1, "{order:?}: not both have their values");
        }
        client.gpu.device().signal(&gates[order[1]], values[order[1]]).expect("a signal");
        run();
        assert_eq!(client.stream.progress().current(), submitted[1], "{order:?}");
        // The waits were that submission's: the fences may go, and a later one does not wait at what lies in their place.
        let left = gates.each_ref().map(Fence::current_va);
        drop(gates);
        let next = [0; 2].map(|_| client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap());
        let taken = next.each_ref().map(Fence::current_va);
        assert!(taken.iter().any(|va| left.contains(va)), "{taken:?} in place of {left:?}");
        let later = client.stream.submit(&client.gpu, &[], &none).expect("room");
        run();
        assert_eq!(client.stream.progress().current(), later, "{order:?}");
        host.check_invariants().unwrap();
    }
}

/// The kernel's own submission is for queues that it feeds: there it takes monitored fences.
#[test]
fn the_kernel_submits_nothing_to_a_queue_that_its_process_feeds() {
    // spec: sync §1.2, sync §2.5, sync §5
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let device = client.gpu.device();
    let monitored = device.create_monitored_fence(FenceFlags::empty(), 0).unwrap();
    let owned = device.create_context(NodeId(0)).unwrap();
    let context = owned.handle();
    for (flags, status) in
        [(QueueFlags::USER_MODE_SUBMISSION, NtStatus::INVALID_PARAMETER), (QueueFlags::empty(), NtStatus::SUCCESS)]
    {
        let made = client
            .link
            .call(Call::Queue(QueueCall::CreateHwQueue { context, flags, private_data: Vec::new() }))
            .unwrap();
        let Reply::HwQueue(made) = made else { panic!("{made:?}") };
        let (queue, points) = (made.queue, vec![(monitored.handle(), 1)]);
        for call in [
            QueueCall::SubmitSignalSyncObjectsToHwQueue {
                queues: vec![queue],
                points: points.clone(),
                flags: Default::default(),
            },
            QueueCall::SubmitWaitForSyncObjectsToHwQueue { queue, points },
        ] {
            let answer = client.link.call(Call::Queue(call));
            assert_eq!(answer.err().map_or(NtStatus::SUCCESS, |refusal| refusal.status), status, "{flags:?}");
        }
    }
    while host.step() {}
    assert_eq!(monitored.current(), 1, "the kernel's own queue has signalled it");
}

/// A process that goes past its driver and names a monitored fence: in the log of its queue the name is none, and no waiter goes on by it.
#[test]
fn what_a_user_fed_queue_logs_of_a_monitored_fence_means_nothing() {
    // spec: sync §3.14 (validation), sync §1.2
    // seed: N64
    let (host, heard) = heard_on("discrete-4k", VIRTUAL, 4 * MIB, |event| {
        matches!(
            event,
            Event::FenceSignalExecuted { value: 21.., .. }
                | Event::FenceSignalQueued { value: 21.., .. }
                | Event::FenceLogEntryIgnored { .. }
        )
    });
    let mut client = client(&host);
    host.trace_fences(true);
    let device = client.gpu.device();
    let native = device.create_native_fence(NativeFenceRequest::default()).unwrap();
    let monitored = device.create_monitored_fence(FenceFlags::empty(), 0).unwrap();
    client.run(|commands| {
        commands.signal(&native, 1);
    });
    heard.take();
    let lie = FenceName { handle: monitored.handle(), ..FenceName::from(&native) };
    client.run(|commands| {
        commands.signal(lie, 21).signal(&native, 22);
    });
    host.trace_fences(false);
    let told: Vec<(&str, u64)> = heard
        .take()
        .iter()
        .map(|event| match event {
            Event::FenceSignalExecuted { value, .. } | Event::FenceSignalQueued { value, .. } => (event.name(), *value),
            _ => (event.name(), 0),
        })
        .collect();
    let expected = [("FenceSignalQueued", 22), ("FenceLogEntryIgnored", 0), ("FenceSignalExecuted", 22)];
    assert_eq!(told, expected, "the one that it calls by a monitored fence's name is left out");
    assert_eq!((monitored.current(), native.current()), (0, 22));
}

/// One program, two adapters: as long as the kernel feeds its queues the fence between them may be a monitored one. When its queues are its
/// own the same work refuses that, and goes through with a native one.
#[test]
fn a_program_whose_queues_become_its_own_moves_to_native_cross_adapter_fences() {
    // spec: sync §3.12, sync §3.13, sync §1.2
    // seed: N63, N131
    const CROSS: FenceFlags =
        FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING).union(FenceFlags::CROSS_ADAPTER);
    let host = host_of_several(VIRTUAL, &["integrated", "discrete-4k"], |_, _| ());
    let link = ProcessLink::new(Arc::clone(&host));
    let gpus = [0, 1].map(|adapter| gpu_on(&host, &link, adapter));
    let by = |fence: &Fence| {
        let name = fence.share(SyncObjectAccess::ALL_ACCESS).expect("a name");
        (OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() }, name)
    };
    let old = gpus[0].device().create_monitored_fence(CROSS, 0).unwrap();
    let (request, _name) = by(&old);
    // The fence is native on the other adapter; on its own adapter it stays a monitored fence.
    let monitored = [old, gpus[1].device().open_native_fence(request).unwrap()];
    let new = gpus[0].device().create_native_fence(NativeFenceRequest { flags: CROSS, ..Default::default() }).unwrap();
    let (request, _other) = by(&new);
    let native = [new, gpus[1].device().open_native_fence(request).unwrap()];
    for (stage, goes) in [(Stage::Packet, true), (Stage::Hardware, true), (Stage::User, false)] {
        for (fences, expected) in [(&monitored, goes), (&native, true)] {
            let value = fences[0].current() + 1;
            let mut lanes = [0, 1].map(|at| Lane::create_at(&gpus[at], NodeId(0), stage).expect("a lane"));
            let waits = lanes[1].submit_synced(&gpus[1], None, &[(&fences[1], value)], &[]).expect("native there");
            let signals = lanes[0].submit_synced(&gpus[0], None, &[], &[(&fences[0], value)]);
            assert_eq!(signals.is_ok(), expected, "{stage:?}: {signals:?}");
            if let Err(refusal) = signals {
                assert!(matches!(refusal, UmdError::NotNative(_)), "{refusal}");
                // The side that has not moved signals by the processor.
                gpus[0].device().signal(&fences[0], value).unwrap();
            }
            lanes[1].wait(&gpus[1], waits).expect("it goes on");
            assert_eq!([fences[0].current(), fences[1].current()], [value; 2], "{stage:?}");
        }
    }
    host.check_invariants().unwrap();
}
