//! The pages of a section that come in place of a program's: where their content goes, and how they are mapped once more.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mremap_fixed};

use crate::AddressRange;
use crate::memory::{Backing, LentFile, Memory};

/// The pages of a section, in order.
pub struct SectionPages<'a>(Vec<Pages<'a>>);

/// Consecutive pages of one mapping.
struct Pages<'a> {
    place: u64,
    bytes: u64,
    file: OfFile<'a>,
}

/// The file from which pages are mapped once more, and their offset in it.
enum OfFile<'a> {
    /// None: the mapping itself is mapped once more.
    Unknown,
    Of(&'a Memory, u64),
    Lent(Arc<LentFile>, u64),
}

impl<'a> SectionPages<'a> {
    /// The pages that a range shows. `runs`: bytes of consecutive pages.
    ///
    /// # Panics
    /// When the runs are not all of the range.
    pub fn of_range(range: &'a AddressRange, runs: &[u64]) -> SectionPages<'a> {
        assert_eq!(runs.iter().sum::<u64>(), range.bytes(), "the runs are the section");
        let mut place = range.base().as_ptr() as u64;
        let pages = |bytes: &u64| {
            let pages = Pages { place, bytes: *bytes, file: OfFile::Unknown };
            place += bytes;
            pages
        };
        SectionPages(runs.iter().map(pages).collect())
    }

    /// These pieces of memory files (memory, first byte, bytes). They need no range of addresses, and there is none where the operating
    /// system holds no stores.
    ///
    /// # Panics
    /// When a piece does not lie in its memory, or that is no memory file.
    pub fn of_files(pieces: impl Iterator<Item = (&'a Memory, u64, u64)>) -> SectionPages<'a> {
        let mut all = Vec::new();
        for (memory, mut at, bytes) in pieces {
            assert!(memory.contains(at, bytes) && memory.file().is_some(), "a piece lies in its memory file");
            for (backing, offset, bytes) in memory.backings(at, bytes) {
                let file = match backing {
                    Backing::Own => OfFile::Of(memory, offset),
                    Backing::Lent(file) => OfFile::Lent(file, offset),
                };
                all.push(Pages { place: std::ptr::from_ref(memory.word(at)) as u64, bytes, file });
                at += bytes;
            }
        }
        SectionPages(all)
    }

    pub(super) fn runs(&self) -> Vec<Run<'_>> {
        self.0.iter().map(Pages::run).collect()
    }
}

impl Pages<'_> {
    fn run(&self) -> Run<'_> {
        Run { place: self.place, bytes: self.bytes, file: self.file.descriptor() }
    }
}

impl OfFile<'_> {
    fn descriptor(&self) -> Option<(BorrowedFd<'_>, u64)> {
        match self {
            OfFile::Unknown => None,
            OfFile::Of(memory, offset) => Some((memory.file().expect("it was looked at").as_fd(), *offset)),
            OfFile::Lent(file, offset) => Some((file.as_fd(), *offset)),
        }
    }
}

/// Consecutive pages, ready to be mapped once more: nothing here allocates.
pub(super) struct Run<'a> {
    /// Where they are mapped now.
    place: u64,
    pub bytes: u64,
    file: Option<(BorrowedFd<'a>, u64)>,
}

impl Run<'_> {
    /// Where their bytes are written.
    pub fn place(&self) -> NonNull<u8> {
        NonNull::new(self.place as *mut u8).expect("a mapping is never at address 0")
    }

    /// Maps them there in place of other pages, in one step.
    ///
    /// # Safety
    /// The caller may replace the pages there.
    pub unsafe fn map_at(&self, target: u64) -> Result<(), Errno> {
        let (target, bytes) = (target as *mut _, self.bytes as usize);
        match self.file {
            // SAFETY: the source is a shared mapping of files that lives; with a size of 0 it stays, and its pages are mapped a second time.
            None => unsafe { mremap_fixed(self.place as *mut _, 0, bytes, MremapFlags::MAYMOVE, target) }.map(drop),
            Some((file, offset)) => {
                let (writable, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
                // SAFETY: as the caller vouches.
                unsafe { mmap(target, bytes, writable, flags, file, offset) }.map(drop)
            }
        }
    }
}
