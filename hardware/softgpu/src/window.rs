//! The CPU's window onto local memory: each page of it shows a page of local memory, or nothing. Entries are programmed by registers and
//! kept in the device. Engines do not go through it. Register accesses call this file, and the host that plays the bus for the CPU.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use softgpu_spec::bus::{CPU_BAR_BASE, CPU_WINDOW_BASE, PAGE_BYTES, window_entry};

use crate::lock;

/// The window.
#[derive(Default)]
pub(crate) struct CpuWindow {
    /// The page that the next entry is for.
    page: AtomicU64,
    /// Byte of local memory by page of the window.
    entries: Mutex<BTreeMap<u64, u64>>,
}

impl CpuWindow {
    pub(crate) fn select(&self, page: u64) {
        self.page.store(page, Ordering::Relaxed);
    }

    pub(crate) fn selected(&self) -> u64 {
        self.page.load(Ordering::Relaxed)
    }

    /// Programs the selected page. A page behind the window, or an entry that names no byte of local memory, shows
    /// nothing.
    pub(crate) fn program(&self, entry: u64, local_bytes: u64) {
        let page = self.selected();
        let offset = entry & !(PAGE_BYTES - 1);
        let sound = page < (CPU_BAR_BASE - CPU_WINDOW_BASE) / PAGE_BYTES
            && entry & window_entry::VALID != 0
            && offset.checked_add(PAGE_BYTES).is_some_and(|end| end <= local_bytes);
        let mut entries = lock(&self.entries);
        if sound {
            entries.insert(page, offset);
        } else {
            entries.remove(&page);
        }
    }

    /// The entry of the selected page.
    pub(crate) fn entry(&self) -> u64 {
        lock(&self.entries).get(&self.selected()).map_or(0, |offset| offset | window_entry::VALID)
    }

    /// Byte of local memory at a byte of the window, and how many follow it on its page.
    pub(crate) fn shown(&self, offset: u64) -> Option<(u64, u64)> {
        let into = offset % PAGE_BYTES;
        lock(&self.entries).get(&(offset / PAGE_BYTES)).map(|page| (page + into, PAGE_BYTES - into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: memory §6.6
    #[test]
    fn a_page_shows_what_it_was_programmed_with_and_nothing_else() {
        let window = CpuWindow::default();
        let program = |page, entry| {
            window.select(page);
            window.program(entry, 4 * PAGE_BYTES);
        };
        program(5, window_entry::to(3 * PAGE_BYTES));
        assert_eq!(window.shown(5 * PAGE_BYTES + 8), Some((3 * PAGE_BYTES + 8, PAGE_BYTES - 8)));
        assert_eq!(window.shown(4 * PAGE_BYTES), None);
        for wrong in [window_entry::to(4 * PAGE_BYTES), 0, 3 * PAGE_BYTES, u64::MAX] {
            program(6, wrong);
            assert_eq!(window.shown(6 * PAGE_BYTES), None, "{wrong:#x}");
        }
        program(5, 0);
        assert_eq!(window.shown(5 * PAGE_BYTES), None);
        program(u64::MAX, window_entry::to(0));
        assert_eq!(window.entry(), 0, "there is no such page");
    }
}
