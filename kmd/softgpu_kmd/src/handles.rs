//! The driver's handles: numbers that rise and are never given twice, so that a stale one names nothing.

use std::collections::BTreeMap;

/// Objects by handle. 0 is never a handle.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    last: u64,
    objects: BTreeMap<u64, T>,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles { last: 0, objects: BTreeMap::new() }
    }
}

impl<T> Handles<T> {
    /// Keeps an object; returns its handle.
    pub(crate) fn insert(&mut self, object: T) -> u64 {
        self.last += 1;
        self.objects.insert(self.last, object);
        self.last
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&T> {
        self.objects.get(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut T> {
        self.objects.get_mut(&handle)
    }

    /// Takes an object out. The contract forbids the kernel to destroy an object that does not exist: that panics.
    pub(crate) fn remove(&mut self, handle: u64, what: &str) -> T {
        match self.objects.remove(&handle) {
            Some(object) => object,
            None => panic!("the kernel destroyed {what} {handle}, which does not exist"),
        }
    }

    /// In the order of creation.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.objects.iter().map(|(handle, object)| (*handle, object))
    }

    /// In the order of creation, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.objects.iter_mut().map(|(handle, object)| (*handle, object))
    }

    pub(crate) fn clear(&mut self) {
        self.objects.clear();
    }
}
