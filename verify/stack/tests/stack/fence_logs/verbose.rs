//! A further type of log, which is there only while a tool has switched it on: when submissions begin.

use std::sync::{Arc, Mutex};

use dxgk_host::{Host, HostConfig, Profile};
use events::Event;
use shared_words::log;
use wddm_types::GpuVa;

use super::read::new_fence;
use crate::stubborn::{LogStep, Whims, wrapped};
use stack::heard::Heard;
use stack::world::{MIB, VIRTUAL, client};

/// A host with the kernel's calls to its driver, and its events of begun submissions.
fn listened() -> (Arc<Host>, Heard, Arc<Mutex<Vec<LogStep>>>) {
    let steps: Arc<Mutex<Vec<LogStep>>> = Arc::default();
    let into = Arc::clone(&steps);
    let hear_log = move |step| {
        into.lock().unwrap().push(step);
        Ok(())
    };
    let heard = Heard::of(|event| {
        matches!(
            event,
            Event::SubmissionBegun { .. } | Event::SubmissionLogOverrun { .. } | Event::FenceSignalExecuted { .. }
        )
    });
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(wrapped(Whims { hear_log: Box::new(hear_log), ..Whims::default() })),
        tracer: Box::new(heard.clone()),
        ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), VIRTUAL)
    };
    (Host::start(config).expect("the host starts"), heard, steps)
}

/// Values that were begun, with their times.
fn begun(events: &[Event]) -> Vec<(u64, u64)> {
    let begun = |event: &Event| match event {
        Event::SubmissionBegun { value, at, .. } => Some((*value, *at)),
        _ => None,
    };
    events.iter().filter_map(begun).collect()
}

#[test]
fn both_drivers_are_told_of_further_logs_and_have_them_only_while_a_tool_wants_them() {
    // spec: sync §3.14, sync §6 C13
    // seed: N121
    let (host, heard, steps) = listened();
    let mut client = client(&host);
    host.trace_fences(true);
    client.run(|_| ());
    assert_eq!(client.stream.logs().submission_base, GpuVa::NULL, "both mandatory types, and nothing else");
    steps.lock().unwrap().clear();

    host.set_verbose_logs(true);
    let told = std::mem::take(&mut *steps.lock().unwrap());
    let types = |told: &[LogStep]| -> Vec<u64> {
        let of = |step: &LogStep| if let LogStep::Set(_, kind, ..) = step { Some(*kind) } else { None };
        told.iter().filter_map(of).collect()
    };
    assert!(told.contains(&LogStep::Verbose(true)), "{told:?}");
    assert_eq!(types(&told), [log::WAITS, log::SIGNALS, log::SUBMISSIONS].map(u64::from));
    // The user-mode driver learns it from the doorbell, behind the first ring.
    client.run(|_| ());
    assert_ne!(client.stream.logs().submission_base, GpuVa::NULL);
    let first = client.stream.last_value() + 1;
    let fence = new_fence(&client);
    for value in 1..=3 {
        client.run(|commands| {
            commands.wait(&fence, 0).signal(&fence, value);
        });
    }

    host.set_verbose_logs(false);
    let told = std::mem::take(&mut *steps.lock().unwrap());
    assert_eq!(told.last(), Some(&LogStep::Verbose(false)), "{told:?}");
    assert_eq!(types(&told), [log::WAITS, log::SIGNALS].map(u64::from));
    // The kernel still reads the old logs that pending work names; after that no work names one.
    client.run(|_| ());
    assert_eq!(client.stream.logs().submission_base, GpuVa::NULL);
    client.run(|_| ());
    host.trace_fences(false);
    let events = heard.take();
    let seen = begun(&events);
    let values: Vec<u64> = seen.iter().map(|(value, _)| *value).collect();
    assert_eq!(
        values,
        [first, first + 1, first + 2, first + 3],
        "those between the two connections, the last before the ring"
    );
    assert!(seen.is_sorted_by_key(|(_, at)| *at), "{seen:?}");
    let executed = events.iter().filter_map(|event| match event {
        Event::FenceSignalExecuted { value, end, .. } if *value == first => Some(*end),
        _ => None,
    });
    let ended = executed.min().expect("its progress was signalled");
    assert!(seen[0].1 < ended, "it begins before it ends");
    assert!(!events.iter().any(|event| matches!(event, Event::SubmissionLogOverrun { .. })));
    host.check_invariants().unwrap();
}

#[test]
fn switching_twice_changes_nothing() {
    // spec: sync §3.14
    let (host, _, steps) = listened();
    let _client = client(&host);
    steps.lock().unwrap().clear();
    host.set_verbose_logs(false);
    assert_eq!(*steps.lock().unwrap(), []);
    host.set_verbose_logs(true);
    let once = steps.lock().unwrap().len();
    host.set_verbose_logs(true);
    assert_eq!(steps.lock().unwrap().len(), once);
    host.check_invariants().unwrap();
}
