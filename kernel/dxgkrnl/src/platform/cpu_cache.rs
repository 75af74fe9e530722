//! The seam to the CPU's caches where the hardware does not keep them coherent with a GPU (memory §6.7). When to maintain which lines is
//! the rule of `coherency`.

use wddm_types::PageRun;

/// The maintenance instructions of a CPU whose caches the GPU does not snoop. Done when the call returns.
pub trait CpuCache: Send + Sync + std::fmt::Debug {
    /// Writes back, then forgets, every line that holds one of `length_bytes` bytes at `offset_bytes` of these pages.
    fn invalidate(&self, runs: &[PageRun], offset_bytes: u64, length_bytes: u64);

    /// Forgets every line of these pages without writing it back: the kernel needs their content no more.
    fn discard(&self, runs: &[PageRun]);
}
