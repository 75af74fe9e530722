//! Handles of what the operating system has on Windows: the events and the sections of one process. They take no numbers from handles of
//! D3DKMT objects, which have one of the two highest bits, and look like none of them: multiples of 8 below 2^30, and above every descriptor
//! that a process on Linux has. Odd multiples of 4 between them are free for a client's own (the C library's NT handles).
//!
//! A number comes again when all have been given.

use std::collections::BTreeMap;

use wddm_types::RawHandle;

use crate::handle::HANDLES_MAX;
use crate::object::Object;

const FIRST: u32 = 0x1000_0000;
const BEHIND: u32 = 0x4000_0000;
const STEP: u32 = 8;

/// Those of one process.
#[derive(Debug)]
pub struct SystemHandles {
    open: BTreeMap<u32, Object>,
    next: u32,
}

impl Default for SystemHandles {
    fn default() -> SystemHandles {
        SystemHandles { open: BTreeMap::new(), next: FIRST }
    }
}

impl SystemHandles {
    /// Names an object; `None` when the process has as many as it may.
    pub fn insert(&mut self, object: Object) -> Option<RawHandle> {
        if self.open.len() >= HANDLES_MAX {
            return None;
        }
        loop {
            let number = self.next;
            debug_assert!(
                (FIRST..BEHIND).contains(&number) && number.is_multiple_of(STEP),
                "a handle of the system's: {number:#x}"
            );
            self.next = if number + STEP < BEHIND { number + STEP } else { FIRST };
            if let std::collections::btree_map::Entry::Vacant(free) = self.open.entry(number) {
                free.insert(object);
                return Some(RawHandle(number));
            }
        }
    }

    /// The object of a handle.
    pub fn get(&self, handle: RawHandle) -> Option<&Object> {
        self.open.get(&handle.0)
    }

    /// Forgets a handle.
    pub fn remove(&mut self, handle: RawHandle) -> Option<Object> {
        self.open.remove(&handle.0)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (RawHandle, &Object)> {
        self.open.iter().map(|(number, object)| (RawHandle(*number), object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::{EventNumber, SectionNumber};
    use crate::store::ObjectNumber;

    fn event(number: u64) -> Object {
        Object::Event(EventNumber::from_raw(number))
    }

    #[test]
    fn a_number_comes_again_behind_all_others_and_never_to_two() {
        let mut handles = SystemHandles::default();
        let first = handles.insert(event(1)).unwrap();
        let second = handles.insert(Object::Section(SectionNumber::from_raw(2))).unwrap();
        assert_eq!((first.0, second.0), (0x1000_0000, 0x1000_0008));
        assert_eq!(handles.remove(first), Some(event(1)));
        handles.next = BEHIND - STEP;
        let numbers = [3, 4, 5].map(|number| handles.insert(event(number)).unwrap().0);
        assert_eq!(numbers, [BEHIND - STEP, 0x1000_0000, 0x1000_0010], "the second still lives");
        assert_eq!(
            (handles.get(second), handles.get(RawHandle(0)), handles.len()),
            (Some(&Object::Section(SectionNumber::from_raw(2))), None, 4)
        );
    }
}
