//! Logs of other sizes: a queue gets long ones while a tool traces, and short ones afterwards; the old ones live as long as work names them.

use std::sync::{Arc, Mutex};

use d3dkmt::DeviceState;
use events::Event;
use kmt_calls::{AdapterCall, Call};
use softgpu_umd::{Commands, SurfaceKind};

use super::copied;
use super::read::{logging_host, new_fence};
use super::traced::traced;
use crate::stubborn::{LogStep, Whims};
use stack::heard::heard_on;
use stack::world::{Client, MIB, VIRTUAL, client};

#[test]
fn logs_are_short_again_when_the_tool_has_gone_and_the_long_ones_are_freed() {
    // spec: sync §3.14 (resize, re-creation)
    let (host, heard, mut client) = traced();
    let fence = new_fence(&client);
    let long = client.stream.logs();
    assert!(long.signal_entries > 5_000);
    host.trace_fences(false);
    // The first finds its doorbell gone; with the second the work that named the long logs is done.
    for value in 1..=3 {
        client.run(|commands| {
            commands.signal(&fence, value);
        });
    }
    let short = client.stream.logs();
    assert_eq!((short.signal_entries, short.wait_entries), (84, 84));
    assert_eq!((fence.current(), client.gpu.device().state().unwrap()), (3, DeviceState::Active));
    // And long once more, for the next one.
    host.trace_fences(true);
    client.run(|_| ());
    assert_eq!(client.stream.logs().signal_entries, long.signal_entries);
    host.trace_fences(false);
    client.run(|_| ());
    client.run(|_| ());
    assert!(!heard.take().iter().any(|event| matches!(event, Event::FenceLogOverrun { .. })));
    host.check_invariants().unwrap();
    // Where the first ones lay there is nothing any more.
    let copy = client.pinned(SurfaceKind::System, 4096);
    let mut commands = Commands::new();
    commands.copy(long.signal_base, copy.va(), 4096);
    let value = client.stream.submit(&client.gpu, &[], &commands).unwrap();
    let _ = client.stream.wait(&client.gpu, value);
    assert_eq!(client.gpu.device().state().unwrap(), DeviceState::ErrorDmaPageFault);
}

/// The turn that finds the work of old logs done takes their pages out of reach, whatever the turn's call was about.
#[test]
fn any_call_frees_the_logs_that_no_work_names_any_more() {
    // spec: sync §3.14 (resize)
    let paging = |event: &Event| matches!(event, Event::PagingSubmitted { .. });
    let (host, heard) = heard_on("discrete-4k", VIRTUAL, 4 * MIB, paging);
    host.trace_fences(true);
    let mut client = client(&host);
    let fence = new_fence(&client);
    host.trace_fences(false);
    for value in 1..=2 {
        let mut commands = Commands::new();
        commands.signal(&fence, value);
        client.stream.submit(&client.gpu, &[], &commands).unwrap();
    }
    while host.step() {}
    heard.take();
    client.gpu.device().link().call(Call::Adapter(AdapterCall::EnumAdapters)).unwrap();
    assert_eq!(heard.take().len(), 1, "the paging that takes the long logs out of reach");
    host.check_invariants().unwrap();
}

/// A queue exists when tracing begins, with pending work that names its old logs.
#[test]
fn a_queue_gets_longer_logs_while_work_is_queued() {
    // spec: sync §3.14 (resize), sync §3.17, sync §6 C3, sync §6 D3
    // seed: N97, N106
    let sets: Arc<Mutex<Vec<LogStep>>> = Arc::default();
    let hears = Arc::clone(&sets);
    let hear_log = move |step| {
        if matches!(step, LogStep::Set(..)) {
            hears.lock().unwrap().push(step);
        }
        Ok(())
    };
    let (host, heard) = logging_host("discrete-4k", Whims { hear_log: Box::new(hear_log), ..Whims::default() });
    let mut client = client(&host);
    let (gate, fence) = (new_fence(&client), new_fence(&client));
    let submit = |client: &mut Client, value: u64| {
        let mut commands = Commands::new();
        commands.wait(&gate, value).signal(&fence, value);
        client.stream.submit(&client.gpu, &[], &commands).unwrap()
    };
    let short = client.stream.logs();
    submit(&mut client, 1);
    while host.step() {}
    sets.lock().unwrap().clear();
    host.trace_fences(true);
    assert_eq!(client.stream.logs(), short, "the process has not heard of the change");
    // This one is written before the process finds out, and is executed once.
    submit(&mut client, 2);
    let long = client.stream.logs();
    assert!(long.signal_entries > 5_000 && long.signal_base != short.signal_base, "{long:?}");
    let heard_of: Vec<_> = sets.lock().unwrap().clone();
    let places: Vec<_> = heard_of
        .iter()
        .map(|step| match step {
            LogStep::Set(_, log_type, entries, places) => (*log_type, *entries, places[0]),
            LogStep::Update(_) | LogStep::Verbose(_) => unreachable!("not kept"),
        })
        .collect();
    let expected = [(1, long.wait_entries, long.wait_base), (2, long.signal_entries, long.signal_base)];
    assert_eq!(places, expected, "the driver has heard of both again");
    let last = submit(&mut client, 3);
    client.gpu.device().signal(&gate, 3).unwrap();
    client.stream.wait(&client.gpu, last).unwrap();
    assert_eq!(copied(&mut client, short.signal_base).1.iter().map(|entry| entry.value).filter(|v| *v < 3).count(), 4);
    host.trace_fences(false);
    // The first two by the old logs, the third by the new ones.
    let told = heard.take();
    let of = |name: &str| told.iter().filter(|event| event.name() == name).count();
    assert_eq!(of("FenceWaitUnblocked"), 3, "{told:?}");
    for value in 1..=3 {
        let times = told.iter().filter(|event| match event {
            Event::FenceWaitUnblocked { value: of, .. } => *of == value,
            _ => false,
        });
        assert_eq!(times.count(), 1, "{value}");
    }
    assert_eq!((of("FenceLogOverrun"), of("FenceLogEntryIgnored")), (0, 0));
    assert_eq!((fence.current(), client.gpu.device().state().unwrap()), (3, DeviceState::Active));
    host.check_invariants().unwrap();
    drop(client);
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}
