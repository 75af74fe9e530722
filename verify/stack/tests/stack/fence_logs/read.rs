//! When the kernel reads logs, the entries that it takes from them, and false entries.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::{Fence, NativeFenceRequest};
use dxgk_host::{Host, HostConfig, Profile};
use events::Event;
use shared_words::{Memory, Word, log};
use softgpu_umd::{Commands, Stream, StreamConfig};
use wddm_types::{NodeId, PAGE_BYTES, RawHandle};

use super::copied;
use crate::fence_interrupts::begin_wait;
use crate::stubborn::{LogStep, Whims, wrapped};
use stack::heard::Heard;
use stack::world::{Client, MIB, VIRTUAL, client};

/// Everything that logs tell, and the interrupts that make the kernel read them.
pub fn of_logs(event: &Event) -> bool {
    matches!(
        event,
        Event::FenceSignalExecuted { .. }
            | Event::FenceWaitUnblocked { .. }
            | Event::FenceLogOverrun { .. }
            | Event::FenceLogEntryIgnored { .. }
            | Event::FenceLogTimeReversed { .. }
            | Event::FenceInterrupt { .. }
    )
}

/// A host of a profile whose driver has these whims, and its events of logs.
pub fn logging_host(profile: &str, whims: Whims) -> (Arc<Host>, Heard) {
    let heard = Heard::of(of_logs);
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(wrapped(whims)),
        tracer: Box::new(heard.clone()),
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), VIRTUAL)
    };
    (Host::start(config).expect("the host starts"), heard)
}

pub fn new_fence(client: &Client) -> Fence {
    client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap()
}

/// Submits and lets everything happen that follows.
pub fn run(host: &Arc<Host>, stream: &mut Stream, client: &Client, build: impl FnOnce(&mut Commands)) {
    let mut commands = Commands::new();
    build(&mut commands);
    stream.submit(&client.gpu, &[], &commands).expect("a submission");
    while host.step() {}
}

fn is_signal(event: &Event, of: u64) -> bool {
    matches!(event, Event::FenceSignalExecuted { value, .. } if *value == of)
}

#[test]
fn an_interrupt_makes_the_kernel_find_the_queue_and_its_time() {
    // spec: sync §3.7, sync §3.10, sync §3.14
    // seed: N103, N110, N111, N112, N118
    let updates: Arc<Mutex<Vec<LogStep>>> = Arc::default();
    let hears = Arc::clone(&updates);
    let hear_log = move |step| {
        hears.lock().unwrap().push(step);
        Ok(())
    };
    let (host, heard) = logging_host("discrete-4k", Whims { hear_log: Box::new(hear_log), ..Whims::default() });
    let mut client = client(&host);
    let mut streams: Vec<Stream> =
        (0..3).map(|_| Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).unwrap()).collect();
    let queues: Vec<_> = updates.lock().unwrap().drain(..).collect();
    let LogStep::Set(signaller, ..) = queues[queues.len() - 3] else { panic!("{queues:?}") };
    let fence = new_fence(&client);
    let wait = begin_wait(&host, &client, &fence, 77);
    while host.step() {}
    heard.take();
    let base = streams[1].logs().signal_base;
    run(&host, &mut streams[1], &client, |commands| {
        commands.signal(&fence, 77);
    });
    assert!(host.take_answer(wait).is_some());
    let events = heard.take();
    let [Event::FenceInterrupt { named: 1, released: 1, .. }, Event::FenceSignalExecuted { value: 77, end, .. }, ..] =
        events[..]
    else {
        panic!("the waiter goes first, and the entry is there when the interrupt is: {events:?}")
    };
    let steps: Vec<LogStep> = updates.lock().unwrap().drain(..).collect();
    assert_eq!(steps, [LogStep::Update(vec![signaller])], "a barrier in the one queue that has news");
    assert_eq!(copied(&mut client, base).1[0].end, end, "when the engine did it");
}

/// The signal logs in the kernel's memory.
pub fn logs_in(memory: &Memory) -> Vec<u64> {
    let is_log = |at: &u64| {
        let word = |offset: u64| Word::load(memory.word(at + offset));
        word(log::TYPE_OFFSET) == u64::from(log::SIGNALS) && word(log::ENTRIES_OFFSET) == log::LOG_ENTRIES
    };
    (0..dxgk_host::KERNEL_BYTES / PAGE_BYTES).map(|page| page * PAGE_BYTES).filter(is_log).collect()
}

/// A device whose entries arrive late: only its driver's barrier brings them.
#[test]
fn entries_are_read_behind_the_driver_s_barrier() {
    // spec: sync §3.14, sync §3.19 item 8
    // seed: N109, N110, N111
    let late: Arc<Mutex<Option<Arc<Memory>>>> = Arc::default();
    let commits = Arc::clone(&late);
    let hear_log = move |step| {
        if let (LogStep::Update(_), Some(memory)) = (step, commits.lock().unwrap().as_ref()) {
            for at in logs_in(memory) {
                Word::store(memory.word(at + log::entry_offset(0) + log::entry::FENCE_VALUE), 4711);
            }
        }
        Ok(())
    };
    let (host, heard) = logging_host("discrete-4k", Whims { hear_log: Box::new(hear_log), ..Whims::default() });
    let client = client(&host);
    let mut stream = Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).unwrap();
    let fence = new_fence(&client);
    begin_wait(&host, &client, &fence, 5);
    *late.lock().unwrap() = Some(Arc::clone(client.link.system_memory()));
    run(&host, &mut stream, &client, |commands| {
        commands.signal(&fence, 5);
    });
    assert!(heard.take().iter().any(|event| is_signal(event, 4711)));
}

