//! The exact optimum where every byte that is out costs the same: intervals that cover rows. Called by `search` and `bound`.
//!
//! Row by row, what is missing is taken from the open interval that reaches furthest. Exchange shows that no choice costs less: an optimum
//! that takes a byte of another open interval instead may take one of the furthest for it, because that covers the same later rows and
//! more, and the rows before are covered already. It is Belady's rule, and counts whole bytes.

use std::collections::BinaryHeap;

use crate::columns::{Column, Columns};
use crate::program::Program;
use crate::rows::{Row, rows};

/// Why a covering with all columns succeeds.
pub(crate) const FITS: &str = "no operation needs more than the capacity, so enough may be out at each";

/// The fewest bytes that come in again, of a program in which only those count ([`Program::page_ins`]).
pub(crate) fn least_page_ins(program: &Program, capacity: u64) -> u64 {
    let rows = rows(program, capacity);
    let ops: Vec<usize> = rows.iter().map(|row| row.op).collect();
    cover(&rows, Columns::over(program, &ops).columns.iter()).expect(FITS)
}

/// The price of all columns, if each is one span and they have the same.
pub(crate) fn single_price(columns: &[Column]) -> Option<u8> {
    let first = columns.first().and_then(Column::price)?;
    columns.iter().all(|column| column.price() == Some(first)).then_some(first)
}

/// The fewest bytes of columns of one span each that are out, so that each row has enough; `None`: all of them are not enough.
pub(crate) fn cover<'a>(rows: &[Row], columns: impl Iterator<Item = &'a Column>) -> Option<u64> {
    let mut opening: Vec<Vec<(usize, u64)>> = vec![Vec::new(); rows.len()];
    for column in columns {
        let span = &column.shape.spans[0];
        opening[span.rows.start].push((span.rows.end, column.bytes));
    }
    let mut closing = vec![0u64; rows.len() + 1];
    let mut open: BinaryHeap<(usize, u64)> = BinaryHeap::new();
    let (mut out, mut taken) = (0u64, 0u64);
    for (at, row) in rows.iter().enumerate() {
        out -= closing[at];
        open.extend(opening[at].drain(..));
        while out < row.over {
            let (end, bytes) = open.pop().filter(|(end, _)| *end > at)?;
            let take = bytes.min(row.over - out);
            (out, taken) = (out + take, taken + take);
            closing[end] += take;
            if take < bytes {
                open.push((end, bytes - take));
            }
        }
    }
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Shape, Span};

    #[test]
    fn the_furthest_covers_and_too_little_is_said() {
        let column = |rows: std::ops::Range<usize>, bytes| {
            let spans = vec![Span { rows, price: 1 }];
            Column { shape: Shape { spans, is_epoch: false }, bytes }
        };
        let rows = [2, 3, 4].map(|over| Row { op: 0, over });
        let columns = [column(0..1, 9), column(0..3, 3), column(1..3, 1), column(2..3, 1)];
        assert_eq!(cover(&rows, columns.iter()), Some(4));
        // Without the second the first covers its row alone, and then too little is left.
        assert_eq!(cover(&rows, [&columns[0], &columns[2], &columns[3]].into_iter()), None);
    }
}
