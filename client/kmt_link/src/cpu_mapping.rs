//! A locked allocation as its process sees it: its bytes keep their place for the program while the kernel moves them (memory §6.3). The
//! owner of the process's memory (a host in this program, a link to a daemon) makes the value and carries the kernel's changes into it;
//! the program reads and writes through [`crate::MappedBytes`].
//!
//! Two forms, one behaviour:
//! - **Pieces**: each access goes through a gate that names the memory behind. A move closes the gate to writes, waits for
//!   the writes under way, and opens it over other pieces. It works over any memory and in virtual time, but gives no
//!   pointer.
//! - **A range of addresses** ([`AddressRange`]) into which memory files are mapped: the program has a pointer, and the
//!   operating system holds its writes during a move.

use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};

use shared_words::{AddressRange, Memory, SectionPages};

/// Consecutive bytes of one memory.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The memory.
    pub memory: Arc<Memory>,
    /// First byte in it.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// Lets virtual time pass; false when nothing will happen any more.
pub type PassTime = Box<dyn Fn() -> bool + Send + Sync>;

/// The memory that a locked allocation shows to its process.
pub struct CpuMapping {
    size_bytes: u64,
    view: RwLock<View>,
    /// `show` and `release` take this lock after they have changed the view, so that no waiting writer misses the change.
    changes: Mutex<()>,
    changed: Condvar,
    pass_time: Option<PassTime>,
    range: Result<AddressRange, NoAddresses>,
}

/// Why a lock has no addresses of its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAddresses {
    /// A host whose memory is no file: a process has its bytes through the gate.
    #[error("this host keeps the kernel's memory in no file, so it cannot be mapped")]
    NoFiles,
    /// The host has the CPU's caches in software (an adapter without I/O coherency, or one whose caches are played), and what they hold lies
    /// in no file.
    #[error(
        "the host simulates the CPU's caches of this adapter, and what they hold lies in no file that could be mapped"
    )]
    SoftwareCaches,
    /// A layout with rows smaller than pages, of which only the device knows where they lie.
    #[error("its layout has rows smaller than a page, which cannot be mapped")]
    RowsBelowPages,
    /// The operating system gives no addresses, or does not hold stores into them.
    #[error("the operating system does not let this process hold stores (userfaultfd): {0}")]
    System(String),
}

struct View {
    pieces: Vec<Piece>,
    writable: bool,
}

impl CpuMapping {
    /// A mapping of these pieces, which has no addresses for this reason. `pass_time`: how a writer waits where time is virtual.
    pub fn new(size_bytes: u64, pieces: Vec<Piece>, pass_time: Option<PassTime>, why: NoAddresses) -> CpuMapping {
        let view = RwLock::new(View { pieces, writable: true });
        CpuMapping { size_bytes, view, changes: Mutex::new(()), changed: Condvar::new(), pass_time, range: Err(why) }
    }

