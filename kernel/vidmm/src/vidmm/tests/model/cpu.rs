//! The CPU's view of locked content: in system memory, in a memory segment, through windows.

use wddm_types::{CpuPlace, CpuRun, PAGE_BYTES, SegmentId};

use super::Model;
use crate::vidmm::tests::world::*;
use crate::{LockError, WindowMap, WindowPages, Work};

impl Model {
    /// Takes a work over as its owner must.
    pub fn queue(&mut self, work: Option<Work<u8>>) {
        let Some(work) = work else { return };
        self.check_relocations(&work);
        self.hear(work.serial, &work.moves);
        work.unmap.iter().for_each(|pages| self.unmap(pages));
        self.tables_left += work.tables.iter().filter(|moved| !moved.came).count() as u64;
        let rotations = work.rotations.clone();
        self.machine.queue(Some(work));
        for rotation in rotations {
            self.machine.run(&mut self.mm);
            let known = self.known.iter_mut().find(|known| known.id == rotation.allocation).expect("it is locked");
            assert!(known.locks > 0, "only the locked are shown");
            known.runs = rotation.runs;
            if let Some(pages) = rotation.unmap {
                self.unmap(&pages);
                self.mm.window_unmapped(&pages);
            }
        }
    }

    fn unit(&self, segment: SegmentId) -> u64 {
        self.mm.segment(segment).page_bytes() / PAGE_BYTES
    }

    pub fn unmap(&mut self, pages: &WindowPages) {
        let unit = self.unit(pages.segment);
        for bus in pages.pages.iter().flat_map(|&page| window_bus(pages.segment, page, unit)) {
            assert!(self.windows.remove(&bus).is_some(), "only what is mapped is unmapped");
        }
    }

    fn map_window(&mut self, map: &WindowMap) {
        let unit = self.unit(map.segment);
        self.unmap(&WindowPages { segment: map.segment, pages: map.unmap.clone() });
        for (&window, &memory) in map.window_pages.iter().zip(&map.memory_pages) {
            for (bus, page) in window_bus(map.segment, window, unit).zip(memory * unit..) {
                assert!(self.windows.insert(bus, (map.segment, page)).is_none(), "a window page is mapped once");
            }
        }
    }

    /// The pages that the CPU sees.
    fn seen(&self, runs: &[CpuRun]) -> Vec<(SegmentId, u64)> {
        let pages = runs.iter().flat_map(|run| (run.run.first..run.run.end()).map(|page| (run.place, page)));
        let place = |(place, page)| match place {
            CpuPlace::System | CpuPlace::CachedSystem => (SegmentId::SYSTEM, page),
            CpuPlace::Bar if page >= EXTRA_BAR / PAGE_BYTES => (EXTRA, page - EXTRA_BAR / PAGE_BYTES),
            CpuPlace::Bar => (VRAM, page - VRAM_BAR / PAGE_BYTES),
            CpuPlace::HostAperture => self.windows[&page],
        };
        pages.map(place).collect()
    }

    /// The CPU writes all of a locked allocation where it sees it.
    pub fn write_by_cpu(&mut self, which: usize) {
        self.machine.run(&mut self.mm);
        let places = self.seen(&self.known[which].runs);
        let seen: Vec<u64> = places.iter().map(|&(segment, page)| self.machine.read(segment, page)).collect();
        assert_eq!(seen, self.known[which].content, "the CPU sees the content");
        for (position, place) in places.into_iter().enumerate() {
            self.stamp += 1;
            self.machine.memory.insert(place, self.stamp);
            self.known[which].content[position] = self.stamp;
        }
    }

    /// The CPU reads and writes all of an allocation through a lock.
    pub fn lock(&mut self, which: usize) {
        let Some(which) = self.pick(which) else { return };
        let id = self.known[which].id;
        let plan = match self.mm.lock(id) {
            Ok(plan) => plan,
            Err(error) => {
                let offered = self.mm.offered(id).is_some();
                assert_eq!(offered, matches!(error, LockError::Offered | LockError::ContentLost), "{error}");
                let pinned = self.known[which].pins > 0;
                assert!(pinned || error != LockError::Pinned);
                assert!(offered || pinned || self.mm.allocations[id].count > 0);
                return;
            }
        };
        self.known[which].locks += 1;
        self.machine.clear(&plan.clear);
        if let Some(map) = &plan.window {
            self.map_window(map);
        }
        self.queue(plan.work);
        if let Some(serial) = plan.wait_for {
            self.machine.run_to(&mut self.mm, serial);
        }
        if self.known[which].locks == 1 {
            self.known[which].runs = plan.runs;
        } else {
            assert_eq!(self.known[which].runs, plan.runs, "nested locks see the same");
        }
        self.write_by_cpu(which);
    }
}

/// The bus pages of a window page.
fn window_bus(segment: SegmentId, page: u32, unit: u64) -> std::ops::Range<u64> {
    let first = window_range(segment).physical_address / PAGE_BYTES + u64::from(page) * unit;
    first..first + unit
}
