//! PreemptCommand over a device that executes nothing: where packets go on, and the driver's reports.

use super::*;

/// The first `count` commands of the ring.
fn ring_commands(rig: &mut Rig, count: usize) -> Vec<Command<'static>> {
    let (_, at) = ring_of(rig);
    let words: Vec<u64> = (0..16).map(|word| shared_words::Word::load(rig.kmd.system.word(at + word * 8))).collect();
    let mut found = Vec::new();
    let mut rest = &words[..];
    while found.len() < count {
        let (command, length) = Command::decode(rest).unwrap();
        found.push(match command {
            Command::BranchPhysical { bus, words } => Command::BranchPhysical { bus, words },
            Command::Complete { value } => Command::Complete { value },
            Command::Nop => Command::Nop,
            other => panic!("{other:?} in a ring"),
        });
        rest = &rest[length..];
    }
    found
}

pub(super) fn preempt(rig: &mut Rig, fence: u32) {
    let command = PreemptCommand { node: NodeId(1), engine: wddm_types::EngineId(0), preemption_fence_id: fence };
    rig.kmd.preempt_command(command).unwrap();
}

pub(super) fn said(rig: &mut Rig) -> Vec<Said> {
    let mut notify = FakeNotify::default();
    rig.kmd.interrupt_routine(&mut notify);
    notify.0
}

#[test]
fn what_was_interrupted_goes_on_behind_what_is_done() {
    // spec: memory §7.4, sync §4.3
    let (mut rig, _) = rig(DmaBuffers::Contiguous);
    let (index, none, again) = (ring_of(&mut rig).0, SubmitFlags::empty(), SubmitFlags::RESUBMISSION);
    for (address, fence_id) in [(0x3000, 7), (0x4000, 8), (0x5000, 9)] {
        submit(&mut rig, address, fence_id, none).unwrap();
    }
    preempt(&mut rig, 1);
    assert!(
        rig.port
            .writes()
            .ends_with(&[(register::QUEUE_SELECT, index), (register::QUEUE_CONTROL, queue_control::PREEMPT)])
    );
    assert_eq!(said(&mut rig), [], "the device has not answered");
    // The first is done, its record is lost; two words of the second are done.
    rig.port.record(record::PREEMPTED, [index, PACKET_BYTES, 2]);
    assert_eq!(said(&mut rig), [Said::Completed(7), Said::Preempted(1, 7)]);
    assert!(submit(&mut rig, 0x5000, 10, again).is_err(), "another one than was interrupted");
    submit(&mut rig, 0x4000, 10, again).unwrap();
    submit(&mut rig, 0x5000, 11, again).unwrap();
    let branch = |address: u64, words| Command::BranchPhysical { bus: bus::SYSTEM_BASE + address, words };
    let complete = |value| Command::Complete { value };
    let rest = [branch(0x4010, 2), complete(10), branch(0x5000, 4), complete(11)];
    assert_eq!(ring_commands(&mut rig, 4), rest);
    // Interrupted again, one word further; and when all but its completion is done.
    for (fence, read, nested, left) in [(2, 0, 1, Some(1)), (3, 16, 0, None)] {
        preempt(&mut rig, fence);
        rig.port.record(record::PREEMPTED, [index, read, nested]);
        assert_eq!(said(&mut rig), [Said::Preempted(fence, 7)]);
        submit(&mut rig, 0x4000, 12, again).unwrap();
        let first = left.map_or(Command::Nop, |words| branch(0x4018, words));
        assert_eq!(ring_commands(&mut rig, 2), [first, complete(12)]);
    }
    // The driver ignores an answer without a request; when records were lost it reads the state of the queue.
    rig.port.record(record::PREEMPTED, [index, 0, 0]);
    assert_eq!(said(&mut rig), []);
    preempt(&mut rig, 4);
    rig.port.set_queue(index, queue_state::PREEMPTED);
    rig.port.record(record::OVERFLOW, [0; 3]);
    assert!(said(&mut rig).contains(&Said::Preempted(4, 7)));
}

