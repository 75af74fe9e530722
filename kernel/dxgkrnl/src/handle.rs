//! Handle tables: 32-bit names of objects in one process. They look as those of Windows do: the two highest bits are never both 0, the low
//! six are 0, and each new handle is the one before plus 0x40, whatever has been closed meanwhile, so that a stale name is told.
//!
//! A name comes again when all [`CYCLE`] have been given, fifty million of them, and what had it is gone.
//!
//! # A lookup
//! Objects are in a table of a power of two of slots, each where the low bits of its number say, and beside each is its whole name. Names
//! rise, so a process with `n` living objects that were it made one after the other has them in `n` slots that are all different, and one
//! comparison of 32 bits decides everything: a forged name, a stale one, one with low bits or without a round, and 0 are not what the
//! slot says. An object that outlives the others keeps its slot when a name comes around that wants it, too; the newer one then lives in
//! an ordered map, which is asked only when a slot says no.
//!
//! | then | the table |
//! |---|---|
//! | as many live as it has slots | doubles |
//! | an eighth as many as it has slots are in the map, and it has less than four for each that lives | doubles |
//! | it has more than sixteen slots for each that lives | halves |
//! | nothing lives | is given back but for its least size |
//!
//! Between two changes of its size are a sixteenth as many calls as it has slots or more, so a call costs the same however many objects there
//! are. A process that keeps those objects only that want one slot has them in the map, where a lookup is twenty steps at most.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::RawHandle;

/// Bits of a handle below its number: 0 in a process's own, 2 in a global one.
pub const LOW_BITS: u32 = 6;
/// Bits of the number.
const NUMBER_BITS: u32 = 24;
/// Names before one comes again: the two highest bits count the rounds, 1 to 3.
const CYCLE: u32 = 3 << NUMBER_BITS;
/// Most handles of one process.
pub const HANDLES_MAX: usize = 1 << 20;
/// Slots of a table that has few objects.
const SLOTS_MIN: usize = 64;
/// So many slots for each living object are enough, whatever is in the map.
const SLOTS_FOR_ONE: usize = 4;
/// With more slots than this for each living object a table is too large.
const SLOTS_FOR_ONE_MAX: usize = 16;
/// One in so many slots may have an object in the map besides.
const SLOTS_TO_COLLIDE: usize = 8;

const _: () = assert!(LOW_BITS + NUMBER_BITS + 2 == 32 && HANDLES_MAX < CYCLE as usize);
// The place of a number is below its round, however large the table is. A table that has just doubled is not too large, and one that has
// just halved is not too small.
const _: () = assert!(HANDLES_MAX * 2 * SLOTS_FOR_ONE <= 1 << NUMBER_BITS && 4 * SLOTS_FOR_ONE <= SLOTS_FOR_ONE_MAX);
const _: () = assert!(SLOTS_MIN.is_power_of_two() && SLOTS_MIN > 1);

/// The handles of one process.
pub struct HandleTable<T> {
    /// The name of each slot's object, or a name that is never looked for there. A power of two of them, or none as long as there has
    /// been no object. They are by themselves because a lookup of a wrong name touches them, and nothing else.
    names: Vec<u32>,
    /// Of each slot; where it is not taken, any object that has been there.
    objects: Vec<T>,
    /// By name: objects whose slots others have.
    collided: BTreeMap<u32, T>,
    /// The names of each object: a call that destroys it forgets them.
    of_object: BTreeSet<(T, u32)>,
    /// The number of the next handle, unless an object has the name still.
    next: u32,
    living: usize,
    /// Of these, those that `counts` picks.
    counted: usize,
    counts: fn(&T) -> bool,
    /// Most that may live.
    most: usize,
}

impl<T: Copy + Ord> Default for HandleTable<T> {
    fn default() -> Self {
        HandleTable::counting(|_| false)
    }
}

