//! Makes the mappings of locked allocations, and ends them; points window pages of a driver's aperture at memory.

use ddi::{MapCpuHostAperture, UnmapCpuHostAperture};
use kmt_calls::MappingId;
use vidmm::{AllocationId, WindowMap, WindowPages};
use wddm_types::{CpuRun, ProcessId};

use crate::adapter::Adapter;
use crate::effect::{Cx, Heard, MappingChange};

impl Adapter {
    /// The mapping of an allocation, made if this is its first lock. Pages that must be lent first it shows
    /// later: by [`Adapter::show_in_turn`].
    pub(super) fn map_for_cpu(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        allocation: AllocationId,
        runs: &[CpuRun],
    ) -> MappingId {
        if let Some(mapping) = self.memory.cpu_view.of(allocation) {
            return mapping;
        }
        let runs = if self.lends(cx, runs) { &[] } else { runs };
        let mapping = self.memory.cpu_view.enter(self.index, allocation, (process, self.video_bytes(allocation)));
        let size_bytes = self.vidmm.allocation_bytes(allocation);
        let runs = self.through_caches(cx, allocation, runs.to_vec());
        self.memory.cpu_view.tell(cx, mapping, MappingChange::Made { process, size_bytes, runs });
        mapping
    }

    /// A mapping that was just made shows these from the turn of a work on, if they have to be lent.
    pub(super) fn show_in_turn(&mut self, cx: &mut Cx<'_>, process: ProcessId, mapping: MappingId, runs: &[CpuRun]) {
        if self.lends(cx, runs) && self.memory.cpu_view.lend(mapping) {
            self.queue_turn(cx, process, mapping, runs.to_vec());
        }
    }

    /// The allocation is not locked any more.
    pub(in crate::adapter) fn unmap_for_cpu(&mut self, cx: &mut Cx<'_>, process: ProcessId, allocation: AllocationId) {
        let Some((mapping, lent)) = self.memory.cpu_view.unlock(allocation) else { return };
        if lent && !self.life.has_stopped() {
            self.memory.cpu_view.begin_leaving(mapping);
            self.memory.cpu_view.tell(cx, mapping, MappingChange::Unmapped);
            self.queue_turn(cx, process, mapping, Vec::new());
            return;
        }
        let number = self.memory.cpu_view.tell(cx, mapping, MappingChange::Gone);
        self.mapping_changed(cx, mapping, number, Heard::Seen);
    }

    /// Lets the driver point window pages at memory pages.
    // spec: memory §6.6
    pub(super) fn map_window(&mut self, cx: &Cx<'_>, allocation: AllocationId, map: &WindowMap) -> bool {
        self.unmap_window(cx, &WindowPages { segment: map.segment, pages: map.unmap.clone() });
        let allocation = Some(self.vidmm.kmd_handle(allocation));
        let Some(facet) = self.driver.call(cx).cpu_host_aperture() else { return false };
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
    pub(in crate::adapter) fn unmap_window(&mut self, cx: &Cx<'_>, pages: &WindowPages) {
        if let Some(facet) = self.driver.call(cx).cpu_host_aperture().filter(|_| !pages.pages.is_empty()) {
            facet.unmap_cpu_host_aperture(UnmapCpuHostAperture {
                window_pages: &pages.pages,
                segment: pages.segment,
                physical_adapter: 0,
            });
        }
    }
}
