//! The end of a life: what was made goes, and the memory manager is as it was.

use wddm_types::Pages;

use super::Model;
use crate::vidmm::tests::world::*;
use crate::{ProcessPriority, SpaceKind};

impl Model {
    /// Everything goes, and nothing is left.
    pub fn end(mut self) {
        for id in std::mem::take(&mut self.known).iter().map(|known| known.id).chain(std::mem::take(&mut self.doomed)) {
            let work = self.mm.destroy_allocation(id, &[]);
            self.queue(work);
        }
        self.machine.run(&mut self.mm);
        for device in self.devices {
            self.mm.destroy_device(device, &[]);
        }
        for space in self.spaces {
            let work = self.mm.destroy_space(space);
            self.queue(work);
        }
        self.machine.run(&mut self.mm);
        let in_system: u64 = self.mm.spaces.system_pages().map(|tables| tables.count.0).sum();
        assert_eq!(self.mm.free_system_pages(), Pages(100_000 - 1 - in_system));
        assert_eq!(self.mm.resident_bytes(VRAM), 0);
        self.check_told();
        assert_eq!(self.mm.table_bytes(SpaceKind::Process), 0);
        let held = |band| self.mm.segment(VRAM).victims().held(band);
        assert_eq!([held(ProcessPriority::Background), held(ProcessPriority::Normal)], [0, 0]);
    }
}
