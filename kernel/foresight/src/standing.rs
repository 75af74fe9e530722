//! Where each allocation stands in the order of victims, as VidMm was told last: a table by slot.
//!
//! VidMm keeps ranks and asks for a place again whenever it ranks. So an answer may change only where VidMm hears of it: with an Evict, and
//! where [`crate::Foresight::changed`] hands the allocation out. What forecasts and experts say in between waits here for one of the two.

use crate::event::{Key, Place};
use crate::place;

/// The bit that puts what has a score behind what has a time: a score and a time do not compare.
const SCORED: u64 = 1 << 55;

/// One allocation's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    key: Key,
    /// By its forecast.
    place: u64,
    /// By the leading expert, if nothing is foreseen of it and that is not recency.
    worth: Option<u64>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    slots: Vec<Option<Standing>>,
}

impl Standings {
    /// The place that was told last; `since` orders what nothing is known of.
    pub(crate) fn of(&self, key: Key, since: u64) -> Place {
        let told = self.slots.get(key.slot() as usize).copied().flatten().filter(|told| told.key == key);
        let (place, worth) = told.map_or((place::UNKNOWN, None), |told| (told.place, told.worth));
        Place(place::since(place, worth.map_or(since.min(SCORED - 1), |worth| SCORED | worth.min(SCORED - 1))))
    }

    /// The allocation stands here from now on. `false`: it does already.
    pub(crate) fn tell(&mut self, key: Key, place: u64, worth: Option<u64>) -> bool {
        let slot = key.slot() as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, None);
        }
        let worth = worth.filter(|_| place::is_unknown(place));
        let now = Some(Standing { key, place, worth });
        std::mem::replace(&mut self.slots[slot], now) != now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_score_stands_behind_what_has_a_time_alone() {
        let mut standings = Standings::default();
        let (timed, scored) = (Key::new(0, 0), Key::new(1, 0));
        assert!(standings.tell(scored, place::UNKNOWN, Some(3)) && !standings.tell(scored, place::UNKNOWN, Some(3)));
        assert!(standings.of(timed, 900) < standings.of(scored, 5));
        assert_eq!(standings.of(scored, 5), standings.of(scored, 6));
        assert!(standings.of(timed, 5) < standings.of(timed, 6));
        assert_eq!(standings.of(Key::new(1, 1), 7), standings.of(timed, 7), "another tenant of the slot");
    }
}
