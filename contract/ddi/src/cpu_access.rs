//! How the CPU gets at local memory that the bus does not show whole: the CPU host aperture (memory §6.6) and, for
//! WDDM 1 drivers, swizzling ranges (memory §6.5). Facets: an adapter without them has `None`.

use wddm_types::SegmentId;

use crate::allocation::KmdAllocation;

/// The CPU host aperture: a window on the bus whose pages the driver points at pages of a memory segment (memory §6.6).
/// Both calls work as soon as the segments have been enumerated.
pub trait HostAperture {
    /// `DxgkDdiMapCpuHostAperture`.
    ///
    /// # Errors
    /// Any status: the kernel finds the content another way (memory §6.3 row 6). No page is mapped then.
    fn map_cpu_host_aperture(&mut self, map: MapCpuHostAperture<'_>) -> Result<(), crate::DriverStatus>;

    /// `DxgkDdiUnmapCpuHostAperture`. When it returns, no CPU access through these pages reaches memory any more. Must
    /// succeed.
    fn unmap_cpu_host_aperture(&mut self, unmap: UnmapCpuHostAperture<'_>);
}

/// `DXGKARG_MAPCPUHOSTAPERTURE`: window page `i` shows memory page `i` of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapCpuHostAperture<'a> {
    /// The allocation whose content the pages show; `None` for memory of the kernel's own, such as page tables.
    pub allocation: Option<KmdAllocation>,
    /// The memory segment.
    pub segment: SegmentId,
    /// Physical adapter in a link; 0 otherwise.
    pub physical_adapter: u16,
    /// Pages of the window, of the segment's page size; as many as `memory_pages`.
    pub window_pages: &'a [u32],
    /// Pages of the segment, 0-based, of the segment's page size.
    pub memory_pages: &'a [u64],
}

/// `DXGKARG_UNMAPCPUHOSTAPERTURE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnmapCpuHostAperture<'a> {
    /// Pages of the window.
    pub window_pages: &'a [u32],
    /// The memory segment.
    pub segment: SegmentId,
    /// Physical adapter in a link; 0 otherwise.
    pub physical_adapter: u16,
}

/// Swizzling ranges: parts of the PCI window that show a swizzled allocation's bytes in linear order (memory §6.5).
/// WDDM 1 drivers only.
pub trait Swizzling {
    /// `NumberOfSwizzlingRanges` of DRIVERCAPS.
    fn swizzling_ranges(&self) -> u32;

    /// `DxgkDdiAcquireSwizzlingRange`: programs a range over an allocation that lies in a CPU-accessible memory segment,
    /// without disturbing the GPU. Offset in the window and footprint stay.
    ///
    /// # Errors
    /// [`SwizzlingError`].
    fn acquire_swizzling_range(&mut self, acquire: &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError>;

    /// `DxgkDdiReleaseSwizzlingRange`: exactly the named range. Must succeed.
    fn release_swizzling_range(&mut self, release: ReleaseSwizzlingRange);
}

/// `DXGKARG_ACQUIRESWIZZLINGRANGE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireSwizzlingRange {
    /// The allocation whose content the view shows.
    pub allocation: KmdAllocation,
    /// From the lock: for example which level of a texture.
    pub private_driver_data: u32,
    /// The swizzling range, from 0.
    pub range: u32,
    /// Where the allocation lies; 0 only with UseAlternateVA.
    pub segment: SegmentId,
    /// Bytes of the view; changed only with UseAlternateVA.
    pub range_bytes: u64,
    /// In and out: where the view begins on the bus.
    pub cpu_translated_address: u64,
}

/// `DXGKARG_RELEASESWIZZLINGRANGE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseSwizzlingRange {
    /// The allocation whose view ends.
    pub allocation: KmdAllocation,
    /// As it was acquired with.
    pub private_driver_data: u32,
    /// The swizzling range.
    pub range: u32,
}

/// Why a swizzling range was not acquired (memory §6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwizzlingError {
    /// `STATUS_GRAPHICS_UNSWIZZLING_APERTURE_UNAVAILABLE` (0xC01E0107): release another one and try again.
    #[error("no unswizzling aperture is available")]
    Unavailable,
    /// `STATUS_GRAPHICS_UNSWIZZLING_APERTURE_UNSUPPORTED` (0xC01E0108): give up at once.
    #[error("no unswizzling aperture can show this allocation")]
    Unsupported,
}
