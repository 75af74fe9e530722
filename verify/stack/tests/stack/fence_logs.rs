//! Logs of native fences: the queues that have them, the engines that write them, and their entries.

mod committed;
mod optimized;
mod reach;
pub mod read;
mod resized;
mod several;
mod traced;
mod verbose;

use std::sync::{Arc, Mutex};

use d3dkmt::NativeFenceRequest;
use device_port::DevicePort;
use dxgk_host::{Host, HostConfig, Profile};
use kmt_calls::{Call, NativeFenceLogDetail, QueueCall, QueueFlags, Reply};
use kmt_link::Link;
use shared_words::{Word, log};
use softgpu_spec::register;
use softgpu_umd::{Commands, Stream, StreamConfig, SurfaceKind};
use wddm_types::{GpuVa, NodeId};

use crate::stubborn::{LogStep, Shared, Whims, host_with, wrapped};
use stack::world::{Client, MIB, VIRTUAL, client, host};

/// An entry as it stands in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub value: u64,
    pub handle: u32,
    pub operation: u32,
    pub observed: u64,
    pub end: u64,
}

/// The GPU's view of a log, copied out by it: how many entries were ever written, and all that there are.
pub fn copied(client: &mut Client, base: GpuVa) -> (u64, Vec<Entry>) {
    let target = client.pinned(SurfaceKind::System, log::LOG_BYTES);
    client.run(|commands| {
        commands.copy(base, target.va(), log::LOG_BYTES);
    });
    let lock = target.lock().unwrap();
    let total = log::total(lock.read_word(log::POSITION_OFFSET), log::LOG_ENTRIES);
    let entry = |index: u64| {
        let word = |offset: u64| lock.read_word(log::entry_offset(index) + offset);
        let named = word(log::entry::HANDLE_AND_OPERATION);
        Entry {
            value: word(log::entry::FENCE_VALUE),
            handle: named as u32,
            operation: (named >> 32) as u32,
            observed: word(log::entry::OBSERVED),
            end: word(log::entry::END),
        }
    };
    (total, (0..total.min(log::LOG_ENTRIES)).map(entry).collect())
}

#[test]
fn only_a_queue_that_its_process_feeds_has_logs_and_its_driver_hears_of_both() {
    // spec: sync §2.7, sync §2.9, sync §3.14, sync §6 C1, sync §6 C3
    // seed: N44, N94, N95, N96, N97
    let heard: Arc<Mutex<Vec<LogStep>>> = Arc::default();
    let hears = Arc::clone(&heard);
    let hear_log = move |step| {
        hears.lock().unwrap().push(step);
        Ok(())
    };
    let host = host_with(4 * MIB, Whims { hear_log: Box::new(hear_log), ..Whims::default() });
    let client = client(&host);
    heard.lock().unwrap().clear();
    let owned = client.gpu.device().create_context(NodeId(0)).unwrap();
    let context = owned.handle();
    let create = |flags| {
        let made = client
            .link
            .call(Call::Queue(QueueCall::CreateHwQueue { context, flags, private_data: Vec::new() }))
            .unwrap();
        let Reply::HwQueue(made) = made else { panic!("{made:?}") };
        made.logs
    };
    assert_eq!(create(QueueFlags::empty()), None, "the kernel feeds it");
    assert_eq!(*heard.lock().unwrap(), []);
    let logs = create(QueueFlags::USER_MODE_SUBMISSION).expect("its process feeds it");
    let NativeFenceLogDetail { wait_entries, signal_entries, wait_base, signal_base, .. } = logs;
    assert_eq!((wait_entries, signal_entries), (84, 84));
    let heard = heard.lock().unwrap();
    let [LogStep::Set(first, waits, 84, wait_places), LogStep::Set(second, signals, 84, signal_places)] = heard[..]
    else {
        panic!("{heard:?}")
    };
    assert_eq!((first, waits, signals), (second, u64::from(log::WAITS), u64::from(log::SIGNALS)));
    assert_eq!((wait_places[0], signal_places[0]), (wait_base, signal_base), "the driver and its process agree");
    assert!(wait_base.0.abs_diff(signal_base.0) >= log::LOG_BYTES, "a buffer each");
    assert!(!wait_places[1].is_null() && wait_places[1] != signal_places[1], "and one in the paging process");
}

