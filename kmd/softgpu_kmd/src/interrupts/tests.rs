//! Records into reports, the NULL array, records that outlive what they name.

use ddi::{
    CreateHwQueue, CurrentUpdate, HwQueueFlags, KmdContext, KmdQueue, Miniport, OsGlobalFence, OsQueue, PageFault,
    ProgressFence, SubmitCommandToHwQueue, UpdateCurrentFlags,
};
use softgpu_spec::register::{fault, queue_state, record};
use wddm_types::{GpuVa, NodeId, PhysicalAddress};

use crate::driver::SoftGpuKmd;
use crate::fake_port::{FakeHost, FakeNotify, Said, context, started};
use crate::fences::tests::{fence, open};
use crate::segments::LOCAL;

/// A queue whose progress fence is number `fence` (kernel's handle), at 0x1000 in its space.
fn queue(kmd: &mut SoftGpuKmd, host: &mut FakeHost, context: KmdContext, number: u64) -> KmdQueue {
    kmd.gpu_va().unwrap().set_root_page_table(context, PhysicalAddress { segment: LOCAL, offset: 0x5000 }, 512);
    let progress = ProgressFence { fence: fence(kmd, number), current_va: GpuVa(0x1000), monitored_va: GpuVa(0x2000) };
    let create = CreateHwQueue {
        context,
        queue: OsQueue(1),
        flags: HwQueueFlags::NATIVE_PROGRESS_FENCE,
        progress,
        private_data: &mut [],
    };
    kmd.hardware_queues().unwrap().create_hw_queue(host, create).unwrap()
}

fn routine(kmd: &mut SoftGpuKmd) -> (bool, Vec<Said>) {
    let mut notify = FakeNotify::default();
    (kmd.interrupt_routine(&mut notify), notify.0)
}

fn named(node: u16, fences: &[u64]) -> Said {
    Said::Fences(node, Some(fences.iter().map(|fence| OsGlobalFence(*fence)).collect()))
}

#[test]
fn signals_are_named_by_the_kernels_handles_node_by_node() {
    // spec: sync §2.8, sync §3.10
    let (mut kmd, port, mut host) = started();
    assert_eq!(routine(&mut kmd), (false, vec![]), "not ours");
    let (_, device, compute) = context(&mut kmd, 0, false);
    let (_, _, copy) = context(&mut kmd, 1, false);
    queue(&mut kmd, &mut host, compute, 50);
    queue(&mut kmd, &mut host, copy, 51);
    let global = fence(&mut kmd, 7);
    open(&mut kmd, global, device, 0x7000).unwrap();
    port.record(record::FENCE, [0, 0x7000, 3]);
    port.record(record::FENCE, [1, 0x1000, 9]);
    port.record(record::FENCE, [0, 0x1000, 4]);
    port.record(record::FENCE, [0, 0x7000, 5]);
    port.record(record::MONITORED, [51 * 4096, 9, 0]);
    assert_eq!(routine(&mut kmd), (true, vec![named(0, &[7, 50, 51]), named(1, &[51])]));
    assert_eq!(routine(&mut kmd), (false, vec![]), "said once");
}

#[test]
fn what_is_not_known_is_the_null_array() {
    // spec: sync §3.10
    let (mut kmd, port, mut host) = started();
    let (_, device, compute) = context(&mut kmd, 0, false);
    let (_, _, copy) = context(&mut kmd, 1, false);
    queue(&mut kmd, &mut host, compute, 50);
    queue(&mut kmd, &mut host, copy, 51);
    let global = fence(&mut kmd, 7);
    open(&mut kmd, global, device, 0x7000).unwrap();
    for (kind, fields, node) in [
        (record::FENCE, [1, 0x7000, 1], 1),
        (record::FENCE, [99, 0x7000, 1], 0),
        (record::FENCE, [u64::MAX, 0, 1], 0),
        (record::MONITORED, [0xdead_0000, 1, 0], 0),
        (record::OVERFLOW, [0; 3], 0),
        (77, [0; 3], 0),
    ] {
        port.record(record::FENCE, [0, 0x7000, 1]);
        port.record(kind, fields);
        let (ours, said) = routine(&mut kmd);
        let mut expected =
            if node == 0 { vec![Said::Fences(0, None)] } else { vec![named(0, &[7]), Said::Fences(1, None)] };
        // A record of an unknown kind may have been about a monitored fence.
        if !matches!(kind, record::FENCE | record::MONITORED) {
            expected.push(Said::Monitored(0));
        }
        assert_eq!((ours, said), (true, expected), "kind {kind} {fields:x?}");
    }
}

#[test]
fn faults_name_the_queue_once() {
    // spec: memory §5.8
    let (mut kmd, port, mut host) = started();
    let (_, _, copy) = context(&mut kmd, 1, false);
    for (number, cause, write, invalid_instruction) in [
        (50, fault::NOT_PRESENT, false, false),
        (51, fault::READ_ONLY, true, false),
        (52, fault::BAD_COMMAND, false, true),
        (53, fault::PRIVILEGE, false, true),
    ] {
        let queue = queue(&mut kmd, &mut host, copy, number);
        let index = number - 50;
        port.record(record::FAULT, [index, 0xabc, cause | 2 << 8]);
        port.record(record::FAULT, [index, 0xabc, cause | 2 << 8]);
        let report = PageFault { queue, node: NodeId(1), virtual_address: 0xabc, write, level: 2, invalid_instruction };
        assert_eq!(routine(&mut kmd), (true, vec![Said::Fault(report)]));
    }
}

