//! The packets that a queue still held when it ended. None of them ever comes out of the queue, but each stands for something that waits:
//! an event of a call, a part of a signal, a flip that has its primary pinned. So they must not get lost on the way: [`Unstarted`] panics
//! when it is dropped with packets in it (decision 0040). The ways out are [`Unstarted::into_packets`], for a caller that ends each of
//! them, and [`Unstarted::abandon`], for one whose packets stand for nothing any more.

use crate::packet::Packet;

/// Packets that never started, in their order.
#[must_use = "each packet stands for something that waits"]
#[derive(Debug, PartialEq, Eq)]
pub struct Unstarted<P, F>(Vec<Packet<P, F>>);

impl<P, F> Unstarted<P, F> {
    pub(crate) fn new(packets: Vec<Packet<P, F>>) -> Self {
        Unstarted(packets)
    }

    /// The packets: the caller ends each of them.
    pub fn into_packets(mut self) -> Vec<Packet<P, F>> {
        std::mem::take(&mut self.0)
    }

    /// The packets stand for nothing any more: what they were to do was given up as a whole.
    pub fn abandon(mut self) {
        self.0.clear();
    }
}

impl<P, F> Drop for Unstarted<P, F> {
    fn drop(&mut self) {
        assert!(self.0.is_empty(), "{} packets that never started got lost: end each, or abandon them", self.0.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> Unstarted<u32, ()> {
        Unstarted::new(vec![Packet::Work(1), Packet::Work(2)])
    }

    #[test]
    fn packets_that_never_started_are_ended_or_abandoned() {
        assert_eq!(held().into_packets(), [Packet::Work(1), Packet::Work(2)]);
        held().abandon();
        drop(Unstarted::<u32, ()>::new(Vec::new()));
    }

    #[test]
    #[should_panic(expected = "2 packets that never started got lost")]
    fn packets_that_get_lost_are_a_bug_of_the_kernel() {
        drop(held());
    }
}
