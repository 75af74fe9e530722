//! The words that every room shares: handles, LUIDs, addresses, sizes, status codes.
//!
//! Nothing here has behaviour beyond conversion and comparison. A number that crosses a room's boundary has a type of
//! its own, so that a page count cannot be taken for a byte count, nor a system page for a segment offset.
//! It is not the C layout of anything: the `D3DKMT_*` structs are another crate's.

mod address;
mod cpu;
mod identity;
mod pci;
mod rectangle;
mod size;
mod status;

pub use address::{CpuVa, GpuVa, PhysicalAddress, SegmentId, SegmentSet, SystemPage, WordAddress};
pub use cpu::{CpuPlace, CpuRun};
pub use identity::{
    AdapterIndex, EngineId, FencePoint, Luid, NodeId, Pasid, ProcessId, RawHandle, VidPnSourceId, VidPnTargetId,
};
pub use pci::{NoPciAddress, PciAddress, PciFunction};
pub use rectangle::BltRectangle;
pub use size::{PAGE_BYTES, PageRun, Pages};
pub use status::{Blame, NtStatus};
