//! The memory of an adapter as a whole, derived from its segments and the computer's memory (memory §1.12). Numbers only.

use ddi::SegmentFlags;

use super::description::{MemoryLayout, SegmentDescription};

/// The least that graphics may take of system memory, in bytes.
const SHARED_FLOOR_BYTES: u64 = 64 << 20;

/// Totals in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryTotals {
    /// `TotalSysMemForGraphics`: what graphics may take of system memory.
    pub system_for_graphics_bytes: u64,
    /// Memory segments of the adapter's own memory.
    pub dedicated_video_bytes: u64,
    /// Memory segments that the driver populated from system memory.
    pub dedicated_system_bytes: u64,
    /// The most system memory that all apertures together may map.
    pub shared_bytes: u64,
}

impl MemoryTotals {
    /// The totals of an adapter in a computer with this much system memory.
    // spec: memory §1.12
    pub fn of(layout: &MemoryLayout, system_bytes: u64) -> MemoryTotals {
        let sum = |counted: &dyn Fn(&SegmentDescription) -> Option<u64>| {
            layout.segments.iter().filter_map(counted).fold(0u64, u64::saturating_add)
        };
        let populated = |s: &SegmentDescription| s.flags.contains(SegmentFlags::POPULATED_FROM_SYSTEM_MEMORY);
        let memory = |wanted: bool| sum(&move |s| (!s.is_aperture() && populated(s) == wanted).then_some(s.size_bytes));
        let system_for_graphics_bytes = (system_bytes / 2).max(SHARED_FLOOR_BYTES);
        let dedicated_system_bytes = memory(true).min(system_for_graphics_bytes);
        let limits = sum(&|s| s.is_aperture().then_some(s.commit_limit_bytes));
        MemoryTotals {
            system_for_graphics_bytes,
            dedicated_video_bytes: memory(false),
            dedicated_system_bytes,
            shared_bytes: limits
                .min(layout.aperture_commit_limit_bytes)
                .min(system_for_graphics_bytes - dedicated_system_bytes),
        }
    }

    /// `TotalVideoMemory`.
    pub fn video_bytes(&self) -> u64 {
        self.dedicated_video_bytes.saturating_add(self.dedicated_system_bytes).saturating_add(self.shared_bytes)
    }
}
