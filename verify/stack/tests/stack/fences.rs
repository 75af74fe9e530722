//! Native fences through the whole stack: signals, waits, the conditional interrupt.

use std::sync::Arc;

use d3dkmt::NativeFenceRequest;
use dxgk_host::{Host, KERNEL_BYTES, Mode};
use kmt_calls::{Call, SyncCall, WaitFlags};
use softgpu_spec::register::counter;
use softgpu_umd::Commands;
use stack::world::{Client, MIB, VIRTUAL, client, host};
use wddm_types::RawHandle;

const RAISED: u32 = counter::INTERRUPTS_RAISED;
const SUPPRESSED: u32 = counter::INTERRUPTS_SUPPRESSED;

fn signal_batch(client: &mut Client, fence: &d3dkmt::Fence, values: std::ops::RangeInclusive<u64>) {
    let mut commands = Commands::new();
    for value in values {
        commands.signal(fence, value);
    }
    client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
}

/// A CPU wait for all points, which blocks.
fn wait(device: RawHandle, points: Vec<(RawHandle, u64)>) -> Call {
    let (async_event, flags) = (RawHandle::NONE, WaitFlags::empty());
    Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu { device, points, async_event, flags })
}

/// Lets virtual time run until nothing is left.
fn drain(host: &Arc<Host>) {
    while host.step() {}
}

/// Ten million of them.
#[test]
fn signals_without_a_waiter_raise_no_interrupt() {
    // spec: sync §1.3, sync §3.19
    // seed: N07, N15, N17
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    drain(&host);
    let raised = host.device_register(RAISED);
    let suppressed = host.device_register(SUPPRESSED);
    for batch in 0..1_000 {
        signal_batch(&mut client, &fence, batch * 10_000 + 1..=(batch + 1) * 10_000);
        // Drained, so that the stream is never full and the CPU never waits for it.
        drain(&host);
    }
    assert_eq!(fence.current(), 10_000_000);
    assert_eq!(host.device_register(RAISED) - raised, 0);
    // The stream's own progress signal is one more for each submission.
    assert_eq!(host.device_register(SUPPRESSED) - suppressed, 10_001_000);
}

/// Drained between signals: exactly one interrupt for each satisfied set, of one waiter or of several.
#[test]
fn one_interrupt_for_each_satisfied_set() {
    // spec: sync §3.9, sync §1.3
    // seed: N12, N14, N18
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    let device = client.gpu.device().handle();
    drain(&host);
    let (raised, dispatches) = (host.device_register(RAISED), host.counters());
    for set in 1..=50u64 {
        let waiters = 1 + set % 3;
        let pending: Vec<_> = (0..waiters)
            .map(|_| {
                let points = vec![(fence.handle(), set)];
                let call = wait(device, points);
                host.begin_call(client.link.process(), call).expect_err("the value has not come")
            })
            .collect();
        signal_batch(&mut client, &fence, set..=set);
        drain(&host);
        for wait in pending {
            host.take_answer(wait).expect("the wait is over").expect("and well");
        }
    }
    assert_eq!(host.device_register(RAISED) - raised, 50);
    let after = host.counters();
    assert_eq!(after.dispatches_releasing - dispatches.dispatches_releasing, 50);
    assert_eq!(after.interrupt_dispatches - dispatches.interrupt_dispatches, 50);
}

/// The same in real time: exactly one dispatch releases a waiter per satisfied set.
#[test]
fn one_releasing_dispatch_for_each_satisfied_set_in_real_time() {
    // spec: sync §3.9
    // seed: N35
    let host = host(Mode::Real, 4 * MIB);
    let mut client = client(&host);
    let fence = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    let before = host.counters();
    for set in 1..=200u64 {
        let device = client.gpu.device();
        let points = vec![(fence.handle(), set)];
        let call = wait(device.handle(), points);
        let waiting = host.begin_call(client.link.process(), call).expect_err("the value has not come");
        signal_batch(&mut client, &fence, set..=set);
        while host.take_answer(waiting).is_none() {
            std::thread::yield_now();
        }
    }
    let after = host.counters();
    assert_eq!(after.dispatches_releasing - before.dispatches_releasing, 200);
}

