//! Which processes are over their budgets, and which of them are to trim. Called by `plan`, `trim` and the kernel's calls.
//!
//! A kernel asks this often, and mostly no process is over: each has what it asks for. Then two sums say so, whatever the number of
//! processes. Where the needs of all processes together fit a group, and nothing caps a budget, no process is over its own: a division leaves
//! each process at least what the others do not need, in whatever order it serves them, and needs are whole pages.

use super::{Processes, SegmentGroup};
use crate::policy::Policy;
use crate::slab::SpaceId;

impl Processes {
    /// The processes that are to be asked to trim to their budgets now, each with the bytes that it is to trim, of all processes with the bytes
    /// by which each is over; one that was asked within the policy's pause is not asked again.
    // spec: memory §5.4
    pub fn due_trims(&mut self, over: Vec<(SpaceId, u64)>, now_ns: u64, policy: &Policy) -> Vec<(SpaceId, u64)> {
        let mut asked = Vec::new();
        for (space, over) in over {
            let last = &mut self.process_mut(space).asked_ns;
            if over == 0 {
                *last = None;
            } else if last.is_none_or(|at| now_ns >= at.saturating_add(policy.trim_retry_ns)) {
                *last = Some(now_ns);
                asked.push((space, over));
            }
        }
        asked
    }

    /// Whether the lists of any process exceed its budgets.
    pub fn any_over_budget(&self) -> bool {
        !SegmentGroup::ALL.iter().all(|group| self.all_fit(*group, None))
            && self.spaces().any(|space| self.bytes_over_budget(space, |_| 0) > 0)
    }

    /// Bytes by which a process's lists exceed its budgets, without the bytes that leave each group as soon as queued work allows it.
    pub fn bytes_over_budget(&self, space: SpaceId, leaving: impl Fn(SegmentGroup) -> u64) -> u64 {
        let over = |group: SegmentGroup| match self.over(space, group, None) {
            0 => 0,
            over => over.saturating_sub(leaving(group)),
        };
        SegmentGroup::ALL.into_iter().map(over).sum()
    }

    /// Whether a process's lists exceed a budget, if another process needed so many bytes more.
    pub fn is_over_budget(&self, space: SpaceId, group: SegmentGroup, more: Option<(SpaceId, u64)>) -> bool {
        self.over(space, group, more) > 0
    }

    fn over(&self, space: SpaceId, group: SegmentGroup, more: Option<(SpaceId, u64)>) -> u64 {
        let over = || self.need(space, group).saturating_sub(self.budget_beside(space, group, more));
        if self.all_fit(group, more) {
            debug_assert_eq!(over(), 0, "all fit {group:?}, and {space:?} is over its budget");
            return 0;
        }
        over()
    }

    /// Whether what all processes need, and what another process needed more, fits a group, and nothing caps a budget.
    fn all_fit(&self, group: SegmentGroup, more: Option<(SpaceId, u64)>) -> bool {
        let more = more.map_or(0, |(_, bytes)| bytes);
        self.caps == 0 && self.needs[group as usize].saturating_add(more) <= self.group_bytes(group)
    }
}

#[cfg(test)]
mod tests {
    use wddm_types::PAGE_BYTES;

    use super::*;
    use crate::slab::Key;

    const GROUP: SegmentGroup = SegmentGroup::Local;

    /// Two processes that need half of the group each.
    fn two() -> (Processes, [SpaceId; 2]) {
        let (mut processes, spaces) = (Processes::new([100 * PAGE_BYTES; 2]), [1, 2].map(|slot| SpaceId::new(slot, 0)));
        for space in spaces {
            processes.begin(space);
            processes.count_need(space, GROUP, 50 * PAGE_BYTES, true);
        }
        (processes, spaces)
    }

    fn over(processes: &Processes, spaces: [SpaceId; 2]) -> [u64; 2] {
        spaces.map(|space| processes.bytes_over_budget(space, |_| 0) / PAGE_BYTES)
    }

    // spec: memory §5.5
    #[test]
    fn where_all_fit_none_is_over_and_a_page_more_is_over_its_share() {
        let (mut processes, spaces) = two();
        assert_eq!((over(&processes, spaces), processes.any_over_budget()), ([0, 0], false));
        let more = Some((spaces[0], PAGE_BYTES));
        assert!(!processes.is_over_budget(spaces[1], GROUP, more), "half of it is the even share");
        processes.count_need(spaces[0], GROUP, 10 * PAGE_BYTES, true);
        assert_eq!((over(&processes, spaces), processes.any_over_budget()), ([10, 0], true));
        processes.count_need(spaces[1], GROUP, 10 * PAGE_BYTES, false);
        assert_eq!((over(&processes, spaces), processes.any_over_budget()), ([0, 0], false));
        let more = Some((spaces[1], PAGE_BYTES));
        assert!(processes.is_over_budget(spaces[0], GROUP, more), "what the other asks for is no longer left");
    }

    // spec: memory §5.5
    #[test]
    fn a_cap_puts_a_process_over_although_all_fit_and_goes_with_it() {
        let (mut processes, spaces) = two();
        for pages in [40, 30] {
            processes.set_cap(spaces[1], GROUP, Some(pages * PAGE_BYTES));
            assert_eq!((over(&processes, spaces), processes.any_over_budget()), ([0, 50 - pages], true));
        }
        processes.set_cap(spaces[1], GROUP, None);
        assert!(!processes.any_over_budget());
        processes.set_cap(spaces[1], GROUP, Some(PAGE_BYTES));
        processes.count_need(spaces[1], GROUP, 50 * PAGE_BYTES, false);
        processes.end(spaces[1]);
        assert_eq!(processes.check(|_, group| if group == GROUP { 50 * PAGE_BYTES } else { 0 }), Ok(()));
        assert!(processes.all_fit(GROUP, Some((spaces[0], 50 * PAGE_BYTES))) && !processes.any_over_budget());
    }
}
