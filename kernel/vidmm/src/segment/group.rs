//! The budget group that each segment's content is charged in (memory §1.5, §5.5): how segments are marked and named says it.

use ddi::SegmentFlags;
use wddm_types::SegmentId;

use super::{Segment, Segments};
use crate::budget::SegmentGroup;

impl Segments {
    /// Bytes that each group can hold, on a computer with this much system memory. Content in system memory needs no room of the
    /// aperture that names it, so there the measure is the system memory itself.
    pub fn group_bytes(&self, system_bytes: u64) -> [u64; 2] {
        let of = |segment: &Segment| if segment.is_aperture() { system_bytes } else { segment.capacity_bytes() };
        SegmentGroup::ALL.map(|group| {
            let counted = self.all().iter().filter(|segment| self.charged_group(segment.id) == Some(group));
            counted.map(of).sum()
        })
    }

    /// Whether content of a segment counts in budgets: what its driver has marked for applications, or everything where it
    /// has marked nothing.
    // spec: memory §1.5 bit 15, memory §5.5
    pub fn counts_in_budgets(&self, segment: SegmentId) -> bool {
        let marked = |segment: &Segment| segment.descriptor.flags.contains(SegmentFlags::APPLICATION_TARGET);
        marked(&self[segment]) || !self.all().iter().any(marked)
    }

    /// The group in which content of a segment is charged.
    pub fn charged_group(&self, segment: SegmentId) -> Option<SegmentGroup> {
        self.counts_in_budgets(segment).then(|| self[segment].group())
    }

    /// The group in which content in system memory is charged: that of the aperture that names it.
    pub fn system_group(&self) -> Option<SegmentGroup> {
        self.charged_group(self.aperture().id)
    }
}

impl Segment {
    /// The group that a segment's flags name; without a name memory is local and the aperture is not.
    pub(crate) fn group(&self) -> SegmentGroup {
        let flags = self.descriptor.flags;
        let named_local = flags.contains(SegmentFlags::LOCAL_BUDGET_GROUP);
        let named_non_local = flags.contains(SegmentFlags::NON_LOCAL_BUDGET_GROUP);
        if named_non_local || self.is_aperture() && !named_local { SegmentGroup::NonLocal } else { SegmentGroup::Local }
    }
}
