//! Moves within a segment, checked when the work is queued: no pinned or locked content, no content of running devices, exact bytes.

use std::collections::BTreeMap;

use wddm_types::PAGE_BYTES;

use super::{DEVICES, Model};
use crate::{AllocationId, Cause, MoveKind, Operation, Work};

impl Model {
    // spec: memory §8.1, memory §8.2
    pub fn check_relocations(&mut self, work: &Work<u8>) {
        let mut told: BTreeMap<AllocationId, u64> = BTreeMap::new();
        for step in work.moves.iter().filter(|step| step.kind == MoveKind::Relocate) {
            let Cause::Compaction { for_allocation } = step.cause else { panic!("{:?} moves nothing", step.cause) };
            assert!(self.mm.allocations[for_allocation].contiguous(), "only a contiguous request needs a hole");
            let known = &self.mm.allocations[step.allocation];
            // An allocation that a device destroyed while suspended is doomed behind the plan of its return: the work that it queued before
            // still needs it, wherever it lies.
            let doomed_before = known.doomed.is_some() && !work.moves.iter().any(|step| step.cause == Cause::Resume);
            assert!(known.pins == 0 && known.locks.count == 0 && !doomed_before, "it has to stay");
            // A device that lists it with this very call waits for this work before it uses anything.
            let counts = self.known.iter().find(|of| of.id == step.allocation).map_or([0; DEVICES], |of| of.counts);
            let held = self.devices.iter().zip(counts).filter(|(_, count)| *count > 0).map(|(device, _)| device);
            for holder in held {
                let stands = work.quiesced.contains(holder)
                    || work.suspends.contains(holder)
                    || self.mm.is_suspended(*holder)
                    // It comes back by this work.
                    || work.moves.iter().any(|step| step.cause == Cause::Resume);
                assert!(stands, "{holder:?} runs while its content moves");
            }
            *told.entry(step.allocation).or_default() += step.bytes;
        }
        let copied = work.operations.iter().map(|operation| match operation {
            Operation::Relocate { size_bytes, .. } => *size_bytes,
            _ => 0,
        });
        let copied: u64 = copied.sum();
        assert_eq!(copied, told.values().sum::<u64>(), "every byte is told of");
        let moves_on = work.moves.iter().any(|step| matches!(step.cause, Cause::Promote | Cause::Lock));
        let for_nothing = told.is_empty() && !moves_on && !work.quiesced.is_empty();
        assert!(!for_nothing, "a device quiesces only for a move");
        for (id, bytes) in told {
            let pages = self.mm.allocations[id].pages;
            assert!(bytes.is_multiple_of(PAGE_BYTES) && bytes <= pages * PAGE_BYTES, "nothing moves twice");
        }
        self.relocated_bytes += copied;
    }
}