impl<T: Copy + Ord> HandleTable<T> {
    /// An empty table that knows how many of its objects are such.
    pub fn counting(counts: fn(&T) -> bool) -> HandleTable<T> {
        let (names, objects, collided, of_object) = (Vec::new(), Vec::new(), BTreeMap::new(), BTreeSet::new());
        HandleTable { names, objects, collided, of_object, next: 0, living: 0, counted: 0, counts, most: HANDLES_MAX }
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

    /// Whether so many more objects can be named.
    pub fn has_room(&self, count: usize) -> bool {
        self.most.saturating_sub(self.living) >= count
    }

    /// Names an object; `None` when the table is full.
    pub fn insert(&mut self, object: T) -> Option<RawHandle> {
        if !self.has_room(1) {
            return None;
        }
        let name = loop {
            let name = name(self.next);
            self.next = (self.next + 1) % CYCLE;
            if self.get(name).is_none() {
                break name;
            }
        };
        let slots = self.names.len();
        let collide = self.collided.len() >= slots / SLOTS_TO_COLLIDE && slots < SLOTS_FOR_ONE * self.living;
        if self.living == slots || collide {
            self.resize((2 * slots).max(SLOTS_MIN), object);
        }
        self.put(name.0, object);
        let fresh = self.of_object.insert((object, name.0));
        debug_assert!(fresh, "a name is given once: {name}");
        self.living += 1;
        self.counted += usize::from((self.counts)(&object));
        debug_assert_eq!(self.of_object.len(), self.living, "each handle is of one object");
        debug_assert!(self.living <= HANDLES_MAX, "a table has at most {HANDLES_MAX} handles: {}", self.living);
        Some(name)
    }

    /// The object of a handle; `None` for a name that is unknown, stale or 0.
    #[inline]
    pub fn get(&self, handle: RawHandle) -> Option<&T> {
        // spec: memory §9.3
        let names = &self.names[..];
        // As many; said here, before the place is known, it is looked at once for all names of a list, and with it no place is
        // outside.
        let objects = &self.objects[..names.len()];
        if names.is_empty() {
            return None;
        }
        let at = place(handle.0, names.len());
        if names[at] == handle.0 { Some(&objects[at]) } else { self.get_collided(handle) }
    }

    #[cold]
    fn get_collided(&self, handle: RawHandle) -> Option<&T> {
        self.collided.get(&handle.0)
    }

    /// The handles with what they name, by name.
    pub fn iter(&self) -> impl Iterator<Item = (RawHandle, &T)> {
        let mut living: Vec<_> = self.in_slots().map(|at| (self.names[at], &self.objects[at])).collect();
        living.extend(self.collided.iter().map(|(name, object)| (*name, object)));
        living.sort_unstable_by_key(|(name, _)| *name);
        living.into_iter().map(|(name, object)| (RawHandle(name), object))
    }

    /// Forgets a handle.
    pub fn remove(&mut self, handle: RawHandle) -> Option<T> {
        let at = place(handle.0, self.names.len());
        let object = match self.names.get_mut(at) {
            Some(name) if *name == handle.0 => {
                *name = no_name(at);
                self.objects[at]
            }
            _ => self.collided.remove(&handle.0)?,
        };
        let listed = self.of_object.remove(&(object, handle.0));
        debug_assert!(listed, "an object is listed with its handles: {handle}");
        self.living -= 1;
        debug_assert_eq!(self.of_object.len(), self.living, "each handle is of one object");
        self.counted -= usize::from((self.counts)(&object));
        self.give_back();
        Some(object)
    }

    /// Forgets every handle of an object.
    pub fn remove_object(&mut self, object: T) {
        let names: Vec<u32> = self.of_object.range((object, 0)..=(object, u32::MAX)).map(|(_, name)| *name).collect();
        for name in names {
            self.remove(RawHandle(name));
        }
    }

    /// The slots that are taken.
    fn in_slots(&self) -> impl Iterator<Item = usize> {
        self.names.iter().enumerate().filter(|(at, name)| **name != no_name(*at)).map(|(at, _)| at)
    }

    /// Puts an object where a lookup of its name comes by. There is a slot for it, if another has not got it.
    fn put(&mut self, name: u32, object: T) {
        let at = place(name, self.names.len());
        if self.names[at] == no_name(at) {
            (self.names[at], self.objects[at]) = (name, object);
        } else {
            let before = self.collided.insert(name, object);
            assert!(before.is_none(), "a name is given once");
        }
    }

    /// Makes a table that is too large for what lives smaller.
    fn give_back(&mut self) {
        let slots = self.names.len();
        if slots > SLOTS_MIN && self.living == 0 {
            self.resize(SLOTS_MIN, self.objects[0]);
        } else if slots > SLOTS_MIN && slots > SLOTS_FOR_ONE_MAX * self.living {
            self.resize(slots / 2, self.objects[0]);
        }
    }

    /// Puts every object where it belongs among so many slots; `any` fills the free ones.
    fn resize(&mut self, slots: usize, any: T) {
        assert!(slots.is_power_of_two() && slots >= SLOTS_MIN);
        let names = std::mem::replace(&mut self.names, (0..slots).map(no_name).collect());
        let objects = std::mem::replace(&mut self.objects, vec![any; slots]);
        let collided = std::mem::take(&mut self.collided);
        for ((at, name), object) in names.into_iter().enumerate().zip(objects) {
            if name != no_name(at) {
                self.put(name, object);
            }
        }
        collided.into_iter().for_each(|(name, object)| self.put(name, object));
    }
}

/// Where a name belongs among so many slots, a power of two; outside of them if there are none.
fn place(name: u32, slots: usize) -> usize {
    (name >> LOW_BITS) as usize & slots.wrapping_sub(1)
}

/// The content of a free slot: a name that belongs elsewhere, as every bit of its place is another.
fn no_name(at: usize) -> u32 {
    // CAST: the place of a slot is a number's low bits.
    !((at as u32) << LOW_BITS)
}

/// The nth name of the cycle, with its round in the two highest bits, so that no handle is 0.
fn name(nth: u32) -> RawHandle {
    let (round, number) = (nth >> NUMBER_BITS, nth & ((1 << NUMBER_BITS) - 1));
    RawHandle((round + 1) << (32 - 2) | number << LOW_BITS)
}

#[cfg(test)]
mod tests;
