//! Figures: the tally, which is one pass over all allocations, against the sums that budgets keep as they go.

use std::collections::BTreeSet;

use super::{BrokenInvariant, ensure};
use crate::SegmentGroup;
use crate::segment::Segment;
use crate::slab::{AllocationId, SpaceId};
use crate::vidmm::VidMm;
use crate::vidmm::share::tally::Tally;

impl<F: Copy + Eq + std::fmt::Debug> VidMm<F> {
    // spec: memory §5.5
    pub(super) fn check_figures(&self) -> Result<(), BrokenInvariant> {
        let tally = self.tally();
        for (at, segment) in tally.segments.iter().enumerate() {
            let of_processes = |of: fn(&crate::SegmentTally) -> u64| -> u64 {
                tally.spaces.values().map(|space| of(&space.segments[at])).sum()
            };
            let apart = tally.apart[at];
            let committed = of_processes(|here| here.committed_bytes) + apart.unowned_bytes;
            let resident = of_processes(|here| here.resident_bytes);
            let agree = committed == segment.committed_bytes
                && resident == segment.resident_bytes + apart.repeated_bytes
                && segment.resident_bytes <= segment.committed_bytes;
            ensure(agree, "figures", || {
                format!("segment {}: {segment:?}, its processes {committed} and {resident}, {apart:?}", at + 1)
            })?;
        }
        let spaces: BTreeSet<SpaceId> = self.devices.iter().map(|(_, device)| device.space()).collect();
        for space in spaces {
            for group in [SegmentGroup::Local, SegmentGroup::NonLocal] {
                let (told, used) = (self.told(&tally, space, group), self.video_memory_info(space, group));
                let used = i128::from(used.current_usage_bytes);
                ensure(told == used, "figures", || {
                    format!("{space:?} uses {used} bytes {group:?}, and is told {told}")
                })?;
            }
        }
        Ok(())
    }

    /// The usage that follows from the figures: bytes that lie in segments whose content the group is charged for, with those that lists
    /// require and that lie nowhere yet, and without those by which a segment's larger pages round content up.
    fn told(&self, tally: &Tally, space: SpaceId, group: SegmentGroup) -> i128 {
        let here = tally.spaces.get(&space).map_or(&[][..], |known| &known.segments[..]);
        let is_charged = |segment: &Segment| self.segments.charged_group(segment.id) == Some(group);
        let in_group = self.segments.drivers().iter().zip(here).filter(|(segment, _)| is_charged(segment));
        let resident: u64 = in_group.map(|(_, here)| here.resident_bytes).sum();
        let lists = self.processes.devices(space).flat_map(|device| self.devices[device].list());
        let listed: BTreeSet<AllocationId> = lists.collect();
        let charged = listed.into_iter().map(|id| &self.allocations[id]).filter(|known| known.charged == Some(group));
        let elsewhere = charged.map(|known| match self.lies_in(known) {
            (Some(_), here) => i128::from(known.bytes()) - i128::from(here),
            (None, _) => i128::from(known.bytes()),
        });
        i128::from(resident) + elsewhere.sum::<i128>()
    }
}
