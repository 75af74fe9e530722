//! The free bytes of a file, as extents: taken wherever they are, in as many pieces as it takes, and given back in any. The owner of the
//! file asks; this module does not know what lies in it.

use std::collections::BTreeMap;

/// Free bytes by where they begin; neighbours are joined.
#[derive(Debug)]
pub(super) struct Extents {
    free: BTreeMap<u64, u64>,
    free_bytes: u64,
}

impl Extents {
    /// So many bytes, all free.
    pub fn new(bytes: u64) -> Extents {
        Extents { free: BTreeMap::from([(0, bytes)]), free_bytes: bytes }
    }

    /// So many bytes, the first ones that are free, as (offset, bytes); `None`: there are not so many.
    pub fn take(&mut self, bytes: u64) -> Option<Vec<(u64, u64)>> {
        self.free_bytes = self.free_bytes.checked_sub(bytes)?;
        let (mut taken, mut wanted) = (Vec::new(), bytes);
        while wanted > 0 {
            let (at, length) = self.free.pop_first().expect("there are as many as were counted");
            let some = length.min(wanted);
            if some < length {
                self.free.insert(at + some, length - some);
            }
            taken.push((at, some));
            wanted -= some;
        }
        Some(taken)
    }

    /// Bytes that were taken are free again.
    ///
    /// # Panics
    /// When some of them are free: the next who takes bytes would share them with another.
    pub fn give_back(&mut self, at: u64, bytes: u64) {
        let (mut from, mut to) = (at, at + bytes);
        if let Some((&before, &length)) = self.free.range(..to).next_back() {
            assert!(before + length <= at, "{bytes:#x} bytes at {at:#x} are given back twice");
            if before + length == at {
                self.free.remove(&before);
                from = before;
            }
        }
        if let Some(length) = self.free.remove(&to) {
            to += length;
        }
        self.free.insert(from, to - from);
        self.free_bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_where_they_are_free_and_come_back_whole() {
        let mut extents = Extents::new(10);
        let of = |extents: &mut Extents, bytes| extents.take(bytes);
        assert_eq!(of(&mut extents, 3), Some(vec![(0, 3)]));
        assert_eq!(of(&mut extents, 3), Some(vec![(3, 3)]));
        assert_eq!(of(&mut extents, 5), None, "four are left");
        extents.give_back(0, 3);
        assert_eq!(of(&mut extents, 5), Some(vec![(0, 3), (6, 2)]), "in two pieces");
        extents.give_back(7, 1);
        extents.give_back(3, 3);
        extents.give_back(6, 1);
        extents.give_back(0, 3);
        assert_eq!(of(&mut extents, 10), Some(vec![(0, 10)]));
        assert_eq!(of(&mut extents, 0), Some(Vec::new()));
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn bytes_come_back_once() {
        let mut extents = Extents::new(4);
        extents.take(4);
        extents.give_back(1, 2);
        extents.give_back(2, 1);
    }
}
