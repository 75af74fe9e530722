//! Objects of one kind by number. Numbers rise, so neighbours were made together: they lie side by side in short
//! chunks, and the tree above them stays so small that it is in the caches also when there are a million objects.

use std::collections::BTreeMap;

/// Numbers to a chunk. Policy: a single old object keeps no more than its chunk from being given back.
const CHUNK: u64 = 32;

/// Objects of one kind by number. Numbers are never used twice, so that a trace names each for ever.
pub struct Store<T> {
    chunks: BTreeMap<u64, Chunk<T>>,
    next: u64,
}

/// The objects of consecutive numbers, the first of which is a multiple of [`CHUNK`].
struct Chunk<T> {
    objects: Vec<Option<T>>,
    /// How many are there; a chunk has at least one.
    living: u64,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store { chunks: BTreeMap::new(), next: 1 }
    }
}

impl<T> Store<T> {
    /// The number that the next object gets.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Adds an object.
    pub fn insert(&mut self, object: T) -> u64 {
        let number = self.next;
        self.next += 1;
        let (chunk, at) = place(number);
        let chunk = self.chunks.entry(chunk).or_insert_with(|| Chunk { objects: Vec::new(), living: 0 });
        // Those before it may have gone with an earlier chunk of these numbers.
        chunk.objects.resize_with(at, || None);
        chunk.objects.push(Some(object));
        chunk.living += 1;
        number
    }

    /// The object of a number, if it still is.
    pub fn get(&self, number: u64) -> Option<&T> {
        let (chunk, at) = place(number);
        self.chunks.get(&chunk)?.objects.get(at)?.as_ref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (chunk, at) = place(number);
        self.chunks.get_mut(&chunk)?.objects.get_mut(at)?.as_mut()
    }

    /// Takes an object out.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let (place, at) = place(number);
        let chunk = self.chunks.get_mut(&place)?;
        let object = chunk.objects.get_mut(at)?.take()?;
        chunk.living -= 1;
        if chunk.living == 0 {
            self.chunks.remove(&place);
        }
        Some(object)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.chunks.iter().flat_map(|(chunk, known)| {
            let numbered = (chunk * CHUNK..).zip(&known.objects);
            numbered.filter_map(|(number, object)| object.as_ref().map(|object| (number, object)))
        })
    }
}

impl<T> std::ops::Index<u64> for Store<T> {
    type Output = T;
    /// # Panics
    /// For an object that is gone: inside the kernel numbers are held only as long as their objects.
    fn index(&self, number: u64) -> &T {
        self.get(number).expect("an object that the kernel still refers to")
    }
}

impl<T> std::ops::IndexMut<u64> for Store<T> {
    fn index_mut(&mut self, number: u64) -> &mut T {
        self.get_mut(number).expect("an object that the kernel still refers to")
    }
}

/// The chunk of a number, and its place there.
fn place(number: u64) -> (u64, usize) {
    // CAST: less than a chunk.
    (number / CHUNK, (number % CHUNK) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_never_used_twice_and_what_is_gone_is_gone() {
        let mut store = Store::default();
        let mut known = BTreeMap::new();
        for step in 0..1_000u64 {
            let number = store.insert(step);
            assert_eq!((number, store.next_number()), (step + 1, step + 2));
            known.insert(number, step);
            // Whole chunks go, and ones to which more are added afterwards.
            let gone = if step % 100 < 40 { number } else { number * 7 % 1_000 };
            assert_eq!(store.remove(gone), known.remove(&gone));
            assert_eq!(store.remove(gone), None);
            assert!(store.iter().map(|(number, object)| (number, *object)).eq(known.clone()), "all, by number");
        }
        for number in 0..1_100 {
            assert_eq!(store.get(number), known.get(&number));
            assert_eq!(store.get_mut(number), known.get_mut(&number));
        }
        for (number, object) in known {
            assert_eq!(store.remove(number), Some(object));
        }
        assert!(store.is_empty() && store.chunks.is_empty());
    }
}
