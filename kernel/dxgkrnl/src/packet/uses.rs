//! The allocations that unfinished buffers with lists use: the lock of WDDM 1 waits for them (memory §6.1). Each buffer is noted, and
//! finished ones are forgotten with the next. A buffer that waits for its device's turn (`waiting`) was submitted, too.

use vidmm::AllocationId;

use super::Packets;
use super::work::Bound;
use crate::number::PacketContextNumber;

/// The allocations that one buffer uses.
pub(super) struct Uses {
    packet: u64,
    allocations: Vec<(AllocationId, bool)>,
}

/// The allocations of a list, and whether each is written.
pub fn uses_of(list: &[Bound]) -> Vec<(AllocationId, bool)> {
    list.iter().filter_map(|bound| Some((bound.vidmm?, bound.write))).collect()
}

impl Packets {
    /// The last packet of a context uses these; of its packets this one is `done`.
    pub fn note_uses(&mut self, context: PacketContextNumber, done: u64, allocations: Vec<(AllocationId, bool)>) {
        let packet = self.last_submitted(context);
        let known = &mut self.contexts[context];
        known.uses.retain(|uses| uses.packet > done);
        debug_assert!(
            known.uses.back().is_none_or(|before| before.packet <= packet),
            "uses stand in the order of packets: {packet}"
        );
        known.uses.push_back(Uses { packet, allocations });
    }

    /// The last packet of a context that uses an allocation, or writes it, of those that were not done when one was queued.
    pub fn last_use(&self, context: PacketContextNumber, allocation: AllocationId, writes_only: bool) -> Option<u64> {
        let counts = |&(id, write): &(AllocationId, bool)| id == allocation && (write || !writes_only);
        let uses = &self.contexts[context].uses;
        uses.iter().filter(|uses| uses.allocations.iter().any(counts)).map(|uses| uses.packet).max()
    }
}
