//! Locked bytes as a client holds them.

use std::sync::Arc;

use kmt_calls::Mapped;
use shared_words::AddressRange;

use crate::Link;
use crate::cpu_mapping::CpuMapping;

/// Bytes of a locked allocation. They are the same bytes wherever the kernel moves them; a write that meets a move waits
/// for its end.
#[derive(Clone, Debug)]
pub struct MappedBytes {
    mapping: Arc<CpuMapping>,
}

impl MappedBytes {
    /// The bytes of a lock, by the kernel's answer to it.
    ///
    /// # Panics
    /// When it is no lock of this process.
    pub fn new(link: &dyn Link, mapped: Mapped) -> MappedBytes {
        MappedBytes { mapping: link.mapping(mapped.mapping).expect("a lock of this process") }
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.mapping.size_bytes()
    }

    /// The addresses where the bytes stand as long as the lock lasts, if the host maps them. Else they are reached by the
    /// other methods only.
    pub fn addresses(&self) -> Option<&AddressRange> {
        self.mapping.range().ok()
    }

    /// Writes bytes.
    ///
    /// # Panics
    /// When the range lies outside the allocation.
    pub fn write(&self, offset: u64, from: &[u8]) {
        self.check(offset, from.len() as u64);
        if let Ok(range) = self.mapping.range() {
            return range.write(offset, from);
        }
        self.mapping.write(offset, from.len() as u64, |memory, address, at, length| {
            memory.write(address, &from[at as usize..(at + length) as usize]);
        });
    }

    /// Reads bytes.
    ///
    /// # Panics
    /// When the range lies outside the allocation.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let length = into.len() as u64;
        self.check(offset, length);
        if let Ok(range) = self.mapping.range() {
            return range.read(offset, into);
        }
        self.mapping.read(offset, length, |memory, address, at, length| {
            memory.read(address, &mut into[at as usize..(at + length) as usize]);
        });
    }

    /// Writes 64-bit words.
    ///
    /// # Panics
    /// When the range lies outside the allocation or is not aligned to 8 bytes.
    pub fn write_words(&self, offset: u64, words: &[u64]) {
        self.fill_words(offset, words.len() as u64, |index| words[index as usize]);
    }

    /// Writes `count` 64-bit words, each computed from its index. The computation calls no kernel: a move of these bytes
    /// waits for it, and the kernel for the move.
    ///
    /// # Panics
    /// When the range lies outside the allocation or is not aligned to 8 bytes.
    pub fn fill_words(&self, offset: u64, count: u64, mut value: impl FnMut(u64) -> u64) {
        let length = count.checked_mul(8).expect("a range of words");
        self.check(offset, length);
        if let Ok(range) = self.mapping.range() {
            return range.store_words(offset, count, value);
        }
        self.mapping.write(offset, length, |memory, address, at, length| {
            memory.store_words(address, length / 8, |index| value(at / 8 + index));
        });
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn read_word(&self, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        self.read(offset, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn check(&self, offset: u64, length: u64) {
        let size = self.size_bytes();
        let inside = offset.checked_add(length).is_some_and(|end| end <= size);
        assert!(inside, "{length} bytes at {offset} of a mapping of {size}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_mapping::Piece;
    use shared_words::Memory;

    #[test]
    fn bytes_cross_from_piece_to_piece() {
        let (memory, other) = (Memory::reserve(8 * 4096).unwrap(), Memory::reserve(8 * 4096).unwrap());
        let piece = |memory: &Arc<Memory>, page: u64, pages: u64| Piece {
            memory: Arc::clone(memory),
            offset: page * 4096,
            bytes: pages * 4096,
        };
        let pieces = vec![piece(&memory, 5, 1), piece(&other, 2, 2)];
        let bytes =
            MappedBytes { mapping: Arc::new(CpuMapping::new(3 * 4096, pieces, None, crate::NoAddresses::NoFiles)) };
        bytes.fill_words(4096 - 16, 4, |index| 100 + index);
        assert_eq!([bytes.read_word(4096 - 8), bytes.read_word(4096)], [101, 102]);
        let mut direct = [0; 8];
        other.read(2 * 4096, &mut direct);
        assert_eq!(u64::from_le_bytes(direct), 102, "the second piece begins at page 2 of the other memory");
    }
}
