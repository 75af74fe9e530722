//! The packets that go into a queue, the steps that come out, and the reasons for which a queue refuses a packet. Plain
//! values, shared by `queue` and `queues`. `P` is the caller's description of a work, `F` its name of a fence; both
//! are given back unread.

use wddm_types::{Blame, FencePoint};

/// How work reaches a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// The kernel submits each command buffer (`DxgkDdiSubmitCommandToHwQueue`).
    Kernel,
    /// The kernel's own: like the first, and never refused. The kernel bounds its length by other means.
    System,
    /// `D3DDDI_CREATEHWQUEUEFLAGS.UserModeSubmission`: by doorbell. Packets are refused (sync §2.5).
    User,
}

/// One entry of a kernel-mode queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packet<P, F> {
    /// Hold everything behind until all of these are reached (sync §3.8).
    Wait(Vec<FencePoint<F>>),
    /// Signal these once all work before has completed (sync §3.7).
    Signal(Vec<FencePoint<F>>),
    /// Start this on the engine.
    Work(P),
    /// The caller's own software packet: given back when its turn has come.
    Software(P, SoftwareTurn),
}

/// When a software packet's turn has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SoftwareTurn {
    /// All work before has completed.
    Completed,
    /// All work before has been started (`SignalAtSubmission`, sync §2.4).
    Submitted,
    /// As soon as it is at the head; what is behind is held until [`waited`](crate::Queues::waited).
    Holds,
}

/// The step that is due on a queue.
#[must_use = "a step that is not carried out stops its queue"]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step<P, F> {
    /// Wait for all of these, then say [`waited`](crate::Queues::waited).
    Wait(Vec<FencePoint<F>>),
    /// Signal these now, from the CPU.
    Signal(Vec<FencePoint<F>>),
    /// The turn of this software packet has come; if it holds, say [`waited`](crate::Queues::waited) when it is over.
    Software(P),
    /// Hand this to the driver now; say [`completed`](crate::Queues::completed) when the engine has finished it.
    Start(P),
}

/// Why a packet was refused. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubmitError {
    /// The queue submits by doorbell (sync §5: INVALID_PARAMETER).
    UserQueue,
    /// The queue holds as many packets as it may: retry once some have started.
    TooMany,
    /// The queue has failed.
    Stopped,
}

impl SubmitError {
    /// Whose fault the refusal is.
    pub const fn blame(self) -> Blame {
        match self {
            SubmitError::UserQueue => Blame::Caller,
            SubmitError::TooMany => Blame::Scarcity,
            SubmitError::Stopped => Blame::Driver,
        }
    }
}

impl std::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SubmitError::UserQueue => "the queue takes work by doorbell only",
            SubmitError::TooMany => "the queue holds as many packets as it may",
            SubmitError::Stopped => "the queue has failed and takes nothing more",
        })
    }
}

impl std::error::Error for SubmitError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whose_fault_it_is_and_what_is_wrong() {
        let said = [SubmitError::UserQueue, SubmitError::TooMany, SubmitError::Stopped]
            .map(|error| (error.blame(), error.to_string()));
        assert_eq!(said[0], (Blame::Caller, "the queue takes work by doorbell only".into()));
        assert_eq!(said[1], (Blame::Scarcity, "the queue holds as many packets as it may".into()));
        assert_eq!(said[2], (Blame::Driver, "the queue has failed and takes nothing more".into()));
    }
}
