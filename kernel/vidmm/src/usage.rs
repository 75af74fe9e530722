//! How much memory a process uses and may use, by budget group (memory §5.5), as numbers. `budget` computes the budgets.

use ddi::SegmentFlags;
use wddm_types::SegmentId;

use crate::segment::Segment;
use crate::slab::SpaceId;
use crate::vidmm::VidMm;

/// `MemorySegmentGroup` of D3DKMT_QUERYVIDEOMEMORYINFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SegmentGroup {
    /// LOCAL 0.
    Local,
    /// NON_LOCAL 1.
    NonLocal,
}

/// D3DKMT_QUERYVIDEOMEMORYINFO: bytes of one process in one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VideoMemoryInfo {
    /// The bytes that the process may keep on its lists.
    pub budget_bytes: u64,
    /// The bytes that the lists of the process's devices require there, each allocation once (memory §10.1 row 7), including those that a
    /// suspended device lost meanwhile.
    pub current_usage_bytes: u64,
    /// The bytes that it has reserved.
    pub current_reservation_bytes: u64,
    /// The bytes that it may reserve, this reservation included.
    pub available_for_reservation_bytes: u64,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Usage and budget of the process whose space this is.
    // spec: memory §5.5
    pub fn video_memory_info(&self, space: SpaceId, group: SegmentGroup) -> VideoMemoryInfo {
        VideoMemoryInfo {
            budget_bytes: self.budget_bytes(space, group),
            current_usage_bytes: self.need(space, group),
            current_reservation_bytes: self.processes[&space].groups[group as usize].reservation,
            available_for_reservation_bytes: self.available_for_reservation(space, group),
        }
    }

    /// Bytes that a group can hold. Content in system memory needs no room of the aperture that names it, so there the
    /// measure is the system memory itself.
    pub fn group_bytes(&self, group: SegmentGroup) -> u64 {
        let of = |segment: &Segment| {
            if segment.is_aperture() { self.policy.system_pages.count.bytes() } else { segment.capacity_bytes() }
        };
        let counted = self.segments.iter().filter(|segment| self.counts_in_budgets(segment.id));
        counted.filter(|segment| self.group_of(segment.id) == group).map(of).sum()
    }

    /// Whether content of a segment counts in budgets: what its driver has marked for applications, or everything where it
    /// has marked nothing.
    // spec: memory §1.5 bit 15, memory §5.5
    pub fn counts_in_budgets(&self, segment: SegmentId) -> bool {
        let marked = |segment: &Segment| segment.descriptor.flags.contains(SegmentFlags::APPLICATION_TARGET);
        marked(self.segment(segment)) || !self.segments.iter().any(marked)
    }

    /// The group in which content of a segment is charged.
    pub(crate) fn charged_group(&self, segment: SegmentId) -> Option<SegmentGroup> {
        self.counts_in_budgets(segment).then(|| self.group_of(segment))
    }

    /// The group that a segment's flags name; without a name memory is local and the aperture is not.
    pub fn group_of(&self, segment: SegmentId) -> SegmentGroup {
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

    /// The group in which content in system memory is charged: that of the aperture that names it.
    pub(crate) fn system_group(&self) -> Option<SegmentGroup> {
        let aperture = self.segments.iter().find(|segment| segment.is_aperture());
        aperture.map_or(Some(SegmentGroup::NonLocal), |aperture| self.charged_group(aperture.id))
    }
}
