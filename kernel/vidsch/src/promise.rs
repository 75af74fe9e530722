//! The contexts that will signal what others wait for, and how that raises their ranks (priority inheritance, sync §4.2): while a context
//! of high rank waits for one of low rank, the low one runs at the high rank, and so does every context that it waits for in turn.

use std::collections::BTreeMap;

use engine_time::Rank;

/// The signals that contexts have promised by the packets in their queues. `F`: a fence or another object, `C`: a context.
#[derive(Clone, Debug)]
pub(crate) struct Promises<F, C> {
    /// The promising context, by object, value and part.
    promised: BTreeMap<(F, u64, u64), C>,
    /// The points of each part: every promise is one of them.
    by_part: BTreeMap<u64, Vec<(F, u64)>>,
}

impl<F, C> Default for Promises<F, C> {
    fn default() -> Self {
        Promises { promised: BTreeMap::new(), by_part: BTreeMap::new() }
    }
}

impl<F: Copy + Ord, C: Copy + Ord> Promises<F, C> {
    /// Notes that `part`, in the queue of `who`, will signal these values.
    pub(crate) fn promise(&mut self, part: u64, who: C, points: Vec<(F, u64)>) {
        for (what, value) in &points {
            self.promised.insert((*what, *value, part), who);
        }
        let before = self.by_part.insert(part, points);
        debug_assert!(before.is_none(), "part {part} promises a second time");
    }

    /// The part's turn has come, or never will.
    pub(crate) fn over(&mut self, part: u64) {
        for (what, value) in self.by_part.remove(&part).unwrap_or_default() {
            self.promised.remove(&(what, value, part));
        }
        debug_assert!(
            !self.by_part.is_empty() || self.promised.is_empty(),
            "part {part} was the last, and {} promises are left",
            self.promised.len()
        );
    }

    /// The contexts that promised the least value at or above this one.
    pub(crate) fn keepers(&self, what: F, value: u64) -> impl Iterator<Item = C> {
        let mut ahead = self.promised.range((what, value, 0)..=(what, u64::MAX, u64::MAX)).peekable();
        let next = ahead.peek().map(|((_, value, _), _)| *value);
        ahead.take_while(move |((_, value, _), _)| Some(*value) == next).map(|(_, who)| *who)
    }

    /// Whether no context has promised a signal.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_part.is_empty()
    }
}

/// Raises the rank of each context that another waits for: `waits` holds pairs of waiter and keeper. Ranks of those who are not in `ranks`
/// do not matter.
// spec: sync §4.2
pub(crate) fn inherit<C: Copy + Ord>(ranks: &mut BTreeMap<C, Rank>, waits: &[(C, C)]) {
    // Ranks only rise, and only to ranks that are there: in as many rounds as there are waits everything has arrived.
    for _ in 0..waits.len() {
        let mut changed = false;
        for (waiter, keeper) in waits {
            let Some(waiter) = ranks.get(waiter).copied() else { continue };
            let Some(keeper) = ranks.get_mut(keeper) else { continue };
            let raised = keeper.raised_for(waiter);
            changed |= raised != *keeper;
            *keeper = raised;
        }
        if !changed {
            return;
        }
    }
    let lower = |(waiter, keeper): &(C, C)| match (ranks.get(waiter), ranks.get(keeper)) {
        (Some(waiter), Some(keeper)) => keeper.raised_for(*waiter) != *keeper,
        _ => false,
    };
    debug_assert!(!waits.iter().any(lower), "{} rounds have not raised every keeper to its waiters", waits.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_time::Band;

    #[test]
    fn the_next_to_keep_a_promise_is_the_one_with_the_least_value_that_will_do() {
        // spec: sync §4.2
        let mut promises = Promises::default();
        promises.promise(1, 'a', vec![(7, 5), (8, 1)]);
        promises.promise(2, 'b', vec![(7, 6)]);
        promises.promise(3, 'c', vec![(7, 6)]);
        assert!(!promises.is_empty());
        let keepers = |promises: &Promises<u32, char>, value| promises.keepers(7, value).collect::<String>();
        assert_eq!([4, 5, 6, 7].map(|value| keepers(&promises, value)), ["a", "a", "bc", ""]);
        promises.over(1);
        promises.over(2);
        assert_eq!(keepers(&promises, 1), "c");
        promises.over(3);
        promises.over(3);
        assert!(promises.is_empty() && promises.promised.is_empty());
    }

    #[test]
    fn a_high_one_raises_the_whole_chain_that_it_waits_for() {
        // spec: sync §4.2
        let of = |process, band| Rank { band, ..Rank::ordinary(process) };
        let mut ranks: BTreeMap<u32, Rank> =
            [(1, of(1, Band::Focus)), (2, of(2, Band::Normal)), (3, of(3, Band::Idle)), (4, of(4, Band::Idle))].into();
        // 1 waits for 2, which waits for 3, which waits for 2: they will never get on, and this ends.
        inherit(&mut ranks, &[(3, 2), (2, 3), (1, 2), (9, 4), (4, 9)]);
        let bands: Vec<Band> = ranks.values().map(|rank| rank.band).collect();
        assert_eq!(bands, [Band::Focus, Band::Focus, Band::Focus, Band::Idle]);
        // Named from the end of the chain on: what the first round has raised the second round hands on.
        let mut ranks: BTreeMap<u32, Rank> =
            [(1, of(1, Band::Focus)), (2, of(2, Band::Normal)), (3, of(3, Band::Idle))].into();
        inherit(&mut ranks, &[(2, 3), (1, 2)]);
        assert!(ranks.values().all(|rank| rank.band == Band::Focus), "{ranks:?}");
    }
}
