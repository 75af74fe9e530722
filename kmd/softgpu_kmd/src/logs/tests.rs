//! Which logs the driver accepts, and its barrier.

use std::sync::atomic::AtomicU64;

use ddi::{
    CreateHwQueue, DriverStatus, HwQueueFlags, KmdQueue, LOG_HEADER_WORDS, Miniport, OsQueue, ProgressFence,
    SetNativeFenceLogBuffer,
};
use softgpu_spec::register::{self, queue_control};
use wddm_types::GpuVa;

use crate::driver::SoftGpuKmd;
use crate::fake_port::{FakeHost, context, started};
use crate::fences::tests::fence;

fn queue(kmd: &mut SoftGpuKmd, host: &mut FakeHost, flags: HwQueueFlags) -> KmdQueue {
    let (_, _, context) = context(kmd, 1, false);
    let number = kmd.fences.globals_created() + 1;
    let progress = ProgressFence { fence: fence(kmd, number), current_va: GpuVa(0x1000), monitored_va: GpuVa(0x2000) };
    let flags = flags | HwQueueFlags::NATIVE_PROGRESS_FENCE;
    let create = CreateHwQueue { context, queue: OsQueue(1), flags, progress, private_data: &mut [] };
    kmd.hardware_queues().unwrap().create_hw_queue(host, create).unwrap()
}

fn set(kmd: &mut SoftGpuKmd, queue: KmdQueue, header: [u64; LOG_HEADER_WORDS], entries: u32) -> bool {
    let log = header.map(AtomicU64::new);
    let set = SetNativeFenceLogBuffer { queue, entries, log: &log, va: GpuVa(0x9000), system_va: GpuVa(0x5000) };
    let answer = kmd.native_fence_logs().unwrap().set_log_buffer(set);
    assert!(matches!(answer, Ok(()) | Err(DriverStatus::InvalidParameter(_))), "{answer:?}");
    answer.is_ok()
}

#[test]
fn the_header_says_which_log_it_is() {
    // spec: sync §2.7, sync §3.14
    // seed: N94, N97, N111
    let (mut kmd, port, mut host) = started();
    let fed = queue(&mut kmd, &mut host, HwQueueFlags::empty());
    assert!(!set(&mut kmd, fed, [0, 1, 84, 0, 0], 84), "a queue that the kernel feeds has none");
    let own = queue(&mut kmd, &mut host, HwQueueFlags::USER_MODE_SUBMISSION);
    assert!(!set(&mut kmd, own, [0, 3, 84, 0, 0], 84), "no such log");
    assert!(!set(&mut kmd, own, [0, 1, 84, 0, 0], 85), "header and call agree");
    assert!(!set(&mut kmd, own, [0, 1, 0, 0, 0], 0));
    assert!(!set(&mut kmd, KmdQueue(1 << 40), [0, 1, 84, 0, 0], 84));
    let update = |kmd: &mut SoftGpuKmd| kmd.native_fence_logs().unwrap().update_logs(&[own]);
    assert!(set(&mut kmd, own, [0, 1, 84, 0, 0], 84));
    assert!(set(&mut kmd, own, [0, 1, 84, 0, 0], 84), "again, behind a re-creation");
    update(&mut kmd).unwrap_err();
    assert!(set(&mut kmd, own, [0, 2, 84, 0, 0], 84));
    port.writes();
    update(&mut kmd).unwrap();
    assert_eq!(port.writes(), [], "the device does not know the queue yet: nothing is written for it");
    kmd.queues.handles.get_mut(own.0).unwrap().state = crate::queues::QueueStage::Enabled;
    let index = u64::from(kmd.queues.handles.get(own.0).unwrap().index);
    update(&mut kmd).unwrap();
    assert_eq!(port.writes(), [(register::QUEUE_SELECT, index), (register::QUEUE_CONTROL, queue_control::COMMIT)]);
}

/// One that the device does not know yet, between two that it knows, keeps nothing from the one behind it.
#[test]
fn each_named_queue_that_the_device_knows_is_committed() {
    // spec: sync §2.7, sync §3.14
    // seed: N111 (two)
    let (mut kmd, port, mut host) = started();
    let queues = [0; 3].map(|_| queue(&mut kmd, &mut host, HwQueueFlags::USER_MODE_SUBMISSION));
    for queue in queues {
        assert!([1, 2].into_iter().all(|kind| set(&mut kmd, queue, [0, kind, 84, 0, 0], 84)));
    }
    let enabled = [queues[0], queues[2]].map(|queue| {
        let queue = kmd.queues.handles.get_mut(queue.0).unwrap();
        queue.state = crate::queues::QueueStage::Enabled;
        u64::from(queue.index)
    });
    port.writes();
    kmd.native_fence_logs().unwrap().update_logs(&queues).unwrap();
    let commits =
        enabled.map(|index| [(register::QUEUE_SELECT, index), (register::QUEUE_CONTROL, queue_control::COMMIT)]);
    assert_eq!(port.writes(), commits.concat());
}
