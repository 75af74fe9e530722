//! The log of a display's flips, where its owner reads it: a ring of entries on the bus.

use std::sync::atomic::Ordering;

use softgpu_spec::display::LOG_ENTRY_BYTES;

use crate::bus::Bus;

/// The log of a display.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Log {
    /// Where it lies; 0: there is none.
    pub(super) address: u64,
    pub(super) entries: u64,
    /// Entries that were written.
    pub(super) count: u64,
}

impl Log {
    /// Writes an entry. One that has no place on the bus is counted all the same.
    pub(super) fn write(&mut self, bus: &Bus, id: u64, time: u64) {
        if self.address == 0 || self.entries == 0 {
            return;
        }
        let at = self.address.wrapping_add(self.count % self.entries * LOG_ENTRY_BYTES);
        self.count += 1;
        if !at.is_multiple_of(8) {
            return;
        }
        for (at, value) in [(at, id), (at.wrapping_add(8), time)] {
            let Ok(run) = bus.run(at, 8) else { continue };
            if let Some((memory, offset)) = bus.memory(run.site).filter(|_| run.bytes == 8) {
                memory.word(offset).store(value, Ordering::Relaxed);
            }
        }
    }
}