#[test]
fn what_was_interrupted_is_remembered_over_a_preemption_in_which_others_are_first() {
    // spec: memory §7.4, sync §4.3
    let (mut rig, _) = rig(DmaBuffers::Contiguous);
    let device = rig.kmd.packets.get(rig.context).unwrap().device;
    let (first, index, again) = (rig.context, ring_of(&mut rig).0, SubmitFlags::RESUBMISSION);
    let other = patched(&mut rig, device, 6);
    submit(&mut rig, 0x3000, 7, SubmitFlags::empty()).unwrap();
    preempt(&mut rig, 1);
    rig.port.record(record::PREEMPTED, [index, 0, 2]);
    assert_eq!(said(&mut rig), [Said::Preempted(1, 0)]);
    // Another context's packet goes first, and the kernel preempts both before the second began again.
    rig.context = other;
    submit(&mut rig, 0x4000, 8, SubmitFlags::empty()).unwrap();
    rig.context = first;
    submit(&mut rig, 0x3000, 9, again).unwrap();
    preempt(&mut rig, 2);
    rig.port.record(record::PREEMPTED, [index, 0, 1]);
    assert_eq!(said(&mut rig), [Said::Preempted(2, 0)]);
    submit(&mut rig, 0x3000, 10, again).unwrap();
    rig.context = other;
    submit(&mut rig, 0x4000, 11, again).unwrap();
    let branch = |address: u64, words| Command::BranchPhysical { bus: bus::SYSTEM_BASE + address, words };
    let complete = |value| Command::Complete { value };
    let rest = [branch(0x3010, 2), complete(10), branch(0x4008, 3), complete(11)];
    assert_eq!(ring_commands(&mut rig, 4), rest);
}

/// The records say which packets are done before the fault, and where that was; without them the read pointer says the first.
#[test]
fn a_preemption_that_finds_a_fault_takes_the_records_first() {
    // spec: memory §5.8, sync §4.3
    for recorded in [true, false] {
        let (mut rig, _) = rig(DmaBuffers::Contiguous);
        let index = ring_of(&mut rig).0;
        submit(&mut rig, 0x3000, 7, SubmitFlags::empty()).unwrap();
        submit(&mut rig, 0x4000, 8, SubmitFlags::empty()).unwrap();
        if recorded {
            rig.port.record(record::COMPLETED, [index, 7, 0]);
            rig.port.record(record::FAULT, [index, 0x1234_5000, fault::READ_ONLY]);
        }
        rig.port.set_read_pointer(PACKET_BYTES);
        rig.port.set_queue(index, queue_state::FAULTED);
        preempt(&mut rig, 1);
        let (virtual_address, write) = if recorded { (0x1234_5000, true) } else { (0, false) };
        let (node, fence_id, invalid_instruction) = (NodeId(1), 8, false);
        let fault = DmaFault { node, fence_id, virtual_address, write, invalid_instruction };
        assert_eq!(said(&mut rig), [Said::Completed(7), Said::DmaFault(fault)], "recorded: {recorded}");
    }
}

/// Contexts share a ring: a stopped context takes only its own packets out.
#[test]
fn packets_of_others_stay_when_a_context_is_stopped() {
    // spec: memory §5.8, sync §4.3
    let (mut rig, _) = rig(DmaBuffers::Contiguous);
    let device = rig.kmd.packets.get(rig.context).unwrap().device;
    let (first, index) = (rig.context, ring_of(&mut rig).0);
    let second = patched(&mut rig, device, 6);
    submit(&mut rig, 0x3000, 7, SubmitFlags::empty()).unwrap();
    rig.context = second;
    submit(&mut rig, 0x4000, 8, SubmitFlags::empty()).unwrap();
    preempt(&mut rig, 1);
    rig.port.writes();
    rig.kmd.stop_context(first);
    let branch = Command::BranchPhysical { bus: bus::SYSTEM_BASE + 0x4000, words: 4 };
    assert_eq!(ring_commands(&mut rig, 2), [branch, Command::Complete { value: 8 }]);
    let last = rig.port.writes().last().copied();
    assert_eq!(last, Some((register::QUEUE_CONTROL, queue_control::PREEMPT)), "the kernel still waits for its answer");
    rig.port.record(record::PREEMPTED, [index, 0, 0]);
    assert_eq!(said(&mut rig), [Said::Preempted(1, 0)]);
}
