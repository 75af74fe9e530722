//! How packet contexts rank (sync §4.2): as their process and they themselves say, and no lower than whoever waits for them.
//! What that means for a node is `vidsch`'s to say.

use std::collections::BTreeMap;

use engine_time::{Contender, Rank};
use gpu_fence::FenceId;
use vidsch::Promises;

use crate::adapter::Adapter;
use crate::scheduling::AnyContext;

/// What a context waits for, and what another one is to bring about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// A value of a fence with a word in memory.
    Fence(FenceId),
    /// An object that the kernel alone signals; of these it does not matter how often.
    Object(u64),
}

/// What contexts have promised by the signals in their queues.
pub type Promised = Promises<Awaited, u64>;

impl Adapter {
    /// What packet contexts want of a node, with the ranks that they have now.
    // spec: sync §4.2
    pub(super) fn contenders(&self, contexts: &[u64]) -> Vec<Contender<u64>> {
        let raised = self.raised_ranks();
        let rank = |context: &u64| raised.get(context).copied().unwrap_or_else(|| self.own_rank(*context));
        let contender = |context| Contender { context, rank: rank(&context), quanta: self.quanta() };
        contexts.iter().copied().map(contender).collect()
    }

    fn own_rank(&self, context: u64) -> Rank {
        self.rank_of_context(AnyContext::Packets(context))
    }

    /// The ranks of those who are waited for. None while no context waits, which is most of the time.
    // spec: sync §4.2
    fn raised_ranks(&self) -> BTreeMap<u64, Rank> {
        let mut waits = Vec::new();
        if !self.software.promised.is_empty() {
            for (waiter, known) in self.packet_contexts.iter() {
                let keepers =
                    known.awaits.iter().flat_map(|(what, value)| self.software.promised.keepers(*what, *value));
                waits.extend(keepers.filter(|keeper| *keeper != waiter).map(|keeper| (waiter, keeper)));
            }
        }
        let all = waits.iter().flat_map(|(waiter, keeper)| [*waiter, *keeper]);
        let mut ranks = all.map(|context| (context, self.own_rank(context))).collect();
        vidsch::inherit(&mut ranks, &waits);
        ranks
    }
}
