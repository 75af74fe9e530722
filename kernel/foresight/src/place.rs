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
//! The order of processes stands above the value: positions of two streams do not compare, and who has its turn last loses first.
//!
//! What dies unused but is dirty counts as used at its death: taking it sooner writes back what nothing reads, and its room comes for
//! nothing then.

use crate::history::Out;
use crate::trail::Forecast;

/// The class of what nothing is known of.
pub(crate) const UNKNOWN: u64 = 2 << CLASS;
const FORESEEN: u64 = 1 << CLASS;
const CLASS: u32 = 60;
const ORDER: u32 = 56;
const VALUE_MAX: u64 = (1 << 54) - 1;
/// Two bits above the value, within what is foreseen.
const PLANNED: u64 = 1 << 54;
/// The highest order of a process: the one that has its turn has it, and loses last.
pub(crate) const ORDER_MAX: u64 = 15;

/// The place of an allocation of so many pages, of which the plan has `out` out. `base` turns its stream's positions into the segment's;
/// `used` is the operation of its last use. `order`: of its process, 0 loses first.
pub(crate) fn of(
    forecast: Forecast,
    (dirty, pages, out): (bool, u64, Out),
    (base, used): (u64, u64),
    order: u64,
) -> u64 {
    let planned = match out {
        Out::Wholly => PLANNED,
        Out::Partly => 2 * PLANNED,
        Out::Nothing => 3 * PLANNED,
    };
    let place = match forecast {
        Forecast::Unknown => UNKNOWN,
        Forecast::Dies { .. } if !dirty => VALUE_MAX - pages.min(VALUE_MAX),
        Forecast::Used { op } | Forecast::Dies { op } => FORESEEN | planned | (VALUE_MAX - (base + op).min(VALUE_MAX)),
        Forecast::Idle => FORESEEN | (base + used).min(VALUE_MAX),
    };
    place | order.min(ORDER_MAX) << ORDER
}

/// Whether it is the place of what nothing is known of.
pub(crate) fn is_unknown(place: u64) -> bool {
    place >> CLASS == UNKNOWN >> CLASS
}

/// With the time of its last use, which orders what is unknown.
pub(crate) fn since(place: u64, since: u64) -> u64 {
    if is_unknown(place) { place | since.min((1 << ORDER) - 1) } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_and_what_goes_first_in_each() {
        use Forecast::{Dies, Idle, Unknown, Used};
        let at = (1000, 40);
        let of = |forecast, dirty, pages, out, at| of(forecast, (dirty, pages, out), at, 0);
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

    #[test]
    fn who_has_its_turn_loses_last_whatever_is_foreseen() {
        let used = |op, order| of(Forecast::Used { op }, (false, 8, Out::Nothing), (0, 0), order);
        assert!(used(10, 0) < used(90, 1) && used(90, 1) < used(80, 1));
        let unknown = |time, order| since(of(Forecast::Unknown, (false, 8, Out::Nothing), (0, 0), order), time);
        assert!(unknown(9, 0) < unknown(3, 1) && used(1, ORDER_MAX) < unknown(0, 0));
    }
}
