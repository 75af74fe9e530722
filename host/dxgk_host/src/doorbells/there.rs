//! The doorbell of a process elsewhere. Its page is the process's own for the doorbell's life, and stands in the device's window while the
//! doorbell is connected: the process stores into one page and never learns where that leads, and whoever takes the doorbell away asks
//! it for nothing.
//!
//! Its stores cannot be held meanwhile. So what it stored last is looked for behind its status ([`PageThere::settle`]): whoever rings
//! stores the write pointer and then reads the status, with a barrier between; here the status is stored and then the write pointer is
//! read, with one between. Either the process reads that its doorbell is gone, or its ring is found.
//!
//! The device listens all the time, and says in the page whether its engine sleeps. What it says while pages change may stay in the page
//! that it met; so it is woken behind every change, looks again, and says it again.

use std::sync::{Arc, Mutex};

use device_port::DevicePort;
use shared_words::doorbell::{ASLEEP_OFFSET, VALUE_OFFSET};
use shared_words::{Barrier, ClientPage, LentFile, Memory, MemoryError, RareBarrier, Word};
use softgpu_spec::doorbell;

use crate::elsewhere::Elsewhere;
use crate::host::lock;

/// The page.
pub(super) struct PageThere {
    page: ClientPage,
    device: Arc<dyn DevicePort>,
    speaks: Arc<dyn Elsewhere>,
    /// Where in the device's window it stands, or stood when it was cut off.
    place: Mutex<Option<u64>>,
}

impl PageThere {
    /// A page that leads nowhere.
    ///
    /// # Errors
    /// When the operating system refuses file or mapping.
    pub fn new(device: Arc<dyn DevicePort>, speaks: Arc<dyn Elsewhere>) -> Result<PageThere, MemoryError> {
        Ok(PageThere { page: ClientPage::new()?, device, speaks, place: Mutex::default() })
    }

    /// The file that its process is given.
    pub fn file(&self) -> &Arc<LentFile> {
        self.page.file()
    }

    /// Whoever listens where it stands looks there again.
    pub fn wake(&self) {
        let number = lock(&self.place).and_then(doorbell::of_page);
        if let Some(number) = number {
            self.device.doorbell_rung(number);
        }
    }

    /// Nothing that is stored into it from now on comes to the device's window.
    pub fn cut(&self) {
        let Some(place) = *lock(&self.place) else { return };
        let words = [VALUE_OFFSET, ASLEEP_OFFSET].map(|at| (at, self.page.load(at)));
        // PANIC: one mapping in place of another. Going on would leave a stranger's page at a doorbell that somebody else gets.
        self.window().show_own(place, &words).expect("the window's own page in place of another");
    }

    /// What was stored into it before is at the doorbell.
    // spec: sync §3.9, sync §3.17
    pub fn settle(&self) {
        if let Some(place) = *lock(&self.place) {
            RareBarrier::full();
            Word::store(self.window().word(place + VALUE_OFFSET), self.page.load(VALUE_OFFSET));
        }
        self.wake();
    }

    /// Stands there from now on, with what has been rung so far; `None`: it leads nowhere. False: there is no such place.
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
            // Where it stands already it has what its process has stored.
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
