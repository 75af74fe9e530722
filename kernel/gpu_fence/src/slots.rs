//! The table that a [`FenceId`] indexes: slots that are used again, each time under a new generation, so that an id
//! which outlived its fence is recognised instead of naming the next one. Used by `fences` only; it knows nothing of
//! waiting. An id is the kernel's own, never a handle that user mode holds.

/// A fence of one [`Fences`](crate::Fences): slot and generation. Ordered by slot, which is arbitrary but reproducible.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FenceId {
    slot: u32,
    generation: u32,
}

impl FenceId {
    /// None comes before it.
    pub(crate) const FIRST: FenceId = FenceId { slot: 0, generation: 0 };
}

/// Values by [`FenceId`]: fences, and waits, whose places are of the same kind.
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Slots { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> FenceId {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.slots[slot as usize];
            entry.value = Some(value);
            return FenceId { slot, generation: entry.generation };
        }
        let slot = u32::try_from(self.slots.len()).expect("fewer than 2^32 fences live at once");
        self.slots.push(Slot { generation: 0, value: Some(value) });
        FenceId { slot, generation: 0 }
    }

    /// Takes the value out. From now on `id` is stale.
    pub(crate) fn remove(&mut self, id: FenceId) -> Option<T> {
        let entry = self.slots.get_mut(id.slot as usize).filter(|entry| entry.generation == id.generation)?;
        let value = entry.value.take()?;
        // A slot whose generations are used up is never handed out again: reuse would make an old id valid.
        if let Some(next) = entry.generation.checked_add(1) {
            entry.generation = next;
            self.free.push(id.slot);
        }
        Some(value)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }

    pub(crate) fn get(&self, id: FenceId) -> Option<&T> {
        self.slots.get(id.slot as usize).filter(|entry| entry.generation == id.generation)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: FenceId) -> Option<&mut T> {
        self.slots.get_mut(id.slot as usize).filter(|entry| entry.generation == id.generation)?.value.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_again_slot_has_a_new_id() {
        let mut slots = Slots::new();
        let first = slots.insert('a');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.insert('b');
        assert_eq!(first.slot, second.slot);
        assert_ne!(first, second);
        assert_eq!((slots.get(first), slots.get(second)), (None, Some(&'b')));
        assert_eq!((slots.remove(first), slots.get_mut(first)), (None, None));
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_retired() {
        let mut slots = Slots::new();
        let id = slots.insert('a');
        slots.slots[0].generation = u32::MAX;
        let last = FenceId { generation: u32::MAX, ..id };
        assert_eq!(slots.remove(last), Some('a'));
        assert_eq!(slots.insert('b').slot, 1);
        assert_eq!(slots.get(last), None);
    }
}
