//! The CPU host aperture (memory §6.6): pages of the device's window are pointed at pages of a segment. A page of a segment
//! may be sixteen of the device's.

use ddi::{DriverStatus, HostAperture, MapCpuHostAperture, UnmapCpuHostAperture};
use softgpu_spec::bus::{PAGE_BYTES, window_entry};
use softgpu_spec::register;
use wddm_types::SegmentId;

use crate::driver::SoftGpuKmd;
use crate::segments::Range;

impl HostAperture for SoftGpuKmd {
    // spec: memory §6.6, memory §10.1 row 34
    fn map_cpu_host_aperture(&mut self, map: MapCpuHostAperture<'_>) -> Result<(), DriverStatus> {
        if map.window_pages.len() != map.memory_pages.len() {
            return Err(DriverStatus::InvalidParameter("a page of the window for each page of memory"));
        }
        let range = self.windowed(map.segment)?;
        let page_bytes = self.config.segment_page_bytes;
        let count = range.bytes / page_bytes;
        let windows = u64::from(self.config.cpu_window_pages).min(count);
        let inside = map.window_pages.iter().all(|page| u64::from(*page) < windows)
            && map.memory_pages.iter().all(|page| *page < count);
        if !inside {
            // Memory that the driver hides lies outside every segment, so this check keeps it out of the window.
            return Err(DriverStatus::InvalidParameter("a page outside its window or its segment"));
        }
        for (&window, &memory) in map.window_pages.iter().zip(map.memory_pages) {
            let local = range.base + memory * page_bytes;
            self.program_window(range, window, |offset| window_entry::to(local + offset));
        }
        Ok(())
    }

    fn unmap_cpu_host_aperture(&mut self, unmap: UnmapCpuHostAperture<'_>) {
        let range = self.windowed(unmap.segment).expect("only what was mapped is unmapped");
        for &window in unmap.window_pages {
            self.program_window(range, window, |_| 0);
        }
    }
}

impl SoftGpuKmd {
    /// A memory segment with a window.
    fn windowed(&self, segment: SegmentId) -> Result<Range, DriverStatus> {
        let geometry = self.geometry.ok_or(DriverStatus::Unsuccessful("the device is not started"))?;
        let memory = geometry.memory_segments().contains(segment) && self.config.cpu_window_pages > 0;
        let range = geometry.segments().find(|range| memory && range.id == segment);
        range.ok_or(DriverStatus::InvalidParameter("a segment without a CPU host aperture"))
    }

    /// Programs the device's pages of one page of a segment's window. The windows follow each other as the segments do.
    fn program_window(&self, range: Range, page: u32, entry: impl Fn(u64) -> u64) {
        let page_bytes = self.config.segment_page_bytes;
        let first = (range.base + u64::from(page) * page_bytes) / PAGE_BYTES;
        for part in 0..page_bytes / PAGE_BYTES {
            self.port.write_register(register::CPU_WINDOW_PAGE, first + part);
            self.port.write_register(register::CPU_WINDOW_ENTRY, entry(part * PAGE_BYTES));
        }
    }
}

#[cfg(test)]
mod tests;
