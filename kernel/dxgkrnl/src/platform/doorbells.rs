//! The seam to the pages that processes see at the addresses of their doorbells (sync §3.17): the page of a physical doorbell, or one
//! that leads nowhere. Each doorbell has one address for life. Each request is carried out when the call returns, for the driver may give
//! a physical doorbell to another queue then.

use kmt_calls::DoorbellAddress;
use shared_words::{Memory, Word};
use wddm_types::{ProcessId, WordAddress};

/// The pages at which processes ring, of one adapter.
pub trait DoorbellPages: Send + Sync + std::fmt::Debug {
    /// A doorbell of a process has an address; it leads nowhere.
    fn made(&self, doorbell: DoorbellAddress, process: ProcessId);

    /// No store that its process makes from now on comes to the physical doorbell: it waits until the page shows something, or the
    /// implementation keeps it for [`DoorbellPages::settle`] where it cannot hold stores.
    fn hold(&self, doorbell: DoorbellAddress);

    /// Its status says so now. Whatever the process has stored without being able to read that is at the physical doorbell when this
    /// returns, and the engine behind it knows.
    fn settle(&self, doorbell: DoorbellAddress);

    /// Shows the page at a byte offset of the device's doorbell window; `None`: a page that leads nowhere. False: there is no
    /// doorbell at that offset, and everything is as it was.
    fn show(&self, doorbell: DoorbellAddress, offset: Option<u64>) -> bool;

    /// The doorbell is gone; later stores there reach no doorbell.
    fn gone(&self, doorbell: DoorbellAddress);
}

/// The words and pages that the kernel writes for the process of a doorbell.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    pub memory: &'a Memory,
    /// `None`: no process sees a doorbell.
    pub pages: Option<&'a dyn DoorbellPages>,
}

impl Shown<'_> {
    /// Takes a doorbell away: later rings of its process do not reach the physical doorbell, and a process that has rung where nothing is
    /// reached reads the new status. If the page alone changed first, as the specification has it, a ring could fall between page and
    /// status, and be lost: so stores are held from the one to the other, or looked for behind the other. `release` lets the queue listen
    /// elsewhere, with everything that was rung.
    // spec: sync §3.17, sync §3.19
    pub fn take_away(self, doorbell: DoorbellAddress, word: WordAddress, status: u64, release: impl FnOnce()) {
        if let Some(pages) = self.pages {
            pages.hold(doorbell);
        }
        Word::store(self.memory.word(word.0), status);
        if let Some(pages) = self.pages {
            pages.settle(doorbell);
        }
        release();
        if let Some(pages) = self.pages {
            assert!(pages.show(doorbell, None), "the page that leads nowhere is always there");
        }
    }
}
