//! A doorbell as its process sees it: an address that stays, whether it leads to a physical doorbell or nowhere (sync §3.17). The owner
//! of the process's memory makes the value and carries the kernel's changes into it; the program rings through [`Doorbell`].
//!
//! Three forms, one behaviour, as for locked memory ([`crate::CpuMapping`]):
//! - **A range of addresses** of one page ([`AddressRange`]), at which the page of the physical doorbell is mapped, or zeros of its own;
//!   the operating system holds its stores in between.
//! - **A gate** that each ring passes, where the operating system does not hold stores.
//! - **A page of its own** that came from a kernel in another process, which has it lead to the physical doorbell or nowhere.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use shared_words::across::FrequentAcross;
use shared_words::{AddressRange, Barrier, FrequentBarrier, HardwareBarrier, Memory, doorbell};
use wddm_types::WordAddress;

use crate::{Link, WritableWord};

/// Bytes of what is shown.
const PAGE_BYTES: u64 = 4096;
/// The place of a page that leads nowhere.
const NOWHERE: u64 = u64::MAX;

/// Tells a device that the doorbell whose page begins there was rung while its engine slept.
pub type WakeEngine = Box<dyn Fn(u64) + Send + Sync>;

/// The page at a doorbell's address.
pub struct DoorbellPage {
    window: Arc<Memory>,
    /// Byte offset in the window of what is shown.
    place: AtomicU64,
    form: Form,
    wake: WakeEngine,
}

enum Form {
    Range(AddressRange),
    Gate {
        /// Whether stores are held.
        held: Mutex<bool>,
        opened: Condvar,
    },
    /// `rare_pays`: an engine that falls asleep issues the barrier for this process, too ([`shared_words::across`]).
    Received {
        rare_pays: bool,
    },
}

impl DoorbellPage {
    /// A page that leads nowhere, into which pages of this window can be shown; it has an address if the host can give it one.
    pub fn new(window: Arc<Memory>, wake: WakeEngine) -> DoorbellPage {
        match AddressRange::reserve(PAGE_BYTES) {
            Ok(range) => DoorbellPage { window, place: AtomicU64::new(NOWHERE), form: Form::Range(range), wake },
            Err(_) => DoorbellPage::gated(window, wake),
        }
    }

    /// The same without an address.
    pub fn gated(window: Arc<Memory>, wake: WakeEngine) -> DoorbellPage {
        let form = Form::Gate { held: Mutex::new(false), opened: Condvar::new() };
        DoorbellPage { window, place: AtomicU64::new(NOWHERE), form, wake }
    }

    /// A page that a kernel elsewhere has handed to this process, where it leads as that kernel says. `rare_pays`: that kernel's
    /// barrier holds for this process, by the law of [`shared_words::across`].
    pub fn received(page: Arc<Memory>, rare_pays: bool, wake: WakeEngine) -> DoorbellPage {
        DoorbellPage { window: page, place: AtomicU64::new(0), form: Form::Received { rare_pays }, wake }
    }

    /// The address, if it has one.
    pub fn address(&self) -> Option<NonNull<u8>> {
        match &self.form {
            Form::Range(range) => Some(range.base()),
            Form::Received { .. } => Some(NonNull::from(self.window.word(0)).cast()),
            Form::Gate { .. } => None,
        }
    }

    /// The range of addresses, if it has one that is shown pages.
    pub fn range(&self) -> Option<&AddressRange> {
        match &self.form {
            Form::Range(range) => Some(range),
            Form::Gate { .. } | Form::Received { .. } => None,
        }
    }

    /// No store to the page comes to its end any more. When it returns, none is under way.
    pub fn hold(&self) {
        match &self.form {
            // A page that leads nowhere shows zeros of its own: there is no store to hold.
            Form::Range(_) if self.place.load(Ordering::Acquire) == NOWHERE => {}
            Form::Range(range) => range.protect(),
            Form::Gate { held, .. } => *held.lock().unwrap_or_else(PoisonError::into_inner) = true,
            // The kernel that it came from does it.
            Form::Received { .. } => {}
        }
    }

