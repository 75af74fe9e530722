//! Memory files that hold pages lent to clients: their size, their seals, and what lies in them. `lent` and `arena` say which pages those
//! are.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::Memory;
use super::extents::Extents;

/// Takes pages out of a file, which has zeros there then.
pub(super) const HOLE: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// The accesses of a client to pages that it maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAccess {
    /// Look at them.
    Read,
    /// Store there, too.
    ReadWrite,
}

/// A memory file that holds pages lent to a client.
#[derive(Debug)]
pub struct LentFile {
    pub(super) file: OwnedFd,
    bytes: u64,
    access: ClientAccess,
    pub(super) used: Use,
    /// Its pages were taken back all together, whatever they held.
    lost: AtomicBool,
    /// The process that maps it is a client no more, and hears of nothing that becomes of its pages.
    left: AtomicBool,
}

/// What lies in a file.
#[derive(Debug)]
pub(super) enum Use {
    /// Pages that are lent together, and no other.
    Alone,
    /// A process has handed it over ([`super::GivenFile`]): its content stays the process's.
    Given,
    /// Pages of one process, each at its own offset.
    Arena,
    /// The same of pages that the process may only read. Mapped whole before it was sealed: it takes no other mapping for stores.
    ArenaToRead(Memory),
    /// Pages of one process, with their content, and where there is room.
    ArenaOfContent(Mutex<Extents>),
}

impl LentFile {
    /// A file that a process has handed over, of which the first `bytes` are never gone.
    pub(super) fn given(file: OwnedFd, bytes: u64) -> LentFile {
        LentFile {
            file,
            bytes,
            access: ClientAccess::ReadWrite,
            used: Use::Given,
            lost: AtomicBool::new(false),
            left: AtomicBool::new(false),
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The accesses that its seals allow.
    pub fn access(&self) -> ClientAccess {
        self.access
    }

    /// Whether its pages were taken back all together, whatever they held, because this process had no mappings left: what its process
    /// sees there is in the memory no more.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// The process that maps it is a client no more: the content stays from now on, and its memory goes with the last mapping. A process
    /// that lives on may have its stack there.
    // spec: memory §6.3
    pub fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// Whether pages that are taken back lose what they hold. Its process maps them still; while it is a client, it is told of other ones.
    pub(super) fn loses_content(&self) -> bool {
        let is_ours = self.access == ClientAccess::ReadWrite && !matches!(self.used, Use::Given);
        is_ours && !self.left.load(Ordering::Acquire) && !self.is_lost()
    }

    /// All its pages are taken back.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// A file of this size, not sealed yet.
    pub(super) fn new(bytes: u64, access: ClientAccess) -> rustix::io::Result<LentFile> {
        LentFile::of_use(bytes, access, Use::Alone)
    }

    pub(super) fn of_use(bytes: u64, access: ClientAccess, used: Use) -> rustix::io::Result<LentFile> {
        let file = memfd_create("openwddm-lent", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, bytes)?;
        Ok(LentFile { file, bytes, access, used, lost: AtomicBool::new(false), left: AtomicBool::new(false) })
    }

    pub(super) fn seal(&self) -> rustix::io::Result<()> {
        let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        seals.set(SealFlags::FUTURE_WRITE, self.access == ClientAccess::Read);
        fcntl_add_seals(&self.file, seals)
    }
}

impl AsFd for LentFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
