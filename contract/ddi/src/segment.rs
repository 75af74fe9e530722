//! Segments as a driver describes them, and the queries that ask for them (memory §1). Flags are in `flags`, the three descriptors in
//! `descriptor`, the two-call queries in `query`, the array of the newest form in `array`, ranges of memory that VidMm must not use in
//! `ranges`. This crate checks nothing of them: VidMm does.

mod array;
mod descriptor;
mod flags;
mod query;
mod ranges;

pub use array::{DESCRIPTOR4_BYTES, DescriptorArray, StrideError};
pub use descriptor::{CpuAccess, CpuHostAperture, SegmentDescriptor, SegmentDescriptor3, SegmentDescriptor4};
pub use flags::SegmentFlags;
pub use query::{PagingBufferInfo, QuerySegment, QuerySegment3, QuerySegment4, QuerySegmentIn};
pub use ranges::{MemoryRange, QueryMemoryRanges};
