//! The place in the order of victims that a forecast gives: one number, which stays right until the next use, because it is a position in
//! the stream and not a distance.
//!
//! ```text
//! class (4 bits) | order of processes (4) | value (56)
//! 0  dies unused, clean    the larger first: nothing is ever copied for it
//! 1  foreseen              what has been idle for a whole repetition, the longest idle first; then what the plan has out, what it has partly
//!                          out, and the rest: each the farthest first
//! 2  unknown               by the time of its last use, as LRU does
//! ```
//! What dies unused but is dirty counts as used at its death: taking it sooner writes back what nothing reads, and its room comes for
//! nothing then.

use crate::history::Out;
use crate::trail::Forecast;

/// The class of what nothing is known of.
pub(crate) const UNKNOWN: u64 = 2 << 60;
const FORESEEN: u64 = 1 << 60;
const VALUE_MAX: u64 = (1 << 54) - 1;
/// Two bits above the value, within what is foreseen.
const PLANNED: u64 = 1 << 54;

/// The place of an allocation of so many pages, of which the plan has `out` out. `base` turns its stream's positions into the segment's;
/// `used` is the operation of its last use.
pub(crate) fn of(forecast: Forecast, (dirty, pages, out): (bool, u64, Out), (base, used): (u64, u64)) -> u64 {
    let planned = match out {
        Out::Wholly => PLANNED,
        Out::Partly => 2 * PLANNED,
        Out::Nothing => 3 * PLANNED,
    };
    match forecast {
        Forecast::Unknown => UNKNOWN,
        Forecast::Dies { .. } if !dirty => VALUE_MAX - pages.min(VALUE_MAX),
        Forecast::Used { op } | Forecast::Dies { op } => FORESEEN | planned | (VALUE_MAX - (base + op).min(VALUE_MAX)),
        Forecast::Idle => FORESEEN | (base + used).min(VALUE_MAX),
    }
}

/// With the time of its last use, which orders what is unknown.
pub(crate) fn since(place: u64, since: u64) -> u64 {
    if place == UNKNOWN { UNKNOWN | since.min((1 << 60) - 1) } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_and_what_goes_first_in_each() {
        use Forecast::{Dies, Idle, Unknown, Used};
        let at = (1000, 40);
        let of = |forecast, dirty, pages, out, at| of(forecast, (dirty, pages, out), at);
        let order = [
            of(Dies { op: 90 }, false, 8, Out::Nothing, at),
            of(Dies { op: 50 }, false, 4, Out::Nothing, at),
            of(Idle, true, 8, Out::Nothing, (1000, 30)),
            of(Idle, true, 8, Out::Nothing, at),
            of(Used { op: 60 }, false, 8, Out::Wholly, at),
            of(Used { op: 61 }, false, 8, Out::Partly, at),
            of(Used { op: 90 }, true, 8, Out::Nothing, at),
            of(Dies { op: 80 }, true, 8, Out::Nothing, at),
            of(Used { op: 70 }, false, 8, Out::Nothing, at),
            since(of(Unknown, false, 8, Out::Nothing, at), 3),
            since(of(Unknown, true, 8, Out::Nothing, at), 4),
        ];
        assert!(order.is_sorted_by(|sooner, later| sooner < later), "{order:x?}");
    }
}
