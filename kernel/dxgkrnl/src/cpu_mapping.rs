//! What processes see of their locked allocations: mappings by number, and what the outside is told about them (memory
//! §6.3). A mapping is made by an allocation's first lock and goes with its last. It performs nothing: whoever owns the
//! process's address space does. Called by `lock` and by the paging ring.

use std::collections::BTreeMap;

use ddi::{MapCpuHostAperture, UnmapCpuHostAperture};
use kmt_calls::MappingId;
use vidmm::{AllocationId, WindowMap, WindowPages};
use wddm_types::{AdapterIndex, CpuRun, ProcessId};

use crate::adapter::Adapter;
use crate::machine::{Cx, Effect};

/// Bits of a mapping's name below the adapter's index.
const NUMBER_BITS: u32 = 40;

/// What happens to a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingChange {
    /// It is there.
    Made {
        /// Whose.
        process: ProcessId,
        /// Bytes.
        size_bytes: u64,
        /// What it shows.
        runs: Vec<CpuRun>,
    },
    /// No write gets through any more: who writes, waits; who reads, reads on. To be answered by
    /// [`Machine::mapping_changed`](crate::Machine::mapping_changed) when that holds.
    Protected,
    /// It shows something else, and writes get through. To be answered in the same way.
    Shown(Vec<CpuRun>),
    /// It is gone; who waits in it goes on.
    Gone,
}

/// The mappings of one adapter.
#[derive(Default)]
pub struct CpuMappings {
    next: u64,
    by_allocation: BTreeMap<AllocationId, MappingId>,
}

impl CpuMappings {
    /// The mapping of a locked allocation.
    pub fn of(&self, allocation: AllocationId) -> Option<MappingId> {
        self.by_allocation.get(&allocation).copied()
    }

    /// Whether a mapping is still there.
    pub fn is_alive(&self, mapping: MappingId) -> bool {
        self.by_allocation.values().any(|known| *known == mapping)
    }
}

/// The adapter that a mapping belongs to.
pub fn adapter_of_mapping(mapping: MappingId) -> AdapterIndex {
    // CAST: the index was put there.
    AdapterIndex((mapping.0 >> NUMBER_BITS) as u32)
}

impl Adapter {
    /// The mapping of an allocation, made if this is its first lock.
    pub fn map_for_cpu(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        allocation: AllocationId,
        runs: &[CpuRun],
    ) -> MappingId {
        if let Some(mapping) = self.cpu_mappings.of(allocation) {
            return mapping;
        }
        self.cpu_mappings.next += 1;
        let mapping = MappingId(u64::from(self.index.0) << NUMBER_BITS | self.cpu_mappings.next);
        self.cpu_mappings.by_allocation.insert(allocation, mapping);
        let size_bytes = self.vidmm.allocation_bytes(allocation);
        let runs = self.through_caches(allocation, runs.to_vec());
        tell(cx, mapping, MappingChange::Made { process, size_bytes, runs });
        mapping
    }

    /// A mapping of memory that is no allocation.
    pub fn map_section(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        runs: Vec<CpuRun>,
        size_bytes: u64,
    ) -> MappingId {
        self.cpu_mappings.next += 1;
        let mapping = MappingId(u64::from(self.index.0) << NUMBER_BITS | self.cpu_mappings.next);
        tell(cx, mapping, MappingChange::Made { process, size_bytes, runs });
        mapping
    }

    /// The allocation is not locked any more.
    pub fn unmap_for_cpu(&mut self, cx: &mut Cx<'_>, allocation: AllocationId) {
        if let Some(mapping) = self.cpu_mappings.by_allocation.remove(&allocation) {
            tell(cx, mapping, MappingChange::Gone);
            self.rotation_lost(cx, mapping);
        }
    }

    /// Lets the driver point window pages at memory pages.
    // spec: memory §6.6
    pub fn map_window(&mut self, allocation: AllocationId, map: &WindowMap) -> bool {
        self.unmap_window(&WindowPages { segment: map.segment, pages: map.unmap.clone() });
        let allocation = Some(self.vidmm.kmd_handle(allocation));
        let Some(facet) = self.miniport.cpu_host_aperture() else { return false };
        let map = MapCpuHostAperture {
            allocation,
            segment: map.segment,
            physical_adapter: 0,
            window_pages: &map.window_pages,
            memory_pages: &map.memory_pages,
        };
        facet.map_cpu_host_aperture(map).is_ok()
    }

    /// Lets the driver take window pages out.
    // spec: memory §6.6
    pub fn unmap_window(&mut self, pages: &WindowPages) {
        if let Some(facet) = self.miniport.cpu_host_aperture().filter(|_| !pages.pages.is_empty()) {
            facet.unmap_cpu_host_aperture(UnmapCpuHostAperture {
                window_pages: &pages.pages,
                segment: pages.segment,
                physical_adapter: 0,
            });
        }
    }
}

/// Tells the outside.
pub fn tell(cx: &mut Cx<'_>, mapping: MappingId, change: MappingChange) {
    cx.effects.push(Effect::Mapping { mapping, change });
}
