//! Memory that several parties reach at once, addressed by byte offset: system memory, a device's local memory, its
//! doorbell page. The only place of the project where raw pointers into shared memory are followed.
//!
//! A [`Memory`] is reserved whole and filled by the operating system page by page at first touch, so that a laptop can describe a device
//! of 141 GB: an untouched page costs nothing. It starts as zeros.
//!
//! Bytes move by raw copies, words by atomics. Two parties that write the same bytes at the same time get what two DMA
//! engines would give them: some mixture. Nothing here ever makes a Rust reference to plain bytes, so no such mixture can
//! break an invariant of the language's references; only the 64-bit words are referenced, and those are atomics.
#![allow(unsafe_code)]

mod arena;
mod client_page;
mod content;
mod extents;
mod given;
mod lent;
mod lent_file;
mod received;

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

pub use self::client_page::ClientPage;
pub use self::given::{GivenError, GivenFile};
pub(crate) use self::lent::Backing;
use self::lent::Lent;
pub use self::lent::{DetachedPages, LentPages};
pub use self::lent_file::{ClientAccess, LentFile};
pub use self::received::ReadOnlyMemory;

/// Why memory could not be had.
#[derive(Debug)]
pub struct MemoryError {
    pub(crate) bytes: u64,
    pub(crate) source: rustix::io::Errno,
}

impl MemoryError {
    /// Whether this process lacks what the memory takes, a descriptor or addresses; else the memory is not what it should be.
    pub fn is_scarcity(&self) -> bool {
        use rustix::io::Errno;
        matches!(self.source, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
    }
}

impl std::fmt::Display for MemoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the operating system refused {} bytes of memory or addresses: {}", self.bytes, self.source)
    }
}

impl std::error::Error for MemoryError {}

/// A range of shared memory. Alone on its lines: every access reads the base, and a neighbour that is written would take it away.
#[repr(align(128))]
pub struct Memory {
    base: NonNull<u8>,
    bytes: u64,
    /// The file behind it, if it can be mapped in several places.
    file: Option<OwnedFd>,
    /// Pages of it that lie in files of their own.
    lent: Lent,
}

// SAFETY: the pointer is to a mapping that lives as long as the value; every access goes through raw copies or atomics.
unsafe impl Send for Memory {}
// SAFETY: as above; no method hands out a reference to plain bytes.
unsafe impl Sync for Memory {}

impl Memory {
    /// Reserves `bytes` (rounded up to a page) of zeros. Nothing is committed until it is touched.
    ///
    /// # Errors
    /// When the operating system refuses the address space.
    pub fn reserve(bytes: u64) -> Result<Arc<Memory>, MemoryError> {
        let bytes = bytes.max(1).next_multiple_of(4096);
        let length = usize::try_from(bytes).map_err(|_| MemoryError { bytes, source: rustix::io::Errno::NOMEM })?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let base = mapped.map_err(|source| MemoryError { bytes, source })?;
        // Huge pages where the system gives them: the first touch of 4-KB pages is most of a short run's time.
        // SAFETY: the range is the mapping made above; advice changes no content.
        let _ = unsafe { rustix::mm::madvise(base, length, rustix::mm::Advice::LinuxHugepage) };
        let base = NonNull::new(base.cast::<u8>()).expect("a mapping is never at address 0");
        Ok(Arc::new(Memory { base, bytes, file: None, lent: Lent::default() }))
    }

