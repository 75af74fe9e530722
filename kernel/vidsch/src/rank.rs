//! The rank of each context (sync §4.2): its own, by its priorities and its process's class, or that of a context which waits for it; and
//! which of these the driver was told. A node's turns ([`NodeTime`](crate::NodeTime)) and the hardware's go by it.
//!
//! ```text
//!                 waits for a value            has promised it (a signal in its queue)
//! waiter, rank W ───────────────────▶ value ◀──────────────────────────────────────── keeper, rank K
//!                                        the keeper ranks as max(K, W) as long as both hold
//! ```
//! The scheduler sees the waits and signals of queues that it holds. It does not see those in queues that a process feeds itself.
//!
//! `A` names an object that contexts wait for, `C` a context.
//!
//! # Invariants
//! - Of a context that has not entered nothing is known: it does not wait, and has promised nothing.
//! - A context whose rank the driver was told is told of each change: [`Ranks::to_tell`] leaves `told` as the ranks are now.

use std::collections::BTreeMap;

use engine_time::Rank;

use crate::priority::ContextPriority;
use crate::promise::{Promises, inherit};
use crate::queues::QueueId;

#[cfg(test)]
mod tests;

/// The ranks of one adapter's contexts.
#[derive(Clone, Debug)]
pub struct Ranks<A, C> {
    contexts: BTreeMap<C, Ranked>,
    /// The wait at the head of each queue that waits, and whose queue it is.
    waits: BTreeMap<QueueId, (C, Vec<(A, u64)>)>,
    /// The signals that queues hold.
    promises: Promises<A, C>,
    /// Some context that the driver knows ranks above its own priority.
    has_inherited_priority: bool,
}

#[derive(Clone, Copy, Debug)]
struct Ranked {
    priority: ContextPriority,
    process: u64,
    class: u32,
    /// The rank that the driver was told; `None`: it is told of none.
    told: Option<Rank>,
}

impl Ranked {
    /// The rank that no wait has raised.
    fn own(&self) -> Rank {
        self.priority.rank(self.process, self.class)
    }
}

impl<A, C> Default for Ranks<A, C> {
    fn default() -> Self {
        Ranks {
            contexts: BTreeMap::new(),
            waits: BTreeMap::new(),
            promises: Promises::default(),
            has_inherited_priority: false,
        }
    }
}

impl<A: Copy + Ord, C: Copy + Ord + std::fmt::Debug> Ranks<A, C> {
    /// A context was created in a process of this class.
    pub fn enter(&mut self, context: C, process: u64, class: u32) {
        let ranked = Ranked { priority: ContextPriority::default(), process, class, told: None };
        let before = self.contexts.insert(context, ranked);
        assert!(before.is_none(), "{context:?} enters once");
        let waits = self.waits.values().any(|(waiter, _)| *waiter == context);
        debug_assert!(!waits, "{context:?} has just entered, and waits");
    }

    /// A context was destroyed, with its queues.
    pub fn leave(&mut self, context: C) {
        self.waits.retain(|_, (waiter, _)| *waiter != context);
        self.contexts.remove(&context);
    }

    /// A context's priorities as calls have set them.
    ///
    /// # Panics
    /// Here and below for a context that has not entered.
    pub fn priority(&self, context: C) -> ContextPriority {
        self.ranked(context).priority
    }

    /// Other priorities, from the next decision on.
    // spec: sync §4.2
    pub fn set_priority(&mut self, context: C, priority: ContextPriority) {
        self.ranked_mut(context).priority = priority;
    }

    /// Another class of a process. Answers with those of its contexts that the driver is to be told of, and how they rank by themselves.
    // spec: sync §4.2
    #[must_use = "the driver is told each"]
    pub fn set_class(&mut self, process: u64, class: u32) -> Vec<(C, Rank)> {
        let mut news = Vec::new();
        for (context, ranked) in self.contexts.iter_mut().filter(|(_, ranked)| ranked.process == process) {
            ranked.class = class;
            if let Some(told) = &mut ranked.told {
                *told = ranked.priority.rank(process, class);
                news.push((*context, *told));
            }
        }
        news
    }

