//! The decorator's facet for page tables, which forwards to its driver.

use ddi::{GpuMmuCaps, GpuVirtualAddressing, KmdContext, PageTableLevelDesc, RootPageTableSize};
use wddm_types::PhysicalAddress;

use super::Watched;

impl Watched {
    fn addresses(&mut self) -> &mut dyn GpuVirtualAddressing {
        self.inner.gpu_va().expect("the facet was there when the kernel asked")
    }
}

impl GpuVirtualAddressing for Watched {
    fn gpu_mmu_caps(&self) -> GpuMmuCaps {
        self.mmu.0
    }

    fn page_table_level(&self, level: u32) -> PageTableLevelDesc {
        self.mmu.1[level as usize]
    }

    fn root_page_table_size(&mut self, entries: u32) -> Option<RootPageTableSize> {
        self.addresses().root_page_table_size(entries)
    }

    fn set_root_page_table(&mut self, context: KmdContext, root: PhysicalAddress, entries: u32) {
        self.addresses().set_root_page_table(context, root, entries);
    }
}
