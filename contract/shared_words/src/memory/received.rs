//! Memory files shown once more: the other end of [`super::LentFile`], a file that a process was handed, mapped by it; and a file of this
//! process, shown for reading only to a program that may look at words (a fence's value, a doorbell's status) and is not to write
//! them. Called by links to a kernel. The file comes from the kernel, which is believed; still its size is looked at once, for an access beyond a file's
//! end would end the program.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};

use super::lent::Lent;
use super::{Memory, MemoryError, ReadOnlyWord};

impl Memory {
    /// Maps a file that was received, for reading and writing. It can be shown in an [`crate::AddressRange`], too.
    ///
    /// # Errors
    /// When it is smaller than said (`EINVAL`), may shrink or may only be read (`EPERM`), or there are no addresses for it.
    pub fn from_file(file: OwnedFd, bytes: u64) -> Result<Arc<Memory>, MemoryError> {
        map(file, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }
}

/// A memory file that may only be read here. A store ends the program that makes it.
#[derive(Clone, Debug)]
pub struct ReadOnlyMemory {
    /// Mapped without the right to write: nothing here stores to it, and it is not handed out.
    memory: Arc<Memory>,
}

impl ReadOnlyMemory {
    /// Maps a file that was received, for reading.
    ///
    /// # Errors
    /// When it is smaller than said (`EINVAL`), may shrink (`EPERM`), or there are no addresses for it.
    pub fn from_file(file: OwnedFd, bytes: u64) -> Result<ReadOnlyMemory, MemoryError> {
        Ok(ReadOnlyMemory { memory: map(file, bytes, ProtFlags::READ)? })
    }

    /// Shows a memory of this process once more, for reading.
    ///
    /// # Errors
    /// When the memory is no file (`EBADF`), or there are no addresses for it.
    pub fn of(memory: &Memory) -> Result<ReadOnlyMemory, MemoryError> {
        let refused = |source| MemoryError { bytes: memory.bytes(), source };
        let file = memory.file().ok_or_else(|| refused(Errno::BADF))?.try_clone();
        let file = file.map_err(|error| refused(Errno::from_io_error(&error).unwrap_or(Errno::MFILE)))?;
        Ok(ReadOnlyMemory { memory: show(file, memory.bytes(), ProtFlags::READ)? })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// The word at `offset`.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn word(&self, offset: u64) -> ReadOnlyWord {
        ReadOnlyWord::new(Arc::clone(&self.memory), offset)
    }

    /// Where the 64-bit word at `offset` stands. It is shared: a program may only look at it by volatile or atomic loads.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn address(&self, offset: u64) -> NonNull<u64> {
        NonNull::from(self.memory.word(offset)).cast()
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// When the range lies outside.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        self.memory.read(offset, into);
    }
}

fn map(file: OwnedFd, bytes: u64, protection: ProtFlags) -> Result<Arc<Memory>, MemoryError> {
    let refused = |source| MemoryError { bytes, source };
    // A size that is negative is of no file.
    let size = u64::try_from(fstat(&file).map_err(refused)?.st_size).unwrap_or(0);
    if bytes == 0 || !bytes.is_multiple_of(4096) || size < bytes {
        return Err(refused(Errno::INVAL));
    }
    if !fcntl_get_seals(&file).map_err(refused)?.contains(SealFlags::SHRINK) {
        return Err(refused(Errno::PERM));
    }
    show(file, bytes, protection)
}

/// Maps a file that never becomes smaller: by its seal, or because only its one owner could change that, and does not.
fn show(file: OwnedFd, bytes: u64, protection: ProtFlags) -> Result<Arc<Memory>, MemoryError> {
    let refused = |source| MemoryError { bytes, source };
    let length = usize::try_from(bytes).map_err(|_| refused(Errno::NOMEM))?;
    // SAFETY: a fresh mapping at an address of the operating system's choice, of a file that stays as large as it is (by this function's
    // law).
    let mapped =
        unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED | MapFlags::NORESERVE, &file, 0) };
    let base = NonNull::new(mapped.map_err(refused)?.cast::<u8>()).expect("a mapping is never at address 0");
    Ok(Arc::new(Memory { base, bytes, file: Some(file), lent: Lent::default() }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;
    use crate::Word;

    /// Says that this program is the child.
    const STORES: &str = "OPENWDDM_STORES";
    const SIGSEGV: i32 = 11;

    #[test]
    fn a_view_shows_what_is_stored_elsewhere() {
        let memory = Memory::reserve_file(4 * 4096).unwrap();
        let view = ReadOnlyMemory::of(&memory).unwrap();
        let word = view.word(4096 + 8);
        assert_ne!(word.address(), NonNull::from(memory.word(4096 + 8)).cast());
        Word::store(memory.word(4096 + 8), 42);
        assert_eq!(word.load(), 42);
        let mut bytes = [1; 4];
        view.read(4096 + 7, &mut bytes);
        assert_eq!(bytes, [0, 42, 0, 0]);
        assert!(ReadOnlyMemory::of(&Memory::reserve(4096).unwrap()).is_err(), "no file can be shown twice");
    }

    // spec: sync §1.4 (user CPU VA: read-only)
    // seed: N10, C07
    #[test]
    fn a_store_through_a_view_ends_the_program_that_makes_it() {
        if std::env::var_os(STORES).is_some() {
            let memory = Memory::reserve_file(4096).unwrap();
            let word = ReadOnlyMemory::of(&memory).unwrap().word(8);
            println!("reads {}", word.load());
            // SAFETY: the address is mapped, and no other code has it; the store is what this program is for.
            unsafe { word.address().as_ptr().write_volatile(1) };
            println!("lives");
            return;
        }
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "memory::received::tests::a_store_through_a_view_ends_the_program_that_makes_it";
        let output = program.args(["--exact", name, "--nocapture"]).env(STORES, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("reads 0") && !said.contains("lives"), "{said}");
        assert_eq!(output.status.signal(), Some(SIGSEGV), "{said}");
    }
}
