//! Every trace event, declared once: name, fields, units.
//!
//! By events the kernel tells its work: it moves no content, holds no wait and refuses no call without one. Traces, reports, checkers of
//! the simulator and tests all read the same stream. An event is plain data; the listener is a [`Tracer`], lent to the kernel for one
//! turn.

mod concerned;
mod event;
mod hash;
mod movement;
mod reason;

pub use concerned::Concerned;
pub use event::Event;
pub use hash::TraceHash;
pub use movement::{Cause, Move};
pub use reason::{ContextSchedule, Conversion, DoorbellTaken, PreemptedFor, Stillness};
use wddm_types::AdapterIndex;

/// Listens to events.
pub trait Tracer {
    /// At `now_ns` of the kernel's clock this happened.
    fn event(&mut self, now_ns: u64, event: &Event);

    /// The same of what concerns one adapter; numbers of objects are its own. A listener to a single adapter need not tell them apart.
    fn event_of(&mut self, _adapter: AdapterIndex, now_ns: u64, event: &Event) {
        self.event(now_ns, event);
    }
}

/// Listens to nothing.
pub struct Silence;

impl Tracer for Silence {
    fn event(&mut self, _now_ns: u64, _event: &Event) {}
}

impl<A: Tracer, B: Tracer> Tracer for (A, B) {
    fn event(&mut self, now_ns: u64, event: &Event) {
        self.0.event(now_ns, event);
        self.1.event(now_ns, event);
    }

    fn event_of(&mut self, adapter: AdapterIndex, now_ns: u64, event: &Event) {
        self.0.event_of(adapter, now_ns, event);
        self.1.event_of(adapter, now_ns, event);
    }
}

impl<T: Tracer + ?Sized> Tracer for &mut T {
    fn event(&mut self, now_ns: u64, event: &Event) {
        (**self).event(now_ns, event);
    }

    fn event_of(&mut self, adapter: AdapterIndex, now_ns: u64, event: &Event) {
        (**self).event_of(adapter, now_ns, event);
    }
}

impl<T: Tracer + ?Sized> Tracer for Box<T> {
    fn event(&mut self, now_ns: u64, event: &Event) {
        (**self).event(now_ns, event);
    }

    fn event_of(&mut self, adapter: AdapterIndex, now_ns: u64, event: &Event) {
        (**self).event_of(adapter, now_ns, event);
    }
}
