//! VidSch, the GPU scheduler: contexts' hardware queues on nodes, and the software packets that are held on them until
//! their turn comes.
//!
//! A kernel-mode queue is a FIFO of [`Packet`]s: waits, signals, works. It blocks as a whole on a wait; queues are
//! independent of each other (sync §4.1). VidSch says what is due ([`VidSch::next`] returns a [`Step`]) and is told what
//! has become of it. It knows no driver, no fence's value and no memory: `dxgkrnl`, its only caller, carries a step out
//! by asking `gpu_fence` whether the wait holds, or the miniport to start the work.
//!
//! # The law
//! - The order of a queue is never changed, and nothing is started past a wait that is not over (sync §3.8).
//! - A signal comes out when every work before it on its queue has completed, and nothing behind it comes out sooner.
//! - A software packet is the caller's: it comes out when its turn has come, and the caller does what it says.
//! - A wait is handed out once, when it reaches the head, also while earlier work still runs. The caller owes one
//!   [`VidSch::waited`] for it, at once if it holds already.
//! - What was started and given back by the engine ([`VidSch::preempted`]) comes out again first, in its order.
//! - What is never started comes back, in order, from [`VidSch::fail`] or [`VidSch::destroy_queue`].
//!
//! # What it does not do
//! Which hardware queue runs is the hardware scheduler's choice (sync §4.1, stage 1): every queue feeds the driver on its
//! own. A node that takes packets has one sequence of them: [`Nodes`] says which packet it is handed next and which context must give way,
//! by the rule of [`engine_time`], and what becomes of what it has; [`inherit`] raises contexts that others wait for. A queue for user-mode submission exists so that it has
//! a node and a state; its work goes by doorbell and is not seen here, and packets on it are refused.
//!
//! # Blame
//! [`SubmitError`] says whose fault a refusal is. A [`QueueId`] of a destroyed queue, a `waited` without a pending wait, and more
//! completions than starts are bugs of the kernel and panic. A driver's claim of completion is an allegation: the caller of
//! [`VidSch::completed`] measures it against [`VidSch::in_flight`] first.

mod flips;
mod lifecycle;
mod node;
mod packet;
mod promise;
mod queue;
mod scheduler;
mod turn;

pub use flips::Flips;
pub use lifecycle::QueueState;
pub use node::{
    AbortBreach, Aborted, AfterReset, AnswerBreach, Faulted, InFlight, NodeStep, NodeTerms, Nodes, PacketFenceId,
    PacketOf, PagingStep, PreemptFor, PreemptionNumber, ReportBreach, Running, Seen,
};
pub use packet::{Packet, QueueKind, SoftwareTurn, Step, SubmitError};
pub use promise::{Promises, inherit};
pub use scheduler::{Limits, PACKETS_PER_QUEUE_MAX, QueueId, VidSch};
