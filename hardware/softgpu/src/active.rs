//! The set of queues that an engine looks at: 256 bits and a way round them. Not the set of enabled queues: a queue that
//! sleeps, is parked or faulted is not here and costs nothing.

/// Queue numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Active {
    members: [u64; 4],
    /// How many there are: asked before every command, where a look through the words would wait for stores under way.
    count: u32,
}

impl Active {
    pub(crate) fn insert(&mut self, at: usize) {
        self.count += u32::from(!self.contains(at));
        self.members[at / 64] |= 1 << (at % 64);
    }

    pub(crate) fn remove(&mut self, at: usize) {
        self.count -= u32::from(self.contains(at));
        self.members[at / 64] &= !(1 << (at % 64));
    }

    #[inline]
    fn contains(&self, at: usize) -> bool {
        self.members[at / 64] >> (at % 64) & 1 == 1
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// All members, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len() * 64).filter(|at| self.contains(*at))
    }

    /// Whether it has no member but `at`.
    #[inline]
    pub(crate) fn is_only(&self, at: usize) -> bool {
        self.count == u32::from(self.contains(at))
    }

    /// The first member behind `at`, going round; `at` itself last.
    #[inline]
    pub(crate) fn next_after(&self, at: usize) -> Option<usize> {
        let (group, bit) = (at / 64, at % 64);
        // Two shifts, because one by 64 is none.
        let behind = self.members[group] & (u64::MAX << bit << 1);
        if behind != 0 {
            return Some(group * 64 + behind.trailing_zeros() as usize);
        }
        for step in 1..=4 {
            let group = (group + step) % 4;
            if self.members[group] != 0 {
                return Some(group * 64 + self.members[group].trailing_zeros() as usize);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    proptest::proptest! {
        #[test]
        fn it_goes_round_as_a_sorted_set_does(members in proptest::collection::btree_set(0usize..256, 0..20), at in 0usize..256) {
            let mut active = Active::default();
            members.iter().chain(&members).for_each(|member| active.insert(*member));
            active.insert(at);
            (0..2).for_each(|_| active.remove(at));
            if members.contains(&at) {
                active.insert(at);
            }
            let expected = members.range(at + 1..).next().or(members.iter().next()).copied();
            proptest::prop_assert_eq!(active.next_after(at), expected);
            proptest::prop_assert_eq!(active.len() as usize, members.len());
            proptest::prop_assert_eq!(active.is_empty(), members.is_empty());
            proptest::prop_assert!(active.iter().eq(members.iter().copied()));
            let others: BTreeSet<_> = members.iter().filter(|member| **member != at).collect();
            proptest::prop_assert_eq!(active.is_only(at), others.is_empty());
        }
    }
}
