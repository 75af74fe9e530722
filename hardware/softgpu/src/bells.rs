//! Doorbells: the window that drivers and processes write, and which queue listens to which. A queue that changes its doorbell takes
//! what was rung with it: the value is the queue's, a doorbell only lends it a place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use shared_words::{Memory, MemoryError};
use softgpu_spec::{QUEUE_COUNT, doorbell};

use crate::device::SoftGpu;

/// No queue listens.
const NO_LISTENER: u32 = u32::MAX;

const _: () = assert!(doorbell::BYTES == shared_words::doorbell::DOORBELL_BYTES);

/// The doorbells of a device.
pub(crate) struct Bells {
    pub(crate) window: Arc<Memory>,
    /// The queue that listens to each doorbell with a page.
    listeners: Vec<AtomicU32>,
}

impl Bells {
    /// The window is a memory file, so that each page can be shown wherever its process has it.
    pub(crate) fn new(pages: u32) -> Result<Bells, MemoryError> {
        let pages = pages.min(doorbell::PAGES_MAX);
        let window = Memory::reserve_file(doorbell::window_bytes(pages))?;
        Ok(Bells { window, listeners: (0..pages).map(|_| AtomicU32::new(NO_LISTENER)).collect() })
    }

    /// How many have a page.
    pub(crate) fn pages(&self) -> u64 {
        self.listeners.len() as u64
    }

    /// The queue that listens to a doorbell.
    pub(crate) fn listener(&self, number: u32) -> Option<u32> {
        if number < QUEUE_COUNT {
            return Some(number);
        }
        let listener = self.of_page(number)?.load(Ordering::Acquire);
        (listener != NO_LISTENER).then_some(listener)
    }

    fn of_page(&self, number: u32) -> Option<&AtomicU32> {
        self.listeners.get(number.checked_sub(QUEUE_COUNT)? as usize)
    }

    /// A queue is about to listen to a doorbell. False: it may not.
    fn engage(&self, number: u32, queue: u32) -> bool {
        match self.of_page(number) {
            Some(page) => page.compare_exchange(NO_LISTENER, queue, Ordering::AcqRel, Ordering::Relaxed).is_ok(),
            None => number == queue,
        }
    }

    /// The queue that listened to a doorbell does so no more.
    pub(crate) fn release(&self, number: u32) {
        if let Some(page) = self.of_page(number) {
            page.store(NO_LISTENER, Ordering::Release);
        }
    }
}

impl SoftGpu {
    /// A queue listens to another doorbell from now on. The caller holds the queue registers.
    // spec: sync §3.17
    pub(crate) fn listen(&self, queue: u32, number: u64) {
        let face = &self.queues[queue as usize];
        let Ok(number) = u32::try_from(number) else { return };
        let left = face.doorbell.load(Ordering::Acquire);
        if !face.is_enabled() || number == left || !self.bells.engage(number, queue) {
            return;
        }
        let engine = &self.engines[face.engine.load(Ordering::Acquire) as usize];
        let has_work = engine.ask(|state| state.listen(&self.bells.window, queue, number));
        face.doorbell.store(number, Ordering::Release);
        self.bells.release(left);
        // A ring at the doorbell that the queue has left may have found the sleeping flag clear there: the queue clears it as it leaves.
        if has_work {
            engine.wake(queue);
            self.due_after(engine, 0);
        }
    }
}