    /// The same as a memory file: its pages can be shown at other addresses too ([`crate::AddressRange`]). The first touch
    /// of a page costs more than in [`Memory::reserve`].
    ///
    /// # Errors
    /// When the operating system refuses the file or the address space.
    pub fn reserve_file(bytes: u64) -> Result<Arc<Memory>, MemoryError> {
        let bytes = bytes.max(1).next_multiple_of(4096);
        let refused = |source| MemoryError { bytes, source };
        let length = usize::try_from(bytes).map_err(|_| refused(rustix::io::Errno::NOMEM))?;
        let file = memfd_create("openwddm", MemfdFlags::CLOEXEC).map_err(refused)?;
        ftruncate(&file, bytes).map_err(refused)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice, of a file that only this value can resize.
        let mapped = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags, &file, 0) };
        let base = NonNull::new(mapped.map_err(refused)?.cast::<u8>()).expect("a mapping is never at address 0");
        Ok(Arc::new(Memory { base, bytes, file: Some(file), lent: Lent::default() }))
    }

    /// The file behind it, if it is a memory file.
    pub(crate) fn file(&self) -> Option<&OwnedFd> {
        self.file.as_ref()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether `length` bytes from `offset` lie inside.
    #[inline]
    pub fn contains(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.bytes)
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    /// When the offset is not a multiple of 8 or lies outside: offsets from outside are checked before they come here.
    #[inline]
    pub fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && self.contains(offset, 8), "no word at {offset:#x} of {:#x}", self.bytes);
        // SAFETY: in range, aligned (the base is page aligned), alive as long as `self`, and only ever used as an atomic
        // or through raw copies.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast::<u64>()) }
    }

    /// The `count` 64-bit words from `offset` on: looked at one by one, checked once.
    ///
    /// # Panics
    /// When the offset is not a multiple of 8 or one of them lies outside.
    #[inline]
    pub fn words(&self, offset: u64, count: u64) -> &[AtomicU64] {
        assert!(
            offset.is_multiple_of(8) && count <= self.bytes / 8 && self.contains(offset, count * 8),
            "words outside memory"
        );
        // SAFETY: in range, aligned (the base is page aligned), alive as long as `self`, and only ever used as atomics or through
        // raw copies. The length fits because it is within a mapping.
        unsafe { std::slice::from_raw_parts(self.at(offset).cast::<AtomicU64>(), count as usize) }
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// When the range lies outside.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        assert!(self.contains(offset, into.len() as u64), "read outside memory");
        // SAFETY: the source range is in the mapping (checked), the destination is the caller's own exclusive slice.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset), into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// When the range lies outside.
    pub fn write(&self, offset: u64, from: &[u8]) {
        assert!(self.contains(offset, from.len() as u64), "write outside memory");
        // SAFETY: the destination range is in the mapping (checked); no reference to its plain bytes exists.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at(offset), from.len()) }
    }

    /// Copies `length` bytes from `source` at `source_offset` to `offset` here. The ranges may overlap.
    ///
    /// # Panics
    /// When a range lies outside.
    pub fn copy_from(&self, offset: u64, source: &Memory, source_offset: u64, length: u64) {
        assert!(self.contains(offset, length) && source.contains(source_offset, length), "copy outside memory");
        // SAFETY: both ranges are in their mappings (checked), `copy` allows overlap. The length fits because it is within
        // a mapping.
        unsafe { std::ptr::copy(source.at(source_offset), self.at(offset), length as usize) }
    }

    /// Fills `length` bytes with a repeated 32-bit pattern (little-endian from the start).
    ///
    /// # Panics
    /// When the range lies outside or is not aligned to 4 bytes.
    pub fn fill(&self, offset: u64, length: u64, pattern: u32) {
        assert!(self.contains(offset, length), "fill outside memory");
        assert!(offset.is_multiple_of(4) && length.is_multiple_of(4), "a fill is made of 32-bit words");
        let bytes = pattern.to_le_bytes();
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            // SAFETY: in range (checked); no reference to plain bytes exists.
            unsafe { std::ptr::write_bytes(self.at(offset), bytes[0], length as usize) }
            return;
        }
        let words = self.at(offset).cast::<u32>();
        for index in 0..length as usize / 4 {
            // SAFETY: in range and aligned (checked).
            unsafe { words.add(index).write_volatile(u32::from_le_bytes(bytes)) }
        }
    }

    /// Calls `change` with each 64-bit word's index from `offset` and stores what it returns. For bulk content that
    /// no other party touches meanwhile (an engine filling an allocation).
    ///
    /// # Panics
    /// When the range lies outside or is not aligned to 8 bytes.
    pub fn store_words(&self, offset: u64, count: u64, mut value: impl FnMut(u64) -> u64) {
        assert!(offset.is_multiple_of(8) && self.contains(offset, count * 8), "words outside memory");
        let words = self.at(offset).cast::<u64>();
        for index in 0..count {
            // SAFETY: in range and aligned (checked).
            unsafe { words.add(index as usize).write(value(index)) }
        }
    }

    /// Calls `check` with each word's index and value until it returns false; returns the index where it stopped.
    ///
    /// # Panics
    /// When the range lies outside or is not aligned to 8 bytes.
    pub fn scan_words(&self, offset: u64, count: u64, mut check: impl FnMut(u64, u64) -> bool) -> Option<u64> {
        assert!(offset.is_multiple_of(8) && self.contains(offset, count * 8), "words outside memory");
        let words = self.at(offset).cast::<u64>();
        // SAFETY: in range and aligned (checked).
        (0..count).find(|index| !check(*index, unsafe { words.add(*index as usize).read() }))
    }

    /// Where the byte at `offset` stands.
    fn address(&self, offset: u64) -> NonNull<u8> {
        debug_assert!(offset < self.bytes);
        // SAFETY: callers have checked that `offset` is inside the mapping, which is one allocated object.
        unsafe { self.base.add(offset as usize) }
    }

    #[inline]
    fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.bytes);
        // SAFETY: callers have checked that `offset` is inside the mapping, which is one allocated object.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `reserve` with this base and length, and nothing can refer to it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes as usize) };
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes)
    }
}

/// A word that its holder may read and not write: a fence's CurrentValue as user mode sees it (sync §1.4).
#[derive(Clone, Debug)]
pub struct ReadOnlyWord {
    memory: Arc<Memory>,
    offset: u64,
}

impl ReadOnlyWord {
    /// The word at `offset` of `memory`.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn new(memory: Arc<Memory>, offset: u64) -> ReadOnlyWord {
        let _ = memory.word(offset);
        ReadOnlyWord { memory, offset }
    }

    /// Where it stands, as long as this is kept. It is shared: a program may only look at it by volatile or atomic loads.
    pub fn address(&self) -> NonNull<u64> {
        NonNull::from(self.memory.word(self.offset)).cast()
    }

    /// The value now.
    #[inline]
    pub fn load(&self) -> u64 {
        // A word that is mapped for reading only takes relaxed loads: what others may be made of is the compiler's business.
        let value = self.memory.word(self.offset).load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        value
    }
}

#[cfg(test)]
pub(crate) mod tests;
