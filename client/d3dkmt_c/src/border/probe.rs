//! Bad pointers show themselves at the beginning of a call: this file reads one byte of each page of a caller's memory, or stores it back,
//! before the call does anything. Memory that is not there faults here, in the thread of the caller and at the caller's address, and the kernel
//! has heard nothing yet. The border calls it; nothing here learns of a fault or catches one (decision 0044).
#![allow(unsafe_code)]

use wddm_types::PAGE_BYTES;

/// Reads a byte of each page, and the last one: the compiler may leave out members that a function does not use, and none of these reads.
///
/// # Safety
/// `bytes` bytes at `at` can be read, or the program is to fault.
pub unsafe fn readable(at: *const u8, bytes: usize) {
    for offset in offsets(at.addr(), bytes) {
        // SAFETY: one of the bytes.
        let _ = unsafe { at.add(offset).read_volatile() };
    }
}

/// Stores a byte of each page, and the last one, as it was.
///
/// # Safety
/// `bytes` bytes at `at` can be written and are the callee's until the call returns, or the program is to fault.
pub unsafe fn writable(at: *mut u8, bytes: usize) {
    for offset in offsets(at.addr(), bytes) {
        // SAFETY: one of the bytes, which no other thread stores to during the call.
        unsafe { at.add(offset).write_volatile(at.add(offset).read_volatile()) };
    }
}

/// The first byte, the first byte of each later page, the last byte.
fn offsets(address: usize, bytes: usize) -> impl Iterator<Item = usize> {
    // CAST: a page is far smaller than an address.
    let page = PAGE_BYTES as usize;
    let first = (bytes > 0).then_some(0);
    let later = (page - address % page..bytes).step_by(page);
    first.into_iter().chain(later).chain((bytes > 1).then(|| bytes - 1))
}

#[cfg(test)]
mod tests {
    use super::offsets;

    #[test]
    fn each_page_is_touched_and_the_last_byte() {
        let touched = |address, bytes| offsets(address, bytes).collect::<Vec<_>>();
        assert_eq!(touched(4096, 0), []);
        assert_eq!(touched(4096, 1), [0]);
        assert_eq!(touched(4096, 4096), [0, 4095]);
        assert_eq!(touched(8190, 2), [0, 1]);
        assert_eq!(touched(8190, 3), [0, 2, 2]);
        assert_eq!(touched(4095, 8200), [0, 1, 4097, 8193, 8199]);
    }
}
