//! The set of queues that an engine looks at: 256 bits and a way round them. Not the set of enabled queues: a queue that
//! sleeps, is parked or faulted is not here and costs nothing.

/// Queue numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Active([u64; 4]);

impl Active {
    pub(crate) fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(crate) fn remove(&mut self, at: usize) {
        self.0[at / 64] &= !(1 << (at % 64));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether nobody but `at` is in it.
    pub(crate) fn is_only(&self, at: usize) -> bool {
        let mut others = *self;
        others.remove(at);
        others.is_empty()
    }

    /// The first member behind `at`, going round; `at` itself last.
    #[inline]
    pub(crate) fn next_after(&self, at: usize) -> Option<usize> {
        let (group, bit) = (at / 64, at % 64);
        // Two shifts, because one by 64 is none.
        let behind = self.0[group] & (u64::MAX << bit << 1);
        if behind != 0 {
            return Some(group * 64 + behind.trailing_zeros() as usize);
        }
        for step in 1..=4 {
            let group = (group + step) % 4;
            if self.0[group] != 0 {
                return Some(group * 64 + self.0[group].trailing_zeros() as usize);
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
            members.iter().for_each(|member| active.insert(*member));
            let expected = members.range(at + 1..).next().or(members.iter().next()).copied();
            proptest::prop_assert_eq!(active.next_after(at), expected);
            proptest::prop_assert_eq!(active.len() as usize, members.len());
            let others: BTreeSet<_> = members.iter().filter(|member| **member != at).collect();
            proptest::prop_assert_eq!(active.is_only(at), others.is_empty());
        }
    }
}
