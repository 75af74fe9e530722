//! The scheduler of one adapter: its parts side by side. Each part has the rules of one question and keeps its state to itself; no rule
//! joins two of them, so they have no state in common. `dxgkrnl` asks each, and carries the answers out.

use crate::engine_power::EnginePower;
use crate::queues::{Limits, Queues};

/// The parts of one adapter's scheduler. `P`: a work, `F`: a fence, as the caller names them.
pub struct VidSch<P, F> {
    /// Which packet of a queue is due.
    pub queues: Queues<P, F>,
    /// Which engine has less power.
    pub engine_power: EnginePower,
}

impl<P, F: Copy + Ord> VidSch<P, F> {
    /// No queue, and all power.
    pub fn new(limits: Limits) -> Self {
        VidSch { queues: Queues::new(limits), engine_power: EnginePower::default() }
    }
}