/// Entries that [`each_log_is_one_buffer`] has the driver and the CMP write: its queue writes fewer than these.
const DRIVERS: u64 = 20;
const CMPS: u64 = 21;

/// Each log has three places: the driver's CPU mapping, which it reads and writes, the queue's process and the paging process. What is
/// written through one is read through the others, in each of these logs, which have so many pages.
fn each_log_is_one_buffer(types: &[u32], long: bool) {
    let lent: Shared<(u64, [GpuVa; 2])> = Arc::default();
    let notes = Arc::clone(&lent);
    let lent_log = move |set: &ddi::SetNativeFenceLogBuffer<'_>| {
        let kind = Word::load(&set.log[log::TYPE_OFFSET as usize / 8]);
        let words = [set.log.len() - 1, log::entry_offset(DRIVERS) as usize / 8];
        for (word, value) in words.into_iter().zip([11, 12]) {
            Word::store(&set.log[word], value + kind * 100);
        }
        notes.lock().unwrap().push((set.log.len() as u64 * 8, [set.va, set.system_va]));
    };
    let port: Arc<Mutex<Option<Arc<dyn DevicePort>>>> = Arc::default();
    let keeps = Arc::clone(&port);
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(wrapped(Whims { lent_log: Box::new(lent_log), ..Whims::default() })),
        wrap_port: Some(Box::new(move |port| {
            *keeps.lock().unwrap() = Some(Arc::clone(&port));
            port
        })),
        ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), VIRTUAL)
    };
    let host = Host::start(config).expect("the host starts");
    host.trace_fences(long);
    host.set_verbose_logs(types.len() > 2);
    let mut client = client(&host);
    let (logs, places) = (client.stream.logs(), std::mem::take(&mut *lent.lock().unwrap()));
    let bases = [logs.wait_base, logs.signal_base, logs.submission_base];
    assert_eq!(places.iter().map(|(_, [va, _])| *va).collect::<Vec<_>>(), bases[..types.len()]);
    let port = port.lock().unwrap().take().expect("the device is there");
    for (kind, (bytes, [_, cmp_va])) in types.iter().zip(&places) {
        assert_eq!(*bytes > log::LOG_BYTES, long, "{kind}");
        // The CMP stores one word of its own into the log.
        let at = cmp_va.0 + log::entry_offset(CMPS);
        for (register, value) in [
            (register::CMP_ARGUMENT_0, at),
            (register::CMP_ARGUMENT_1, at),
            (register::CMP_ARGUMENT_2, u64::from(*kind) + 70),
            (register::CMP_COMMAND, register::cmp::PUBLISH_MONITORED),
        ] {
            port.write_register(register, value);
        }
        assert_eq!(port.read_register(register::CMP_RESULT), register::cmp_result::DONE);
    }
    for (kind, (bytes, [va, _])) in types.iter().zip(places) {
        let target = client.pinned(SurfaceKind::System, bytes);
        client.run(|commands| {
            commands.copy(va, target.va(), bytes);
        });
        let lock = target.lock().unwrap();
        let at = [log::TYPE_OFFSET, bytes - 8, log::entry_offset(DRIVERS), log::entry_offset(CMPS)];
        let kind = u64::from(*kind);
        let expected = [kind, 11 + kind * 100, 12 + kind * 100, kind + 70];
        assert_eq!(at.map(|at| lock.read_word(at)), expected, "kernel, driver, driver, CMP; long: {long}");
    }
}

