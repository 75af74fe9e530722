//! The packets that a node has no more: those that are done, and those that it gave back. The caller ends each of the first and puts each of
//! the others in front of its queue; one that gets lost on the way leaves its context waiting for ever, and nothing says so. So
//! [`TakenOut`] panics when it is dropped with packets in it (decision 0040). The way out is [`TakenOut::into_packets`].

use super::InFlight;

/// Packets that a node has no more, in the order that the call says which took them out.
#[must_use = "each packet is ended, or put back into its queue"]
#[derive(Debug, PartialEq, Eq)]
pub struct TakenOut<C, P>(Vec<InFlight<C, P>>);

impl<C, P> TakenOut<C, P> {
    pub(super) fn new(packets: Vec<InFlight<C, P>>) -> Self {
        TakenOut(packets)
    }

    /// The packets, to look at.
    pub fn packets(&self) -> &[InFlight<C, P>] {
        &self.0
    }

    /// The packets: the caller ends each of them, or puts it back.
    pub fn into_packets(mut self) -> Vec<InFlight<C, P>> {
        std::mem::take(&mut self.0)
    }
}

impl<C, P> Drop for TakenOut<C, P> {
    fn drop(&mut self) {
        assert!(self.0.is_empty(), "{} packets that a node had got lost: end each, or put it back", self.0.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{PacketFenceId, PacketOf};

    fn taken_out() -> TakenOut<u64, u64> {
        TakenOut::new(vec![InFlight { id: PacketFenceId(1), of: PacketOf::Paging, packet: 5 }])
    }

    #[test]
    fn packets_that_a_node_had_are_ended_or_put_back() {
        assert_eq!(taken_out().into_packets().len(), 1);
        drop(TakenOut::<u64, u64>::new(Vec::new()));
    }

    #[test]
    #[should_panic(expected = "1 packets that a node had got lost")]
    fn packets_that_a_node_had_and_that_get_lost_are_a_bug_of_the_kernel() {
        drop(taken_out());
    }
}
