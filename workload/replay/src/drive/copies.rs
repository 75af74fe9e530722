//! Records which adapters have the current content of a storage. An adapter that reads it gets a copy; after a write the writing
//! adapter has the only one.

use std::collections::BTreeMap;

use crate::steps::StorageId;

/// The adapters of each storage that has content, as bits: at most 64 adapters share a machine.
#[derive(Default)]
pub struct Copies {
    at: BTreeMap<StorageId, u64>,
}

impl Copies {
    /// An adapter that has the content, for one that wants to read it and has not; `None`: the reader has it, or no adapter has written it.
    pub fn source_for(&self, id: StorageId, reader: usize) -> Option<usize> {
        let holders = *self.at.get(&id)?;
        let has = holders >> reader & 1 == 1;
        (!has).then_some(holders.trailing_zeros() as usize)
    }

    /// An adapter has got a copy.
    pub fn arrived(&mut self, id: StorageId, at: usize) {
        *self.at.entry(id).or_default() |= 1 << at;
    }

    /// An adapter writes it: the copies on all others are stale.
    pub fn written(&mut self, id: StorageId, by: usize) {
        self.at.insert(id, 1 << by);
    }

    /// Drops a storage that died.
    pub fn forget(&mut self, id: StorageId) {
        self.at.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_get_a_copy_and_a_writer_has_the_only_one() {
        let (id, mut copies) = (StorageId { step: 0, storage: 7 }, Copies::default());
        assert_eq!(copies.source_for(id, 1), None, "there is nothing to be copied");
        copies.written(id, 2);
        assert_eq!((copies.source_for(id, 2), copies.source_for(id, 0)), (None, Some(2)));
        copies.arrived(id, 0);
        assert_eq!((copies.source_for(id, 0), copies.source_for(id, 1)), (None, Some(0)));
        copies.written(id, 1);
        assert_eq!([0, 1, 2].map(|reader| copies.source_for(id, reader)), [Some(1), None, Some(1)]);
        copies.forget(id);
        assert_eq!(copies.source_for(id, 0), None);
    }
}
