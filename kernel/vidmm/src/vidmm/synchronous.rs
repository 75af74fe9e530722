//! SynchronousPaging, a flag of the first generation: while such content moves, no buffers run, not even those that do not name it. The
//! modules that move content report here; the kernel asks before it starts a buffer.

use ddi::{AllocationFlags, DriverModel};

use crate::slab::AllocationId;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// The last work that buffers have to wait for although they name none of what it moves: it moves content with
    /// SynchronousPaging.
    // spec: memory §2.2, bit 11
    pub fn synchronous_serial(&self) -> u64 {
        self.works.synchronous()
    }

    /// A work moves an allocation. That content is idle by then holds for all: work waits for its last use.
    // spec: memory §2.2, bit 11
    pub(crate) fn note_paging(&mut self, id: AllocationId, serial: u64) {
        let flags = self.allocations[id].info.flags;
        if self.model == DriverModel::Wddm1 && flags.contains(AllocationFlags::SYNCHRONOUS_PAGING) {
            self.works.note_synchronous(serial);
        }
    }
}
