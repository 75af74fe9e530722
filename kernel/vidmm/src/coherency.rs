//! The lines of an allocation that a CPU cache may hold where no GPU snoops it, for allocation lists (memory §6.7): VidMm sees which
//! allocations a command buffer reads and writes and which the CPU has mapped, and says when lines have to be maintained.
//! It maintains nothing itself. For WDDM 2 contexts without lists it is not asked: there the user-mode driver tracks
//! (§10.1 row 19). The kernel's packet path calls it before it hands a list to the hardware.
//!
//! Two facts per allocation decide: the cache may hold *dirty* lines (the CPU has written since the last maintenance), or
//! *old* ones (the GPU has written since; a line may be there although the CPU never touched it, by prefetching).
//!
//! | before | with | do |
//! |---|---|---|
//! | GPU reads | dirty | write back |
//! | GPU writes | dirty | write back and invalidate: a line that leaves later would go over the GPU's data |
//! | CPU maps | old | invalidate |
//! | GPU has written, the CPU still has it mapped | old | invalidate: it looks again without a call |
//! | GPU has written, the CPU still has it mapped | dirty | write back and invalidate: no write of the CPU is forgotten |

use std::collections::BTreeMap;

/// The cache maintenance that an allocation needs before a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "stale bytes are seen otherwise"]
pub enum Maintenance {
    /// The caches need no maintenance.
    None,
    /// Write the dirty ones back.
    WriteBack,
    /// Write the dirty ones back and forget all.
    WriteBackAndInvalidate,
    /// Forget all: none is dirty.
    Invalidate,
}

/// Only what the CPU has mapped may it still write.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    /// The CPU has the allocation mapped.
    mapped: bool,
    /// The CPU may still write: it has the allocation mapped for that.
    written_by_cpu: bool,
    dirty: bool,
    old: bool,
}

/// The lines of all allocations that lists have named.
#[derive(Clone, Debug)]
pub struct CoherencyTracker<K> {
    lines: BTreeMap<K, Lines>,
}

impl<K: Ord> Default for CoherencyTracker<K> {
    fn default() -> Self {
        CoherencyTracker { lines: BTreeMap::new() }
    }
}

impl<K: Ord> CoherencyTracker<K> {
    /// A command buffer is about to go to the hardware whose list names the allocation, with WriteOperation or without.
    // spec: memory §6.7
    pub fn gpu_uses(&mut self, allocation: K, write: bool) -> Maintenance {
        let lines = self.lines.entry(allocation).or_default();
        debug_assert!(lines.mapped || !lines.written_by_cpu, "the CPU writes what it has not mapped: {lines:?}");
        let dirty = lines.dirty || lines.written_by_cpu;
        // A CPU mapping for writing may dirty the lines again at any time.
        lines.dirty = lines.written_by_cpu;
        lines.old |= write;
        match (dirty, write) {
            (false, _) => Maintenance::None,
            (true, false) => Maintenance::WriteBack,
            (true, true) => Maintenance::WriteBackAndInvalidate,
        }
    }

    /// A command buffer that wrote it is done: what the cache has fetched meanwhile is old.
    // spec: memory §6.7
    pub fn gpu_wrote(&mut self, allocation: K) -> Maintenance {
        let lines = self.lines.entry(allocation).or_default();
        lines.old = !lines.mapped;
        debug_assert!(lines.mapped || !lines.written_by_cpu, "the CPU writes what it has not mapped: {lines:?}");
        if !lines.mapped {
            return Maintenance::None;
        }
        // It may have been written and unmapped while the buffer ran, and is mapped now to be read only.
        match std::mem::replace(&mut lines.dirty, lines.written_by_cpu) || lines.written_by_cpu {
            false => Maintenance::Invalidate,
            true => Maintenance::WriteBackAndInvalidate,
        }
    }

    /// The CPU is about to map the allocation.
    // spec: memory §6.7
    pub fn cpu_maps(&mut self, allocation: K, write: bool) -> Maintenance {
        let lines = self.lines.entry(allocation).or_default();
        lines.mapped = true;
        lines.written_by_cpu |= write;
        match (std::mem::take(&mut lines.old), lines.dirty) {
            (false, _) => Maintenance::None,
            (true, false) => Maintenance::Invalidate,
            (true, true) => Maintenance::WriteBackAndInvalidate,
        }
    }

    /// The CPU's last mapping has gone: what it wrote is still in the cache.
    pub fn cpu_unmaps(&mut self, allocation: K) {
        if let Some(lines) = self.lines.get_mut(&allocation) {
            lines.mapped = false;
            lines.dirty |= std::mem::take(&mut lines.written_by_cpu);
        }
    }