/// Interrupt 11 has no list: one for a node, however many signals there were.
#[test]
fn signals_of_monitored_fences_are_told_node_by_node() {
    // spec: sync §2.8, sync §3.7
    // seed: C15
    let (mut kmd, port, mut host) = started();
    let (_, _, compute) = context(&mut kmd, 0, false);
    let (_, _, copy) = context(&mut kmd, 1, false);
    queue(&mut kmd, &mut host, compute, 50);
    queue(&mut kmd, &mut host, copy, 51);
    for (index, value) in [(0, 1), (1, 2), (1, 3), (0, 4)] {
        port.record(record::SIGNALED, [index, 0x7000, value]);
    }
    assert_eq!(routine(&mut kmd), (true, vec![Said::Monitored(0), Said::Monitored(1)]));
    assert_eq!(routine(&mut kmd), (false, vec![]), "said once");
    // A queue that is gone: some node, and the interrupt all the same.
    port.record(record::SIGNALED, [9, 0x7000, 5]);
    assert_eq!(routine(&mut kmd), (true, vec![Said::Monitored(0)]));
}

#[test]
fn a_fault_whose_record_was_lost_is_found() {
    let (mut kmd, port, mut host) = started();
    let (_, _, compute) = context(&mut kmd, 0, false);
    queue(&mut kmd, &mut host, compute, 50);
    let faulted = queue(&mut kmd, &mut host, compute, 51);
    port.set_queue(1, queue_state::FAULTED);
    port.record(record::OVERFLOW, [0; 3]);
    let (_, said) = routine(&mut kmd);
    assert_eq!(said[0], Said::Fences(0, None));
    assert_eq!(said[1], Said::Monitored(0), "a monitored fence may have been among them");
    assert!(matches!(said[2..], [Said::Fault(PageFault { queue, .. })] if queue == faulted));
}

#[test]
fn a_record_means_what_it_meant_when_it_was_raised() {
    // spec: sync §3.4, sync §3.10
    let (mut kmd, port, mut host) = started();
    let (_, device, compute) = context(&mut kmd, 0, false);
    let first = queue(&mut kmd, &mut host, compute, 50);
    let (old, new) = (fence(&mut kmd, 7), fence(&mut kmd, 8));
    let local = open(&mut kmd, old, device, 0x7000).unwrap();
    port.record(record::FENCE, [0, 0x7000, 3]);
    kmd.native_fences().unwrap().close(local);
    open(&mut kmd, new, device, 0x7000).unwrap();
    assert_eq!(routine(&mut kmd), (true, vec![named(0, &[7])]), "the address belongs to another fence now");

    port.record(record::FENCE, [0, 0x1000, 3]);
    port.record(record::FAULT, [0, 0, fault::NOT_PRESENT]);
    kmd.hardware_queues().unwrap().destroy_hw_queue(&mut host, first);
    queue(&mut kmd, &mut host, compute, 60);
    assert_eq!(
        routine(&mut kmd),
        (true, vec![named(0, &[50])]),
        "the queue's number belongs to another queue; the driver drops the fault"
    );

    let doomed = fence(&mut kmd, 9);
    port.record(record::MONITORED, [9 * 4096, 1, 0]);
    kmd.native_fences().unwrap().destroy(doomed);
    assert_eq!(routine(&mut kmd), (true, vec![]), "a destroyed fence is never named");
}

#[test]
fn a_device_that_is_gone_raises_nothing_takes_nothing_and_holds_nothing_back() {
    let (mut kmd, port, mut host) = started();
    let (_, _, compute) = context(&mut kmd, 0, false);
    let known = queue(&mut kmd, &mut host, compute, 50);
    let sealed = fence(&mut kmd, 52);
    let update = [CurrentUpdate { fence: sealed, value: 0, current: None }];
    let flags = UpdateCurrentFlags::ALWAYS_SIGNALED;
    kmd.native_fences().unwrap().update_current_values(&update, flags).unwrap();
    port.record(record::FENCE, [0, 0x1000, 9]);
    port.pull();
    kmd.native_fences().unwrap().destroy(sealed);
    assert_eq!(routine(&mut kmd), (false, vec![]), "ones are no record");
    let submit = |value| SubmitCommandToHwQueue {
        queue: known,
        progress_value: value,
        buffer: GpuVa(0x9000),
        buffer_bytes: 64,
        private_data: &[],
        paging: false,
    };
    let mut values = 1..10_000;
    let refused =
        values.find(|value| kmd.hardware_queues().unwrap().submit_command_to_hw_queue(submit(*value)).is_err());
    assert!(refused.is_some(), "nothing reads the ring: it is full at some time");
    let progress = ProgressFence { fence: fence(&mut kmd, 51), current_va: GpuVa(0x3000), monitored_va: GpuVa(0x4000) };
    let create = CreateHwQueue {
        context: compute,
        queue: OsQueue(2),
        flags: HwQueueFlags::NATIVE_PROGRESS_FENCE,
        progress,
        private_data: &mut [],
    };
    assert!(kmd.hardware_queues().unwrap().create_hw_queue(&mut host, create).is_err(), "no device takes the queue");
    kmd.hardware_queues().unwrap().destroy_hw_queue(&mut host, known);
    kmd.stop_device(&mut host);
}
