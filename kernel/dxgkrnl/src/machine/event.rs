//! Events that adapters have named, and which are set behind everything else of a turn.

use super::{Cx, Machine};
use crate::number::EventName;
use crate::store::ObjectNumber;

impl Machine {
    /// Sets the events that the adapters have named in this turn.
    pub(super) fn set_events(&mut self, cx: &mut Cx<'_>) {
        let named: Vec<EventName> =
            self.adapters.untouched().iter_mut().flat_map(|adapter| adapter.take_events()).collect();
        for EventName { process, number } in named {
            let Some(known) = self.processes.get_mut(&process) else { continue };
            if let Some(event) = known.events.get_mut(number) {
                cx.emit_of_all(events::Event::EventSet { process: process.0, event: number.raw() });
                event.set(cx);
            }
        }
    }
}
