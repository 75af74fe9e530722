//! Medians, means, and ratios with their intervals. Called by every measure.
//!
//! The interval of a median comes from ranks alone: of n sorted ratios, counted from 1, those of the ranks `n/2 − 0.98·√n`, rounded down, and
//! `n/2 + 0.98·√n + 1`, rounded up (of 31: 10 and 22; at least 1, at most n), hold the true median between them at least 95 times of 100,
//! whatever the distribution, as long as rounds do not depend on each other. The ratios are sorted, not counted in the buckets of a histogram:
//! there are at most some hundred, and a bucket of a few thousandths would be wider than some intervals.

use serde::{Deserialize, Serialize};

/// Fewer rounds than this have no two ranks that hold the median 95 times of 100.
const INTERVAL_ROUNDS_MIN: usize = 6;
/// Half the width of the interval in ranks, for each square root of a round: 1.96 standard deviations of half a rank.
const RANKS_A_ROOT: f64 = 0.98;

/// Ours against the peer or the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median of the ratios of all rounds; of totals, of counts and of virtual times the ratio itself.
    pub value: f64,
    /// The interval that holds the true median 95 times of 100; `None` for what is exact, for totals, and for less than 6 rounds.
    pub interval: Option<[f64; 2]>,
    /// How many pairs were measured; 0 for what is exact.
    pub rounds: usize,
}

impl Ratio {
    /// A ratio of counts or of virtual times: it has no noise.
    pub(crate) fn exact(value: f64) -> Ratio {
        Ratio { value, interval: None, rounds: 0 }
    }

    /// The median of ratios, one for each round.
    ///
    /// # Panics
    /// As of [`median`].
    pub(crate) fn of_rounds(mut ratios: Vec<f64>) -> Ratio {
        assert!(!ratios.is_empty(), "a ratio of no round");
        ratios.sort_by(f64::total_cmp);
        let rounds = ratios.len();
        let half_width = RANKS_A_ROOT * (rounds as f64).sqrt();
        let middle = rounds as f64 / 2.0;
        // CAST: between 0 and the number of rounds.
        let ranks = [((middle - half_width).floor() - 1.0).max(0.0) as usize, (middle + half_width).ceil() as usize];
        let interval = (rounds >= INTERVAL_ROUNDS_MIN).then(|| ranks.map(|rank| ratios[rank.min(rounds - 1)]));
        Ratio { value: ratios[(rounds - 1) / 2], interval, rounds }
    }

    /// The worse of two where less is better.
    pub(crate) fn or_greater(self, other: Ratio) -> Ratio {
        if other.value > self.value { other } else { self }
    }

    /// The worse of two where more is better.
    pub(crate) fn or_less(self, other: Ratio) -> Ratio {
        if other.value < self.value { other } else { self }
    }

    /// Whether noise alone may explain that `other` is not this: their intervals meet, or both are the same.
    pub fn meets(&self, other: &Ratio) -> bool {
        let bounds = |ratio: &Ratio| ratio.interval.unwrap_or([ratio.value; 2]);
        let ([low, high], [other_low, other_high]) = (bounds(self), bounds(other));
        low <= other_high && other_low <= high
    }
}

/// The middle value; of an even number the lower of the two in the middle.
///
/// # Panics
/// When there is none: a measure without a batch is a mistake of ours.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "a median of nothing");
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

/// The median of the ratios of what was measured in pairs, `above[i] / below[i]`, with its interval.
pub(crate) fn median_ratio(above: &[f64], below: &[f64]) -> Ratio {
    assert_eq!(above.len(), below.len(), "pairs are measured in pairs");
    Ratio::of_rounds(above.iter().zip(below).map(|(above, below)| above / below.max(f64::MIN_POSITIVE)).collect())
}

/// The mean.
///
/// # Panics
/// As of [`median`].
pub(crate) fn mean(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a mean of nothing");
    values.iter().sum::<f64>() / values.len() as f64
}

/// All of the one, divided by all of the other; as many were measured.
pub(crate) fn ratio_of_totals(above: &[f64], below: &[f64]) -> Ratio {
    assert_eq!(above.len(), below.len(), "pairs are measured in pairs");
    let value = mean(above) / mean(below).max(f64::MIN_POSITIVE);
    Ratio { value, interval: None, rounds: above.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_batch_does_not_move_the_median() {
        assert_eq!(median(vec![3.0, 1.0, 2.0, 1e9, 2.5]), 2.5);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert_eq!(median_ratio(&[10.0, 20.0, 900.0], &[5.0, 10.0, 1.0]).value, 2.0);
    }

    #[test]
    fn totals_count_every_batch() {
        assert_eq!(mean(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(ratio_of_totals(&[1.0, 2.0, 3.0], &[1.0, 1.0, 10.0]).value, 0.5);
    }

    #[test]
    fn the_interval_is_of_ranks_and_few_rounds_have_none() {
        // 31 rounds, 1 to 31 in another order: ranks 10.04 down and 20.96 and one up.
        let ratio = Ratio::of_rounds((0..31).map(|round| f64::from(round * 7 % 31 + 1)).collect());
        assert_eq!(ratio, Ratio { value: 16.0, interval: Some([10.0, 22.0]), rounds: 31 });
        assert_eq!(Ratio::of_rounds(vec![1.0; 5]).interval, None);
        // The binomial distribution's own figure: the share of samples whose median lies between those ranks.
        assert!(binomial_between(31, 10, 21) >= 0.95);
        assert!(binomial_between(6, 1, 5) >= 0.95);
    }

    /// The chance that at least `from` and at most `to` of `rounds` fall below the true median.
    fn binomial_between(rounds: u32, from: u32, to: u32) -> f64 {
        let ways = |below: u32| (0..below).fold(1.0, |ways, k| ways * f64::from(rounds - k) / f64::from(k + 1));
        (from..=to).map(ways).sum::<f64>() / 2f64.powi(rounds as i32)
    }

    #[test]
    fn intervals_that_touch_are_noise_and_exact_ones_must_be_equal() {
        let ratio = |low: f64, high: f64| Ratio { value: (low + high) / 2.0, interval: Some([low, high]), rounds: 31 };
        assert!(ratio(1.0, 1.2).meets(&ratio(1.2, 1.3)));
        assert!(!ratio(1.0, 1.2).meets(&ratio(1.21, 1.3)));
        assert!(!Ratio::exact(1.0).meets(&Ratio::exact(1.001)) && Ratio::exact(1.0).meets(&Ratio::exact(1.0)));
    }
}
