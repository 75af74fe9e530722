//! A window on a sequence that only grows: entries are named by their number since the begin, and the oldest fall out when it is full.

/// The newest entries of a sequence.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    /// In order from the entry of number `base`, until as many are kept as may be; from then on the next one takes the oldest one's place.
    entries: Vec<T>,
    base: u64,
    /// Number of the oldest entry that is kept.
    start: u64,
    /// Number of the next entry.
    end: u64,
    /// Most entries kept: a power of two.
    kept_max: usize,
}

impl<T: Copy> Ring<T> {
    /// An empty one that keeps at most so many, a power of two.
    pub(crate) fn new(kept_max: usize) -> Ring<T> {
        assert!(kept_max.is_power_of_two(), "numbers are masked");
        Ring { entries: Vec::new(), base: 0, start: 0, end: 0, kept_max }
    }

    /// Keeps at most so many from now on, a power of two: the oldest fall out.
    pub(crate) fn keep(&mut self, kept_max: usize) {
        assert!(kept_max.is_power_of_two(), "numbers are masked");
        if kept_max == self.kept_max {
            return;
        }
        let in_order = self.base == self.start && self.entries.len() <= kept_max;
        if !in_order {
            self.start = self.start.max(self.end.saturating_sub(kept_max as u64));
            self.entries = (self.start..self.end).map(|number| self.entries[self.index(number)]).collect();
            self.base = self.start;
        }
        self.kept_max = kept_max;
    }

    /// The number that the next entry gets.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The oldest number kept.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Appends; the oldest falls out if it is full.
    pub(crate) fn push(&mut self, entry: T) {
        if self.entries.len() < self.kept_max {
            self.entries.push(entry);
        } else {
            let index = self.index(self.end);
            self.entries[index] = entry;
        }
        self.end += 1;
        self.start = self.start.max(self.end.saturating_sub(self.kept_max as u64));
    }

    /// The entry of a number, if it is kept.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        (self.start..self.end).contains(&number).then(|| &self.entries[self.index(number)])
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let index = (self.start..self.end).contains(&number).then(|| self.index(number))?;
        Some(&mut self.entries[index])
    }

    fn index(&self, number: u64) -> usize {
        // CAST: masked below the most that are kept, a power of two.
        ((number - self.base) & (self.kept_max as u64 - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_under_their_numbers() {
        let mut ring = Ring::new(128);
        for number in 0..300u64 {
            ring.push(number);
            assert_eq!((ring.start(), ring.end()), ((number + 1).saturating_sub(128), number + 1));
            assert!((ring.start()..ring.end()).all(|number| ring.get(number) == Some(&number)));
        }
        assert_eq!((ring.get(171), ring.get(300)), (None, None));
        *ring.get_mut(200).unwrap() = 7;
        assert_eq!(ring.get(200), Some(&7));
    }

    #[test]
    fn one_that_is_to_keep_fewer_gives_the_room_back_and_keeps_the_newest() {
        let mut ring = Ring::new(256);
        (0..300u64).for_each(|number| ring.push(number));
        ring.keep(64);
        assert_eq!((ring.start(), ring.end(), ring.entries.len()), (236, 300, 64));
        assert!((236..300).all(|number| ring.get(number) == Some(&number)));
        (300..400).for_each(|number| ring.push(number));
        assert_eq!((ring.start(), ring.get(336), ring.entries.len()), (336, Some(&336), 64));
        ring.keep(128);
        (400..600).for_each(|number| ring.push(number));
        assert_eq!((ring.start(), ring.get(472)), (472, Some(&472)));
    }

    #[test]
    fn one_that_is_to_keep_as_many_as_before_copies_nothing() {
        let mut ring = Ring::new(64);
        (0..100u64).for_each(|number| ring.push(number));
        let before = (ring.base, ring.entries.as_ptr());
        ring.keep(64);
        assert_eq!((ring.base, ring.entries.as_ptr()), before);
        (100..200).for_each(|number| ring.push(number));
        assert_eq!((ring.start(), ring.end()), (136, 200));
        assert!((136..200).all(|number| ring.get(number) == Some(&number)));
    }
}