#[test]
fn a_driver_without_a_barrier_loses_its_adapter() {
    // spec: sync §2.7
    let hear_log = |step| match step {
        LogStep::Update(_) => Err(ddi::DriverStatus::Unsuccessful("as the test wants")),
        LogStep::Set(..) | LogStep::Verbose(_) => Ok(()),
    };
    let (host, _) = logging_host("discrete-4k", Whims { hear_log: Box::new(hear_log), ..Whims::default() });
    let client = client(&host);
    let mut stream = Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).unwrap();
    let fence = new_fence(&client);
    let wait = begin_wait(&host, &client, &fence, 5);
    run(&host, &mut stream, &client, |commands| {
        commands.signal(&fence, 5);
    });
    assert!(host.take_answer(wait).is_some(), "the wait was over before");
    assert!(host.stopped().expect("it stops").contains("UpdateNativeFenceLogs"));
}

#[test]
fn entries_that_lie_are_ignored_and_times_that_go_back_are_told() {
    // spec: sync §3.14 (validation)
    // seed: N108
    let (host, heard) = logging_host("discrete-4k", Whims::default());
    let client = client(&host);
    let mut stream = Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).unwrap();
    let (fence, gone) = (new_fence(&client), new_fence(&client));
    let mut lie = softgpu_umd::FenceName::from(&fence);
    begin_wait(&host, &client, &fence, 9);
    let base = stream.logs().signal_base;
    let word = |entry: u64, offset: u64| base.offset(log::entry_offset(entry) + offset);
    let (named, end) = (log::entry::HANDLE_AND_OPERATION, log::entry::END);
    let destroyed = softgpu_umd::FenceName { handle: gone.handle(), ..lie };
    drop(gone);
    while host.step() {}
    heard.take();
    run(&host, &mut stream, &client, |commands| {
        // 0: a handle that there is not; 1: one of a queue; 2: of a fence that has gone; 3: a wait in the log of signals.
        lie.handle = RawHandle(0xdead_beef);
        commands.signal(lie, 1);
        lie.handle = client.gpu.device().handle();
        commands.signal(lie, 2).signal(destroyed, 3).signal(&fence, 4);
        commands.store(word(3, named), u64::from(fence.handle().0) | u64::from(log::WAIT_UNBLOCKED) << 32);
        // 4: no time; 5: of the far future; 6: the true one again, which is less.
        commands.signal(&fence, 5).store(word(4, end), 0).signal(&fence, 6).store(word(5, end), 1 << 50);
        commands.signal(&fence, 7).signal(&fence, 9);
    });
    let events = heard.take();
    let ignored: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::FenceLogEntryIgnored { position, waits: false, .. } => Some(*position),
            _ => None,
        })
        .collect();
    assert_eq!(ignored, [0, 1, 2, 3]);
    for value in [5, 6, 7, 9] {
        assert!(events.iter().any(|event| is_signal(event, value)), "{value} in {events:?}");
    }
    let reversed =
        events.iter().filter(|event| matches!(event, Event::FenceLogTimeReversed { before, .. } if *before == 1 << 50));
    assert_eq!(reversed.count(), 2, "the two behind it; no time is no time that goes back");
    // Headers that make no sense are of this process alone, and change nothing for it.
    for wild in [u64::MAX, 1, u64::from(u32::MAX)] {
        let wait = begin_wait(&host, &client, &fence, fence.current() + 2);
        let value = fence.current() + 2;
        run(&host, &mut stream, &client, |commands| {
            commands.store(base, wild).signal(&fence, value);
            // The interrupt is raised; the kernel reads the header before or after this store.
            commands.store(base, wild);
        });
        assert!(host.take_answer(wait).is_some(), "{wild:#x}");
    }
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

