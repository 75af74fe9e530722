//! The other end of [`super::LentFile`]: a memory file that a process was handed, mapped by it. Called by links to a kernel in
//! another process. The file comes from the kernel, which is believed; still its size is looked at once, for an access beyond a file's
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

/// A received file that this process may only read.
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
    let length = usize::try_from(bytes).map_err(|_| refused(Errno::NOMEM))?;
    // A size that is negative is of no file.
    let size = u64::try_from(fstat(&file).map_err(refused)?.st_size).unwrap_or(0);
    if bytes == 0 || !bytes.is_multiple_of(4096) || size < bytes {
        return Err(refused(Errno::INVAL));
    }
    if !fcntl_get_seals(&file).map_err(refused)?.contains(SealFlags::SHRINK) {
        return Err(refused(Errno::PERM));
    }
    // SAFETY: a fresh mapping at an address of the operating system's choice, of a file that never becomes smaller (looked up above).
    let mapped =
        unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED | MapFlags::NORESERVE, &file, 0) };
    let base = NonNull::new(mapped.map_err(refused)?.cast::<u8>()).expect("a mapping is never at address 0");
    Ok(Arc::new(Memory { base, bytes, file: Some(file), lent: Lent::default() }))
}
