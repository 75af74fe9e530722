//! The driver's handles: numbers that rise and are never given twice, so that a stale one names nothing.
//!
//! Consecutive handles lie side by side in short chunks: a tree of single objects whose keys only rise leaves nearly half of its room empty.

use std::collections::BTreeMap;

/// Handles to a chunk.
const CHUNK: u64 = 32;

/// Objects by handle. 0 is never a handle.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    last: u64,
    chunks: BTreeMap<u64, Chunk<T>>,
}

/// The objects of consecutive handles, the first of which is a multiple of [`CHUNK`]. One of them at least is there.
#[derive(Debug)]
struct Chunk<T> {
    objects: Vec<Option<T>>,
    living: u64,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles { last: 0, chunks: BTreeMap::new() }
    }
}

impl<T> Handles<T> {
    /// Keeps an object; returns its handle.
    pub(crate) fn insert(&mut self, object: T) -> u64 {
        self.last += 1;
        let (chunk, at) = place(self.last);
        let chunk = self.chunks.entry(chunk).or_insert_with(|| Chunk { objects: Vec::new(), living: 0 });
        // Those before it may have gone with an earlier chunk of these handles.
        chunk.objects.resize_with(at, || None);
        chunk.objects.push(Some(object));
        chunk.living += 1;
        self.last
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&T> {
        let (chunk, at) = place(handle);
        self.chunks.get(&chunk)?.objects.get(at)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut T> {
        let (chunk, at) = place(handle);
        self.chunks.get_mut(&chunk)?.objects.get_mut(at)?.as_mut()
    }

    /// Takes an object out. The contract forbids the kernel to destroy an object that does not exist: that panics.
    pub(crate) fn remove(&mut self, handle: u64, what: &str) -> T {
        match self.take(handle) {
            Some(object) => object,
            None => panic!("the kernel destroyed {what} {handle}, which does not exist"),
        }
    }

    fn take(&mut self, handle: u64) -> Option<T> {
        let (place, at) = place(handle);
        let chunk = self.chunks.get_mut(&place)?;
        let object = chunk.objects.get_mut(at)?.take()?;
        chunk.living -= 1;
        if chunk.living == 0 {
            self.chunks.remove(&place);
        }
        Some(object)
    }

    /// In the order of creation.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.chunks.iter().flat_map(|(chunk, known)| {
            let numbered = (chunk * CHUNK..).zip(&known.objects);
            numbered.filter_map(|(handle, object)| Some((handle, object.as_ref()?)))
        })
    }

    /// In the order of creation, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.chunks.iter_mut().flat_map(|(chunk, known)| {
            let numbered = (chunk * CHUNK..).zip(&mut known.objects);
            numbered.filter_map(|(handle, object)| Some((handle, object.as_mut()?)))
        })
    }

    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
    }
}

/// The chunk of a handle, and its place there.
fn place(handle: u64) -> (u64, usize) {
    // CAST: less than a chunk.
    (handle / CHUNK, (handle % CHUNK) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_given_once_and_names_its_object_as_long_as_that_is_there() {
        let (mut handles, mut known) = (Handles::default(), BTreeMap::new());
        for step in 0..1_000u64 {
            let handle = handles.insert(step);
            assert_eq!(handle, step + 1);
            known.insert(handle, step);
            // Whole chunks go, and ones to which more are added afterwards.
            let gone = if step % 100 < 40 { handle } else { handle * 7 % 1_000 };
            assert_eq!(handles.take(gone), known.remove(&gone));
            assert!(handles.iter().map(|(handle, object)| (handle, *object)).eq(known.clone()), "all, in order");
        }
        handles.iter_mut().for_each(|(handle, object)| *object += handle);
        for handle in 0..1_100 {
            let expected = known.get(&handle).map(|object| object + handle);
            assert_eq!(handles.get(handle).copied(), expected);
            assert_eq!(handles.get_mut(handle).copied(), expected);
        }
        handles.clear();
        assert_eq!((handles.iter().count(), handles.insert(0)), (0, 1_001), "handles go on rising");
    }

    #[test]
    #[should_panic(expected = "the kernel destroyed a thing 1, which does not exist")]
    fn what_is_gone_is_destroyed_no_more() {
        let mut handles = Handles::default();
        let handle = handles.insert(());
        handles.remove(handle, "a thing");
        handles.remove(handle, "a thing");
    }
}
