//! The simulator's only source of chance: splitmix64, so that a seed means the same on every machine, in every build and
//! after every update of a dependency. It is no source of secrets.

/// A stream of numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed ^ 0x6a09_e667_f3bc_c909 }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `bound`; 0 when the bound is 0. The bias is below 2^-32 for the small bounds used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.draw() % bound }
    }

    /// A place in a list of `length`.
    pub fn index(&mut self, length: usize) -> usize {
        // CAST: a list's length fits both.
        self.below(length as u64) as usize
    }

    /// True `percent` times of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of a list that is not empty.
    ///
    /// # Panics
    /// When it is.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.index(list.len())]
    }

    /// A stream of its own, for one part of the world: what that part draws does not shift what others draw.
    pub fn split(&mut self) -> Random {
        Random::new(self.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_seed_is_pinned() {
        let mut random = Random::new(1);
        let first: Vec<u64> = (0..3).map(|_| random.below(1000)).collect();
        let mut again = Random::new(1);
        assert_eq!(first, (0..3).map(|_| again.below(1000)).collect::<Vec<_>>());
        assert_ne!(first, (0..3).map(|_| Random::new(2).below(1000)).collect::<Vec<_>>());
        assert_eq!(Random::new(7).below(0), 0);
    }
}
