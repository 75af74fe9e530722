//! Engines that are reset together (sync §4.4, step 6). Before the kernel resets a hung one, it asks the driver which others that resets.
//!
//! ```text
//!          which are reset with it?
//! hung ─┬─ itself alone ─────────────────────────────────────────────▶ reset
//!       └─ others ─▶ preparing ─┬─ all of them have left, or 500 ms ─▶ reset, one after
//!                               │        the other, of those that have not left
//!                               └─ the hung one has left ─▶ called off
//! ```
//! While a group is prepared nothing new is handed to its nodes. It ends when the caller has carried the end out: until then, also while
//! its nodes are reset, it is prepared.

use wddm_types::NodeId;

use super::Timeouts;

/// So long the work of a group has to leave its engines.
// spec: sync §4.4
const GROUP_NS: u64 = 500_000_000;

/// The work that does not leave an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hung<C> {
    /// The packets that the node was handed.
    Packets,
    /// A hardware context, or the ring.
    Context(C),
}

/// What becomes of an engine that is hung.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HungStep {
    /// It is reset now.
    Reset,
    /// The work of all these nodes is to leave them first, itself among them.
    Prepare(Vec<NodeId>),
    /// The driver named nodes that are not there, or not the node itself.
    BadGroup,
}

/// The end of a preparation. The caller carries it out and says [`Timeouts::group_ended`].
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEnd {
    /// The hung one has left.
    CalledOff(NodeId),
    /// For this node these are reset, those of them that have not left.
    Reset(NodeId, Vec<NodeId>),
}

/// An engine that is to be reset when the work of those that are reset with it has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preparation<C> {
    node: NodeId,
    hung: Hung<C>,
    /// A bit for each node, itself among them.
    group: u64,
    until_ns: u64,
}

fn nodes_of(group: u64) -> impl Iterator<Item = NodeId> {
    (0..64).filter(move |node| group >> node & 1 == 1).map(NodeId)
}

impl<R: Copy + Ord, Q: Copy + Ord, C: Copy> Timeouts<R, Q, C> {
    /// Work on a node does not leave it, and the driver says which nodes are reset with it, a bit for each.
    ///
    /// # Panics
    /// If the node is prepared with another: the reset of that one decides about it.
    // spec: sync §4.4, sync §5
    pub fn hung(&mut self, now_ns: u64, node: NodeId, hung: Hung<C>, group: u64) -> HungStep {
        debug_assert!(node.0 < 64, "{node:?} has no bit in a group");
        assert!(!self.is_preparing(node), "a node is hung that another reset decides about");
        let there = u64::MAX >> (64 - self.nodes.clamp(1, 64));
        if group & !there != 0 || group >> node.0 & 1 == 0 {
            return HungStep::BadGroup;
        }
        if group == 1 << node.0 {
            return HungStep::Reset;
        }
        debug_assert!(group.count_ones() > 1, "{node:?} is prepared for a reset of {group:#b}, itself alone");
        self.preparing.push(Preparation { node, hung, group, until_ns: now_ns + GROUP_NS });
        HungStep::Prepare(nodes_of(group).collect())
    }

    /// The oldest preparation that is over: the work of the others has left, or the time is, or the hung one has left itself. `owes_room`:
    /// whether the work that was hung on a node is there still; `owes`: whether any work of a node is.
    // spec: sync §4.4
    pub fn group_over(
        &self,
        now_ns: u64,
        owes_room: impl Fn(NodeId, Hung<C>) -> bool,
        owes: impl Fn(NodeId) -> bool,
    ) -> Option<GroupEnd> {
        self.preparing.iter().find_map(|known| {
            debug_assert!(known.group >> known.node.0 & 1 == 1, "{:?} is not in {:#b}", known.node, known.group);
            if !owes_room(known.node, known.hung) {
                return Some(GroupEnd::CalledOff(known.node));
            }
            let mut others = nodes_of(known.group).filter(|node| *node != known.node);
            let is_over = now_ns >= known.until_ns || !others.any(&owes);
            is_over.then(|| GroupEnd::Reset(known.node, nodes_of(known.group).collect()))
        })
    }

    /// The preparation for a node is over and carried out. Answers with whether it was the last: what was kept off the engines goes on.
    #[must_use = "what was kept off goes on"]
    pub fn group_ended(&mut self, node: NodeId) -> bool {
        let for_it = self.preparing.iter().filter(|other| other.node == node).count();
        debug_assert!(for_it <= 1, "{for_it} resets of {node:?} are prepared");
        self.preparing.retain(|other| other.node != node);
        self.preparing.is_empty()
    }

    /// When a group has had its time. This counts while the adapter sleeps, too.
    pub fn group_deadline_ns(&self) -> Option<u64> {
        self.preparing.iter().map(|preparation| preparation.until_ns).min()
    }

    /// Whether a node is about to be reset, or might be with another: nothing is handed to it.
    pub fn is_preparing(&self, node: NodeId) -> bool {
        self.preparing.iter().any(|preparation| preparation.group >> node.0 & 1 == 1)
    }

    /// Whether some node is.
    pub fn is_any_preparing(&self) -> bool {
        !self.preparing.is_empty()
    }
}
