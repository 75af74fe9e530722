//! How 32 bits are read as 64 (sync §1.6): a GPU without 64-bit atomics writes only the lower half of a fence's value, the
//! kernel keeps the whole. The words are the caller's; here is the arithmetic, and the rule that makes it unambiguous.
//!
//! A 32-bit word names the value that lies nearest to the one that was signalled last, at most [`REACH`] away on either
//! side. Therefore no wait and no signal may be outstanding for a value further away: this code would read it in another epoch.

/// `UINT_MAX / 2`: how far an outstanding wait or signal may lie from the value that was signalled last.
// spec: sync §1.6
pub const REACH: u64 = 0x7FFF_FFFF;

/// The 64-bit value of a fence of which the GPU writes 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extension {
    last: u64,
}

impl Extension {
    /// A fence with this value.
    pub fn new(value: u64) -> Self {
        Extension { last: value }
    }

    /// The value as far as it was seen.
    pub fn value(&self) -> u64 {
        self.last
    }

    /// The value that the GPU's word names: the one nearest to the last value that ends in these bits. A word that would lie below
    /// zero or above the greatest value belongs to no epoch and counts as no news.
    // spec: sync §1.6, seed: C11
    pub fn read(&mut self, word: u32) -> u64 {
        // CAST: the lower half is meant; the difference of two words, read as signed, is the way between them.
        let way = word.wrapping_sub(self.last as u32) as i32;
        if let Some(value) = self.last.checked_add_signed(i64::from(way)) {
            self.last = value;
        }
        self.last
    }

    /// The kernel itself stores a value; returns the word. See [`admits`](Self::admits).
    pub fn store(&mut self, value: u64) -> u32 {
        self.last = value;
        // CAST: the lower half is what the GPU sees.
        value as u32
    }

    /// Whether a wait for, or a signal of, this value may be outstanding.
    // spec: sync §1.6, seed: C12
    pub fn admits(&self, value: u64) -> bool {
        self.last.abs_diff(value) <= REACH
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    // spec: sync §3.19
    fn values_cross_the_edge_of_32_bits_upwards_and_back() {
        let mut fence = Extension::new(0xFFFF_FFFE);
        assert_eq!(fence.read(0xFFFF_FFFF), 0xFFFF_FFFF);
        assert_eq!(fence.read(3), 0x1_0000_0003);
        assert_eq!(fence.read(0xFFFF_FFF0), 0xFFFF_FFF0, "a rewind over the edge");
    }

    #[test]
    fn the_kernel_stores_a_whole_value_and_the_gpu_sees_its_lower_half() {
        let mut fence = Extension::new(7);
        assert_eq!(fence.value(), 7);
        assert_eq!(fence.store(0x5_0000_0009), 9);
        assert_eq!(fence.value(), 0x5_0000_0009);
        assert_eq!(fence.read(8), 0x5_0000_0008, "the word is read beside the value that was stored last");
    }

    #[test]
    fn what_lies_outside_of_all_values_is_no_news() {
        assert_eq!(Extension::new(5).read(0xFFFF_FFFF), 5, "-1 is no value");
        assert_eq!(Extension::new(u64::MAX).read(0), u64::MAX);
    }

    #[test]
    fn the_reach_is_the_same_on_both_sides() {
        let fence = Extension::new(1 << 40);
        assert!(fence.admits((1 << 40) + REACH) && fence.admits((1 << 40) - REACH));
        assert!(!fence.admits((1 << 40) + REACH + 1) && !fence.admits((1 << 40) - REACH - 1));
    }

    proptest! {
        #[test]
        // spec: sync §3.19
        fn every_admitted_value_is_read_as_itself(last: u64, way in -(REACH as i64)..=REACH as i64) {
            if let Some(value) = last.checked_add_signed(way) {
                let mut fence = Extension::new(last);
                prop_assert!(fence.admits(value));
                prop_assert_eq!(fence.read(value as u32), value);
            }
        }
    }
}
