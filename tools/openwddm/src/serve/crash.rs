//! Records of crashes: when a thread of the daemon panics, in the kernel, a driver or elsewhere, the outside process writes a file with the
//! reason, the version, and the kernel's last events, where the configuration says (`[crash]`). Called by `serve`.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::panic::PanicHookInfo;
use std::sync::{Arc, Mutex, PoisonError};

use dxgkd::Outside;
use events::{Event, Tracer};
use wddm_types::AdapterIndex;

/// How many events a record has.
const EVENTS: usize = 256;

/// An event, its adapter, and when it happened, ns.
type Happened = (Option<AdapterIndex>, u64, Event);

/// The kernel's last events.
#[derive(Clone, Debug, Default)]
pub struct LastEvents {
    kept: Arc<Mutex<VecDeque<Happened>>>,
}

impl LastEvents {
    fn keep(&self, adapter: Option<AdapterIndex>, now_ns: u64, event: &Event) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == EVENTS {
            kept.pop_front();
        }
        kept.push_back((adapter, now_ns, event.clone()));
    }

    /// A line each, the oldest first. It waits for no other thread.
    fn text(&self) -> String {
        let Ok(kept) = self.kept.try_lock() else { return "(another thread has them)\n".to_owned() };
        let mut text = String::new();
        for (adapter, now_ns, event) in kept.iter() {
            let of = adapter.map_or(String::new(), |adapter| format!("adapter {}: ", adapter.0));
            // Writing to a string does not fail.
            let _ = writeln!(text, "{now_ns} {of}{event:?}");
        }
        text
    }
}

impl Tracer for LastEvents {
    fn event(&mut self, now_ns: u64, event: &Event) {
        self.keep(None, now_ns, event);
    }

    fn event_of(&mut self, adapter: AdapterIndex, now_ns: u64, event: &Event) {
        self.keep(Some(adapter), now_ns, event);
    }
}

/// From now on each panic leaves a record and a line in the log, and no message of the standard library ([`log_panics`]).
pub fn record_panics(outside: Arc<Outside>, last: LastEvents, adapters: String) {
    std::panic::set_hook(Box::new(move |panic| {
        let reason = reason(panic);
        match outside.record(&record(&reason, &adapters, &last)) {
            Ok(path) => tracing::error!("{reason}; its record is {path}"),
            Err(error) => tracing::error!("{reason}; it has no record: {error}"),
        }
    }));
}

/// From now on each panic leaves a line in the log. The message of the standard library is not printed: with RUST_BACKTRACE the standard library
/// looks for files, and the operating system ends a daemon in its sandbox at such a call, before there is any message.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| tracing::error!("{}", reason(panic))));
}

fn reason(panic: &PanicHookInfo<'_>) -> String {
    let said = panic.payload();
    let said = said.downcast_ref::<&str>().copied().or_else(|| said.downcast_ref::<String>().map(String::as_str));
    let place = panic.location().map_or(String::new(), |place| format!(" at {place}"));
    let thread = std::thread::current();
    format!("thread \"{}\" panicked{place}: {}", thread.name().unwrap_or("?"), said.unwrap_or("no text"))
}

/// The text of a record.
fn record(reason: &str, adapters: &str, last: &LastEvents) -> String {
    format!(
        "openwddm {}\nreason: {reason}\nadapters: {adapters}\nthe kernel's last events, at most {EVENTS}, with its clock in nanoseconds:\n{}",
        env!("CARGO_PKG_VERSION"),
        last.text()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_reason_the_version_and_the_last_events_alone() {
        let mut last = LastEvents::default();
        for process in 0..1000 {
            last.event_of(AdapterIndex(1), u64::from(process) * 10, &Event::ProcessCreated { process });
        }
        let text = record("thread \"lane 7\" panicked at a.rs:1:2: a defect", "discrete-4k", &last);
        assert!(
            text.starts_with(concat!("openwddm ", env!("CARGO_PKG_VERSION"), "\nreason: thread \"lane 7\"")),
            "{text}"
        );
        let events: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(events.len(), EVENTS);
        assert_eq!(events[0], format!("7440 adapter 1: {:?}", Event::ProcessCreated { process: 744 }));
        assert_eq!(events[255], format!("9990 adapter 1: {:?}", Event::ProcessCreated { process: 999 }));
    }
}
