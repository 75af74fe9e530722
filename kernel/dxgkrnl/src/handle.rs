//! Handle tables: 32-bit names of objects in one process, with a generation so that a stale name is told.

use wddm_types::RawHandle;

/// Bits of a handle that count how often its slot was used.
const GENERATION_BITS: u32 = 6;
/// Most handles of one process.
pub const HANDLES_MAX: usize = 1 << 20;

const _: () = assert!(HANDLES_MAX < 1 << (32 - GENERATION_BITS));

struct Slot<T> {
    generation: u32,
    object: Option<T>,
}

/// The handles of one process.
pub struct HandleTable<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for HandleTable<T> {
    fn default() -> Self {
        HandleTable { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> HandleTable<T> {
    /// Names an object; `None` when the table is full.
    pub fn insert(&mut self, object: T) -> Option<RawHandle> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < HANDLES_MAX => {
                self.slots.push(Slot { generation: 0, object: None });
                // CAST: bounded by HANDLES_MAX.
                (self.slots.len() - 1) as u32
            }
            None => return None,
        };
        let slot = &mut self.slots[index as usize];
        slot.object = Some(object);
        Some(name(index, slot.generation))
    }

    /// Whether so many more objects can be named.
    pub fn has_room(&self, count: usize) -> bool {
        self.free.len() + (HANDLES_MAX - self.slots.len()) >= count
    }

    /// The object of a handle; `None` for a name that is unknown, stale or 0.
    pub fn get(&self, handle: RawHandle) -> Option<&T> {
        let (index, generation) = parts(handle)?;
        let slot = self.slots.get(index)?;
        (slot.generation == generation).then_some(slot.object.as_ref()).flatten()
    }

    /// The handles with what they name.
    pub fn iter(&self) -> impl Iterator<Item = (RawHandle, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            // CAST: bounded by HANDLES_MAX.
            slot.object.as_ref().map(|object| (name(index as u32, slot.generation), object))
        })
    }

    /// Forgets a handle; its name stays stale for the next 63 uses of the slot.
    pub fn remove(&mut self, handle: RawHandle) -> Option<T> {
        let (index, generation) = parts(handle)?;
        let slot = self.slots.get_mut(index)?;
        if slot.generation != generation {
            return None;
        }
        let object = slot.object.take()?;
        slot.generation = (slot.generation + 1) & ((1 << GENERATION_BITS) - 1);
        // CAST: bounded by HANDLES_MAX.
        self.free.push(index as u32);
        Some(object)
    }

    /// Forgets every handle whose object `gone` says is gone.
    pub fn remove_where(&mut self, mut gone: impl FnMut(&T) -> bool) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if slot.object.as_ref().is_some_and(&mut gone) {
                // CAST: bounded by HANDLES_MAX.
                let handle = name(index as u32, slot.generation);
                self.remove(handle);
            }
        }
    }
}

/// Index + 1, so that no handle is 0.
fn name(index: u32, generation: u32) -> RawHandle {
    RawHandle((index + 1) << GENERATION_BITS | generation)
}

fn parts(handle: RawHandle) -> Option<(usize, u32)> {
    let index = (handle.0 >> GENERATION_BITS).checked_sub(1)?;
    Some((index as usize, handle.0 & ((1 << GENERATION_BITS) - 1)))
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
    fn the_objects_of_a_dead_device_go_together() {
        let mut table = HandleTable::default();
        let handles: Vec<_> = (0..10).map(|number| table.insert(number).unwrap()).collect();
        table.remove_where(|number| number % 2 == 0);
        for (number, handle) in handles.iter().enumerate() {
            assert_eq!(table.get(*handle).is_some(), number % 2 == 1);
        }
    }
}