#[test]
fn a_log_is_one_buffer_for_driver_process_and_cmp() {
    // spec: sync §2.7, sync §3.14
    // seed: N96 (two), N127
    for (types, long) in [
        (&[log::WAITS, log::SIGNALS][..], false),
        (&[log::WAITS, log::SIGNALS], true),
        (&[log::WAITS, log::SIGNALS, log::SUBMISSIONS], true),
    ] {
        each_log_is_one_buffer(types, long);
    }
}

#[test]
fn a_driver_that_takes_no_log_gets_no_queue() {
    // spec: sync §3.14
    // seed: N120
    let refuse = std::sync::atomic::AtomicBool::new(false);
    let refuse = Arc::new(refuse);
    let now = Arc::clone(&refuse);
    let hear_log = move |step| match step {
        LogStep::Set(_, 2, ..) if now.load(std::sync::atomic::Ordering::Relaxed) => {
            Err(ddi::DriverStatus::NoMemory("as the test wants"))
        }
        _ => Ok(()),
    };
    let host = host_with(4 * MIB, Whims { hear_log: Box::new(hear_log), ..Whims::default() });
    let mut client = client(&host);
    refuse.store(true, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..3 {
        assert!(Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).is_err());
    }
    host.check_invariants().unwrap();
    refuse.store(false, std::sync::atomic::Ordering::Relaxed);
    let other = Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).expect("now it takes them");
    client.run(|_| ());
    drop(other);
    host.check_invariants().unwrap();
}

/// Queue A waits for V1 of F, queue B signals it.
#[test]
fn engines_write_what_was_signalled_and_what_was_waited_for_with_their_times() {
    // spec: sync §3.14, sync §3.7, sync §3.8, sync §6 C2, sync §6 C7
    // seed: N93, N96, N98, N100, N101
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let device = client.gpu.device();
    let fence = device.create_native_fence(NativeFenceRequest::default()).unwrap();
    let mut other = Stream::create(&client.gpu, NodeId(1), StreamConfig::default()).unwrap();
    let (a, b) = (client.stream.logs(), other.logs());
    let mut waits = Commands::new();
    waits.wait(&fence, 7);
    let released = client.stream.submit(&client.gpu, &[], &waits).unwrap();
    while host.step() {}
    let parked_by = host.now_ns();
    let surface = client.pinned(SurfaceKind::Local, MIB);
    let mut signals = Commands::new();
    signals.pattern(surface.va(), MIB, 3).signal(&fence, 7);
    let done = other.submit(&client.gpu, &[], &signals).unwrap();
    other.wait(&client.gpu, done).unwrap();
    client.stream.wait(&client.gpu, released).unwrap();

    let (total, signalled) = copied(&mut client, b.signal_base);
    assert_eq!(total, 2, "the fence, and the queue's progress");
    let Entry { value, handle, operation, observed, end: executed } = signalled[0];
    assert_eq!((value, handle, operation, observed), (7, fence.handle().0, log::SIGNAL_EXECUTED, 0));
    assert_eq!((signalled[1].value, signalled[1].handle), (done, other.progress().handle().0));
    assert_eq!(copied(&mut client, b.wait_base).0, 0, "it has waited for nothing");

    let (_, waited) = copied(&mut client, a.wait_base);
    let Entry { value, handle, operation, observed, end } = waited[0];
    assert_eq!((value, handle, operation), (7, fence.handle().0, log::WAIT_UNBLOCKED));
    assert!(0 < observed && observed <= parked_by, "when the engine met it: {observed}");
    assert!(parked_by < executed && executed <= end, "when it went on: {end} behind {executed}");

    // A wait that holds already is logged, and was never met.
    client.run(|commands| {
        commands.wait(&fence, 5);
    });
    let (total, waited) = copied(&mut client, a.wait_base);
    assert_eq!((total, waited[1].value, waited[1].observed), (2, 5, 0));
    assert!(waited[1].end >= end, "times never go back");
}
