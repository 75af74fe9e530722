//! Identities: processes, adapters, nodes, handles, points of a fence.

use serde::{Deserialize, Serialize};

/// A 32-bit handle as user mode holds it (`D3DKMT_HANDLE`): an allegation until the handle table of the calling process
/// resolves it. 0 names nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RawHandle(pub u32);

impl RawHandle {
    /// Names nothing.
    pub const NONE: RawHandle = RawHandle(0);
}

impl std::fmt::Display for RawHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// A process as the kernel knows it. 0 is the system (paging) process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId(pub u32);

impl ProcessId {
    /// The process that owns the paging contexts (memory §4.7).
    pub const SYSTEM: ProcessId = ProcessId(0);
}

/// A process as the platform's IOMMU knows it (PASID): on adapters of the IoMmu model it selects the CPU page tables that
/// translate the GPU's accesses (memory §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pasid(pub u32);

/// An adapter's locally unique id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Luid(pub u64);

/// An adapter by its place in the kernel's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AdapterIndex(pub u32);

/// A GPU node: an independently schedulable unit (`NodeOrdinal`, sync §0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u16);

/// A physical adapter inside a link (`EngineOrdinal`, sync §0); 0 when not linked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EngineId(pub u16);

/// A video present source: a display shows its content (`D3DDDI_VIDEO_PRESENT_SOURCE_ID`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VidPnSourceId(pub u32);

/// Where a display is plugged in (`D3DDDI_VIDEO_PRESENT_TARGET_ID`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VidPnTargetId(pub u32);

/// A value of a fence: reached once the fence's CurrentValue is this value or greater (sync §0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FencePoint<F> {
    /// The fence.
    pub fence: F,
    /// The value to be reached.
    pub value: u64,
}
