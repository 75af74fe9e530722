//! The life of a node between the packets that it has: one enum, one table. Only in `Fed` is a packet handed over.
//!
//! ```text
//!         Ask, Refuse back      Answer
//!      ┌─────┐ ◀─▶ ┌───────┐ ──────▶ ┌───────────┐
//!   ──▶│ Fed │     │ Asked │         │ Answering │
//!      └─────┘     └───────┘         └───────────┘
//!       ▲   ▲  Reset from anywhere         │
//!  Lost │   │    ┌───────────┐             │
//!  from │   └────│ Resetting │             │ GoOn
//!  any- │  GoOn  └───────────┘             │
//!  where└──────────────────────────────────┘
//! ```
//! The hardware of the whole adapter may be lost while the caller carries out an answer or a reset. The end of that answer finds the node
//! fed then, or asked anew, and changes nothing.

use super::{PacketFenceId, PreemptionNumber};

/// Whether a node is handed packets, and why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeState {
    /// Packets are handed over as their turn comes.
    Fed,
    /// The driver owes the answer to this request.
    Asked(PreemptionNumber),
    /// The answer has come, with this packet done last; the caller puts what came back in front of its queues.
    Answering(PacketFenceId),
    /// The node is being reset, and its answer to a request will not come any more.
    Resetting,
}

/// The events that change it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Ask(PreemptionNumber),
    Answer(PacketFenceId),
    /// The driver refuses the request.
    Refuse,
    Reset,
    GoOn,
    Lost,
}

impl NodeState {
    /// The next state. `None`: this cannot happen here, the caller has a bug.
    // spec: sync §4.3, sync §4.4
    pub(super) fn after(self, event: Event) -> Option<NodeState> {
        use Event::*;
        use NodeState::*;
        match (self, event) {
            (Fed, Ask(number)) => Some(Asked(number)),
            (Asked(_) | Answering(_) | Resetting, Ask(_)) => None,
            (Asked(_), Answer(last)) => Some(Answering(last)),
            (Fed | Answering(_) | Resetting, Answer(_)) => None,
            (Asked(_), Refuse) => Some(Fed),
            (Fed | Answering(_) | Resetting, Refuse) => None,
            (_, Reset) => Some(Resetting),
            (Asked(number), GoOn) => Some(Asked(number)),
            (Fed | Answering(_) | Resetting, GoOn) => Some(Fed),
            (_, Lost) => Some(Fed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Event::*;
    use super::NodeState::*;
    use super::*;

    #[test]
    fn every_event_in_every_state() {
        // spec: sync §4.3, sync §4.4
        let (one, two, last, later) = (PreemptionNumber(1), PreemptionNumber(2), PacketFenceId(6), PacketFenceId(7));
        let events = [Ask(two), Answer(later), Refuse, Reset, GoOn, Lost];
        #[rustfmt::skip]
        let table = [
            //                 Ask               Answer                    Refuse     Reset            GoOn              Lost
            (Fed,             [Some(Asked(two)), None,                    None,      Some(Resetting), Some(Fed),        Some(Fed)]),
            (Asked(one),      [None,             Some(Answering(later)),  Some(Fed), Some(Resetting), Some(Asked(one)), Some(Fed)]),
            (Answering(last), [None,             None,                    None,      Some(Resetting), Some(Fed),        Some(Fed)]),
            (Resetting,       [None,             None,                    None,      Some(Resetting), Some(Fed),        Some(Fed)]),
        ];
        for (state, row) in table {
            for (event, next) in events.into_iter().zip(row) {
                assert_eq!(state.after(event), next, "{event:?} in {state:?}");
            }
        }
    }
}
