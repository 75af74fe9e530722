//! Whose packet a node takes next, and who must give way: the policy of packet scheduling. A pure function of who is ready,
//! who has the node and how they rank; `dxgkrnl` says who is ready, and carries the answer out.
//!
//! ```text
//! nobody of a context on the node     the highest of those that are ready; among equals the next in turn
//! the holder must stand still         the node is preempted, if it can be; else it gets nothing more
//! somebody ready ranks above holder   the node is preempted, if it can be; else the holder gets nothing more
//! an equal is ready                   the holder gets nothing more: the equal follows when the node is empty
//! only lower ones, or nobody          the holder goes on, as far as the hardware queue has room
//! ```
//! Packets of one context at a time are on a node, so a fault costs exactly one device its packets. What the kernel puts in for
//! paging is not asked here: it comes before everybody (memory §7.4).
//!
//! Ranks are strict: who ranks lower waits as long as somebody higher is ready. Shares, quanta and grace periods of bands
//! (sync §4.2) would be decided here, too.

/// How a context ranks (sync §4.2). Between processes the class decides; inside of one, what the process says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// `D3DKMT_SCHEDULINGPRIORITYCLASS` of its process: 0 IDLE to 5 REALTIME.
    pub class: u32,
    /// Which process.
    pub process: u32,
    /// In-process priority: -[`IN_PROCESS_MAX`] to [`IN_PROCESS_MAX`].
    pub in_process: i32,
}

/// In-process priorities are at most so far from 0 (sync §4.2).
pub const IN_PROCESS_MAX: i32 = 7;

impl Rank {
    /// Whether this one goes first. Contexts of different processes of one class are equals, whatever each process says of its
    /// own.
    // spec: sync §4.2
    pub fn is_above(self, other: Rank) -> bool {
        self.class > other.class
            || self.class == other.class && self.process == other.process && self.in_process > other.in_process
    }
}

/// A context whose next packet may start. `C`: how the caller names contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contender<C> {
    /// The context.
    pub context: C,
    /// How it ranks.
    pub rank: Rank,
}

/// What is on a node.
#[derive(Clone, Copy, Debug)]
pub struct Occupied<C> {
    /// Packets that were handed over and are not done, paging buffers among them.
    pub in_flight: usize,
    /// As many may be (`HwQueuePacketCap`).
    pub in_flight_max: usize,
    /// The context that has packets there.
    pub holder: Option<Contender<C>>,
    /// The holder's device must stand still.
    pub stands_still: bool,
    /// The context that had the node last.
    pub last: C,
    /// The driver takes packets back.
    pub preemptible: bool,
}

/// What is to happen on a node.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<C> {
    /// The context's next packet is handed over.
    Start(C),
    /// What is on the node gives way to this context.
    Preempt(C),
    /// The holder leaves the node, because it must stand still.
    Clear(C),
    /// Nothing until something changes.
    Wait,
}

/// Decides. `ready` is in the order of turns.
// spec: sync §4.1, sync §4.2, sync §4.3
pub fn next_turn<C: Copy + Ord>(node: Occupied<C>, ready: &[Contender<C>]) -> Turn<C> {
    let highest = |one: &&Contender<C>| !ready.iter().any(|other| other.rank.is_above(one.rank));
    let mut best = ready.iter().filter(highest);
    let Some(holder) = node.holder else {
        if node.in_flight >= node.in_flight_max {
            return Turn::Wait;
        }
        let next = best.clone().find(|one| one.context > node.last).or_else(|| best.next());
        return next.map_or(Turn::Wait, |one| Turn::Start(one.context));
    };
    if node.stands_still {
        return if node.preemptible { Turn::Clear(holder.context) } else { Turn::Wait };
    }
    let above = best.find(|one| one.context != holder.context && one.rank.is_above(holder.rank));
    if let Some(above) = above {
        return if node.preemptible { Turn::Preempt(above.context) } else { Turn::Wait };
    }
    let goes_on = ready.iter().any(|one| one.context == holder.context)
        && ready.iter().all(|one| one.context == holder.context || holder.rank.is_above(one.rank));
    if goes_on && node.in_flight < node.in_flight_max { Turn::Start(holder.context) } else { Turn::Wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(class: u32, process: u32, in_process: i32) -> Rank {
        Rank { class, process, in_process }
    }

    fn ready(context: u64, rank: Rank) -> Contender<u64> {
        Contender { context, rank }
    }

    fn node(in_flight: usize, holder: Option<Contender<u64>>, last: u64) -> Occupied<u64> {
        Occupied { in_flight, in_flight_max: 4, holder, stands_still: false, last, preemptible: true }
    }

    #[test]
    fn a_process_orders_its_own_contexts_only() {
        // spec: sync §4.2
        let cases = [
            (rank(2, 1, 7), rank(2, 1, 0), true),
            (rank(2, 1, 7), rank(2, 2, -7), false),
            (rank(3, 1, -7), rank(2, 2, 7), true),
            (rank(3, 1, -7), rank(2, 1, 7), true),
            (rank(2, 1, 0), rank(2, 1, 0), false),
        ];
        for (one, other, above) in cases {
            assert_eq!(one.is_above(other), above, "{one:?} over {other:?}");
            assert!(!above || !other.is_above(one));
        }
    }

    #[test]
    fn every_row_of_the_table() {
        // spec: sync §4.1, sync §4.2, sync §4.3
        let (low, even, high) = (rank(2, 1, -1), rank(2, 1, 0), rank(2, 1, 1));
        let holder = Some(ready(1, even));
        // Nobody has the node: the highest, and the next in turn among equals.
        let all = [ready(1, even), ready(2, high), ready(3, low), ready(4, high)];
        assert_eq!(next_turn(node(0, None, 2), &all), Turn::Start(4));
        assert_eq!(next_turn(node(3, None, 4), &all), Turn::Start(2), "behind paging buffers, too");
        assert_eq!(next_turn(node(4, None, 4), &all), Turn::Wait, "as far as there is room");
        assert_eq!(next_turn(node(0, None, 0), &[]), Turn::Wait);
        // Somebody higher is ready.
        assert_eq!(next_turn(node(4, holder, 1), &[ready(1, even), ready(2, high)]), Turn::Preempt(2));
        let stubborn = Occupied { preemptible: false, ..node(1, holder, 1) };
        assert_eq!(next_turn(stubborn, &[ready(1, even), ready(2, high)]), Turn::Wait);
        // The holder must stand still.
        for (preemptible, turn) in [(true, Turn::Clear(1)), (false, Turn::Wait)] {
            let still = Occupied { preemptible, stands_still: true, ..node(1, holder, 1) };
            assert_eq!(next_turn(still, &[ready(2, low)]), turn);
        }
        // An equal is ready.
        assert_eq!(next_turn(node(1, holder, 1), &[ready(1, even), ready(2, even)]), Turn::Wait);
        assert_eq!(next_turn(node(1, holder, 1), &[ready(1, even), ready(2, rank(2, 2, 7))]), Turn::Wait);
        // Only lower ones, or nobody.
        assert_eq!(next_turn(node(3, holder, 1), &[ready(1, even), ready(2, low)]), Turn::Start(1));
        assert_eq!(next_turn(node(4, holder, 1), &[ready(1, even)]), Turn::Wait);
        assert_eq!(next_turn(node(1, holder, 1), &[ready(2, low)]), Turn::Wait, "not beside the holder");
    }
}