    /// Shows the page at this byte of the window, or one that leads nowhere, and lets stores go on there. False: there is no such page,
    /// and what was shown is shown.
    pub fn show(&self, offset: Option<u64>) -> bool {
        let inside = |offset: u64| offset.is_multiple_of(PAGE_BYTES) && self.window.contains(offset, PAGE_BYTES);
        if !offset.is_none_or(inside) {
            return false;
        }
        match &self.form {
            Form::Range(range) => match offset {
                Some(offset) => {
                    let shown = range.show([(&*self.window, offset, PAGE_BYTES)].into_iter());
                    // PANIC: one mapping in place of another.
                    shown.expect("a page for a page");
                    self.place.store(offset, Ordering::Release);
                }
                None => {
                    self.place.store(NOWHERE, Ordering::Release);
                    range.end();
                }
            },
            Form::Gate { held, opened } => {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                self.place.store(offset.unwrap_or(NOWHERE), Ordering::Release);
                *held = false;
                opened.notify_all();
            }
            Form::Received { .. } => return false,
        }
        true
    }

    /// Stores a ring's new write pointer, and wakes the engine if that sleeps.
    // spec: sync §3.17
    pub fn ring(&self, write_pointer: u64) {
        let asleep = match &self.form {
            Form::Range(range) => {
                let [value, asleep] = [doorbell::VALUE_OFFSET, doorbell::ASLEEP_OFFSET].map(|at| range.word(at));
                doorbell::ring(FrequentBarrier::full, value, asleep, write_pointer)
            }
            Form::Gate { held, opened } => {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                while *held {
                    held = opened.wait(held).unwrap_or_else(PoisonError::into_inner);
                }
                match self.place.load(Ordering::Acquire) {
                    NOWHERE => false,
                    place => {
                        let word = |at: u64| self.window.word(place + at);
                        let [value, asleep] = [doorbell::VALUE_OFFSET, doorbell::ASLEEP_OFFSET].map(word);
                        doorbell::ring(FrequentBarrier::full, value, asleep, write_pointer)
                    }
                }
            }
            Form::Received { rare_pays } => {
                let [value, asleep] = [doorbell::VALUE_OFFSET, doorbell::ASLEEP_OFFSET].map(|at| self.window.word(at));
                match rare_pays {
                    true => doorbell::ring(FrequentAcross::full, value, asleep, write_pointer),
                    false => doorbell::ring(HardwareBarrier::full, value, asleep, write_pointer),
                }
            }
        };
        // If the kernel took the doorbell away meanwhile, the kernel itself has looked at its value.
        let place = self.place.load(Ordering::Acquire);
        if asleep && place != NOWHERE {
            (self.wake)(place);
        }
    }
}

impl std::fmt::Debug for DoorbellPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DoorbellPage({:#x})", self.place.load(Ordering::Relaxed))
    }
}

/// A doorbell with the word that its owner keeps for the kernel.
#[derive(Clone)]
pub struct Doorbell {
    page: Arc<DoorbellPage>,
    last_queued: WritableWord,
}

impl Doorbell {
    /// A doorbell of the link's process; `None` if it has no such one.
    pub fn new(link: &dyn Link, address: kmt_calls::DoorbellAddress, last_queued: WordAddress) -> Option<Doorbell> {
        let page = link.doorbell(address)?;
        Some(Doorbell { page, last_queued: link.writable(last_queued) })
    }

    /// Publishes work (sync §3.11): the progress value that it will complete, then the ring's write pointer. After each ring the caller
    /// reads the doorbell's status; if the doorbell was disconnected, the caller connects it and rings again.
    // spec: sync §3.11, sync §3.17
    pub fn ring(&self, last_queued_value: u64, write_pointer: u64) {
        self.last_queued.store(last_queued_value);
        self.page.ring(write_pointer);
    }

    /// The page at its address.
    pub fn page(&self) -> &DoorbellPage {
        &self.page
    }
}

#[cfg(test)]
mod tests;
