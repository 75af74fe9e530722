//! Handle tables: 32-bit names of objects in one process. They look as those of Windows do: the two highest bits are never both 0, the low
//! six are 0, and each new handle is the one before plus 0x40, whatever has been closed meanwhile, so that a stale name is told.
//!
//! A name comes again when all [`CYCLE`] have been given, fifty million of them, and what had it is gone.

use wddm_types::RawHandle;

/// Bits of a handle below its number: 0 in a process's own, 2 in a global one.
pub const LOW_BITS: u32 = 6;
/// Bits of the number.
const NUMBER_BITS: u32 = 24;
/// Names before one comes again: the two highest bits count the rounds, 1 to 3.
const CYCLE: u32 = 3 << NUMBER_BITS;
/// Most handles of one process.
pub const HANDLES_MAX: usize = 1 << 20;
/// Numbers to a chunk: a lookup is one step to the chunk and one within it, and the directory of all chunks that there can be is small.
const CHUNK: u32 = 256;

const _: () = assert!(LOW_BITS + NUMBER_BITS + 2 == 32 && HANDLES_MAX < CYCLE as usize && CYCLE.is_multiple_of(CHUNK));

/// The objects of consecutive numbers.
struct Chunk<T> {
    objects: [Option<T>; CHUNK as usize],
    living: u32,
}

/// The handles of one process.
pub struct HandleTable<T> {
    /// By number; as long as the highest number that there has been asks for.
    chunks: Vec<Option<Box<Chunk<T>>>>,
    /// What the next handle is called, unless an object has the name still.
    next: u32,
    living: usize,
    /// Of these, those that `counts` picks.
    counted: usize,
    counts: fn(&T) -> bool,
    /// Most that may live.
    most: usize,
}

impl<T> Default for HandleTable<T> {
    fn default() -> Self {
        HandleTable::counting(|_| false)
    }
}

impl<T> HandleTable<T> {
    /// An empty table that knows how many of its objects are such.
    pub fn counting(counts: fn(&T) -> bool) -> HandleTable<T> {
        HandleTable { chunks: Vec::new(), next: 0, living: 0, counted: 0, counts, most: HANDLES_MAX }
    }

    /// How many handles there are.
    pub fn len(&self) -> usize {
        self.living
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.living == 0
    }

    /// How many of them name what is counted.
    pub fn counted(&self) -> usize {
        self.counted
    }

    /// From now on there may be so many more; never more than [`HANDLES_MAX`] altogether.
    pub fn allow_more(&mut self, more: u64) {
        // CAST: not above a table's limit.
        self.most = self.living + more.min((HANDLES_MAX - self.living) as u64) as usize;
    }

    /// Names an object; `None` when the table is full.
    pub fn insert(&mut self, object: T) -> Option<RawHandle> {
        if !self.has_room(1) {
            return None;
        }
        let number = loop {
            let number = self.next;
            self.next = (number + 1) % CYCLE;
            if self.at(number).is_none() {
                break number;
            }
        };
        self.counted += usize::from((self.counts)(&object));
        let at = (number / CHUNK) as usize;
        if self.chunks.len() <= at {
            self.chunks.resize_with(at + 1, || None);
        }
        let empty = || Box::new(Chunk { objects: [const { None }; CHUNK as usize], living: 0 });
        let chunk = self.chunks[at].get_or_insert_with(empty);
        chunk.objects[(number % CHUNK) as usize] = Some(object);
        chunk.living += 1;
        self.living += 1;
        Some(name(number))
    }

    /// Whether so many more objects can be named.
    pub fn has_room(&self, count: usize) -> bool {
        self.most.saturating_sub(self.living) >= count
    }

    /// The object of a handle; `None` for a name that is unknown, stale or 0.
    pub fn get(&self, handle: RawHandle) -> Option<&T> {
        self.at(number(handle)?)
    }

    fn at(&self, number: u32) -> Option<&T> {
        self.chunks.get((number / CHUNK) as usize)?.as_ref()?.objects[(number % CHUNK) as usize].as_ref()
    }

    /// The handles with what they name.
    pub fn iter(&self) -> impl Iterator<Item = (RawHandle, &T)> {
        let there = (0..).zip(&self.chunks).filter_map(|(chunk, known)| Some((chunk, known.as_deref()?)));
        there.flat_map(|(chunk, known): (u32, &Chunk<T>)| {
            let numbered = (chunk * CHUNK..).zip(&known.objects);
            numbered.filter_map(|(number, object)| object.as_ref().map(|object| (name(number), object)))
        })
    }

    /// Forgets a handle.
    pub fn remove(&mut self, handle: RawHandle) -> Option<T> {
        let number = number(handle)?;
        let at = (number / CHUNK) as usize;
        let chunk = self.chunks.get_mut(at)?.as_mut()?;
        let object = chunk.objects[(number % CHUNK) as usize].take()?;
        chunk.living -= 1;
        self.living -= 1;
        self.counted -= usize::from((self.counts)(&object));
        // Where the next names come from stays: whoever makes one object after the other makes no chunk for each. It is not forgotten,
        // for the last of its names is somebody's when the next ones come from elsewhere.
        if chunk.living == 0 && at != (self.next / CHUNK) as usize {
            self.chunks[at] = None;
        }
        Some(object)
    }

