//! Pages of a memory that a client in another process may map: while they are its, they lie in a memory file of their own, or in one that
//! only this client has (`arena`), at the addresses where they always were. The host that gives memory to clients decides which; this file does not.
//!
//! # The law of this boundary
//! - **A client gets a file.** Each holder of its descriptor can map all of it, so it holds these pages and no other, or no other
//!   process's. The memory itself, and the file behind it where there is one, are never handed out.
//! - **Lent pages are fresh.** Their old content is gone, and they are zero. So pages are lent when no party needs their content and none
//!   writes there: the caller vouches for that, this file does not check it. A store that is under way meanwhile is lost or not.
//! - **Addresses stay.** Pages are replaced in one step, and references to words of the memory go on being good.
//! - **The other side is an adversary.** The file's size cannot be changed, so that no access of ours ever finds a page gone. Where the
//!   client may only read, the file takes no writable mapping, no write and no hole any more, whatever the descriptor is opened as;
//!   our own mapping is older than that and goes on. What a client does to pages that it may write is as good as a store.
//! - **Pages taken back are gone for the client.** It still maps the old file, which no other party reads from then on.
//!
//! Each run of consecutive pages takes up to two of the process's mappings, and each file one of its descriptors; neighbours in an arena
//! take one together.
#![allow(unsafe_code)]

mod runs;

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::fallocate;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};

use super::lent_file::{ClientAccess, HOLE, LentFile};
use super::{Memory, MemoryError};
use crate::program_map::mappings_max;
use runs::Runs;

/// Consecutive pages that are lent, and where in their file they lie.
#[derive(Clone, Debug)]
pub struct LentPages {
    /// The file.
    pub file: Arc<LentFile>,
    /// Where in it they begin.
    pub file_offset: u64,
    /// Where in the memory they begin.
    pub offset: u64,
    /// How many bytes they are.
    pub bytes: u64,
}

/// Pages that are lent no more, and that a client may still map: their memory goes when this is dropped.
#[derive(Debug)]
pub struct DetachedPages(Vec<LentPages>);

impl Drop for DetachedPages {
    fn drop(&mut self) {
        forget(std::mem::take(&mut self.0));
    }
}

/// The file in which a part of a memory lies.
pub(crate) enum Backing {
    Own,
    Lent(Arc<LentFile>),
}

/// The pages of a memory that are lent. Locked while mappings are changed, never while memory is read or written.
#[derive(Default)]
pub(super) struct Lent {
    runs: Mutex<Runs>,
    /// An arena has lost its pages, and nothing has asked since.
    has_lost: AtomicBool,
    /// The mappings that this process may have, as a test says.
    #[cfg(test)]
    pub(super) mappings_max: std::sync::OnceLock<usize>,
}

impl Lent {
    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Most mappings of this process.
    fn mappings_max(&self) -> usize {
        #[cfg(test)]
        if let Some(most) = self.mappings_max.get() {
            return *most;
        }
        mappings_max()
    }
}

