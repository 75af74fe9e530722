//! The columns of a program: groups of stretches, cut down to the rows that they cross. Called by `search`.
//!
//! - A stretch that crosses no row never has to be out, and goes.
//! - An epoch of one stretch needs no variable of its own: its write-back is part of the price.
//! - Columns that cross the same rows at the same prices become one with the sum of their bytes: an optimum can treat them alike.

use std::collections::HashMap;
use std::ops::Range;

use crate::program::{Program, Stretch};

/// One stretch of a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    /// The rows that it crosses; not empty.
    pub(crate) rows: Range<usize>,
    /// Bytes moved for each byte that is out.
    pub(crate) price: u8,
}

/// What is out in none, some or all of some spans. Columns are known by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// The spans, in order, apart from each other.
    pub(crate) spans: Vec<Span>,
    /// Whether being out in any of them costs one write-back besides their prices.
    pub(crate) is_epoch: bool,
}

/// All groups of one shape.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// Their shape.
    pub(crate) shape: Shape,
    /// The sum of their bytes.
    pub(crate) bytes: u64,
}

impl Column {
    /// Its price, if it is one span.
    pub(crate) fn price(&self) -> Option<u8> {
        match self.shape.spans.as_slice() {
            [only] => Some(only.price),
            _ => None,
        }
    }
}

/// The columns over some rows, and the column that each group of the program became.
pub(crate) struct Columns {
    /// The columns, in the order of their first group.
    pub(crate) columns: Vec<Column>,
    /// For each group its column; `None`: it crosses no row.
    pub(crate) became: Vec<Option<usize>>,
}

impl Columns {
    /// The columns over the rows at these operations, ascending.
    pub(crate) fn over(program: &Program, rows: &[usize]) -> Columns {
        let mut known: HashMap<Shape, usize> = HashMap::new();
        let mut columns: Vec<Column> = Vec::new();
        let mut became = Vec::with_capacity(program.groups.len());
        for group in &program.groups {
            let span = |stretch: &Stretch| {
                let crossed = crossed(stretch, rows);
                (!crossed.is_empty()).then(|| Span { rows: crossed, price: u8::from(stretch.comes_back) })
            };
            let mut spans: Vec<Span> = group.stretches.iter().filter_map(span).collect();
            if let [only] = spans.as_mut_slice() {
                only.price += u8::from(group.is_dirty);
            }
            if spans.is_empty() {
                became.push(None);
                continue;
            }
            let is_epoch = group.is_dirty && spans.len() > 1;
            let shape = Shape { spans, is_epoch };
            let at = *known.entry(shape.clone()).or_insert(columns.len());
            if at == columns.len() {
                columns.push(Column { shape, bytes: 0 });
            }
            columns[at].bytes += group.bytes;
            became.push(Some(at));
        }
        Columns { columns, became }
    }
}

/// The rows, ascending operations, that a stretch crosses.
pub(crate) fn crossed(stretch: &Stretch, rows: &[usize]) -> Range<usize> {
    let [begin, end] = [stretch.begin, stretch.end].map(|op| rows.partition_point(|row| *row < op));
    begin..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Group;

    fn group(bytes: u64, is_dirty: bool, stretches: &[(usize, usize, bool)]) -> Group {
        let stretch = |(begin, end, comes_back): &(usize, usize, bool)| Stretch {
            begin: *begin,
            end: *end,
            comes_back: *comes_back,
        };
        Group { bytes, is_dirty, stretches: stretches.iter().map(stretch).collect() }
    }

    #[test]
    fn groups_that_cross_the_same_rows_at_the_same_price_are_one_column() {
        let groups = vec![
            group(1, false, &[(0, 4, true)]),
            group(2, false, &[(2, 5, true)]),
            // Dirty: it costs two.
            group(4, true, &[(2, 5, true)]),
            // Crosses no row.
            group(8, true, &[(4, 6, true)]),
            // One of its two stretches crosses none: no epoch is left.
            group(16, true, &[(2, 5, true), (5, 7, true)]),
            group(32, true, &[(2, 5, true), (5, 9, false)]),
        ];
        let program = Program { cold_bytes: 0, needs: vec![0; 10], groups };
        let found = Columns::over(&program, &[3, 8]);
        assert_eq!(found.became, [Some(0), Some(0), Some(1), None, Some(1), Some(2)]);
        let bytes: Vec<u64> = found.columns.iter().map(|column| column.bytes).collect();
        assert_eq!(bytes, [3, 20, 32]);
        let of = |at: usize| found.columns[at].shape.clone();
        assert_eq!(of(0), Shape { spans: vec![Span { rows: 0..1, price: 1 }], is_epoch: false });
        assert_eq!(of(1), Shape { spans: vec![Span { rows: 0..1, price: 2 }], is_epoch: false });
        let spans = vec![Span { rows: 0..1, price: 1 }, Span { rows: 1..2, price: 0 }];
        assert_eq!(of(2), Shape { spans, is_epoch: true });
    }
}
