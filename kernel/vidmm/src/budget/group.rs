//! The two groups of segments in which memory is budgeted, and what a process hears of one (memory §5.5).

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

impl SegmentGroup {
    /// Both groups.
    pub const ALL: [SegmentGroup; 2] = [SegmentGroup::Local, SegmentGroup::NonLocal];
}
