//! Adapters that stop for good while the daemon serves, as the main thread hears of them: the kernel tells its tracer under its lock, where no
//! log is written. Called by `serve`.

use std::sync::mpsc::Sender;

use events::{Event, Tracer};
use wddm_types::AdapterIndex;

use super::signals::Told;

/// Hears the kernel, and passes all on to the next listener.
pub struct Stops {
    tell: Sender<Told>,
    rest: Box<dyn Tracer + Send>,
}

impl Stops {
    /// Tells the main thread, and `rest` of every event.
    pub fn new(tell: Sender<Told>, rest: Box<dyn Tracer + Send>) -> Stops {
        Stops { tell, rest }
    }

    fn hear(&self, event: &Event) {
        if let Event::AdapterStopped { adapter, reason } = event {
            // A main thread that is about to end logs nothing more.
            let _ = self.tell.send(Told::AdapterStopped { adapter: *adapter, reason: reason.clone() });
        }
    }
}

impl Tracer for Stops {
    fn event(&mut self, now_ns: u64, event: &Event) {
        self.hear(event);
        self.rest.event(now_ns, event);
    }

    fn event_of(&mut self, adapter: AdapterIndex, now_ns: u64, event: &Event) {
        self.hear(event);
        self.rest.event_of(adapter, now_ns, event);
    }
}
