//! Command buffers: their words, and for contexts without addresses the two lists that say what stands where (memory §7.2,
//! §7.3).

use kmt_calls::{AllocationListFlags, AllocationListItem, PatchLocationItem};
use softgpu_spec::Command;
use wddm_types::RawHandle;

/// An address in a command: its word, what it names, whether that is written.
pub type Operand = (usize, RawHandle, bool);

/// A command buffer with its lists.
#[derive(Clone, Debug)]
pub struct Listing {
    pub words: Vec<u64>,
    pub allocations: Vec<AllocationListItem>,
    pub places: Vec<PatchLocationItem>,
    /// Slots that the last command has bound: 1 to this.
    slots: u32,
}

impl Listing {
    /// Nothing yet; element 0 is NULL.
    pub fn new() -> Listing {
        let null = AllocationListItem { allocation: RawHandle::NONE, flags: AllocationListFlags::empty() };
        Listing { words: Vec::new(), allocations: vec![null], places: Vec::new(), slots: 0 }
    }

    /// Adds a command. It unbinds slots that the command before had bound and this one has not, so that the buffer can be split before
    /// every command.
    // spec: memory §7.3
    pub fn push(&mut self, command: &Command<'_>, operands: &[Operand]) {
        let at = self.words.len();
        command.encode(&mut self.words);
        // CAST: a command buffer is far below 4 GiB, and a command has two operands at most.
        let (split_offset, count) = (at as u32 * 8, operands.len() as u32);
        for slot_id in count + 1..=self.slots {
            self.places.push(PatchLocationItem {
                slot_id,
                patch_offset: split_offset,
                split_offset,
                ..PatchLocationItem::default()
            });
        }
        self.slots = count;
        for (slot_id, &(word, allocation, write)) in (1..).zip(operands) {
            let allocation_index = self.index_of(allocation, write);
            // CAST: as above.
            let patch_offset = (at + word) as u32 * 8;
            let place =
                PatchLocationItem { allocation_index, slot_id, patch_offset, split_offset, ..Default::default() };
            self.places.push(place);
        }
    }

    // spec: memory §7.2
    fn index_of(&mut self, allocation: RawHandle, write: bool) -> u32 {
        let found = self.allocations.iter().position(|item| item.allocation == allocation);
        let index = found.unwrap_or(self.allocations.len());
        if found.is_none() {
            self.allocations.push(AllocationListItem { allocation, flags: AllocationListFlags::empty() });
        }
        if write {
            self.allocations[index].flags |= AllocationListFlags::WRITE_OPERATION;
        }
        // CAST: a list is far below 2^32 entries.
        index as u32
    }
}
