//! A memory file shown once more, for reading only: what a program gets that may look at words (a fence's value, a doorbell's
//! status) and is not to write them. Made by whoever gives out plain addresses; a Rust client has [`crate::ReadOnlyWord`] instead.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::memory::{Memory, MemoryError};

/// All of a memory at addresses of its own. A store there ends the program that makes it.
pub struct ReadOnlyView {
    base: NonNull<u8>,
    memory: Arc<Memory>,
}

// SAFETY: the pointer is to a mapping that lives as long as the value, and nothing here follows it.
unsafe impl Send for ReadOnlyView {}
// SAFETY: as above.
unsafe impl Sync for ReadOnlyView {}

impl ReadOnlyView {
    /// Shows the memory once more.
    ///
    /// # Errors
    /// When the operating system refuses the addresses, or the memory is no file (`EBADF`).
    pub fn new(memory: &Arc<Memory>) -> Result<ReadOnlyView, MemoryError> {
        let refused = |source| MemoryError { bytes: memory.bytes(), source };
        let file = memory.file().ok_or_else(|| refused(rustix::io::Errno::BADF))?;
        let length = usize::try_from(memory.bytes()).map_err(|_| refused(rustix::io::Errno::NOMEM))?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice; it cannot be written through.
        let mapped = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, flags, file, 0) };
        let base = NonNull::new(mapped.map_err(refused)?.cast::<u8>()).expect("a mapping is never at address 0");
        Ok(ReadOnlyView { base, memory: Arc::clone(memory) })
    }

    /// Where the 64-bit word at `offset` stands. It is shared: a program may only look at it by volatile or atomic loads.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn word(&self, offset: u64) -> NonNull<u64> {
        assert!(offset.is_multiple_of(8) && self.memory.contains(offset, 8), "no word at {offset:#x}");
        // SAFETY: inside the mapping (checked), which is one object.
        unsafe { self.base.add(offset as usize) }.cast()
    }
}

impl Drop for ReadOnlyView {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's; whoever was given an address of it has been told how long it lasts.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.memory.bytes() as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Word;

    #[test]
    fn a_view_shows_what_is_stored_elsewhere() {
        let memory = Memory::reserve_file(4 * 4096).unwrap();
        let view = ReadOnlyView::new(&memory).unwrap();
        Word::store(memory.word(4096 + 8), 42);
        // SAFETY: the view is alive, and nobody stores at the same time.
        let seen = unsafe { view.word(4096 + 8).as_ptr().read_volatile() };
        assert_eq!(seen, 42);
        assert!(ReadOnlyView::new(&Memory::reserve(4096).unwrap()).is_err(), "no file can be shown twice");
    }
}
