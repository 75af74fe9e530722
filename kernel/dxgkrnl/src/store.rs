//! Objects of one kind by number. Numbers rise, so neighbours were made together: they lie side by side in short
//! chunks, and the tree above them stays so small that it is in the caches also when there are a million objects.

use std::collections::BTreeMap;
use std::marker::PhantomData;

/// Numbers to a chunk. Policy: a single old object keeps no more than its chunk from being given back.
const CHUNK: u64 = 32;

/// The number of an object of one kind. The kernel sees it as an integer only at its borders: in events, in the handles that it gives its
/// driver, in the texts for people.
pub trait ObjectNumber: Copy {
    /// The number that stands outside as this integer: one that the kernel gave away before, or a claim that a look into the store tests.
    fn from_raw(raw: u64) -> Self;

    /// How it stands outside.
    fn raw(self) -> u64;
}

/// Declares the type of the numbers of one kind of objects.
macro_rules! object_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $crate::store::ObjectNumber for $name {
            fn from_raw(raw: u64) -> $name {
                $name(raw)
            }

            fn raw(self) -> u64 {
                self.0
            }
        }
    };
}
pub(crate) use object_number;

/// Objects of one kind by their own numbers. Numbers are never used twice, so that a trace names each for ever.
pub struct Store<N, T> {
    chunks: BTreeMap<u64, Chunk<T>>,
    next: u64,
    numbers: PhantomData<N>,
}

/// The objects of consecutive numbers, the first of which is a multiple of [`CHUNK`].
struct Chunk<T> {
    objects: Vec<Option<T>>,
    /// How many are there; a chunk has at least one.
    living: u64,
}

impl<N, T> Default for Store<N, T> {
    fn default() -> Self {
        Store { chunks: BTreeMap::new(), next: 1, numbers: PhantomData }
    }
}

impl<N: ObjectNumber, T> Store<N, T> {
    /// The number that the next object gets.
    pub fn next_number(&self) -> N {
        N::from_raw(self.next)
    }

    /// Adds an object.
    pub fn insert(&mut self, object: T) -> N {
        let number = self.next_number();
        self.next += 1;
        let (chunk, at) = place(number);
        let chunk = self.chunks.entry(chunk).or_insert_with(|| Chunk { objects: Vec::new(), living: 0 });
        debug_assert!(chunk.objects.len() <= at, "numbers rise: {} are before place {at}", chunk.objects.len());
        // Those before it may have gone with an earlier chunk of these numbers.
        chunk.objects.resize_with(at, || None);
        chunk.objects.push(Some(object));
        chunk.living += 1;
        number
    }

    /// The object of a number, if it still is.
    pub fn get(&self, number: N) -> Option<&T> {
        let (chunk, at) = place(number);
        self.chunks.get(&chunk)?.objects.get(at)?.as_ref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: N) -> Option<&mut T> {
        let (chunk, at) = place(number);
        self.chunks.get_mut(&chunk)?.objects.get_mut(at)?.as_mut()
    }

    /// Takes an object out.
    pub fn remove(&mut self, number: N) -> Option<T> {
        let (place, at) = place(number);
        let chunk = self.chunks.get_mut(&place)?;
        let object = chunk.objects.get_mut(at)?.take()?;
        debug_assert!(chunk.living > 0, "a chunk counts what is in it");
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
    pub fn iter(&self) -> impl Iterator<Item = (N, &T)> {
        self.chunks.iter().flat_map(|(chunk, known)| {
            let numbered = (chunk * CHUNK..).zip(&known.objects);
            numbered.filter_map(|(number, object)| object.as_ref().map(|object| (N::from_raw(number), object)))
        })
    }
}

impl<N: ObjectNumber, T> std::ops::Index<N> for Store<N, T> {
    type Output = T;
    /// # Panics
    /// For an object that is gone: inside the kernel numbers are held only as long as their objects.
    fn index(&self, number: N) -> &T {
        self.get(number).expect("an object that the kernel still refers to")
    }
}

impl<N: ObjectNumber, T> std::ops::IndexMut<N> for Store<N, T> {
    fn index_mut(&mut self, number: N) -> &mut T {
        self.get_mut(number).expect("an object that the kernel still refers to")
    }
}

/// The chunk of a number, and its place there.
fn place(number: impl ObjectNumber) -> (u64, usize) {
    let number = number.raw();
    // CAST: less than a chunk.
    (number / CHUNK, (number % CHUNK) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    object_number! {
        /// An object of these tests.
        Number
    }

    #[test]
    fn numbers_are_never_used_twice_and_what_is_gone_is_gone() {
        let mut store: Store<Number, u64> = Store::default();
        let mut known = BTreeMap::new();
        for step in 0..1_000u64 {
            let number = store.insert(step);
            assert_eq!((number, store.next_number()), (Number(step + 1), Number(step + 2)));
            known.insert(number, step);
            // Whole chunks go, and ones to which more are added afterwards.
            let gone = if step % 100 < 40 { number } else { Number(number.raw() * 7 % 1_000) };
            assert_eq!(store.remove(gone), known.remove(&gone));
            assert_eq!(store.remove(gone), None);
            assert!(store.iter().map(|(number, object)| (number, *object)).eq(known.clone()), "all, by number");
        }
        for number in (0..1_100).map(Number) {
            assert_eq!(store.get(number), known.get(&number));
            assert_eq!(store.get_mut(number), known.get_mut(&number));
        }
        for (number, object) in known {
            assert_eq!(store.remove(number), Some(object));
        }
        assert!(store.is_empty() && store.chunks.is_empty());
    }
}