    /// The allocation has gone.
    pub fn forget(&mut self, allocation: &K) {
        self.lines.remove(allocation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_sequence_of_the_table_is_maintained() {
        // spec: memory §6.7
        // seed: U27, U28, U29
        let mut tracker = CoherencyTracker::default();
        // CPU write, GPU read.
        assert_eq!(tracker.cpu_maps('a', true), Maintenance::None);
        tracker.cpu_unmaps('a');
        assert_eq!(tracker.gpu_uses('a', false), Maintenance::WriteBack);
        assert_eq!(tracker.gpu_uses('a', false), Maintenance::None, "once is enough");
        // GPU write, CPU read.
        assert_eq!(tracker.gpu_uses('a', true), Maintenance::None);
        assert_eq!(tracker.cpu_maps('a', false), Maintenance::Invalidate);
        assert_eq!(tracker.cpu_maps('a', false), Maintenance::None);
        // The same while it is mapped, for reading or for writing.
        assert_eq!(tracker.gpu_wrote('a'), Maintenance::Invalidate);
        tracker.cpu_unmaps('a');
        assert_eq!(tracker.gpu_wrote('a'), Maintenance::None);
        assert_eq!(tracker.cpu_maps('a', true), Maintenance::Invalidate);
        assert_eq!(tracker.gpu_wrote('a'), Maintenance::WriteBackAndInvalidate);
        // Written by the CPU while the GPU writes, then mapped to be read only.
        assert_eq!(tracker.gpu_uses('d', true), Maintenance::None);
        assert_eq!(tracker.cpu_maps('d', true), Maintenance::Invalidate);
        tracker.cpu_unmaps('d');
        assert_eq!(tracker.cpu_maps('d', false), Maintenance::None);
        assert_eq!(tracker.gpu_wrote('d'), Maintenance::WriteBackAndInvalidate, "what the CPU wrote is not forgotten");
        assert_eq!(tracker.gpu_uses('d', false), Maintenance::None, "it is written back");
        // CPU write, GPU write over all of it.
        assert_eq!(tracker.cpu_maps('b', true), Maintenance::None);
        tracker.cpu_unmaps('b');
        assert_eq!(tracker.gpu_uses('b', true), Maintenance::WriteBackAndInvalidate);
        // CPU read, GPU read.
        assert_eq!(tracker.cpu_maps('c', false), Maintenance::None);
        assert_eq!(tracker.gpu_uses('c', false), Maintenance::None);
        // Written by the CPU, and gone: what comes under its name has no lines.
        assert_eq!(tracker.cpu_maps('e', true), Maintenance::None);
        tracker.forget(&'e');
        assert_eq!(tracker.gpu_uses('e', true), Maintenance::None);
    }

    /// A cache of one line: the worst that hardware may do.
    #[derive(Default)]
    struct Line {
        memory: u32,
        cache: u32,
        dirty: bool,
    }

    impl Line {
        fn maintain(&mut self, what: Maintenance) {
            let back = matches!(what, Maintenance::WriteBack | Maintenance::WriteBackAndInvalidate);
            if back && std::mem::take(&mut self.dirty) {
                self.memory = self.cache;
            }
            let forget = matches!(what, Maintenance::Invalidate | Maintenance::WriteBackAndInvalidate);
            if forget {
                assert!(!self.dirty, "bytes of the CPU are thrown away");
                self.cache = self.memory;
            }
        }
    }

    proptest! {
        /// Each side reads the last write of either side.
        #[test]
        fn no_side_sees_stale_bytes(steps in proptest::collection::vec(0u8..4, 1..200)) {
            let (mut tracker, mut line, mut last) = (CoherencyTracker::default(), Line::default(), 0);
            for (step, value) in steps.into_iter().zip(1u32..) {
                match step {
                    0 => {
                        line.maintain(tracker.gpu_uses((), false));
                        prop_assert_eq!(line.memory, last);
                    }
                    1 => {
                        line.maintain(tracker.gpu_uses((), true));
                        prop_assert!(!line.dirty, "a line would go over the GPU's bytes");
                        (line.memory, last) = (value, value);
                    }
                    2 => {
                        line.maintain(tracker.cpu_maps((), false));
                        prop_assert_eq!(line.cache, last);
                        tracker.cpu_unmaps(());
                    }
                    _ => {
                        line.maintain(tracker.cpu_maps((), true));
                        prop_assert_eq!(line.cache, last);
                        (line.cache, line.dirty, last) = (value, true, value);
                        tracker.cpu_unmaps(());
                    }
                }
            }
        }
    }
}
