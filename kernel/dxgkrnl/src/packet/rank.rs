//! Ranks of contexts that others wait for (sync §4.2): no lower than a waiter's. `vidsch` applies them on a node, the hardware
//! on an engine.

use std::collections::BTreeMap;

use engine_time::{Contender, Rank};
use gpu_fence::FenceId;
use vidsch::Promises;

use crate::adapter::Adapter;
use crate::packet::PacketContextNumber;
use crate::scheduling::AnyContext;

/// An object that a context waits for and that another one is to signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// A value of a fence with a word in memory.
    Fence(FenceId),
    /// An object that the kernel alone signals; of these it does not matter how often.
    Object(u64),
}

/// The signals in the queues of contexts, by the objects that wait for them.
pub type Promised = Promises<Awaited, AnyContext>;

impl Adapter {
    /// Packet contexts as contenders for a node, with the ranks that they have now.
    // spec: sync §4.2
    pub(super) fn contenders(&self, contexts: &[PacketContextNumber]) -> Vec<Contender<PacketContextNumber>> {
        let raised = self.raised_ranks();
        let contender = |context| {
            let any = AnyContext::Packets(context);
            let rank = raised.get(&any).copied().unwrap_or_else(|| self.rank_of_context(any));
            Contender { context, rank, quanta: self.quanta() }
        };
        contexts.iter().copied().map(contender).collect()
    }

    /// The ranks of contexts that others wait for, raised to the waiters'. None while no context waits for another, which is most of the
    /// time. The kernel does not see waits in queues that a process feeds itself.
    // spec: sync §4.2
    pub fn raised_ranks(&self) -> BTreeMap<AnyContext, Rank> {
        let promised = &self.software.promised;
        if promised.is_empty() {
            return BTreeMap::new();
        }
        let mut waits = Vec::new();
        let mut wait = |waiter: AnyContext, what: Awaited, value: u64| {
            let keepers = promised.keepers(what, value).filter(|keeper| *keeper != waiter);
            waits.extend(keepers.map(|keeper| (waiter, keeper)));
        };
        for (number, known) in self.packet_contexts.iter() {
            known.awaits.iter().for_each(|(what, value)| wait(AnyContext::Packets(number), *what, *value));
        }
        for (_, queue) in self.queues.iter() {
            let waiter = AnyContext::Hardware(queue.context);
            queue.awaits.iter().for_each(|point| wait(waiter, Awaited::Fence(point.fence), point.value));
        }
        let all = waits.iter().flat_map(|(waiter, keeper)| [*waiter, *keeper]);
        let mut ranks = all.map(|context| (context, self.rank_of_context(context))).collect();
        vidsch::inherit(&mut ranks, &waits);
        ranks
    }
}
