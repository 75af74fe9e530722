//! Allocations of every kind that placement tells apart, each mapped once or twice.

use ddi::{AllocationFlags, SegmentFlags};
use wddm_types::{GpuVa, PAGE_BYTES, SegmentId};

use super::{DEVICES, Known, Model};
use crate::vidmm::tests::world::*;

impl Model {
    /// Makes an allocation of a device, unless there are enough.
    pub fn create(&mut self, pages: u64, kind: u8, device: usize) {
        let segments: &[SegmentId] = match kind {
            0 => &[APERTURE],
            1 | 2 => &[VRAM],
            6 => &[VRAM, EXTRA],
            7 => &[EXTRA, VRAM, APERTURE],
            _ => &[VRAM, APERTURE],
        };
        let mut info = info(pages, segments);
        info.alignment_bytes = 65536;
        if kind == 2 || kind == 5 {
            // Where the segment's pages allow it, anywhere: then many moves make a hole.
            let small = !self.mm.segment(VRAM).descriptor.flags.contains(SegmentFlags::USE_64KB_PAGES);
            info.alignment_bytes = if small && kind == 5 { 4096 } else { 65536 };
            info.size_bytes = pages.min(30) * PAGE_BYTES;
            info.flags = AllocationFlags::ACCESSED_PHYSICALLY;
        }
        let within_reach = self.reach.contains(SegmentFlags::CPU_VISIBLE) || segments.contains(&APERTURE);
        info.flags.set(AllocationFlags::CPU_VISIBLE, within_reach && kind != 4);
        info.flags.set(AllocationFlags::CACHED, within_reach && kind == 3);
        if self.known.len() >= 24 {
            return;
        }
        let id = self.mm.create_allocation(self.devices[device], info).expect("it fits");
        let clear = self.mm.pages_to_clear(id).to_vec();
        self.machine.clear(&clear);
        let pages = self.mm.allocation_bytes(id) / PAGE_BYTES;
        let aperture = segments.contains(&APERTURE);
        let content = vec![0; pages as usize];
        self.known.push(Known {
            id,
            va: GpuVa::NULL,
            second: (GpuVa::NULL, 0),
            content,
            counts: [0; DEVICES],
            wrote: [false; DEVICES],
            locks: 0,
            runs: Vec::new(),
            pins: 0,
            aperture,
        });
        let which = self.known.len() - 1;
        let Some(va) = self.map(which, 0, pages) else {
            self.known.pop();
            let work = self.mm.destroy_allocation(id, &[]);
            return self.queue(work);
        };
        self.known[which].va = va;
        let from = pages / 3;
        let second = self.map(which, from, pages - from);
        self.known[which].second = second.map_or((va, 0), |second| (second, from));
    }
}
