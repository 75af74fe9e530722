//! A driver's reports that cannot be true. The kernel no longer knows then which packets have run, so the caller stops the adapter.

use std::fmt::{Display, Formatter};

use wddm_types::NodeId;

use super::{PacketFenceId, PreemptionNumber};

/// Why a report of a packet, that it is done or has faulted, cannot be true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportBreach {
    /// There is no node of this number.
    NoSuchNode,
    /// The packet was reported done before, and no other since.
    DoneBefore,
    /// This node has it.
    Elsewhere(NodeId),
    /// No packet of this id was handed over yet.
    NeverHandedOver,
    /// The packet stands behind this one, which was done before.
    LeftBehind(PacketFenceId),
}

impl Display for ReportBreach {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            ReportBreach::NoSuchNode => f.write_str("there is no such node"),
            ReportBreach::DoneBefore => f.write_str("it was reported done before"),
            ReportBreach::Elsewhere(node) => write!(f, "node {} has it", node.0),
            ReportBreach::NeverHandedOver => f.write_str("it was never handed over"),
            ReportBreach::LeftBehind(done) => write!(f, "packet {} was done before", done.0),
        }
    }
}

impl std::error::Error for ReportBreach {}

/// Why an answer to a preemption cannot be true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerBreach {
    /// There is no node of this number.
    NoSuchNode,
    /// No request is pending.
    NotAsked,
    /// The request that is pending has this number.
    OtherAsked(PreemptionNumber),
    /// The answer names a packet as done last that stands behind `done`, which was done before.
    LeftBehind {
        /// The packet of the answer.
        last: PacketFenceId,
        /// The packet that was done before.
        done: PacketFenceId,
    },
    /// The answer names a packet as done last that the node does not have.
    NotThere(PacketFenceId),
}

impl Display for AnswerBreach {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            AnswerBreach::NoSuchNode => f.write_str("there is no such engine"),
            AnswerBreach::NotAsked => f.write_str("without a pending request"),
            AnswerBreach::OtherAsked(asked) => write!(f, "{} was asked for", asked.0),
            AnswerBreach::LeftBehind { last, done } => {
                write!(f, "with packet {} done last; packet {} was done before", last.0, done.0)
            }
            AnswerBreach::NotThere(last) => write!(f, "with packet {} done last, which the node does not have", last.0),
        }
    }
}

impl std::error::Error for AnswerBreach {}

/// A node was reset, and the driver names a packet as aborted last that the node did not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortBreach {
    /// The packet that was done last.
    pub completed: PacketFenceId,
    /// The packet that the node was given last.
    pub handed_over: PacketFenceId,
}

impl Display for AbortBreach {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let AbortBreach { completed, handed_over } = self;
        write!(f, "{} is the last that was done, {} the last that it was given", completed.0, handed_over.0)
    }
}

impl std::error::Error for AbortBreach {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_breach_says_what_contradicts_the_report() {
        let (last, done) = (PacketFenceId(3), PacketFenceId(5));
        let reports = [
            (ReportBreach::NoSuchNode, "there is no such node"),
            (ReportBreach::DoneBefore, "it was reported done before"),
            (ReportBreach::Elsewhere(NodeId(2)), "node 2 has it"),
            (ReportBreach::NeverHandedOver, "it was never handed over"),
            (ReportBreach::LeftBehind(done), "packet 5 was done before"),
        ];
        reports.into_iter().for_each(|(breach, said)| assert_eq!(breach.to_string(), said));
        let answers = [
            (AnswerBreach::NoSuchNode, "there is no such engine"),
            (AnswerBreach::NotAsked, "without a pending request"),
            (AnswerBreach::OtherAsked(PreemptionNumber(4)), "4 was asked for"),
            (AnswerBreach::LeftBehind { last, done }, "with packet 3 done last; packet 5 was done before"),
            (AnswerBreach::NotThere(last), "with packet 3 done last, which the node does not have"),
        ];
        answers.into_iter().for_each(|(breach, said)| assert_eq!(breach.to_string(), said));
        let aborted = AbortBreach { completed: last, handed_over: done };
        assert_eq!(aborted.to_string(), "3 is the last that was done, 5 the last that it was given");
    }
}
