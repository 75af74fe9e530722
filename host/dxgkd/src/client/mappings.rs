//! The mappings of a client: which ones the kernel has shown it and where it has them, which changes it must still answer for, and for how
//! long its answers have kept the kernel waiting.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use kmt_calls::MappingId;

use crate::client::reply_budget::ReplyBudget;

/// All of a client's.
#[derive(Default)]
pub(crate) struct Mappings {
    known: BTreeMap<MappingId, Known>,
    reply_budget: ReplyBudget,
}

/// One that it has been shown.
struct Known {
    bytes: u64,
    /// Where it says that it has it.
    address: Option<u64>,
    /// Changes that the kernel waits for, the oldest first, and since when.
    unanswered: VecDeque<Instant>,
}

/// Addresses of a client's process, as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub address: u64,
    pub bytes: u64,
}

impl Mappings {
    /// The kernel shows the client something by a mapping. True: the client must answer, because the mapping showed something before.
    pub fn shows(&mut self, mapping: MappingId, bytes: u64, now: Instant) -> bool {
        let new = Known { bytes, address: None, unanswered: VecDeque::new() };
        let is_known = self.known.contains_key(&mapping);
        let known = self.known.entry(mapping).or_insert(new);
        if is_known {
            known.unanswered.push_back(now);
        }
        is_known
    }

    /// No store of the client into a mapping may get through from now on, and an answer is due. `Some`: the daemon itself can hold the
    /// stores at this place, because the client has the mapping there and has answered for all earlier changes. `None`: the client holds them.
    pub fn protected(&mut self, mapping: MappingId, now: Instant) -> Option<Placement> {
        // The client does not have a mapping that the kernel never showed it.
        let known = self.known.get_mut(&mapping)?;
        let Known { bytes, address, unanswered } = known;
        let placement = address.filter(|_| unanswered.is_empty()).map(|address| Placement { address, bytes: *bytes });
        unanswered.push_back(now);
        placement
    }

    /// The client says where it has a mapping. A place of an unknown mapping is ignored.
    pub fn placed(&mut self, mapping: MappingId, address: u64) {
        if let Some(known) = self.known.get_mut(&mapping) {
            known.address = Some(address);
        }
    }

    /// The oldest change of a mapping is answered for.
    pub fn answered(&mut self, mapping: MappingId, now: Instant) {
        let asked = self.known.get_mut(&mapping).and_then(|known| known.unanswered.pop_front());
        asked.into_iter().for_each(|asked| self.reply_budget.add(asked, now));
    }

    /// The mapping is gone, and the client need not answer for it.
    pub fn gone(&mut self, mapping: MappingId, now: Instant) {
        let known = self.known.remove(&mapping);
        known.into_iter().flat_map(|known| known.unanswered).for_each(|asked| self.reply_budget.add(asked, now));
    }

    /// Since when the oldest unanswered change waits.
    pub fn waited_for_since(&self) -> Option<Instant> {
        self.known.values().flat_map(|known| &known.unanswered).min().copied()
    }

    /// For how long the client may still keep the kernel waiting, of all that it may.
    pub fn left(&self, within: Duration, now: Instant) -> Duration {
        self.reply_budget.left(within, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_held_here_where_the_client_has_what_it_was_shown_last_and_nowhere_else() {
        let (mut mappings, now, mapping) = (Mappings::default(), Instant::now(), MappingId(1));
        assert_eq!(mappings.protected(mapping, now), None, "it was never shown anything");
        mappings.placed(mapping, 0x1000);
        assert!(!mappings.shows(mapping, 4096, now), "the first it sees with an answer");
        assert_eq!(mappings.protected(mapping, now), None, "where it is was said of what was not there");
        mappings.answered(mapping, now);
        mappings.placed(mapping, 0x2000);
        let placement = Some(Placement { address: 0x2000, bytes: 4096 });
        assert_eq!(mappings.protected(mapping, now), placement);
        assert!(mappings.shows(mapping, 4096, now));
        mappings.answered(mapping, now);
        assert_eq!(mappings.protected(mapping, now), None, "it has not answered for what it shows");
        (0..2).for_each(|_| mappings.answered(mapping, now));
        assert_eq!(mappings.waited_for_since(), None);
        assert_eq!(mappings.protected(mapping, now), placement, "it stays where it is");
        mappings.gone(mapping, now);
        assert_eq!((mappings.waited_for_since(), mappings.protected(mapping, now)), (None, None));
    }
}
