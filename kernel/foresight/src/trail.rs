//! Where each allocation stands in its stream: a table by slot.

use crate::event::Key;

/// What is expected of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forecast {
    /// Nothing is known.
    Unknown,
    /// A whole repetition has passed without a use.
    Idle,
    /// The operation of this number uses it next.
    Used { op: u64 },
    /// It dies before the operation of this number, and no other use comes first.
    Dies { op: u64 },
}

/// One allocation's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail {
    pub key: Key,
    /// Index of the stream that used it last.
    pub stream: u32,
    /// The operation of its first use in this stream.
    pub born: u64,
    /// Number of its latest use.
    pub last: u64,
    /// The past use that its next one is expected to repeat.
    pub awaits: Option<u64>,
    pub forecast: Forecast,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Trails {
    slots: Vec<Option<Trail>>,
}

impl Trails {
    pub(crate) fn get(&self, key: Key) -> Option<&Trail> {
        self.slots.get(key.slot() as usize)?.as_ref().filter(|trail| trail.key == key)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Trail> {
        self.slots.get_mut(key.slot() as usize)?.as_mut().filter(|trail| trail.key == key)
    }

    /// The one of an allocation that the stream uses in its operation `op`; a new one if none had it, or another stream.
    pub(crate) fn of(&mut self, key: Key, stream: u32, op: u64) -> (&mut Trail, bool) {
        let slot = key.slot() as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, None);
        }
        let old = self.slots[slot].filter(|trail| trail.key == key);
        let known = old.is_some_and(|trail| trail.stream == stream);
        if !known {
            let new = Trail { key, stream, born: op, last: 0, awaits: None, forecast: Forecast::Unknown };
            self.slots[slot] = Some(new);
        }
        (self.slots[slot].as_mut().expect("it is there now"), known)
    }

    /// The allocation has died.
    pub(crate) fn died(&mut self, key: Key) -> Option<Trail> {
        self.get(key)?;
        self.slots[key.slot() as usize].take()
    }

    /// Nothing is known any more of what the stream used last. Calls `lost` with each.
    pub(crate) fn forget_stream(&mut self, stream: u32, mut lost: impl FnMut(Key)) {
        for slot in &mut self.slots {
            if let Some(trail) = slot.take_if(|trail| trail.stream == stream) {
                lost(trail.key);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Trail> {
        self.slots.iter().flatten()
    }
}
