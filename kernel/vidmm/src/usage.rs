//! How much memory a process uses, by budget group (memory §5.5). Numbers only: budgets are not imposed.

use std::collections::BTreeSet;

use ddi::SegmentFlags;
use wddm_types::SegmentId;

use crate::allocation::Placement;
use crate::segment::Segment;
use crate::slab::{AllocationId, SpaceId};
use crate::vidmm::VidMm;

/// `MemorySegmentGroup` of D3DKMT_QUERYVIDEOMEMORYINFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentGroup {
    /// LOCAL 0.
    Local,
    /// NON_LOCAL 1.
    NonLocal,
}

/// Bytes of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VideoMemoryInfo {
    /// Budget; as long as none is imposed, all that the group's segments hold.
    pub budget_bytes: u64,
    /// What the lists of the process's devices hold there, each allocation once (memory §10.1 row 7).
    pub current_usage_bytes: u64,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Usage of the process whose space this is.
    pub fn video_memory_info(&self, space: SpaceId, group: SegmentGroup) -> VideoMemoryInfo {
        let devices = self.devices.iter().filter(|(_, device)| device.space == space);
        let held: BTreeSet<AllocationId> = devices.flat_map(|(_, device)| device.counts.keys().copied()).collect();
        let in_group = |id: &&AllocationId| match &self.allocations[**id].placement {
            Placement::None => false,
            Placement::Memory(segment, _) => self.group_of(*segment) == group,
            Placement::System(_) => group == SegmentGroup::NonLocal,
        };
        let counted = |segment: &&Segment| self.group_of(segment.id) == group;
        VideoMemoryInfo {
            budget_bytes: self.segments.iter().filter(counted).map(Segment::capacity_bytes).sum(),
            current_usage_bytes: held.iter().filter(in_group).map(|id| self.allocation_bytes(*id)).sum(),
        }
    }

    /// The group that a segment's flags name; without a name memory is local and the aperture is not.
    fn group_of(&self, segment: SegmentId) -> SegmentGroup {
        let segment = self.segment(segment);
        let flags = segment.descriptor.flags;
        let named_local = flags.contains(SegmentFlags::LOCAL_BUDGET_GROUP);
        let named_non_local = flags.contains(SegmentFlags::NON_LOCAL_BUDGET_GROUP);
        if named_non_local || segment.is_aperture() && !named_local {
            SegmentGroup::NonLocal
        } else {
            SegmentGroup::Local
        }
    }
}
