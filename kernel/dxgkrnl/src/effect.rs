//! The context that a turn of the machine runs in, and its effects. A leaf: every part may name them, and they name no part.

mod mapping;

use events::{Event, Tracer};
use kmt_calls::{MappingId, Notification, Refusal, Reply};
use shared_words::Memory;
use wddm_types::{AdapterIndex, ProcessId};

use crate::number::MappingChangeNumber;
use crate::platform::Platform;

pub use crate::number::Token;
pub use mapping::{Heard, MappingChange};

/// The machine's context for one turn.
pub struct Cx<'a> {
    /// The time in nanoseconds; never less than in the turn before.
    pub now_ns: u64,
    /// Where effects go, in order.
    pub effects: &'a mut Vec<Effect>,
    /// The tracer that hears of events.
    pub tracer: &'a mut dyn Tracer,
    /// System memory, one for all adapters and the same in every turn.
    pub memory: &'a Memory,
    /// The objects that the host provides, for each adapter by its index; for an adapter that is about to start, too.
    pub platforms: &'a [Box<dyn Platform>],
}

impl<'a> Cx<'a> {
    /// The objects that the host provides for an adapter.
    pub(crate) fn platform(&self, adapter: AdapterIndex) -> &'a dyn Platform {
        // PANIC: the host lends one for each adapter, from the adapter's start on.
        &*self.platforms[adapter.0 as usize]
    }

    /// Something of an adapter.
    pub(crate) fn emit(&mut self, adapter: AdapterIndex, event: Event) {
        self.tracer.event_of(adapter, self.now_ns, &event);
    }

    /// Something of no adapter's in particular: processes, their calls, their events.
    pub(crate) fn emit_of_all(&mut self, event: Event) {
        self.tracer.event(self.now_ns, &event);
    }
}

/// An action that the outside must carry out. The kernel does the rest through the driver and on shared words.
#[must_use = "an effect that is not performed leaves a caller waiting for ever"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call of this token is answered.
    Answer {
        /// The call.
        token: Token,
        /// Its answer.
        result: Result<Reply, Refusal>,
    },
    /// A process that registered for it is told something; it takes it when it likes.
    Notify {
        /// The process that is told.
        process: ProcessId,
        /// Its notification.
        notification: Notification,
    },
    /// A process's view of a locked allocation changes.
    Mapping {
        /// The mapping that changes.
        mapping: MappingId,
        /// Which change this is: those of an adapter are counted, and an answer means all up to the one that it names.
        number: MappingChangeNumber,
        /// Its change.
        change: MappingChange,
    },
    /// [`Machine::timer`] is to be called at this time, and at no earlier one that was named before; `None`: never.
    ArmTimer {
        /// Nanoseconds of [`Cx::now_ns`].
        at_ns: Option<u64>,
    },
}

/// A call's answer.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// At once.
    Done(Result<Reply, Refusal>),
    /// By an [`Effect::Answer`] of this turn or a later one.
    Later(Token),
}