impl Memory {
    /// Puts fresh zero pages of one new file in place of these runs (offset, bytes), one after the other in the file. The content is
    /// not kept. Runs that were lent are taken back first.
    ///
    /// # Errors
    /// When the operating system refuses file or mapping. None of the runs is lent then.
    ///
    /// # Panics
    /// When there is no run, or one is not whole pages of this memory.
    pub fn lend(&self, runs: &[(u64, u64)], access: ClientAccess) -> Result<Arc<LentFile>, MemoryError> {
        let bytes = runs.iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes > 0, "a file has pages");
        runs.iter().for_each(|run| self.assert_pages(*run));
        let refused = |source| MemoryError { bytes, source };
        self.check_room(runs.len()).map_err(refused)?;
        let mut lent = self.lent.lock();
        let result = LentFile::new(bytes, access).and_then(|file| {
            let mut at = 0;
            for &(offset, bytes) in runs {
                forget(lent.cut(offset, bytes));
                self.map_file(offset, bytes, &file.file, at)?;
                at += bytes;
            }
            // Our mappings are there: a file that takes no new writable one keeps those it has.
            file.seal()?;
            Ok(Arc::new(file))
        });
        let file = match result {
            Ok(file) => file,
            Err(error) => {
                for &(offset, bytes) in runs {
                    forget(lent.cut(offset, bytes));
                    self.map_own(offset, bytes).map_err(refused)?;
                }
                return Err(refused(error));
            }
        };
        let mut at = 0;
        for &(offset, bytes) in runs {
            // The memory shows no more of its own file there: the pages go.
            let _ = self.file.as_ref().map(|own| fallocate(own, HOLE, offset, bytes));
            lent.insert(LentPages { file: Arc::clone(&file), file_offset: at, offset, bytes });
            at += bytes;
        }
        Ok(file)
    }

    /// Puts zero pages of this memory's own in place of whatever of these bytes is lent. The content is not kept; that of pages which
    /// are not lent is left alone.
    ///
    /// # Errors
    /// When the operating system refuses the mapping; then the pages are still lent.
    ///
    /// # Panics
    /// When they are not whole pages of this memory.
    pub fn take_back(&self, offset: u64, bytes: u64) -> Result<(), MemoryError> {
        self.detach(offset, bytes).map(drop)
    }

    /// The same, while what the client still maps goes on holding what it did, until what is answered is dropped: a client that has been
    /// told of other pages reads the old ones until it has heard.
    ///
    /// # Errors
    /// When the operating system refuses the mapping; then the pages are still lent.
    ///
    /// # Panics
    /// When they are not whole pages of this memory.
    pub fn detach(&self, offset: u64, bytes: u64) -> Result<DetachedPages, MemoryError> {
        self.assert_pages((offset, bytes));
        let (mut lent, mut detached) = (self.lent.lock(), DetachedPages(Vec::new()));
        self.make_room(&mut lent)?;
        for pages in lent.cut(offset, bytes) {
            if let Err(source) = self.map_own(pages.offset, pages.bytes) {
                let bytes = pages.bytes;
                lent.insert(pages);
                return Err(MemoryError { bytes, source });
            }
            detached.0.push(pages);
        }
        Ok(detached)
    }

    /// The clients are about to go, all of them: what they map stays as it is ([`LentFile::leave`]).
    pub fn leave_lent(&self) {
        self.lent_in(0, self.bytes).iter().for_each(|pages| pages.file.leave());
    }

    /// Whether an arena has lost all its pages ([`LentFile::is_lost`]) since this was asked last.
    pub fn has_lost_an_arena(&self) -> bool {
        self.lent.has_lost.load(Ordering::Relaxed) && self.lent.has_lost.swap(false, Ordering::AcqRel)
    }

    /// The consecutive lent pages that the byte at `offset` is among; `None`: it is not lent.
    pub fn lent_at(&self, offset: u64) -> Option<LentPages> {
        self.lent.lock().at(offset).cloned()
    }

    /// The lent pages that these bytes are, in order; `None`: not all of them are lent.
    pub fn lent(&self, offset: u64, bytes: u64) -> Option<Vec<LentPages>> {
        let mut at = offset;
        let lent = |(backing, file_offset, bytes)| match backing {
            Backing::Own => None,
            Backing::Lent(file) => {
                at += bytes;
                Some(LentPages { file, file_offset, offset: at - bytes, bytes })
            }
        };
        self.backings(offset, bytes).into_iter().map(lent).collect()
    }

    /// The parts of these bytes that are lent.
    pub(super) fn lent_in(&self, offset: u64, bytes: u64) -> Vec<LentPages> {
        self.lent.lock().within(offset, bytes)
    }

    /// Notes that pages are lent from now on.
    pub(super) fn note_lent(&self, pages: LentPages) {
        self.lent.lock().insert(pages);
    }

    /// Whether this process may have mappings for so many more runs of lent pages: a quarter of those that the operating system allows,
    /// each between pages of this memory's own, so that half of all are in use then.
    pub(super) fn check_room(&self, runs: usize) -> rustix::io::Result<()> {
        let fits = self.lent.lock().len() + runs <= self.lent.mappings_max() / 4;
        if fits { Ok(()) } else { Err(rustix::io::Errno::NOMEM) }
    }

    /// Pages of a run are about to be taken back, which may leave two runs of one, and that must not fail: their next owner would share
    /// them. Where three quarters of this process's mappings are used for lent pages, the arena that is most scattered loses all its
    /// pages, whatever they hold. Its process ends; no other notices.
    fn make_room(&self, lent: &mut Runs) -> Result<(), MemoryError> {
        if lent.len() < self.lent.mappings_max() / 8 * 3 {
            return Ok(());
        }
        let Some((arena, runs)) = lent.take_most_scattered() else { return Ok(()) };
        arena.lose();
        self.lent.has_lost.store(true, Ordering::Release);
        for run in runs {
            // One mapping in place of exactly another.
            let own = self.map_own(run.offset, run.bytes);
            own.map_err(|source| MemoryError { bytes: run.bytes, source })?;
            forget(vec![run]);
        }
        Ok(())
    }

    /// Notes that none of these bytes is lent any more; returns the pages that were.
    pub(super) fn cut_lent(&self, offset: u64, bytes: u64) -> Vec<LentPages> {
        self.lent.lock().cut(offset, bytes)
    }

    /// The files in which these bytes lie, in order: each part with its offset there and its size.
    pub(crate) fn backings(&self, offset: u64, bytes: u64) -> Vec<(Backing, u64, u64)> {
        let (mut at, end) = (offset, offset + bytes);
        let lent = self.lent.lock();
        let mut parts = Vec::new();
        while at < end {
            let (backing, from, stop) = match lent.at(at) {
                Some(pages) => {
                    let from = pages.file_offset + (at - pages.offset);
                    (Backing::Lent(Arc::clone(&pages.file)), from, pages.offset + pages.bytes)
                }
                None => (Backing::Own, at, lent.next(at).unwrap_or(end)),
            };
            let stop = stop.min(end);
            parts.push((backing, from, stop - at));
            at = stop;
        }
        parts
    }

    pub(super) fn assert_pages(&self, (offset, bytes): (u64, u64)) {
        let whole = offset.is_multiple_of(4096) && bytes.is_multiple_of(4096) && bytes > 0;
        assert!(whole && self.contains(offset, bytes), "{bytes:#x} bytes at {offset:#x} are not pages of this memory");
    }

    pub(super) fn map_file(&self, offset: u64, bytes: u64, file: impl AsFd, at: u64) -> rustix::io::Result<()> {
        self.map(offset, bytes, file, at, MapFlags::empty())
    }

    /// Shows pages of another mapping here, too, at the same offset: of a file that takes no new mapping for stores any more.
    pub(super) fn map_again(&self, offset: u64, bytes: u64, whole: &Memory) -> rustix::io::Result<()> {
        assert!(whole.contains(offset, bytes), "pages of the whole");
        let (from, to, length) = (whole.at(offset).cast(), self.at(offset).cast(), bytes as usize);
        // SAFETY: as in `map` for the target. An old size of 0 leaves the source, which is a shared mapping, where it is; it lives longer
        // than the call. The length fits because it is within a mapping.
        unsafe { rustix::mm::mremap_fixed(from, 0, length, rustix::mm::MremapFlags::MAYMOVE, to) }?;
        Ok(())
    }

    /// The same for pages that the file has all of: they are there at once, and not with the first touch of each.
    pub(super) fn map_filled(&self, offset: u64, bytes: u64, file: impl AsFd, at: u64) -> rustix::io::Result<()> {
        self.map(offset, bytes, file, at, MapFlags::POPULATE)
    }

    fn map(&self, offset: u64, bytes: u64, file: impl AsFd, at: u64, how: MapFlags) -> rustix::io::Result<()> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED | how;
        // SAFETY: the target is pages of this value's own mapping (asserted), to which there are no references but atomics and raw
        // copies; the old pages are replaced in one step by others of the same size that are readable and writable, too. The length
        // fits because it is within a mapping.
        unsafe { mmap(self.at(offset).cast(), bytes as usize, ProtFlags::READ | ProtFlags::WRITE, flags, file, at) }?;
        Ok(())
    }

    /// Pages of a file at another address, wherever else they are or are not mapped.
    pub(super) fn part_of(file: &OwnedFd, place: u64, bytes: u64) -> rustix::io::Result<Memory> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the operating system's choice, of pages of a file that no process makes smaller. The
        // length fits because the pages are part of a mapping.
        let mapped = unsafe {
            mmap(std::ptr::null_mut(), bytes as usize, ProtFlags::READ | ProtFlags::WRITE, flags, file, place)
        }?;
        let base = NonNull::new(mapped.cast::<u8>()).expect("a mapping is never at address 0");
        Ok(Memory { base, bytes, file: None, lent: Lent::default() })
    }

    /// Puts zero pages of this memory's own there.
    pub(super) fn map_own(&self, offset: u64, bytes: u64) -> rustix::io::Result<()> {
        if let Some(file) = &self.file {
            fallocate(file, HOLE, offset, bytes)?;
            return self.map_file(offset, bytes, file, offset);
        }
        let (target, length) = (self.at(offset).cast(), bytes as usize);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: as in `map`.
        unsafe { mmap_anonymous(target, length, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        // As the rest of the memory is: else it would not become one mapping with its neighbours again.
        // SAFETY: the range is the mapping made above; advice changes no content.
        let _ = unsafe { madvise(target, length, Advice::LinuxHugepage) };
        Ok(())
    }
}

/// Frees the memory of pages that are lent no more. A file that may only be read cannot lose pages: its memory goes when the last process
/// has closed and unmapped it. Nor does one lose any that a process has handed over, or that a process has left with: they are the process's.
pub(super) fn forget(lent: Vec<LentPages>) {
    for pages in lent.iter().filter(|pages| pages.file.loses_content()) {
        let _ = fallocate(&pages.file.file, HOLE, pages.file_offset, pages.bytes);
        pages.file.give_room_back(pages.file_offset, pages.bytes);
    }
}

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod tests;
