//! Sums over a row of places: adds to a range, and finds the least of a range, both in the logarithm of the row's length.

/// The row. A tree of halves: each node has what was added to all of it, and the least below it with that.
#[derive(Debug)]
pub(crate) struct Slack {
    added: Vec<i64>,
    least: Vec<i64>,
    length: usize,
}

impl Slack {
    /// A row of zeroes.
    pub(crate) fn new(length: usize) -> Slack {
        let length = length.next_power_of_two();
        Slack { added: vec![0; length * 2], least: vec![0; length * 2], length }
    }

    /// Adds to the places from `from` up to, not with, `to`.
    pub(crate) fn add(&mut self, from: usize, to: usize, what: i64) {
        if from < to {
            self.add_below(1, (0, self.length), (from, to), what);
        }
    }

    /// The least of these places; 0 if there are none.
    pub(crate) fn least(&self, from: usize, to: usize) -> i64 {
        if from < to { self.least_below(1, (0, self.length), (from, to)).unwrap_or(0) } else { 0 }
    }

    fn add_below(&mut self, node: usize, (begin, end): (usize, usize), (from, to): (usize, usize), what: i64) {
        if to <= begin || end <= from {
            return;
        }
        if from <= begin && end <= to {
            self.added[node] += what;
            self.least[node] += what;
            return;
        }
        let middle = begin.midpoint(end);
        self.add_below(node * 2, (begin, middle), (from, to), what);
        self.add_below(node * 2 + 1, (middle, end), (from, to), what);
        self.least[node] = self.added[node] + self.least[node * 2].min(self.least[node * 2 + 1]);
    }

    fn least_below(&self, node: usize, (begin, end): (usize, usize), (from, to): (usize, usize)) -> Option<i64> {
        if to <= begin || end <= from {
            return None;
        }
        if from <= begin && end <= to {
            return Some(self.least[node]);
        }
        let middle = begin.midpoint(end);
        let left = self.least_below(node * 2, (begin, middle), (from, to));
        let right = self.least_below(node * 2 + 1, (middle, end), (from, to));
        let least = left.into_iter().chain(right).min()?;
        Some(self.added[node] + least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_plain_numbers_says_the_same() {
        let mut slack = Slack::new(50);
        let mut plain = [0i64; 50];
        let mut seed = 1u64;
        let mut draw = |below: usize| {
            seed = crate::symbol::mix(seed);
            (seed % below as u64) as usize
        };
        for _ in 0..500 {
            let (from, to, what) = (draw(50), draw(51), draw(21) as i64 - 10);
            slack.add(from, to, what);
            plain[from.min(to)..to].iter_mut().for_each(|place| *place += what);
            let (from, to) = (draw(50), draw(51));
            let expected = plain[from.min(to)..to].iter().min().copied().unwrap_or(0);
            assert_eq!(slack.least(from, to), expected);
        }
    }
}
