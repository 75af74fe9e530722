//! VidSch, the GPU scheduler: it decides what an adapter runs, when, and for how long. `dxgkrnl`, its only caller, asks and carries the
//! answers out: it alone knows drivers, fences' values, memory and time of day. So every rule here is tested without any of them.
//!
//! | part | which question | state that is its own |
//! |---|---|---|
//! | [`Queues`] | which packet of a queue is due | queues, their packets, what is in flight |
//! | [`Nodes`] | which packet a node is handed next, which context gives way, and what becomes of what it has | what is in flight, the time that contexts have used |
//! | [`Ranks`] | how each context ranks, by its priorities, its process's class, and the contexts that wait for it | priorities, waits, signals that queues hold, what the driver was told |
//! | [`Suspensions`] | which devices are kept off the hardware, and up to which number all contexts have left it | reasons, pending suspensions |
//! | [`Timeouts`] | which work stands, and what is asked of it or reset for it | counted time, requests, resets that are prepared |
//! | [`EnginePower`] | which engine has less power | the engines in F1 |
//! | [`Flips`] | whether a buffer may write a primary | what displays show and are about to |
//!
//! [`VidSch`] holds the parts of an adapter.
//!
//! # Queues
//! A kernel-mode queue is a FIFO of [`Packet`]s: waits, signals, works. It blocks as a whole on a wait; queues are
//! independent of each other (sync §4.1). [`Queues::next`] says what is due, as a [`Step`], and is told what has become of it: the caller
//! asks `gpu_fence` whether the wait holds, or the miniport to start the work.
//! - The order of a queue is never changed, and nothing is started past a wait that is not over (sync §3.8).
//! - A signal comes out when every work before it on its queue has completed, and nothing behind it comes out sooner.
//! - A software packet is the caller's: it comes out when its turn has come, and the caller does what it says.
//! - A wait is handed out once, when it reaches the head, also while earlier work still runs. The caller owes one
//!   [`Queues::waited`] for it, at once if it holds already.
//! - What was started and given back by the engine ([`Queues::preempted`]) comes out again first, in its order.
//! - What is never started comes back, in order, from [`Queues::fail`] or [`Queues::destroy_queue`], and must not get lost ([`Unstarted`]).
//!
//! Which hardware queue runs is the hardware scheduler's choice (sync §4.1, stage 1): every queue feeds the driver on its
//! own. A node that takes packets has one sequence of them, by the rule of [`engine_time`]. A queue for user-mode submission exists so
//! that it has a node and a state; its work goes by doorbell and is not seen here, and packets on it are refused.
//!
//! # Blame
//! [`SubmitError`] says whose fault a refusal is. A [`QueueId`] of a destroyed queue, a `waited` without a pending wait, and more
//! completions than starts are bugs of the kernel and panic. A driver's claim of completion is an allegation: the caller of
//! [`Queues::completed`] measures it against [`Queues::in_flight`] first.

mod engine_power;
mod flips;
mod lifecycle;
mod node;
mod packet;
mod priority;
mod promise;
mod queue;
mod queues;
mod rank;
mod scheduler;
mod suspension;
mod timeout;
mod turn;
mod unstarted;

pub use engine_power::{EnginePower, Powered, Raised};
pub use flips::Flips;
pub use lifecycle::QueueState;
pub use node::{
    AbortBreach, Aborted, AfterReset, AnswerBreach, Faulted, InFlight, NodeStep, NodeTerms, Nodes, PacketFenceId,
    PacketOf, PagingStep, PreemptFor, PreemptionNumber, ReportBreach, Running, Seen, TakenOut,
};
pub use packet::{Packet, QueueKind, SoftwareTurn, Step, SubmitError};
pub use priority::{ContextPriority, OutOfBounds, OwnPriority, rank_of_class};
pub use queues::{Limits, PACKETS_PER_QUEUE_MAX, QueueId, Queues};
pub use rank::Ranks;
pub use scheduler::{Names, VidSch};
pub use suspension::{NeverAsked, Suspend, SuspendReasons, SuspensionNumber, Suspensions};
pub use timeout::{GroupEnd, Hung, HungStep, Passed, RingStep, SeenPacket, SeenQueue, Timeouts};
pub use unstarted::Unstarted;
