//! Medians and means. Called by every measure.

/// The middle value; of an even number the lower of the two in the middle.
///
/// # Panics
/// When there is none: a measure without a batch is a mistake of ours.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "a median of nothing");
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

/// The median of the ratios of what was measured in pairs, `above[i] / below[i]`.
pub(crate) fn median_ratio(above: &[f64], below: &[f64]) -> f64 {
    assert_eq!(above.len(), below.len(), "pairs are measured in pairs");
    median(above.iter().zip(below).map(|(above, below)| above / below.max(f64::MIN_POSITIVE)).collect())
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
pub(crate) fn ratio_of_totals(above: &[f64], below: &[f64]) -> f64 {
    assert_eq!(above.len(), below.len(), "pairs are measured in pairs");
    mean(above) / mean(below).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wild_batch_does_not_move_the_median() {
        assert_eq!(median(vec![3.0, 1.0, 2.0, 1e9, 2.5]), 2.5);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert_eq!(median_ratio(&[10.0, 20.0, 900.0], &[5.0, 10.0, 1.0]), 2.0);
    }

    #[test]
    fn totals_count_every_batch() {
        assert_eq!(mean(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(ratio_of_totals(&[1.0, 2.0, 3.0], &[1.0, 1.0, 10.0]), 0.5);
    }
}
