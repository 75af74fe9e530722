//! Files that processes hand over: such a file, with its content, takes the place of pages of a memory, and every mapping of the file
//! sees the stores there. The other way round than [`super::LentFile`]: the process made the file, so it is looked at before anything
//! touches it. Called by the host for a section over memory that a program shares already.
//!
//! # The law of this boundary
//! - **The other side is an adversary.** An access to a page that a file has not, or that its file system cannot bring, ends this
//!   program. So the file is one of those in memory that the operating system makes itself (`memfd_create` without huge pages; no file
//!   of a file system), it is sealed against becoming smaller, and it is as large as said; each is looked at when the file comes.
//! - **The content is the process's.** It is never cleared, neither when the file comes nor when it goes.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fallocate, fcntl_get_seals, fstat, memfd_create};
use rustix::io::Errno;

use super::lent::LentPages;
use super::lent_file::{HOLE, LentFile};
use super::{Memory, MemoryError};

/// Why a file is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenError {
    /// It is none of the operating system's own in memory.
    NoMemoryFile,
    /// It may become smaller.
    MayShrink,
    /// The bytes are not whole pages within it: it has so many.
    Outside(u64),
    /// The operating system refuses.
    System(Errno),
}

impl std::fmt::Display for GivenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GivenError::NoMemoryFile => {
                f.write_str("the file is no memory file of small pages: memfd_create makes one (without MFD_HUGETLB)")
            }
            GivenError::MayShrink => f.write_str(
                "the file may become smaller: it needs the seal F_SEAL_SHRINK (memfd_create with MFD_ALLOW_SEALING)",
            ),
            GivenError::Outside(bytes) => {
                write!(f, "what is asked for are no whole pages of the file, which has {bytes} bytes")
            }
            GivenError::System(errno) => write!(f, "the operating system does not let the file be mapped: {errno}"),
        }
    }
}

impl std::error::Error for GivenError {}

impl From<Errno> for GivenError {
    fn from(errno: Errno) -> GivenError {
        GivenError::System(errno)
    }
}

/// Consecutive pages of a file that a process has handed over. They are there as long as this is.
#[derive(Debug)]
pub struct GivenFile {
    file: Arc<LentFile>,
    offset: u64,
    bytes: u64,
}

impl GivenFile {
    /// Looks at a file, and takes these bytes of it.
    ///
    /// # Errors
    /// See [`GivenError`].
    pub fn take(file: OwnedFd, offset: u64, bytes: u64) -> Result<GivenFile, GivenError> {
        // Those that the operating system makes itself lie in one place, where no user's file system is mounted.
        let ours = memfd_create("openwddm-place", MemfdFlags::CLOEXEC)?;
        let stat = fstat(&file)?;
        if stat.st_dev != fstat(ours)?.st_dev {
            return Err(GivenError::NoMemoryFile);
        }
        let seals = fcntl_get_seals(&file).map_err(|_| GivenError::NoMemoryFile)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(GivenError::MayShrink);
        }
        // Asked once more: from the seal on it has at least so much for ever. A size that is negative is of no file.
        let size = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
        let whole = bytes > 0 && offset.is_multiple_of(4096) && bytes.is_multiple_of(4096);
        if !whole || offset.checked_add(bytes).is_none_or(|end| end > size) {
            return Err(GivenError::Outside(size));
        }
        let file = Arc::new(LentFile::given(file, size / 4096 * 4096));
        Ok(GivenFile { file, offset, bytes })
    }

    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Memory {
    /// Puts the pages of a file that was handed over in place of these runs (offset, bytes), one after the other. The runs' content is
    /// gone, the file's is there. [`Memory::take_back`] ends it.
    ///
    /// # Errors
    /// When the operating system refuses a mapping, as it does for a file that takes no stores. The runs are zero pages then.
    ///
    /// # Panics
    /// When one of the runs is not whole pages of this memory, or they are not as many bytes as the file's.
    pub fn place(&self, given: &GivenFile, runs: &[(u64, u64)]) -> Result<(), MemoryError> {
        let all: u64 = runs.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(given.bytes, all, "the runs are as large as what was given");
        runs.iter().for_each(|run| self.assert_pages(*run));
        let mut at = given.offset;
        for (done, &(offset, bytes)) in runs.iter().enumerate() {
            self.take_back(offset, bytes)?;
            if let Err(source) = self.map_file(offset, bytes, &given.file.file, at) {
                for &(offset, bytes) in &runs[..done] {
                    // PANIC: as many mappings as there were before; going on would show the process what comes there next.
                    self.take_back(offset, bytes).expect("a mapping of ours in place of another");
                }
                return Err(MemoryError { bytes, source });
            }
            // The memory shows no more of its own file there: the pages go.
            let _ = self.file.as_ref().map(|own| fallocate(own, HOLE, offset, bytes));
            self.note_lent(LentPages { file: Arc::clone(&given.file), file_offset: at, offset, bytes });
            at += bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
