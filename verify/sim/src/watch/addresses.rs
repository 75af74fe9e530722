//! Page tables, as the filter shows them.

use ddi::{GpuMmuCaps, PageTableLevelDesc};
use miniport_filter::GpuVirtualAddressingFilter;

use super::Watched;
use crate::check::shared;

impl GpuVirtualAddressingFilter for Watched {
    fn gpu_mmu_caps(&self, honest: GpuMmuCaps) -> GpuMmuCaps {
        shared(&self.ledger).frames.mmu(honest);
        honest
    }

    fn page_table_level(&self, level: u32, honest: PageTableLevelDesc) -> PageTableLevelDesc {
        shared(&self.ledger).frames.shape(level, honest);
        honest
    }
}
