//! Every trace event, declared once: name, fields, units.
//!
//! Events are how the kernel says what it did: nothing moves, nobody waits and nothing is refused without one. Traces,
//! reports, checkers of the simulator and tests all read the same stream. An event is plain data; who listens is a
//! [`Tracer`], lent to the kernel for one turn.

mod event;
mod hash;
mod reason;

pub use event::{Cause, Event, Move};
pub use hash::TraceHash;
pub use reason::{Conversion, PreemptedFor, Stillness};

/// Listens to events.
pub trait Tracer {
    /// At `now_ns` of the kernel's clock this happened.
    fn event(&mut self, now_ns: u64, event: &Event);
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
}

impl<T: Tracer + ?Sized> Tracer for &mut T {
    fn event(&mut self, now_ns: u64, event: &Event) {
        (**self).event(now_ns, event);
    }
}

impl<T: Tracer + ?Sized> Tracer for Box<T> {
    fn event(&mut self, now_ns: u64, event: &Event) {
        (**self).event(now_ns, event);
    }
}
