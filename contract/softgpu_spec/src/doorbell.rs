//! Doorbells, by number. Those below [`QUEUE_COUNT`] are the queues' own, 128 bytes each and the driver's alone; each that follows has a
//! page to itself, so that it can be shown to a process that is to ring no other. Of those a device has as many as it says
//! ([`crate::register::DOORBELLS`]), which may be fewer than it has queues; a queue listens to one of them
//! ([`crate::register::QUEUE_DOORBELL`]) or to its own.

use crate::QUEUE_COUNT;
use crate::bus::PAGE_BYTES;

/// Bytes of a doorbell: the value, and in the next cache line the word by which the engine says that it sleeps.
pub const BYTES: u64 = 128;
/// Bytes of the queues' own doorbells, in front of all others.
pub const OWN_BYTES: u64 = QUEUE_COUNT as u64 * BYTES;
/// Most doorbells with a page: one for each queue.
pub const PAGES_MAX: u32 = QUEUE_COUNT;

const _: () = assert!(OWN_BYTES.is_multiple_of(PAGE_BYTES));

/// Byte offset of a doorbell in the doorbell window.
pub const fn offset(number: u32) -> u64 {
    match number.checked_sub(QUEUE_COUNT) {
        None => number as u64 * BYTES,
        Some(page) => OWN_BYTES + page as u64 * PAGE_BYTES,
    }
}

/// The doorbell whose page begins at this byte of the window, if one may.
pub const fn of_page(offset: u64) -> Option<u32> {
    if offset < OWN_BYTES || !offset.is_multiple_of(PAGE_BYTES) {
        return None;
    }
    let page = (offset - OWN_BYTES) / PAGE_BYTES;
    // CAST: below the most.
    if page < PAGES_MAX as u64 { Some(QUEUE_COUNT + page as u32) } else { None }
}

/// Bytes of the window of a device with so many pages.
pub const fn window_bytes(pages: u32) -> u64 {
    OWN_BYTES + pages as u64 * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_leads_back_to_its_doorbell() {
        for number in [QUEUE_COUNT, QUEUE_COUNT + 1, QUEUE_COUNT + PAGES_MAX - 1] {
            assert_eq!(of_page(offset(number)), Some(number));
        }
        for beyond in [0, 64, OWN_BYTES - PAGE_BYTES, OWN_BYTES + 64, window_bytes(PAGES_MAX), !0xfff] {
            assert_eq!(of_page(beyond), None, "{beyond:#x}");
        }
        assert_eq!((offset(3), window_bytes(2)), (384, OWN_BYTES + 8192));
    }
}
