//! The place in the order of victims that a forecast gives: one number, which stays right until the next use, because it is a position in
//! the stream and not a distance.
//!
//! ```text
//! class (4 bits) | order of processes (4) | value (56)
//! 0  dies unused, clean    the larger first: nothing is ever copied for it
//! 1  foreseen              the farthest first; what has been idle for a whole repetition before all, the longest idle first
//! 2  unknown               by the time of its last use, as LRU does
//! ```
//! What dies unused but is dirty counts as used at its death: taking it sooner writes back what nothing reads, and its room comes for
//! nothing then.

use crate::trail::Forecast;

/// The class of what nothing is known of.
pub(crate) const UNKNOWN: u64 = 2 << 60;
const FORESEEN: u64 = 1 << 60;
const VALUE_MAX: u64 = (1 << 56) - 1;

/// The place of an allocation of so many pages. `base` turns its stream's positions into the segment's; `used` is the operation of its last
/// use.
pub(crate) fn of(forecast: Forecast, dirty: bool, pages: u64, (base, used): (u64, u64)) -> u64 {
    match forecast {
        Forecast::Unknown => UNKNOWN,
        Forecast::Dies { .. } if !dirty => VALUE_MAX - pages.min(VALUE_MAX),
        Forecast::Used { op } | Forecast::Dies { op } => FORESEEN | (VALUE_MAX - (base + op).min(VALUE_MAX)),
        Forecast::Idle => FORESEEN | (base + used).min(VALUE_MAX / 2),
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
        let order = [
            of(Dies { op: 90 }, false, 8, at),
            of(Dies { op: 50 }, false, 4, at),
            of(Idle, true, 8, (1000, 30)),
            of(Idle, true, 8, at),
            of(Used { op: 90 }, true, 8, at),
            of(Dies { op: 80 }, true, 8, at),
            of(Used { op: 70 }, false, 8, at),
            since(of(Unknown, false, 8, at), 3),
            since(of(Unknown, true, 8, at), 4),
        ];
        assert!(order.is_sorted_by(|sooner, later| sooner < later), "{order:x?}");
    }
}
