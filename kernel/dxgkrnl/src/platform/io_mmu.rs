//! The seam to the platform's IOMMU, where engines use the CPU's addresses of a process (memory §4.1). Which process has which number, and
//! what each address shows, is the rule of `io_mmu` and of the memory manager.

use wddm_types::{CpuVa, PageRun, Pages, Pasid};

/// The platform's IOMMU, as devices behind it translate a process's addresses. Every change is done when the call returns.
pub trait IoMmu: Send + Sync + std::fmt::Debug {
    /// Addresses lead to these system pages from now on, whatever they led to before.
    fn map(&self, pasid: Pasid, first: CpuVa, run: PageRun, writable: bool);

    /// Addresses lead nowhere from now on. Devices may still remember them: [`IoMmu::invalidate`].
    fn unmap(&self, pasid: Pasid, first: CpuVa, count: Pages);

    /// No access of a device uses what it remembers of addresses from `first` to `last` any more; both 0: of all.
    fn invalidate(&self, pasid: Pasid, first: CpuVa, last: CpuVa);

    /// Releases the number: nothing is mapped there any more, and nothing remembered.
    fn release(&self, pasid: Pasid);
}