    /// Forgets every handle whose object `gone` says is gone.
    pub fn remove_where(&mut self, mut gone: impl FnMut(&T) -> bool) {
        let next = (self.next / CHUNK) as usize;
        for (at, place) in self.chunks.iter_mut().enumerate() {
            let Some(chunk) = place else { continue };
            for object in &mut chunk.objects {
                if let Some(object) = object.take_if(|object| gone(object)) {
                    chunk.living -= 1;
                    self.living -= 1;
                    self.counted -= usize::from((self.counts)(&object));
                }
            }
            if chunk.living == 0 && at != next {
                *place = None;
            }
        }
    }
}

/// The round in the two highest bits, so that no handle is 0.
fn name(number: u32) -> RawHandle {
    let (round, number) = (number >> NUMBER_BITS, number & ((1 << NUMBER_BITS) - 1));
    RawHandle((round + 1) << (32 - 2) | number << LOW_BITS)
}

fn number(handle: RawHandle) -> Option<u32> {
    let round = (handle.0 >> (32 - 2)).checked_sub(1)?;
    let low = handle.0 & ((1 << LOW_BITS) - 1);
    (low == 0).then_some(round << NUMBER_BITS | handle.0 >> LOW_BITS & ((1 << NUMBER_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_names_nothing() {
        // spec: memory §9.3
        let mut table = HandleTable::default();
        let first = table.insert('a').unwrap();
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b').unwrap();
        assert_ne!(first, second);
        assert_eq!((table.get(first), table.get(second)), (None, Some(&'b')));
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(RawHandle::NONE), None);
        assert_eq!(table.get(RawHandle(u32::MAX)), None);
    }

    #[test]
    fn handles_look_as_those_of_windows_and_rise() {
        let mut table = HandleTable::default();
        let first = table.insert(0).unwrap();
        assert_eq!(first, RawHandle(0x4000_0000));
        for number in 1..100_u32 {
            let handle = table.insert(number).unwrap();
            assert_eq!(handle.0, first.0 + number * 0x40, "each is 0x40 higher, whatever went");
            if number % 3 != 0 {
                assert_eq!(table.remove(handle), Some(number));
            }
            for wrong in [handle.0 | 2, handle.0 ^ 1 << 31, handle.0 & !(3 << 30)] {
                assert_eq!(table.get(RawHandle(wrong)), None);
            }
        }
        assert_eq!(table.iter().count(), 34);
    }

    #[test]
    fn a_name_comes_again_when_all_have_been_given_and_it_is_free() {
        let mut table = HandleTable::default();
        let kept = table.insert('a').unwrap();
        let gone = table.insert('b').unwrap();
        assert_eq!(table.remove(gone), Some('b'));
        table.next = CYCLE - 1;
        assert_eq!(table.insert('c'), Some(RawHandle(0xffff_ffc0)), "the last of the third round");
        assert_eq!(table.insert('d'), Some(gone), "the first is taken still");
        assert_eq!((table.get(kept), table.get(gone)), (Some(&'a'), Some(&'d')));
    }

    #[test]
    fn no_name_is_accepted_that_is_not_somebodys_and_none_comes_again() {
        // spec: memory §9.3
        const ROUNDS: u32 = 1_000_000;
        let (mut table, mut last) = (HandleTable::default(), 0);
        let kept = table.insert(u32::MAX).unwrap();
        let mut seed = 1_u32;
        for round in 0..ROUNDS {
            let handle = table.insert(round).unwrap();
            assert!(handle.0 > last, "names rise until the counter wraps");
            last = handle.0;
            assert_eq!(table.remove(handle), Some(round));
            // A forged one: any 32 bits; a stale one: any that was given.
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let forged = RawHandle(seed);
            let stale = RawHandle(kept.0 + (1 + seed % (round + 1)) * 0x40);
            for wrong in [forged, stale, handle] {
                assert!(wrong == kept || table.get(wrong).is_none(), "{wrong:?}");
            }
        }
        assert_eq!((table.get(kept), table.len()), (Some(&u32::MAX), 1));
        let chunks = table.chunks.iter().flatten().count();
        assert_eq!(chunks, 2, "what is empty is given back, but where the next names come from");
    }

    #[test]
    fn the_objects_of_a_dead_device_go_together() {
        let mut table = HandleTable::default();
        let handles: Vec<_> = (0..10).map(|number| table.insert(number).unwrap()).collect();
        table.remove_where(|number| number % 2 == 0);
        for (number, handle) in handles.iter().enumerate() {
            assert_eq!(table.get(*handle).is_some(), number % 2 == 1);
        }
    }
}
