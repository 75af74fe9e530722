//! Mappings that a client holds: locked bytes, a doorbell.

use std::sync::Arc;

use kmt_calls::Mapped;
use shared_words::{HardwareBarrier, Memory, Word, doorbell};
use wddm_types::{Luid, PAGE_BYTES, WordAddress};

use crate::Link;

/// Bytes of a locked allocation.
#[derive(Clone, Debug)]
pub struct MappedBytes {
    memory: Arc<Memory>,
    mapped: Mapped,
}

impl MappedBytes {
    /// Maps what a lock answered.
    pub fn new(link: &dyn Link, mapped: Mapped) -> MappedBytes {
        MappedBytes { memory: Arc::clone(link.system_memory()), mapped }
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.mapped.size_bytes
    }

    /// Writes bytes.
    ///
    /// # Panics
    /// When the range lies outside the allocation.
    pub fn write(&self, offset: u64, from: &[u8]) {
        self.pieces(offset, from.len() as u64, |address, at, length| {
            self.memory.write(address, &from[at as usize..(at + length) as usize]);
        });
    }

    /// Reads bytes.
    ///
    /// # Panics
    /// When the range lies outside the allocation.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let length = into.len() as u64;
        self.pieces(offset, length, |address, at, length| {
            self.memory.read(address, &mut into[at as usize..(at + length) as usize]);
        });
    }

    /// Writes 64-bit words.
    ///
    /// # Panics
    /// When the range lies outside the allocation or is not aligned to 8 bytes.
    pub fn write_words(&self, offset: u64, words: &[u64]) {
        self.fill_words(offset, words.len() as u64, |index| words[index as usize]);
    }

    /// Writes `count` 64-bit words, each computed from its index.
    ///
    /// # Panics
    /// When the range lies outside the allocation or is not aligned to 8 bytes.
    pub fn fill_words(&self, offset: u64, count: u64, mut value: impl FnMut(u64) -> u64) {
        self.pieces(offset, count * 8, |address, at, length| {
            self.memory.store_words(address, length / 8, |index| value(at / 8 + index));
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

    /// Calls `piece(system address, offset in the request, length)` for each physically consecutive part.
    fn pieces(&self, offset: u64, length: u64, mut piece: impl FnMut(u64, u64, u64)) {
        assert!(
            offset.checked_add(length).is_some_and(|end| end <= self.mapped.size_bytes),
            "{length} bytes at {offset} of a mapping of {}",
            self.mapped.size_bytes
        );
        let (mut at, mut run_start) = (0, 0);
        for run in &self.mapped.runs {
            let run_end = run_start + run.count.bytes();
            while at < length && offset + at < run_end {
                let here = (run_end - offset - at).min(length - at);
                piece(run.first * PAGE_BYTES + offset + at - run_start, at, here);
                at += here;
            }
            run_start = run_end;
        }
        assert_eq!(at, length, "the runs of a mapping cover its size");
    }
}

/// A connected doorbell with the word that its owner keeps for the kernel.
#[derive(Clone)]
pub struct Doorbell {
    link: Arc<dyn Link>,
    adapter: Luid,
    page: Arc<Memory>,
    offset: u64,
    last_queued: WordAddress,
}

impl Doorbell {
    /// The doorbell at byte `offset` of the adapter's doorbell page; `None` if the adapter has gone or there is none there.
    pub fn new(link: Arc<dyn Link>, adapter: Luid, offset: u64, last_queued: WordAddress) -> Option<Doorbell> {
        let page = link.doorbell_page(adapter)?;
        let inside = offset.is_multiple_of(doorbell::DOORBELL_BYTES) && page.contains(offset, doorbell::DOORBELL_BYTES);
        inside.then_some(Doorbell { link, adapter, page, offset, last_queued })
    }

    /// Publishes work (sync §3.11): the progress value that it will complete, then the ring's write pointer.
    // spec: sync §3.11, sync §3.17
    pub fn ring(&self, last_queued_value: u64, write_pointer: u64) {
        Word::store(self.link.system_memory().word(self.last_queued.0), last_queued_value);
        let value = self.page.word(self.offset + doorbell::VALUE_OFFSET);
        let asleep = self.page.word(self.offset + doorbell::ASLEEP_OFFSET);
        if doorbell::ring::<HardwareBarrier>(value, asleep, write_pointer) {
            // CAST: a doorbell page holds far fewer than 2^32 doorbells.
            self.link.doorbell_rung(self.adapter, (self.offset / doorbell::DOORBELL_BYTES) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_types::{PageRun, Pages};

    #[test]
    fn bytes_cross_from_run_to_run() {
        let memory = Memory::reserve(8 * PAGE_BYTES).unwrap();
        let runs = vec![PageRun { first: 5, count: Pages(1) }, PageRun { first: 2, count: Pages(2) }];
        let bytes = MappedBytes { memory: Arc::clone(&memory), mapped: Mapped { runs, size_bytes: 3 * PAGE_BYTES } };
        bytes.fill_words(PAGE_BYTES - 16, 4, |index| 100 + index);
        assert_eq!([bytes.read_word(PAGE_BYTES - 8), bytes.read_word(PAGE_BYTES)], [101, 102]);
        let mut direct = [0; 8];
        memory.read(2 * PAGE_BYTES, &mut direct);
        assert_eq!(u64::from_le_bytes(direct), 102, "the second run begins at system page 2");
    }
}
