//! The end of a turn: a refusal is counted and traced here, whichever call or surface it refuses.

use events::Event;
use kmt_calls::Refusal;
use wddm_types::{AdapterIndex, ProcessId};

use crate::effect::Cx;
use crate::machine::Machine;
use crate::scarcity::Lacking;

/// How a turn ended; the adapters that it touched have settled.
pub(super) struct Turned<T> {
    /// The adapter that the call is about.
    pub about: Option<AdapterIndex>,
    pub result: Result<T, Refusal>,
    /// The call is refused for want of this, and may wait for it.
    pub lacking: Option<Box<Lacking>>,
    /// Settling changed the memory of the adapter that lacks it.
    pub memory_changed: bool,
}

impl<T> Turned<T> {
    /// The result; a refusal is counted, and traced under the call's name.
    pub fn told(self, machine: &mut Machine, cx: &mut Cx<'_>, (from, name): (ProcessId, &str)) -> Result<T, Refusal> {
        if let Err(refusal) = &self.result {
            let refused = Event::CallRefused {
                process: from.0,
                call: name.to_owned(),
                status: refusal.status.0,
                reason: refusal.reason.to_string(),
            };
            match self.about {
                Some(adapter) => {
                    machine.adapters.untouched()[adapter.0 as usize].call_refused();
                    cx.emit(adapter, refused);
                }
                None => cx.emit_of_all(refused),
            }
        }
        self.result
    }
}
