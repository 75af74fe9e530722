//! Which scheduling logs the driver accepts, which owners the device writes into them, and when the device has no log any more.

use std::sync::atomic::AtomicU64;

use ddi::{
    DriverStatus, HwQueueFlags, Miniport, PowerState, SCHEDULING_LOG_HEADER_WORDS, SchedulingLogBuffer,
    SetSchedulingLogBuffer,
};
use softgpu_spec::register::{self, record};
use wddm_types::{EngineId, GpuVa, NodeId};

use crate::driver::SoftGpuKmd;
use crate::fake_port::{FakeNotify, FakePort, Said, context, started};
use crate::queues::tests::{create, set_root};

fn set(
    kmd: &mut SoftGpuKmd,
    (node, engine): (u16, u16),
    header_entries: u64,
    entries: u32,
) -> Result<(), DriverStatus> {
    let words: [_; SCHEDULING_LOG_HEADER_WORDS] = [0, header_entries, 0, 0].map(AtomicU64::new);
    let header = std::array::from_fn(|word| &words[word]);
    let buffer = SchedulingLogBuffer { entries, header: &header, va: GpuVa(0x9000), interrupt_entry: 63 };
    let (node, engine) = (NodeId(node), EngineId(engine));
    kmd.hardware_queues().unwrap().set_scheduling_log_buffer(SetSchedulingLogBuffer {
        node,
        engine,
        buffer: Some(buffer),
    })
}

/// The engines whose logs were dropped by these writes.
fn dropped(port: &FakePort) -> Vec<u64> {
    let mut engine = 0;
    let mut dropped = Vec::new();
    for (register, value) in port.writes() {
        match register {
            register::SCHEDULING_LOG_ENGINE => engine = value,
            register::SCHEDULING_LOG_CONTROL if value == 0 => dropped.push(engine),
            _ => {}
        }
    }
    dropped
}

#[test]
fn the_device_is_told_where_its_log_lies_and_at_which_entry_it_is_to_interrupt() {
    // spec: sync §4.2, sync §2.11
    let (mut kmd, port, _) = started();
    set(&mut kmd, (1, 0), 127, 127).unwrap();
    let expected = [
        (register::SCHEDULING_LOG_ENGINE, 1),
        (register::SCHEDULING_LOG_ADDRESS, 0x9000),
        (register::SCHEDULING_LOG_ENTRIES, 127),
        (register::SCHEDULING_LOG_INTERRUPT, 63),
        (register::SCHEDULING_LOG_CONTROL, 1),
    ];
    assert_eq!(port.writes(), expected);
    for ((node, engine), header_entries, entries) in
        [((2, 0), 127, 127), ((0, 1), 127, 127), ((0, 0), 126, 127), ((0, 0), 0, 0)]
    {
        let refused = set(&mut kmd, (node, engine), header_entries, entries).unwrap_err();
        assert!(matches!(refused, DriverStatus::InvalidParameter(_)), "{refused:?}");
    }
    assert_eq!(port.writes(), [], "what is refused changes nothing");
}

#[test]
fn a_queue_bears_the_name_of_its_context() {
    // spec: sync §4.2
    let (mut kmd, port, mut host) = started();
    let (_, _, context) = context(&mut kmd, 0, false);
    set_root(&mut kmd, context, 0x5000);
    port.writes();
    create(&mut kmd, &mut host, context, HwQueueFlags::empty()).unwrap();
    let owner = port.writes().into_iter().find(|(register, _)| *register == register::QUEUE_OWNER);
    assert_eq!(owner, Some((register::QUEUE_OWNER, context.0)));
}

#[test]
fn a_device_that_touches_no_memory_writes_no_log() {
    // spec: sync §4.4, memory §8.4
    let (mut kmd, port, mut host) = started();
    kmd.reset_from_timeout(&mut host).unwrap();
    assert_eq!(dropped(&port), [0, 1]);
    kmd.restart_from_timeout(&mut host).unwrap();
    port.writes();
    kmd.set_power_state(&mut host, PowerState::Standby).unwrap();
    assert_eq!(dropped(&port), [0, 1]);
}

#[test]
fn an_entry_that_is_to_be_told_is_told_once() {
    // spec: sync §2.8
    let (mut kmd, port, _) = started();
    port.record(record::SCHEDULING_LOG, [1, 0, 0]);
    port.record(record::SCHEDULING_LOG, [1, 0, 0]);
    let mut notify = FakeNotify::default();
    assert!(kmd.interrupt_routine(&mut notify));
    assert_eq!(notify.0, [Said::SchedulingLog(1)]);
    assert!(!kmd.interrupt_routine(&mut notify));
}