    /// A mapping at a range of addresses, which already shows its first pieces.
    pub fn at_addresses(size_bytes: u64, range: AddressRange) -> CpuMapping {
        CpuMapping { range: Ok(range), ..CpuMapping::new(size_bytes, Vec::new(), None, NoAddresses::NoFiles) }
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The addresses, if it has any of its own.
    ///
    /// # Errors
    /// Why it has none.
    pub fn range(&self) -> Result<&AddressRange, &NoAddresses> {
        self.range.as_ref()
    }

    /// Calls `with` with the pages that the mapping shows, which stay where they are while it runs: those of a section. `runs`: bytes of
    /// consecutive pages.
    ///
    /// # Errors
    /// Why they cannot be mapped once more: they lie in no file.
    pub fn section_pages<T>(&self, runs: &[u64], with: impl FnOnce(SectionPages<'_>) -> T) -> Result<T, &NoAddresses> {
        match &self.range {
            Ok(range) => Ok(with(SectionPages::of_range(range, runs))),
            Err(NoAddresses::System(_)) => {
                let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
                let pieces = view.pieces.iter().map(|piece| (&*piece.memory, piece.offset, piece.bytes));
                Ok(with(SectionPages::of_files(pieces)))
            }
            Err(why) => Err(why),
        }
    }

    /// Lets no write through any more. When it returns, none is under way.
    pub fn protect(&self) {
        match &self.range {
            Ok(range) => range.protect(),
            Err(_) => self.view.write().unwrap_or_else(PoisonError::into_inner).writable = false,
        }
    }

    /// Shows other pieces and lets writes through.
    pub fn show(&self, pieces: Vec<Piece>) {
        if let Ok(range) = &self.range {
            let parts = pieces.iter().map(|piece| (&*piece.memory, piece.offset, piece.bytes));
            // PANIC: a store that waits in the mapping would wait for ever; there is nothing to go back to.
            return range.show(parts).expect("mappings for a locked allocation that has moved");
        }
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = View { pieces, writable: true };
        self.writable_again();
    }

    /// Wakes the writers that wait at the gate.
    fn writable_again(&self) {
        let _guard = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }

    /// Lets stores go on that are held, into the pages that the mapping shows now. A link calls it when its kernel has gone and will not
    /// show other pages.
    pub fn release(&self) {
        match &self.range {
            Ok(range) => range.release(),
            Err(_) => {
                self.view.write().unwrap_or_else(PoisonError::into_inner).writable = true;
                self.writable_again();
            }
        }
    }

    /// Ends the lock: reads and writes reach zeros of the mapping's own from now on, and no allocation.
    pub fn end(&self) {
        match &self.range {
            Ok(range) => range.end(),
            Err(_) => {
                let bytes = self.size_bytes;
                // PANIC: address space for one allocation more.
                let empty = Memory::reserve(bytes).expect("addresses for a dead mapping");
                self.show(vec![Piece { memory: empty, offset: 0, bytes }]);
            }
        }
    }

    /// Calls `piece(memory, offset in it, offset in the request, length)` for each part of a range that is to be read.
    pub(crate) fn read(&self, offset: u64, length: u64, piece: impl FnMut(&Memory, u64, u64, u64)) {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        split(&view.pieces, offset, length, piece);
    }

    /// The same for a range that is to be written; waits while the content is being moved.
    pub(crate) fn write(&self, offset: u64, length: u64, piece: impl FnMut(&Memory, u64, u64, u64)) {
        loop {
            let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
            if view.writable {
                return split(&view.pieces, offset, length, piece);
            }
            drop(view);
            self.wait();
        }
    }

    fn wait(&self) {
        if let Some(pass_time) = &self.pass_time {
            assert!(pass_time(), "virtual time stands still in the middle of a move");
            return;
        }
        let mut guard = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.view.read().unwrap_or_else(PoisonError::into_inner).writable {
            guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl std::fmt::Debug for CpuMapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CpuMapping({} bytes)", self.size_bytes)
    }
}

fn split(pieces: &[Piece], offset: u64, length: u64, mut piece: impl FnMut(&Memory, u64, u64, u64)) {
    let (mut at, mut start) = (0, 0);
    for here in pieces {
        let end = start + here.bytes;
        if at < length && offset + at < end {
            let count = (end - offset - at).min(length - at);
            piece(&here.memory, here.offset + offset + at - start, at, count);
            at += count;
        }
        start = end;
    }
    assert_eq!(at, length, "the pieces of a mapping cover its size");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    // spec: memory §6.3
    #[test]
    fn a_writer_waits_while_the_content_moves_and_a_reader_does_not() {
        let (old, new) = (Memory::reserve(4096).unwrap(), Memory::reserve(4096).unwrap());
        let piece = |memory: &Arc<Memory>| vec![Piece { memory: Arc::clone(memory), offset: 0, bytes: 4096 }];
        let mapping = CpuMapping::new(4096, piece(&old), None, NoAddresses::NoFiles);
        mapping.protect();
        let wrote = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                mapping.write(8, 8, |memory, at, _, _| memory.write(at, &[7; 8]));
                wrote.store(true, Ordering::SeqCst);
            });
            mapping.read(8, 8, |_, at, _, length| assert_eq!((at, length), (8, 8)));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!wrote.load(Ordering::SeqCst), "it waits");
            mapping.show(piece(&new));
        });
        let mut bytes = [0; 8];
        new.read(8, &mut bytes);
        assert_eq!(bytes, [7; 8], "it wrote what is shown now");
        old.read(8, &mut bytes);
        assert_eq!(bytes, [0; 8]);
    }

    // spec: memory §6.3
    #[test]
    fn a_writer_goes_on_where_it_was_when_no_other_pieces_come() {
        let memory = Memory::reserve(4096).unwrap();
        let piece = vec![Piece { memory: Arc::clone(&memory), offset: 0, bytes: 4096 }];
        let mapping = CpuMapping::new(4096, piece, None, NoAddresses::NoFiles);
        mapping.protect();
        std::thread::scope(|scope| {
            scope.spawn(|| mapping.write(8, 8, |memory, at, _, _| memory.write(at, &[7; 8])));
            mapping.release();
        });
        let mut bytes = [0; 8];
        memory.read(8, &mut bytes);
        assert_eq!(bytes, [7; 8]);
    }
}
