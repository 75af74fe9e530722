//! A driver's memory in one form, whichever query described it: one description for each segment. Conversion from the three
//! descriptors happens here and nowhere else. Nothing is checked here.

use ddi::{
    CpuAccess, DdiVersion, DriverModel, MemoryRange, SegmentDescriptor, SegmentDescriptor3, SegmentDescriptor4,
    SegmentFlags, VidMmCaps,
};
use wddm_types::{PAGE_BYTES, PageRun, Pages};

use super::check::check_segments;
use super::error::SegmentError;

/// One segment as its driver described it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentDescription {
    /// The kind of the segment and its abilities.
    pub flags: SegmentFlags,
    /// GPU-view base: GPU address = base + offset.
    pub base_address: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Apertures: most bytes mapped at once.
    pub commit_limit_bytes: u64,
    /// Last byte that survives a hibernate that preserves a part (memory §1.10).
    pub system_memory_end_address: u64,
    /// How the CPU reaches it.
    pub cpu: CpuAccess,
    /// The form of the descriptor has a bank table (descriptors 1 and 3).
    pub can_have_banks: bool,
    /// `NbOfBanks`.
    pub bank_count: u32,
    /// End offsets of the banks.
    pub bank_ends: Vec<u64>,
    /// Ranges that no allocation may have, of all kinds.
    pub invalid_ranges: Vec<MemoryRange>,
    /// Start of the video-protected region, in bytes.
    pub protected_offset: u64,
    /// Bytes of that region.
    pub protected_bytes: u64,
    /// Alignment of both; 0: none.
    pub protected_alignment: u32,
    /// Bytes of that region that are the driver's own.
    pub protected_reserve_bytes: u32,
}

impl SegmentDescription {
    /// Whether it only redirects to system pages.
    pub fn is_aperture(&self) -> bool {
        self.flags.contains(SegmentFlags::APERTURE)
    }

    /// Bytes of its page: 4 KB, or 64 KB of a memory segment that says so (memory §1.5).
    pub fn page_bytes(&self) -> u64 {
        let large = self.flags.contains(SegmentFlags::USE_64KB_PAGES) && !self.is_aperture();
        if large { 16 * PAGE_BYTES } else { PAGE_BYTES }
    }

    /// The pages that VidMm gives to no allocation, in order, none twice: invalid ranges of all kinds, and the protected region, because
    /// nothing here keeps the content of one engine from another.
    // spec: memory §1.1, memory §1.4
    pub fn hidden_runs(&self) -> Vec<PageRun> {
        let mut ranges: Vec<(u64, u64)> = self
            .invalid_ranges
            .iter()
            .map(|range| (range.segment_offset, range.segment_offset + range.size_bytes))
            .collect();
        if self.flags.contains(SegmentFlags::VPR_SUPPORTED) && !self.is_aperture() && self.protected_bytes > 0 {
            ranges.push((self.protected_offset, self.protected_offset + self.protected_bytes));
        }
        ranges.sort_unstable();
        let mut runs: Vec<PageRun> = Vec::new();
        for (first, end) in ranges {
            // A page of which a part is hidden is hidden.
            let (first, end) = (first / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
            let first = runs.last().map_or(first, |last| first.max(last.end()));
            if first < end {
                runs.push(PageRun { first, count: Pages(end - first) });
            }
        }
        runs
    }
}

impl From<&SegmentDescriptor4> for SegmentDescription {
    fn from(d: &SegmentDescriptor4) -> Self {
        SegmentDescription {
            flags: d.flags,
            base_address: d.base_address,
            size_bytes: d.size_bytes,
            commit_limit_bytes: d.commit_limit_bytes,
            system_memory_end_address: d.system_memory_end_address,
            cpu: d.cpu,
            can_have_banks: false,
            bank_count: 0,
            bank_ends: Vec::new(),
            invalid_ranges: Vec::new(),
            protected_offset: d.vpr_range_start_offset,
            protected_bytes: d.vpr_range_size,
            protected_alignment: d.vpr_alignment,
            protected_reserve_bytes: d.vpr_reserve_size,
        }
    }
}

impl From<&SegmentDescriptor3> for SegmentDescription {
    fn from(d: &SegmentDescriptor3) -> Self {
        SegmentDescription {
            flags: d.flags,
            base_address: d.base_address,
            size_bytes: d.size_bytes,
            commit_limit_bytes: d.commit_limit_bytes,
            system_memory_end_address: d.system_memory_end_address,
            cpu: CpuAccess::Translated(d.cpu_translated_address),
            can_have_banks: true,
            bank_count: d.bank_count,
            bank_ends: d.bank_ends.clone(),
            ..SegmentDescription::default()
        }
    }
}

impl From<&SegmentDescriptor> for SegmentDescription {
    fn from(d: &SegmentDescriptor) -> Self {
        SegmentDescription {
            flags: d.flags,
            base_address: d.base_address,
            size_bytes: d.size_bytes,
            commit_limit_bytes: d.commit_limit_bytes,
            cpu: CpuAccess::Translated(d.cpu_translated_address),
            can_have_banks: true,
            bank_count: d.bank_count,
            bank_ends: d.bank_ends.clone(),
            ..SegmentDescription::default()
        }
    }
}

/// All that a driver said of its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLayout {
    /// The generation whose rules count.
    pub model: DriverModel,
    /// The version of the contract, because flags belong to versions.
    pub version: DdiVersion,
    /// The driver's capabilities, which some flags need.
    pub caps: VidMmCaps,
    /// `ApertureSegmentCommitLimit` of the adapter (memory §1.12).
    pub aperture_commit_limit_bytes: u64,
    /// The segments, number 1 first.
    pub segments: Vec<SegmentDescription>,
}

impl MemoryLayout {
    /// A layout of the newest version of a generation, without capabilities, without a limit over all
    /// apertures.
    pub fn new(model: DriverModel, segments: Vec<SegmentDescription>) -> MemoryLayout {
        let version = match model {
            DriverModel::Wddm1 => DdiVersion::WDDM_1_3,
            DriverModel::Wddm2 => DdiVersion::WDDM_3_2,
        };
        let caps = VidMmCaps::empty();
        MemoryLayout { model, version, caps, aperture_commit_limit_bytes: u64::MAX, segments }
    }

    /// The rules of all segments.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn check(&self) -> Result<(), SegmentError> {
        check_segments(self)
    }
}

impl From<&[SegmentDescriptor4]> for MemoryLayout {
    fn from(descriptors: &[SegmentDescriptor4]) -> Self {
        MemoryLayout::new(DriverModel::Wddm2, descriptors.iter().map(Into::into).collect())
    }
}

impl<const N: usize> From<&[SegmentDescriptor4; N]> for MemoryLayout {
    fn from(descriptors: &[SegmentDescriptor4; N]) -> Self {
        MemoryLayout::from(descriptors.as_slice())
    }
}

impl From<&Vec<SegmentDescriptor4>> for MemoryLayout {
    fn from(descriptors: &Vec<SegmentDescriptor4>) -> Self {
        MemoryLayout::from(descriptors.as_slice())
    }
}
