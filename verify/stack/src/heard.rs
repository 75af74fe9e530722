//! The kernel's events, for tests that look at them afterwards.

use std::sync::{Arc, Mutex};

use dxgk_host::{Host, HostConfig, Mode, Profile};
use events::{Event, Tracer};

use crate::world::MIB;

/// Remembers events of some kinds, and when they were.
#[derive(Clone)]
pub struct Heard {
    kept: fn(&Event) -> bool,
    events: Arc<Mutex<Vec<(u64, Event)>>>,
}

impl Heard {
    /// Those for which this holds.
    pub fn of(kept: fn(&Event) -> bool) -> Heard {
        Heard { kept, events: Arc::default() }
    }

    /// The events since the last call, with virtual nanoseconds.
    pub fn take_timed(&self) -> Vec<(u64, Event)> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    /// The same without times.
    pub fn take(&self) -> Vec<Event> {
        self.take_timed().into_iter().map(|(_, event)| event).collect()
    }

    /// How many of the events are such; all stay.
    pub fn count(&self, which: impl Fn(&Event) -> bool) -> usize {
        self.events.lock().unwrap().iter().filter(|(_, event)| which(event)).count()
    }
}

impl Tracer for Heard {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if (self.kept)(event) {
            self.events.lock().unwrap().push((now_ns, event.clone()));
        }
    }
}

/// A host of a profile with this much video memory, and its events.
pub fn heard_on(profile: &str, mode: Mode, vram_bytes: u64, kept: fn(&Event) -> bool) -> (Arc<Host>, Heard) {
    let heard = Heard::of(kept);
    let config = HostConfig {
        vram_bytes,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(heard.clone()),
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), mode)
    };
    (Host::start(config).expect("the host starts"), heard)
}
