//! The scheduler of one adapter: its parts side by side. Each part has the rules of one question and keeps its state to itself; no rule
//! joins two of them, so they have no state in common. `dxgkrnl` asks each, and carries the answers out.

use engine_time::Policy;

use crate::engine_power::EnginePower;
use crate::node::{NodeTerms, Nodes};
use crate::queues::{Limits, Queues};
use crate::rank::Ranks;
use crate::suspension::Suspensions;
use crate::timeout::Timeouts;

/// The caller's names for what is scheduled: the parts copy and compare them, and read nothing out of them.
pub trait Names {
    /// A work of a queue; it is handed back as it came.
    type Work;
    /// A fence.
    type Fence: Copy + Ord;
    /// A device, or another thing that is suspended as a whole.
    type Device: Copy + Ord;
    /// A context that may be on the hardware.
    type Context: Copy + Ord;
    /// A context that has a rank.
    type Ranked: Copy + Ord + std::fmt::Debug;
    /// A context that takes turns on a node.
    type Turning: Copy + Ord;
    /// A packet that a node is handed; it is handed back as it came.
    type Packet;
    /// An object that contexts wait for.
    type Awaited: Copy + Ord;
    /// A hardware queue.
    type Queue: Copy + Ord;
    /// A packet that a node runs; it has the same name when it comes back from a preemption and is handed over again.
    type Running: Copy + Ord;
}

/// The parts of one adapter's scheduler.
pub struct VidSch<N: Names> {
    /// Which packet of a queue is due.
    pub queues: Queues<N::Work, N::Fence>,
    /// Which packet a node is handed next, and what each node has.
    pub nodes: Nodes<N::Turning, N::Packet>,
    /// How contexts rank.
    pub ranks: Ranks<N::Awaited, N::Ranked>,
    /// Which devices are kept off the hardware.
    pub suspensions: Suspensions<N::Device, N::Context, N::Fence>,
    /// Which work makes no progress.
    pub timeouts: Timeouts<N::Running, N::Queue, N::Context>,
    /// Which engine has less power.
    pub engine_power: EnginePower,
}

impl<N: Names> VidSch<N> {
    /// Of an adapter with so many nodes: no queue, no context, no suspension, and all power. `delay_ns`: `TdrDelay`, if the kernel looks
    /// for hung work.
    pub fn new(limits: Limits, terms: NodeTerms, nodes: usize, delay_ns: Option<u64>, policy: Policy) -> Self {
        VidSch {
            queues: Queues::new(limits),
            nodes: Nodes::new(terms, nodes, policy),
            ranks: Ranks::default(),
            suspensions: Suspensions::default(),
            timeouts: Timeouts::new(delay_ns, nodes),
            engine_power: EnginePower::default(),
        }
    }
}
