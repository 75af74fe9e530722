//! Reduces slices and curves to as many marks as can be drawn, without a false one.
//!
//! Slices that are close together become one mark that knows how many it stands for and how long they lasted together;
//! a curve keeps the first, lowest, highest and last point of each stretch, so no peak is lost.

/// One mark: a slice, or several neighbours as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The beginning of the first slice.
    pub begin_ns: u64,
    /// The end of the last slice.
    pub end_ns: u64,
    /// Name of the slice, of the longest one among several.
    pub name: u32,
    /// Bytes of all.
    pub bytes: u64,
    /// How many slices.
    pub count: u64,
    /// How long they lasted together, without the gaps.
    pub busy_ns: u64,
    longest_ns: u64,
}

impl Mark {
    /// A mark for one slice.
    pub fn one(begin_ns: u64, end_ns: u64, name: u32, bytes: u64) -> Mark {
        let lasted = end_ns.saturating_sub(begin_ns);
        Mark { begin_ns, end_ns, name, bytes, count: 1, busy_ns: lasted, longest_ns: lasted }
    }

    fn join(&mut self, next: &Mark) {
        if next.longest_ns > self.longest_ns {
            (self.name, self.longest_ns) = (next.name, next.longest_ns);
        }
        self.end_ns = self.end_ns.max(next.end_ns);
        self.bytes = self.bytes.saturating_add(next.bytes);
        self.count += next.count;
        self.busy_ns = self.busy_ns.saturating_add(next.busy_ns);
    }
}

/// Merges neighbours of each row until all rows together have at most `marks_max` marks; the longest stretch that was
/// merged into one mark, 0 when nothing was. Rows are in order of time and do not overlap themselves. A row never
/// vanishes, so more rows than `marks_max` keep one mark each.
pub fn merge(rows: &mut [Vec<Mark>], marks_max: usize) -> u64 {
    let count = |rows: &[Vec<Mark>]| rows.iter().map(Vec::len).sum::<usize>();
    let mut stretch_ns = 0;
    while count(rows) > marks_max && stretch_ns < u64::MAX {
        stretch_ns = if stretch_ns == 0 { 256 } else { stretch_ns.saturating_mul(2) };
        rows.iter_mut().for_each(|row| merge_row(row, stretch_ns));
    }
    stretch_ns
}

fn merge_row(row: &mut Vec<Mark>, stretch_ns: u64) {
    let mut merged: Vec<Mark> = Vec::with_capacity(row.len());
    for mark in row.drain(..) {
        match merged.last_mut() {
            Some(last) if mark.end_ns.saturating_sub(last.begin_ns) <= stretch_ns => last.join(&mark),
            _ => merged.push(mark),
        }
    }
    *row = merged;
}

/// A curve of at most `points_max` points (at least four), as time and value.
pub fn curve(points: &[(u64, u64)], points_max: usize) -> Vec<(u64, u64)> {
    if points.len() <= points_max {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil((points_max / 4).max(1));
    let mut thin = Vec::with_capacity(points_max);
    for part in points.chunks(stretch) {
        let at = |pick: Option<(usize, &(u64, u64))>| pick.map_or(0, |(index, _)| index);
        let lowest = at(part.iter().enumerate().min_by_key(|(_, point)| point.1));
        let highest = at(part.iter().enumerate().max_by_key(|(_, point)| point.1));
        let mut kept = [0, lowest, highest, part.len() - 1];
        kept.sort_unstable();
        let mut last = None;
        for index in kept.into_iter().filter(|index| last.replace(*index) != Some(*index)) {
            thin.push(part[index]);
        }
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_counts_times_and_bytes() {
        let row =
            |step: u64| (0..1000).map(|n| Mark::one(n * step, n * step + 60, n as u32 % 3, 7)).collect::<Vec<_>>();
        let mut rows = vec![row(100), row(1000), Vec::new()];
        let merged_ns = merge(&mut rows, 100);
        assert!(merged_ns >= 1000);
        assert!(rows[0].len() + rows[1].len() <= 100);
        for row in &rows[..2] {
            assert_eq!(row.iter().map(|mark| mark.count).sum::<u64>(), 1000);
            assert_eq!(row.iter().map(|mark| mark.busy_ns).sum::<u64>(), 60_000);
            assert_eq!(row.iter().map(|mark| mark.bytes).sum::<u64>(), 7000);
            assert!(row.windows(2).all(|pair| pair[0].end_ns <= pair[1].begin_ns));
            assert!(row.iter().all(|mark| mark.count == 1 || mark.end_ns - mark.begin_ns <= merged_ns));
        }
    }

    #[test]
    fn the_longest_gives_its_name_and_enough_room_changes_nothing() {
        let mut rows = vec![vec![Mark::one(0, 10, 1, 0), Mark::one(10, 90, 2, 0), Mark::one(90, 95, 3, 0)]];
        let before = rows.clone();
        assert_eq!(merge(&mut rows, 3), 0);
        assert_eq!(rows, before);
        merge(&mut rows, 1);
        assert_eq!((rows[0][0].name, rows[0][0].end_ns), (2, 95));
    }

    #[test]
    fn a_thin_curve_keeps_its_ends_and_extremes() {
        let points: Vec<(u64, u64)> =
            (0..10_000).map(|n| (n, if n == 7777 { 1_000_000 } else { n % 100 + 5 })).collect();
        let thin = curve(&points, 400);
        assert!(thin.len() <= 400 && thin.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[9999]));
        assert!(thin.contains(&(7777, 1_000_000)) && thin.iter().any(|point| point.1 == 5));
        assert_eq!(curve(&points[..10], 400), points[..10]);
    }
}
