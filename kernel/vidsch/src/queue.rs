//! One queue: its packets in order, what is in flight, its state. It knows nothing of other queues; `scheduler` holds
//! them and is the only caller.

use std::collections::VecDeque;
use std::mem;

use wddm_types::NodeId;

use crate::lifecycle::{Event, QueueState};
use crate::packet::{Packet, QueueKind, Step, SubmitError};

pub(crate) struct Queue<P, F> {
    pub(crate) node: NodeId,
    pub(crate) kind: QueueKind,
    pub(crate) state: QueueState,
    /// Works that were started and have not completed.
    pub(crate) in_flight: u32,
    /// 0 = unlimited.
    in_flight_max: u32,
    packets: VecDeque<Packet<P, F>>,
}

impl<P, F> Queue<P, F> {
    pub(crate) fn new(node: NodeId, kind: QueueKind, in_flight_max: u32) -> Self {
        Queue { node, kind, state: QueueState::Ready, in_flight: 0, in_flight_max, packets: VecDeque::new() }
    }

    pub(crate) fn submit(&mut self, packet: Packet<P, F>, packets_max: usize) -> Result<(), SubmitError> {
        if self.kind == QueueKind::User {
            return Err(SubmitError::UserQueue);
        }
        if self.state == QueueState::Failed {
            return Err(SubmitError::Stopped);
        }
        if self.kind != QueueKind::System && self.packets.len() >= packets_max {
            return Err(SubmitError::TooMany);
        }
        self.packets.push_back(packet);
        Ok(())
    }

    pub(crate) fn next(&mut self) -> Option<Step<P, F>> {
        let due = self.state == QueueState::Ready
            && match self.packets.front()? {
                // Handed out while earlier work runs: it holds what is behind it, not what is before.
                Packet::Wait(_) => true,
                Packet::Signal(_) => self.in_flight == 0,
                Packet::Work(_) => self.in_flight_max == 0 || self.in_flight < self.in_flight_max,
            };
        if !due {
            return None;
        }
        Some(match self.packets.pop_front()? {
            Packet::Wait(points) => {
                self.happens(Event::WaitTaken);
                Step::Wait(points)
            }
            Packet::Signal(points) => Step::Signal(points),
            Packet::Work(work) => {
                self.in_flight = self.in_flight.checked_add(1).expect("fewer than 2^32 works in flight on one queue");
                Step::Start(work)
            }
        })
    }

    pub(crate) fn next_is_work(&self) -> bool {
        let room = self.in_flight_max == 0 || self.in_flight < self.in_flight_max;
        self.state == QueueState::Ready && room && matches!(self.packets.front(), Some(Packet::Work(_)))
    }

    pub(crate) fn completed(&mut self, works: u32) {
        // A failed queue may have lost what was in flight; a completion that arrives after that is late, not wrong.
        let failed = self.state == QueueState::Failed;
        assert!(failed || works <= self.in_flight, "{works} works completed, {} were in flight", self.in_flight);
        self.in_flight = self.in_flight.saturating_sub(works);
    }

    pub(crate) fn lose_in_flight(&mut self) -> u32 {
        assert_eq!(self.state, QueueState::Failed, "only a failed queue loses work that it has started");
        mem::take(&mut self.in_flight)
    }

    pub(crate) fn fail(&mut self) -> Vec<Packet<P, F>> {
        self.happens(Event::Fail);
        mem::take(&mut self.packets).into()
    }

    pub(crate) fn happens(&mut self, event: Event) {
        self.state =
            self.state.after(event).unwrap_or_else(|| panic!("{event:?} cannot happen to a queue in {:?}", self.state));
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.packets.is_empty() && self.in_flight == 0 && !self.state.is_waiting()
    }

    pub(crate) fn held(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn into_packets(self) -> Vec<Packet<P, F>> {
        self.packets.into()
    }
}