/// A log overruns before the kernel reads it: the kernel wakes the waiters of all fences all the same.
#[test]
fn an_overrun_loses_entries_and_no_waiter() {
    // spec: sync §3.14 (overrun), sync §3.19 item 8
    // seed: N104, N106, N107
    for (profile, traced) in [("discrete-4k", false), ("discrete-4k", true), ("optimized-fences", false)] {
        let (dropped, armed) = (AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
        let now = Arc::clone(&armed);
        // It tells of its last signal only.
        let say = move |interrupt: ddi::Interrupt<'_>, notify: &mut dyn ddi::Notify| match interrupt {
            ddi::Interrupt::NativeFenceSignaled { node, engine, queues, flags, .. } if now.load(Ordering::Relaxed) => {
                if dropped.fetch_add(1, Ordering::Relaxed) >= 2 {
                    notify.interrupt(ddi::Interrupt::NativeFenceSignaled { node, engine, fences: None, queues, flags });
                }
            }
            other => notify.interrupt(other),
        };
        let (host, heard) = logging_host(profile, Whims { say: Box::new(say), ..Whims::default() });
        let client = client(&host);
        let mut stream = Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).unwrap();
        host.trace_fences(traced);
        let (early, late, silent) = (new_fence(&client), new_fence(&client), new_fence(&client));
        let waits =
            [(&early, 1), (&early, 2), (&late, 1)].map(|(fence, value)| begin_wait(&host, &client, fence, value));
        while host.step() {}
        heard.take();
        armed.store(true, Ordering::Relaxed);
        run(&host, &mut stream, &client, |commands| {
            commands.signal(&early, 1).signal(&early, 2);
        });
        run(&host, &mut stream, &client, |commands| {
            // A traced queue has had longer logs since the kernel rang back.
            for value in 1..=if traced { 6_000 } else { 200 } {
                commands.signal(&silent, value);
            }
            commands.signal(&late, 1);
        });
        assert_eq!(waits.map(|wait| host.take_answer(wait).is_some()), [true; 3], "{profile}");
        armed.store(false, Ordering::Relaxed);
        let events = heard.take();
        let overruns: Vec<_> =
            events.iter().filter(|event| matches!(event, Event::FenceLogOverrun { .. })).cloned().collect();
        match (traced, &overruns[..]) {
            (false, []) | (true, [Event::FenceLogOverrun { waits: false, lost: 1.., .. }]) => {}
            (_, other) => panic!("{profile}, traced {traced}: {other:?}"),
        }
    }
}

/// A driver that lists fences, and an interrupt that was lost with its entry: the list does not name that fence, and the log has lost it.
#[test]
fn an_overrun_has_the_fences_looked_at_that_no_list_names() {
    // spec: sync §3.14 (overrun), sync §3.10
    // seed: N105
    for (count, released) in [(10, false), (200, true)] {
        let silent = Arc::new(AtomicBool::new(false));
        let now = Arc::clone(&silent);
        let say = move |interrupt: ddi::Interrupt<'_>, notify: &mut dyn ddi::Notify| match interrupt {
            ddi::Interrupt::NativeFenceSignaled { .. } if now.load(Ordering::Relaxed) => {}
            other => notify.interrupt(other),
        };
        let (host, heard) = logging_host("discrete-4k", Whims { say: Box::new(say), ..Whims::default() });
        let client = client(&host);
        let mut stream = Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).unwrap();
        let (lost, noise, bell) = (new_fence(&client), new_fence(&client), new_fence(&client));
        let waits = [(&lost, 1), (&bell, 1)].map(|(fence, value)| begin_wait(&host, &client, fence, value));
        while host.step() {}
        silent.store(true, Ordering::Relaxed);
        run(&host, &mut stream, &client, |commands| {
            commands.signal(&lost, 1);
            for value in 1..=count {
                commands.signal(&noise, value);
            }
        });
        silent.store(false, Ordering::Relaxed);
        heard.take();
        run(&host, &mut stream, &client, |commands| {
            commands.signal(&bell, 1);
        });
        let named = heard.take().iter().find_map(|event| match event {
            Event::FenceInterrupt { named, looked_at, .. } => Some((*named, *looked_at)),
            _ => None,
        });
        assert_eq!(named, Some((1, 1)), "the bell, and nothing else");
        // Without an overrun the contract holds: a fence that the driver does not list was not signalled.
        assert_eq!(waits.map(|wait| host.take_answer(wait).is_some()), [released, true], "{count} signals");
    }
}

/// An adapter that skips a write logs 0, and one whose clock is coarse logs one time twice; only a time that goes back is wrong.
#[test]
fn times_that_are_zero_or_repeat_are_no_error() {
    // spec: sync §3.14
    // seed: N108
    let (host, heard) = logging_host("discrete-4k", Whims::default());
    let client = client(&host);
    let mut stream = Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).unwrap();
    let fence = new_fence(&client);
    begin_wait(&host, &client, &fence, 6);
    let base = stream.logs().signal_base;
    let end = |entry: u64| base.offset(log::entry_offset(entry) + log::entry::END);
    let late = 1 << 50;
    while host.step() {}
    heard.take();
    run(&host, &mut stream, &client, |commands| {
        for (entry, time) in [late, late, 0, late, late - 1].into_iter().enumerate() {
            commands.signal(&fence, entry as u64 + 1).store(end(entry as u64), time);
        }
        commands.signal(&fence, 6);
    });
    let events = heard.take();
    let reversed: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|event| match event {
            Event::FenceLogTimeReversed { waits: false, before, end, .. } => Some((*before, *end)),
            _ => None,
        })
        .collect();
    assert_eq!(reversed[0], (late, late - 1), "the first that goes back: {reversed:?}");
    assert_eq!(reversed.len(), 2, "and the true one behind it: {reversed:?}");
    for value in 1..=6 {
        assert!(events.iter().any(|event| is_signal(event, value)), "{value}: every entry is read all the same");
    }
    assert_eq!(host.stopped(), None);
}
