//! The two-call segment queries of the three generations (memory §1.3). On the first call `descriptors` is `None` and
//! the driver writes *only* `count`; on the second it fills each descriptor and the paging-buffer members. The null
//! descriptor array decides which call it is.

use wddm_types::SegmentId;

use super::array::DescriptorArray;
use super::descriptor::{SegmentDescriptor, SegmentDescriptor3};

/// The paging-buffer members of all three forms (memory §1.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagingBufferInfo {
    /// An aperture segment, or 0 for contiguous write-combined system memory.
    pub segment: SegmentId,
    /// Bytes of a paging buffer; a multiple of the host page.
    pub size_bytes: u32,
    /// Private bytes per buffer, as many as the system context's DMA buffers have; 0 = none.
    pub private_data_bytes: u32,
}

/// `DXGK_QUERYSEGMENTIN` (memory §1.3): the AGP window, on both calls; all zero without a window or without its driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuerySegmentIn {
    /// Bus address of the window.
    pub agp_aperture_base: u64,
    /// Its bytes.
    pub agp_aperture_size_bytes: u64,
    /// Its flags.
    pub agp_flags: u32,
}

/// `QUERYSEGMENT` (memory §1.3): WDDM 1.0 and 1.1.
#[derive(Debug)]
pub struct QuerySegment<'a> {
    /// The AGP window.
    pub input: QuerySegmentIn,
    /// First call: out. Second call: in.
    pub count: u32,
    /// `None` on the first call.
    pub descriptors: Option<&'a mut [SegmentDescriptor]>,
    /// Written on the second call only.
    pub paging_buffer: PagingBufferInfo,
}

/// `QUERYSEGMENT3` (memory §1.3): WDDM 1.2 and 1.3.
#[derive(Debug)]
pub struct QuerySegment3<'a> {
    /// The AGP window.
    pub input: QuerySegmentIn,
    /// First call: out. Second call: in.
    pub count: u32,
    /// `None` on the first call.
    pub descriptors: Option<&'a mut [SegmentDescriptor3]>,
    /// Written on the second call only.
    pub paging_buffer: PagingBufferInfo,
}

/// `QUERYSEGMENT4` (memory §1.3): WDDM 2.0 and later.
#[derive(Debug)]
pub struct QuerySegment4<'a> {
    /// Physical adapter in a link; 0 otherwise.
    pub physical_adapter: u32,
    /// First call: 0 in, the count out. Second call: in.
    pub count: u32,
    /// `None` on the first call. Elements are addressed by the array's stride.
    pub descriptors: Option<DescriptorArray<'a>>,
    /// Written on the second call only.
    pub paging_buffer: PagingBufferInfo,
}