    /// The driver is told how a context ranks by itself, and from then on of every change.
    #[must_use = "the driver is told it"]
    pub fn tell(&mut self, context: C) -> Rank {
        let ranked = self.ranked_mut(context);
        let own = ranked.own();
        ranked.told = Some(own);
        own
    }

    /// A queue of a context waits for these.
    pub fn awaits(&mut self, queue: QueueId, context: C, points: Vec<(A, u64)>) {
        debug_assert!(self.contexts.contains_key(&context), "{context:?} waits, and has not entered");
        self.waits.insert(queue, (context, points));
    }

    /// A queue's wait is over, or its device is lost. Answers with the points that it waited for.
    pub fn waits_no_more(&mut self, queue: QueueId) -> Vec<(A, u64)> {
        self.waits.remove(&queue).map(|(_, points)| points).unwrap_or_default()
    }

    /// Notes that `part`, in a queue of this context, will signal these values.
    // spec: sync §4.2
    pub fn promise(&mut self, part: u64, context: C, points: Vec<(A, u64)>) {
        debug_assert!(self.contexts.contains_key(&context), "{context:?} promises, and has not entered");
        self.promises.promise(part, context, points);
    }

    /// The part's turn has come, or never will.
    pub fn over(&mut self, part: u64) {
        self.promises.over(part);
    }

    /// The ranks of these contexts, with what they inherit.
    // spec: sync §4.2
    pub fn ranks_of(&self, contexts: impl IntoIterator<Item = C>) -> Vec<Rank> {
        let raised = self.raised();
        let rank = |context| raised.get(&context).copied().unwrap_or_else(|| self.ranked(context).own());
        contexts.into_iter().map(rank).collect()
    }

    /// The contexts that rank otherwise than the driver was told: they lend or give back the rank of contexts that wait for them.
    // spec: sync §4.2
    #[must_use = "the driver is told each"]
    pub fn to_tell(&mut self) -> Vec<(C, Rank)> {
        let raised = self.raised();
        if raised.is_empty() && !self.has_inherited_priority {
            return Vec::new();
        }
        self.has_inherited_priority = false;
        let mut news = Vec::new();
        for (context, ranked) in &mut self.contexts {
            let own = ranked.own();
            let Some(told) = &mut ranked.told else { continue };
            let rank = raised.get(context).copied().unwrap_or(own);
            debug_assert_eq!(rank.raised_for(own), rank, "{context:?} ranks below itself by those that wait for it");
            self.has_inherited_priority |= rank != own;
            if *told != rank {
                *told = rank;
                news.push((*context, rank));
            }
        }
        news
    }

    /// The ranks of contexts that others wait for, raised to the waiters'. None while no context waits for another, which is most of the
    /// time.
    fn raised(&self) -> BTreeMap<C, Rank> {
        if self.promises.is_empty() {
            return BTreeMap::new();
        }
        let mut waits = Vec::new();
        for (waiter, points) in self.waits.values() {
            for (what, value) in points {
                let keepers = self.promises.keepers(*what, *value).filter(|keeper| keeper != waiter);
                waits.extend(keepers.map(|keeper| (*waiter, keeper)));
            }
        }
        let all = waits.iter().flat_map(|(waiter, keeper)| [*waiter, *keeper]);
        let mut ranks = all.map(|context| (context, self.ranked(context).own())).collect();
        inherit(&mut ranks, &waits);
        ranks
    }

    fn ranked(&self, context: C) -> &Ranked {
        self.contexts.get(&context).unwrap_or_else(|| unknown(context))
    }

    fn ranked_mut(&mut self, context: C) -> &mut Ranked {
        self.contexts.get_mut(&context).unwrap_or_else(|| unknown(context))
    }
}

fn unknown(context: impl std::fmt::Debug) -> ! {
    panic!("{context:?} has not entered, or has left")
}
