//! The rows of a program: operations at which everything alive would not fit, so that bytes have to be out. Called by `search`.
//!
//! Row `l` *implies* row `k` if `l` needs at least what `k` needs and also all that may be out at `k` and not at `l`. Proof: at `l` at least
//! `need(l) + out(l) − capacity` bytes are out, `out` being what may be; at most `out(l) − both` of these cannot be out at
//! `k`; so at `k` are out at least `need(l) + both − capacity ≥ need(k) + out(k) − capacity`.
//!
//! Only neighbours are compared, on a stack: each operation either is implied by the top, or takes implied ones off and goes
//! on top. A training step of thousands of operations often keeps one row, the one at its peak.

use crate::program::Program;

/// A row: at this operation so many bytes at least are out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) op: usize,
    pub(crate) over: u64,
}

/// The rows that no neighbour implies, ascending.
pub(crate) fn rows(program: &Program, capacity: u64) -> Vec<Row> {
    let ops = program.needs.len();
    let mut ends: Vec<Vec<(usize, u64)>> = vec![Vec::new(); ops + 1];
    let mut begins = vec![0u64; ops];
    for group in &program.groups {
        for stretch in &group.stretches {
            ends[stretch.end].push((stretch.begin, group.bytes));
            begins[stretch.begin] += group.bytes;
        }
    }
    let mut stack = Stack::default();
    let mut may_be_out = 0u64;
    for op in 0..ops {
        for (begin, bytes) in &ends[op] {
            may_be_out -= bytes;
            stack.end(*begin, *bytes);
        }
        may_be_out += begins[op];
        let alive = u128::from(program.needs[op]) + u128::from(may_be_out);
        let over = alive.saturating_sub(u128::from(capacity));
        if over > 0 {
            // CAST: no operation needs more than the capacity, so this is no more than may be out.
            stack.offer(op, program.needs[op], may_be_out, over as u64);
        }
    }
    stack.entries.into_iter().map(|entry| Row { op: entry.op, over: entry.over }).collect()
}

/// The rows so far that no neighbour implies.
///
/// What may be out at the top *and* now shrinks as stretches end. A stretch that ends concerns all rows behind its begin; it is noted at
/// the first of them, and `ended` sums all notes. For the top it is the sum since it came: rows above have gone with their notes.
#[derive(Default)]
struct Stack {
    entries: Vec<Entry>,
    ended: u64,
}

struct Entry {
    op: usize,
    over: u64,
    need: u64,
    may_be_out: u64,
    /// Bytes of stretches that crossed this row and none before on the stack, and have ended.
    noted: u64,
    /// `Stack::ended` when it came.
    ended_before: u64,
}

impl Stack {
    fn end(&mut self, begin: usize, bytes: u64) {
        let first = self.entries.partition_point(|entry| entry.op < begin);
        if let Some(entry) = self.entries.get_mut(first) {
            entry.noted += bytes;
            self.ended += bytes;
        }
    }

    fn offer(&mut self, op: usize, need: u64, may_be_out: u64, over: u64) {
        while let Some(top) = self.entries.last() {
            let both = top.may_be_out - (self.ended - top.ended_before);
            if top.need >= need.saturating_add(may_be_out - both) {
                return;
            }
            if need < top.need.saturating_add(top.may_be_out - both) {
                break;
            }
            self.ended -= top.noted;
            self.entries.pop();
        }
        self.entries.push(Entry { op, over, need, may_be_out, noted: 0, ended_before: self.ended });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Group, Stretch};

    fn program(needs: &[u64], stretches: &[(u64, usize, usize)]) -> Program {
        let group = |(bytes, begin, end): &(u64, usize, usize)| Group {
            bytes: *bytes,
            is_dirty: false,
            stretches: vec![Stretch { begin: *begin, end: *end, comes_back: true }],
        };
        Program { cold_bytes: 0, needs: needs.to_vec(), groups: stretches.iter().map(group).collect() }
    }

    fn found(needs: &[u64], stretches: &[(u64, usize, usize)], capacity: u64) -> Vec<(usize, u64)> {
        rows(&program(needs, stretches), capacity).into_iter().map(|row| (row.op, row.over)).collect()
    }

    #[test]
    fn operations_at_which_everything_fits_make_no_row() {
        assert_eq!(found(&[4, 6, 4], &[(4, 1, 2)], 10), []);
        assert_eq!(found(&[4, 7, 4], &[(4, 1, 2)], 10), [(1, 1)]);
    }

    #[test]
    fn the_row_that_needs_more_implies_its_neighbours() {
        // All may be out together at 1, 2 and 3; the operation at 2 needs most.
        assert_eq!(found(&[0, 5, 7, 5, 0], &[(6, 1, 4)], 8), [(2, 5)]);
        // The first of equals stays.
        assert_eq!(found(&[0, 5, 5, 5, 0], &[(6, 1, 4)], 8), [(1, 3)]);
    }

    #[test]
    fn rows_with_different_things_out_stay_both() {
        let stretches = [(6, 1, 3), (6, 2, 4)];
        // At 2 both may be out: 12 + 2 over 8. At 1 only the first, at 3 only the second: 6 + 5 over 8.
        assert_eq!(found(&[0, 5, 2, 5, 0], &stretches, 8), [(1, 3), (2, 6), (3, 3)]);
        // What the neighbours need besides is not needed at 2: they imply nothing, and it implies them if it needs as much.
        assert_eq!(found(&[0, 5, 5, 5, 0], &stretches, 8), [(2, 9)]);
    }

    #[test]
    fn the_stack_knows_what_ended_below_a_row_that_went() {
        // 1 may have a and b out; 2 also c, needs as much, and implies 1; at 4 only a is left.
        let stretches = [(3, 1, 6), (3, 1, 3), (3, 2, 3)];
        assert_eq!(found(&[0, 4, 4, 3, 3, 3, 0], &stretches, 5), [(2, 8)]);
        assert_eq!(found(&[0, 4, 4, 3, 5, 3, 0], &stretches, 5), [(2, 8), (4, 3)]);
    }
}