#[test]
fn a_cpu_signal_lets_a_parked_queue_go_on() {
    // spec: sync §3.6, sync §3.8
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let fence = client
            .gpu
            .device()
            .create_native_fence(NativeFenceRequest { initial_value: 5, ..Default::default() })
            .unwrap();
        assert_eq!(fence.current(), 5);
        let mut commands = Commands::new();
        commands.wait(&fence, 9);
        let value = client.stream.submit(&client.gpu, &[], &commands).unwrap();
        client.gpu.device().signal(&fence, 8).unwrap();
        assert_eq!(client.stream.progress().current(), 0, "{mode:?}: 8 is not 9");
        client.gpu.device().signal(&fence, 10).unwrap();
        client.stream.wait(&client.gpu, value).unwrap();
        let refused = client.gpu.device().signal(&fence, 3).expect_err("values rise");
        assert_eq!(refused.status, wddm_types::NtStatus::INVALID_PARAMETER);
        assert_eq!(fence.current(), 10, "{mode:?}: nothing changed");
    }
}

/// Two queues hand values to each other on the GPU; the CPU takes no part.
#[test]
fn engines_wait_for_each_other_without_the_cpu() {
    // spec: sync §3.8
    // seed: N06
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let mut copy = softgpu_umd::Stream::create(&client.gpu, wddm_types::NodeId(1), Default::default()).unwrap();
    let ping = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    let pong = client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    drain(&host);
    let before = (host.device_register(RAISED), host.counters());
    let (mut left, mut right) = (Commands::new(), Commands::new());
    for value in 1..=1000 {
        left.signal(&ping, value).wait(&pong, value);
        right.wait(&ping, value).signal(&pong, value);
    }
    client.stream.submit(&client.gpu, &[], &left).unwrap();
    copy.submit(&client.gpu, &[], &right).unwrap();
    drain(&host);
    assert_eq!((ping.current(), pong.current()), (1000, 1000));
    assert_eq!((host.device_register(RAISED), host.counters()), before, "no interrupt, no dispatch");
}

#[test]
fn what_a_fence_may_not_be() {
    // spec: sync §3.2, sync §5
    // seed: N65
    use d3dkmt::FenceFlags;
    use wddm_types::NtStatus;
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let device = client.gpu.device();
    let cases = [
        (0, FenceFlags::NO_SIGNAL | FenceFlags::NO_WAIT, NtStatus::INVALID_PARAMETER),
        (0, FenceFlags::NO_GPU_ACCESS, NtStatus::INVALID_PARAMETER),
        (0, FenceFlags::from_bits_retain(1 << 20), NtStatus::INVALID_PARAMETER),
        (0, FenceFlags::SHARED, NtStatus::INVALID_PARAMETER),
        (1, FenceFlags::CROSS_ADAPTER, NtStatus::INVALID_PARAMETER),
        (1, FenceFlags::empty(), NtStatus::NOT_SUPPORTED),
        (2, FenceFlags::empty(), NtStatus::INVALID_PARAMETER),
    ];
    for (fence_type, flags, status) in cases {
        let refused = device.create_native_fence(NativeFenceRequest { fence_type, flags, ..Default::default() }).err();
        assert_eq!(refused.expect("refused").status, status, "type {fence_type}, {flags:?}");
    }
    let no_wait =
        device.create_native_fence(NativeFenceRequest { flags: FenceFlags::NO_WAIT, ..Default::default() }).unwrap();
    assert_eq!(device.wait(&[(&no_wait, 1)]).expect_err("NoWait").status, NtStatus::ACCESS_DENIED);
    let no_signal =
        device.create_native_fence(NativeFenceRequest { flags: FenceFlags::NO_SIGNAL, ..Default::default() }).unwrap();
    assert_eq!(device.signal(&no_signal, 1).expect_err("NoSignal").status, NtStatus::ACCESS_DENIED);
}

/// More fences than one page of words holds: each has its own.
#[test]
fn many_fences_of_one_process() {
    // spec: sync §1.5
    // seed: N19, N20, N24
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let fences: Vec<_> =
        (0..300).map(|_| client.gpu.device().create_native_fence(Default::default()).unwrap()).collect();
    let mut commands = Commands::new();
    for (index, fence) in fences.iter().enumerate() {
        commands.signal(fence, index as u64 + 1);
        assert_ne!(fence.current_va().0 / 4096, fence.monitored_va().0 / 4096, "the two words never share a page");
    }
    let value = client.stream.submit(&client.gpu, &[], &commands).unwrap();
    client.stream.wait(&client.gpu, value).unwrap();
    for (index, fence) in fences.iter().enumerate() {
        assert_eq!(fence.current(), index as u64 + 1);
    }
    let pages: std::collections::BTreeSet<_> = fences.iter().map(|fence| fence.address().0 / 4096).collect();
    assert!(
        pages.iter().all(|page| page * 4096 < KERNEL_BYTES),
        "in the kernel's pages, which no allocation ever gets"
    );
    assert!(pages.len() <= 6, "300 fences at a stride of 64 bytes take 5 pages, not {}", pages.len());
}
