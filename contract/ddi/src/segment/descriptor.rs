//! The three descriptors of a segment, one for each generation of the interface (memory §1.4).

use super::flags::SegmentFlags;

/// `DXGK_CPUHOSTAPERTURE` (memory §1.4): the programmable window of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuHostAperture {
    /// CPU physical address of the window.
    pub physical_address: u64,
    /// Pages of the window; a page is the segment's.
    pub size_in_pages: u32,
}

/// How the CPU reaches a segment: the union in descriptor 4. The flags tell which arm counts (memory §1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuAccess {
    /// `CpuTranslatedAddress`: origin on the bus. It counts with CPU_VISIBLE, and is 0 otherwise.
    Translated(u64),
    /// With SUPPORTS_CPU_HOST_APERTURE: the window.
    HostAperture(CpuHostAperture),
}

impl Default for CpuAccess {
    fn default() -> Self {
        CpuAccess::Translated(0)
    }
}

impl CpuAccess {
    /// `CpuTranslatedAddress`, when this is that arm of the union.
    pub fn translated(self) -> Option<u64> {
        match self {
            CpuAccess::Translated(address) => Some(address),
            CpuAccess::HostAperture(_) => None,
        }
    }

    /// The window, when this is that arm of the union.
    pub fn host_aperture(self) -> Option<CpuHostAperture> {
        match self {
            CpuAccess::Translated(_) => None,
            CpuAccess::HostAperture(window) => Some(window),
        }
    }
}

/// `DXGK_SEGMENTDESCRIPTOR4` (memory §1.4), WDDM 2.0 and later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentDescriptor4 {
    /// The kind and properties of the segment.
    pub flags: SegmentFlags,
    /// GPU-view base: GPU address = base + offset.
    pub base_address: u64,
    /// Bytes; a multiple of the segment's page.
    pub size_bytes: u64,
    /// Apertures: most bytes mapped at once. Memory segments: ignored.
    pub commit_limit_bytes: u64,
    /// With PARTIALLY_PRESERVED_DURING_HIBERNATE: the last byte that survives, not 0 (memory §1.10).
    pub system_memory_end_address: u64,
    /// How the CPU reaches it.
    pub cpu: CpuAccess,
    /// Not 0: the kernel asks the driver for the ranges that VidMm must not use (`SEGMENTMEMORYSTATE`).
    pub num_invalid_memory_ranges: u32,
    /// With VPR_SUPPORTED: bytes from the segment's start to the protected region.
    pub vpr_range_start_offset: u64,
    /// Bytes of the protected region.
    pub vpr_range_size: u64,
    /// Alignment of both.
    pub vpr_alignment: u32,
    /// Protected ranges at once; 0 = unlimited.
    pub num_vpr_supported: u32,
    /// Bytes of the region that driver and hardware keep for themselves; 0 = none.
    pub vpr_reserve_size: u32,
    /// Not 0 (WDDM 2.2): the driver is asked for the ranges of the firmware's frame buffer.
    pub num_uefi_frame_buffer_ranges: u32,
}

/// `DXGK_SEGMENTDESCRIPTOR3` (memory §1.4), WDDM 1.2 and 1.3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentDescriptor3 {
    /// The kind and properties of the segment.
    pub flags: SegmentFlags,
    /// GPU-view base; ignored for AGP.
    pub base_address: u64,
    /// With CPU_VISIBLE: origin on the bus.
    pub cpu_translated_address: u64,
    /// Bytes; ignored for AGP.
    pub size_bytes: u64,
    /// With USE_BANKING: how many banks (`NbOfBanks`).
    pub bank_count: u32,
    /// End offsets of the banks; the last may be left out (memory §1.8).
    pub bank_ends: Vec<u64>,
    /// Apertures: most bytes mapped at once.
    pub commit_limit_bytes: u64,
    /// With PARTIALLY_PRESERVED_DURING_HIBERNATE: the last byte that survives, not 0.
    pub system_memory_end_address: u64,
}

/// `DXGK_SEGMENTDESCRIPTOR` (memory §1.4), WDDM 1.0 and 1.1. In the C structure its flags come last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentDescriptor {
    /// GPU-view base; ignored for AGP.
    pub base_address: u64,
    /// With CPU_VISIBLE: origin on the bus.
    pub cpu_translated_address: u64,
    /// Bytes; ignored for AGP.
    pub size_bytes: u64,
    /// With USE_BANKING: how many banks (`NbOfBanks`).
    pub bank_count: u32,
    /// End offsets of the banks; the last may be left out (memory §1.8).
    pub bank_ends: Vec<u64>,
    /// Apertures: most bytes mapped at once.
    pub commit_limit_bytes: u64,
    /// The kind and properties of the segment.
    pub flags: SegmentFlags,
}
