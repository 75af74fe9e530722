//! The last values of something that is drawn as a curve. Filled by the page, drawn by the charts.

use std::collections::VecDeque;

/// The latest values, the newest last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    values: VecDeque<f64>,
}

/// Values that are kept: more than any terminal is wide.
const LENGTH: usize = 512;

impl History {
    /// One more; the oldest goes when there are too many.
    pub fn push(&mut self, value: f64) {
        if self.values.len() == LENGTH {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    /// The newest `count`, the oldest of them first.
    pub fn last(&self, count: usize) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.values.iter().skip(self.values.len().saturating_sub(count)).copied()
    }

    /// The greatest of the newest `count`.
    pub fn greatest(&self, count: usize) -> f64 {
        self.last(count).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay() {
        let mut history = History::default();
        (0..LENGTH + 3).for_each(|value| history.push(value as f64));
        assert_eq!(history.last(2).collect::<Vec<_>>(), [LENGTH as f64 + 1.0, LENGTH as f64 + 2.0]);
        assert_eq!((history.last(9999).len(), history.last(9999).next()), (LENGTH, Some(3.0)));
        assert_eq!(history.greatest(1), LENGTH as f64 + 2.0);
    }
}
