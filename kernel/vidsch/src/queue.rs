//! One queue: its packets in order, what is in flight, its state. It knows nothing of other queues; `queues` holds
//! them and is the only caller.
//!
//! # Invariants
//! - No more is in flight than may be.
//! - A failed queue holds no packet that was not started.
//! - Of a queue for user-mode submission no packet is seen.

use std::collections::VecDeque;
use std::mem;

use wddm_types::{FencePoint, NodeId};

use crate::lifecycle::{Event, QueueState};
use crate::packet::{Packet, QueueKind, SoftwareTurn, Step, SubmitError};

pub(crate) struct Queue<P, F> {
    pub(crate) node: NodeId,
    pub(crate) kind: QueueKind,
    pub(crate) state: QueueState,
    /// The owner that its packets count for.
    pub(crate) owner: Option<u32>,
    /// Works that were started and have not completed.
    pub(crate) in_flight: u32,
    /// 0 = unlimited.
    in_flight_max: u32,
    packets: VecDeque<Packet<P, F>>,
    /// Works that were started and came back, oldest first: they are before everything else, waits that were handed out too.
    preempted: VecDeque<P>,
}

impl<P, F> Queue<P, F> {
    pub(crate) fn new(node: NodeId, kind: QueueKind, in_flight_max: u32) -> Self {
        Queue {
            node,
            kind,
            state: QueueState::Ready,
            owner: None,
            in_flight: 0,
            in_flight_max,
            packets: VecDeque::new(),
            preempted: VecDeque::new(),
        }
    }

    /// Whether so many packets more would be taken.
    pub(crate) fn may_submit(&self, packets: usize, packets_max: usize) -> Result<(), SubmitError> {
        if self.kind == QueueKind::User {
            return Err(SubmitError::UserQueue);
        }
        if self.state == QueueState::Failed {
            return Err(SubmitError::Stopped);
        }
        if self.kind != QueueKind::System && self.packets.len() + packets > packets_max {
            return Err(SubmitError::TooMany);
        }
        Ok(())
    }

    /// What holds between the fields after each change.
    pub(crate) fn assert_sound(&self) {
        let (in_flight, max) = (self.in_flight, self.in_flight_max);
        debug_assert!(max == 0 || in_flight <= max, "{in_flight} works are in flight, and at most {max} may be");
        let held = self.packets.len();
        debug_assert!(self.state != QueueState::Failed || held == 0, "a failed queue holds {held} packets");
        let seen = self.unfinished();
        debug_assert!(self.kind != QueueKind::User || seen == 0, "{seen} packets are on a queue that takes none");
    }

    pub(crate) fn submit(&mut self, packet: Packet<P, F>, packets_max: usize) -> Result<(), SubmitError> {
        self.may_submit(1, packets_max)?;
        self.packets.push_back(packet);
        Ok(())
    }

    pub(crate) fn wait_no_more(&mut self, over: impl Fn(&FencePoint<F>) -> bool) {
        for packet in &mut self.packets {
            if let Packet::Wait(points) = packet {
                points.retain(|point| !over(point));
            }
        }
    }

    pub(crate) fn next(&mut self) -> Option<Step<P, F>> {
        if !self.preempted.is_empty() {
            let work = if self.may_start() { self.preempted.pop_front()? } else { return None };
            return Some(self.start(work));
        }
        let due = self.state == QueueState::Ready
            && match self.packets.front()? {
                // Handed out while earlier work runs: it holds what is behind it, not what is before.
                Packet::Wait(_) => true,
                Packet::Signal(_) | Packet::Software(_, SoftwareTurn::Completed) => self.in_flight == 0,
                Packet::Software(_, SoftwareTurn::Submitted | SoftwareTurn::Holds) => true,
                Packet::Work(_) => self.has_room(),
            };
        if !due {
            return None;
        }
        Some(match self.packets.pop_front()? {
            Packet::Wait(points) => {
                self.happens(Event::WaitTaken);
                Step::Wait(points)
            }
            Packet::Signal(points) => {
                debug_assert_eq!(self.in_flight, 0, "a signal comes out before works that were started");
                Step::Signal(points)
            }
            Packet::Software(what, turn) => {
                if turn == SoftwareTurn::Holds {
                    self.happens(Event::WaitTaken);
                }
                Step::Software(what)
            }
            Packet::Work(work) => self.start(work),
        })
    }

    pub(crate) fn next_is_work(&self) -> bool {
        if !self.preempted.is_empty() {
            return self.may_start();
        }
        self.state == QueueState::Ready && self.has_room() && matches!(self.packets.front(), Some(Packet::Work(_)))
    }

    /// Takes back the work that was started last and has not completed.
    pub(crate) fn preempted(&mut self, work: P) {
        assert!(self.in_flight > 0, "a work comes back that was not in flight");
        self.in_flight -= 1;
        self.preempted.push_front(work);
    }

    fn start(&mut self, work: P) -> Step<P, F> {
        debug_assert!(self.has_room(), "a work starts beside {} of at most {}", self.in_flight, self.in_flight_max);
        let stopped = !matches!(self.state, QueueState::Ready | QueueState::Waiting);
        debug_assert!(!stopped, "a work starts on a queue in {:?}", self.state);
        self.in_flight = self.in_flight.checked_add(1).expect("fewer than 2^32 works in flight on one queue");
        Step::Start(work)
    }

    fn has_room(&self) -> bool {
        self.in_flight_max == 0 || self.in_flight < self.in_flight_max
    }

    /// Whether a work that came back may start: a wait behind it, though handed out, does not hold it.
    fn may_start(&self) -> bool {
        matches!(self.state, QueueState::Ready | QueueState::Waiting) && self.has_room()
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
        let held = self.held();
        let (preempted, packets) = (mem::take(&mut self.preempted), mem::take(&mut self.packets));
        let all: Vec<_> = preempted.into_iter().map(Packet::Work).chain(packets).collect();
        debug_assert_eq!(all.len(), held, "what was held comes back when a queue fails");
        all
    }

    pub(crate) fn happens(&mut self, event: Event) {
        let before = self.state;
        self.state = before.after(event).unwrap_or_else(|| panic!("{event:?} cannot happen to a queue in {before:?}"));
        let now = self.state;
        debug_assert!(before != QueueState::Failed || now == before, "a failed queue is {now:?} after {event:?}");
        let begins = !before.is_waiting() && now.is_waiting();
        debug_assert_eq!(begins, event == Event::WaitTaken, "only a wait that is taken has a queue wait: {before:?}");
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.packets.is_empty() && self.preempted.is_empty() && self.in_flight == 0 && !self.state.is_waiting()
    }

    pub(crate) fn held(&self) -> usize {
        self.packets.len() + self.preempted.len()
    }

    /// How many packets it holds or has in flight.
    pub(crate) fn unfinished(&self) -> u64 {
        self.held() as u64 + u64::from(self.in_flight)
    }

    pub(crate) fn into_packets(self) -> Vec<Packet<P, F>> {
        let held = self.held();
        let all: Vec<_> = self.preempted.into_iter().map(Packet::Work).chain(self.packets).collect();
        debug_assert_eq!(all.len(), held, "what was held comes back when a queue is destroyed");
        all
    }
}
