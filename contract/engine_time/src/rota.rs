//! Turns among equals: a member keeps its turn for a quantum; next is the one that has used least. A member whose quantum is over goes on
//! only if it has used less than the others by half of what it has just used: so small differences keep no member waiting for two quanta.

use std::collections::BTreeMap;

/// Turns among members named `K`.
#[derive(Clone, Debug)]
pub(crate) struct Rota<K> {
    /// The member whose turn it is.
    turn: Option<Tenure<K>>,
    /// Each member's use, by weight.
    used: BTreeMap<K, u64>,
    /// The least use among the members that were present last.
    floor: u64,
}

/// One member's turn: how long it has had the engine in it, and what that counts.
#[derive(Clone, Copy, Debug)]
struct Tenure<K> {
    member: K,
    held_ns: u64,
    cost: u64,
}

impl<K> Default for Rota<K> {
    fn default() -> Self {
        Rota { turn: None, used: BTreeMap::new(), floor: 0 }
    }
}

impl<K: Copy + Ord> Rota<K> {
    /// Notes the members present. A newcomer counts as having used as much as the one that has used least; a member that has left is
    /// forgotten when that makes no difference.
    pub(crate) fn attend(&mut self, present: &[K]) {
        for member in present {
            let used = self.used.entry(*member).or_insert(self.floor);
            *used = (*used).max(self.floor);
        }
        let least = present.iter().filter_map(|member| self.used.get(member)).min().copied();
        // No member is present: all come back as equals.
        self.floor = least.unwrap_or_else(|| self.used.values().max().copied().unwrap_or(0).max(self.floor));
        let floor = self.floor;
        self.used.retain(|member, used| *used > floor || present.contains(member));
    }

    /// A member had the engine for so long; `cost`: its charge for that.
    pub(crate) fn charge(&mut self, member: K, ns: u64, cost: u64) {
        let used = self.used.entry(member).or_insert(self.floor);
        *used = used.saturating_add(cost);
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.member == member) {
            turn.held_ns = turn.held_ns.saturating_add(ns);
            turn.cost = turn.cost.saturating_add(cost);
        }
    }

    /// The member of `wanting` that should have the engine. `None`: no member wants it.
    pub(crate) fn pick(&self, wanting: &[K], quantum_ns: impl Fn(K) -> u64) -> Option<K> {
        if let Some(turn) = &self.turn
            && wanting.contains(&turn.member)
            && turn.held_ns < quantum_ns(turn.member)
        {
            return Some(turn.member);
        }
        // Among those that have used the same, the next behind the member that had its turn.
        let behind = |member: &K| self.turn.as_ref().is_some_and(|turn| *member <= turn.member);
        let half =
            |member: &K| self.turn.as_ref().filter(|turn| turn.member == *member).map_or(0, |turn| turn.cost / 2);
        let used = |member: &K| self.used.get(member).copied().unwrap_or(self.floor).saturating_add(half(member));
        wanting.iter().min_by_key(|member| (used(member), behind(member), **member)).copied()
    }

    /// A member has the engine. If its quantum was over while others wanted it, and it was picked again, its turn begins anew.
    pub(crate) fn begin(&mut self, member: K, anew: bool) {
        match &self.turn {
            Some(turn) if turn.member == member && !anew => {}
            _ => self.turn = Some(Tenure { member, held_ns: 0, cost: 0 }),
        }
    }

    /// How long the turn of `member` still lasts.
    pub(crate) fn left_ns(&self, member: K, quantum_ns: u64) -> u64 {
        match &self.turn {
            Some(turn) if turn.member == member => quantum_ns.saturating_sub(turn.held_ns),
            _ => quantum_ns,
        }
    }

    /// Whether what a member has used is remembered.
    pub(crate) fn knows(&self, member: K) -> bool {
        self.used.contains_key(&member)
    }

    /// Whether no member is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.used.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members 1 and 2; 1 has used so much in a turn of its own.
    fn after(cost: u64) -> Rota<u8> {
        let mut rota = Rota::default();
        rota.attend(&[1, 2]);
        rota.begin(1, false);
        rota.charge(1, cost, cost);
        rota
    }

    #[test]
    fn a_member_that_has_gone_is_remembered_as_long_as_that_makes_a_difference() {
        let mut rota = after(10);
        rota.attend(&[2]);
        assert!(rota.knows(1), "it has used more than the one that is present");
        rota.charge(2, 10, 10);
        rota.attend(&[2]);
        assert!(!rota.knows(1) && rota.knows(2), "as much: it would come back with as little as member 2 has used");
        rota.attend(&[]);
        assert!(!rota.knows(2) && rota.is_empty(), "without members nothing makes a difference");
    }

    #[test]
    fn a_member_that_comes_has_used_as_much_as_the_one_who_has_used_least() {
        let mut rota = after(10);
        rota.charge(2, 4, 4);
        rota.attend(&[1, 2]);
        rota.attend(&[1, 2, 3]);
        // 3 is given 3 more than 2 has: with nothing of its own before it would still be picked.
        rota.charge(3, 3, 3);
        assert_eq!(rota.pick(&[2, 3], |_| 0), Some(2));
    }

    #[test]
    fn a_turn_lasts_its_quantum_and_that_of_another_member_is_whole() {
        let rota = after(10);
        assert_eq!((rota.left_ns(1, 30), rota.left_ns(2, 30)), (20, 30));
        assert_eq!(rota.pick(&[1, 2], |_| 11), Some(1), "the quantum is not over");
        assert_eq!(rota.pick(&[1, 2], |_| 10), Some(2));
        assert_eq!(rota.pick(&[2], |_| 11), Some(2), "the one whose turn it is wants nothing");
    }

    #[test]
    fn of_those_who_have_used_the_same_the_next_behind_the_last_turn_is_picked() {
        let mut rota = Rota::default();
        rota.attend(&[1, 2, 3]);
        assert_eq!(rota.pick(&[1, 2, 3], |_| 0), Some(1));
        rota.begin(2, false);
        assert_eq!(rota.pick(&[1, 2, 3], |_| 0), Some(3), "3 stands behind 2; 1 and 2 itself do not");
        assert_eq!(rota.pick(&[1, 2], |_| 0), Some(1));
    }

    #[test]
    fn a_turn_that_is_over_goes_on_only_if_the_others_used_more_by_half_of_it() {
        let mut rota = after(10);
        // The turn has cost 10: with half of it 1 stands at 15.
        rota.charge(2, 0, 15);
        assert_eq!(rota.pick(&[1, 2], |_| 0), Some(2), "equal: the next behind");
        rota.charge(2, 0, 1);
        assert_eq!(rota.pick(&[1, 2], |_| 0), Some(1));
    }
}
