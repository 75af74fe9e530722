//! The doorbell of a process elsewhere. Its page is the process's own for the doorbell's life, and stands in the device's window while the
//! doorbell is connected: the process stores into one page and never learns where that leads, and the kernel disconnects the doorbell
//! without asking the process.
//!
//! The kernel cannot hold the process's stores meanwhile. So [`RemotePage::settle`] reads the last store after the status has changed: the
//! process stores the write pointer and then reads the status, with a barrier between; the kernel stores the status and then reads the write
//! pointer, with a barrier between. Either the process reads that its doorbell is gone, or the kernel finds its ring.
//!
//! The device listens all the time, and stores into the page whether its engine sleeps. While pages change, that store may land in the page
//! that leaves; so the host wakes the device behind every change, and the device looks and stores again.

use std::sync::{Arc, Mutex};

use device_port::DevicePort;
use shared_words::doorbell::{ASLEEP_OFFSET, VALUE_OFFSET};
use shared_words::{Barrier, ClientPage, LentFile, Memory, MemoryError, RareBarrier, Word};
use softgpu_spec::doorbell;

use crate::host::lock;
use crate::remote_process::RemoteProcess;

/// The doorbell page of one process elsewhere.
pub(super) struct RemotePage {
    page: ClientPage,
    device: Arc<dyn DevicePort>,
    speaks: Arc<dyn RemoteProcess>,
    /// The page's offset in the device's window, or its last one before it was cut off.
    place: Mutex<Option<u64>>,
}

impl RemotePage {
    /// A page that leads nowhere.
    ///
    /// # Errors
    /// When the operating system refuses file or mapping.
    pub fn new(device: Arc<dyn DevicePort>, speaks: Arc<dyn RemoteProcess>) -> Result<RemotePage, MemoryError> {
        Ok(RemotePage { page: ClientPage::new()?, device, speaks, place: Mutex::default() })
    }

    /// The file that its process maps.
    pub fn file(&self) -> &Arc<LentFile> {
        self.page.file()
    }

    /// Wakes the device, which looks at this doorbell again.
    pub fn wake(&self) {
        let number = lock(&self.place).and_then(doorbell::of_page);
        if let Some(number) = number {
            self.device.doorbell_rung(number);
        }
    }

    /// Takes the page out of the device's window: the process's later stores do not reach the device.
    pub fn cut(&self) {
        let Some(place) = *lock(&self.place) else { return };
        let words = [VALUE_OFFSET, ASLEEP_OFFSET].map(|at| (at, self.page.load(at)));
        // PANIC: this replaces one mapping by another. Going on after a failure would leave this process's page at a doorbell that another
        // queue gets.
        self.window().show_own(place, &words).expect("the window's own page in place of another");
    }

    /// Copies the process's last store before [`RemotePage::cut`] to the doorbell.
    // spec: sync §3.9, sync §3.17
    pub fn settle(&self) {
        if let Some(place) = *lock(&self.place) {
            RareBarrier::full();
            Word::store(self.window().word(place + VALUE_OFFSET), self.page.load(VALUE_OFFSET));
        }
        self.wake();
    }

    /// Puts the page at this offset of the window, with the doorbell's present words; `None`: it leads nowhere. False: there is no such offset.
    pub fn show(&self, offset: Option<u64>) -> bool {
        {
            let mut place = lock(&self.place);
            let Some(offset) = offset else {
                *place = None;
                return true;
            };
            if !self.window().contains(offset, PAGE_BYTES) {
                return false;
            }
            // A page that stands there already has its process's stores.
            if *place != Some(offset) {
                let words = [VALUE_OFFSET, ASLEEP_OFFSET].map(|at| (at, Word::load(self.window().word(offset + at))));
                if let Err(error) = self.page.show(self.window(), offset, &words) {
                    self.speaks.lost(&format!("its doorbell could not be shown: {error}"));
                    return true;
                }
                *place = Some(offset);
            }
        }
        self.wake();
        true
    }

    fn window(&self) -> &Memory {
        self.device.doorbell_page()
    }
}

/// Bytes of a page.
const PAGE_BYTES: u64 = softgpu_spec::bus::PAGE_BYTES;
