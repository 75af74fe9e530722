//! Slots with generations: how spaces, devices and allocations are named inside VidMm. It is not a handle table: the
//! kernel resolves user handles first, so a stale id here is the kernel's own defect and panics at once.

use std::marker::PhantomData;

/// An id type of a slab: a slot and the generation of its present tenant.
pub(crate) trait Key: Copy {
    /// Puts an id together.
    fn new(slot: u32, generation: u32) -> Self;
    /// Takes it apart.
    fn parts(self) -> (u32, u32);
}

macro_rules! key {
    ($(#[$doc:meta] $name:ident,)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name { slot: u32, generation: u32 }

        impl Key for $name {
            fn new(slot: u32, generation: u32) -> Self { Self { slot, generation } }
            fn parts(self) -> (u32, u32) { (self.slot, self.generation) }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({}.{})"), self.slot, self.generation)
            }
        }
    )*};
}

key! {
    /// An allocation of this adapter.
    AllocationId,
    /// A device: the owner of one residency requirement list (memory §5.1).
    DeviceId,
    /// A GPU virtual address space.
    SpaceId,
}

/// Values by id. Slots are used again in last-out-first-in order, so ids depend on the calls only.
#[derive(Debug)]
pub(crate) struct Slab<K, T> {
    slots: Vec<(u32, Option<T>)>,
    vacant: Vec<u32>,
    key: PhantomData<fn() -> K>,
}

impl<K: Key, T> Slab<K, T> {
    /// An empty slab.
    pub fn new() -> Self {
        Slab { slots: Vec::new(), vacant: Vec::new(), key: PhantomData }
    }

    /// Puts a value in and names it.
    pub fn insert(&mut self, value: T) -> K {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            u32::try_from(self.slots.len() - 1).expect("a slab of more than 2^32 slots")
        });
        let entry = &mut self.slots[slot as usize];
        assert!(entry.1.is_none(), "a vacant slot is empty");
        entry.1 = Some(value);
        K::new(slot, entry.0)
    }

    /// Takes a value out; its id is stale from now on.
    pub fn remove(&mut self, key: K) -> T {
        let (slot, generation) = key.parts();
        let entry = &mut self.slots[slot as usize];
        assert_eq!(entry.0, generation, "a stale id");
        entry.0 += 1;
        self.vacant.push(slot);
        entry.1.take().expect("a stale id")
    }

    /// The value of an id that may be stale.
    pub fn get(&self, key: K) -> Option<&T> {
        let (slot, generation) = key.parts();
        self.slots.get(slot as usize).filter(|entry| entry.0 == generation)?.1.as_ref()
    }

    /// A value to be changed, unless its id is stale.
    pub fn get_mut(&mut self, key: K) -> Option<&mut T> {
        let (slot, generation) = key.parts();
        let entry = self.slots.get_mut(slot as usize)?;
        if entry.0 == generation { entry.1.as_mut() } else { None }
    }

    /// The values in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, (generation, value))| {
            // CAST: insert keeps the number of slots within 32 bits.
            value.as_ref().map(|value| (K::new(slot as u32, *generation), value))
        })
    }
}

impl<K: Key, T> std::ops::Index<K> for Slab<K, T> {
    type Output = T;
    fn index(&self, key: K) -> &T {
        let (slot, generation) = key.parts();
        let entry = &self.slots[slot as usize];
        assert_eq!(entry.0, generation, "a stale id");
        entry.1.as_ref().expect("a stale id")
    }
}

impl<K: Key, T> std::ops::IndexMut<K> for Slab<K, T> {
    fn index_mut(&mut self, key: K) -> &mut T {
        let (slot, generation) = key.parts();
        let entry = &mut self.slots[slot as usize];
        assert_eq!(entry.0, generation, "a stale id");
        entry.1.as_mut().expect("a stale id")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a stale id")]
    fn a_stale_id_panics() {
        let mut slab: Slab<DeviceId, u8> = Slab::new();
        let first = slab.insert(1);
        slab.remove(first);
        let second = slab.insert(2);
        assert_eq!(slab[second], 2);
        let _ = slab[first];
    }
}
