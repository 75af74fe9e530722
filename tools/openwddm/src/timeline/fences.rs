//! Finds the signal that released a wait.
//!
//! A wait is "reached or passed", so what releases it is the first signal of that word with the wanted value or a greater
//! one. Fences are known by the bus address of their CurrentValue: that is all the device ever sees.

use std::collections::BTreeMap;

use events::Event;
use softgpu_spec::bus;

/// The signals seen so far, per word.
#[derive(Debug, Default)]
pub struct Fences {
    words: BTreeMap<u64, u64>,
    /// Per word: the greatest value so far and the instant of the signal that stored it. Values rise along each list.
    signals: BTreeMap<u64, Vec<(u64, usize)>>,
}

impl Fences {
    /// Knows the words of all fences that these events create.
    pub fn of(events: &[(u64, Event)]) -> Fences {
        let created = events.iter().filter_map(|(_, event)| match event {
            Event::FenceCreated { fence, current, .. } => Some((*fence, bus::SYSTEM_BASE.saturating_add(*current))),
            _ => None,
        });
        Fences { words: created.collect(), signals: BTreeMap::new() }
    }

    /// The bus address of a fence's CurrentValue.
    pub fn word(&self, fence: u64) -> Option<u64> {
        self.words.get(&fence).copied()
    }

    /// A new fence lives at this word: earlier signals there belong to another fence.
    pub fn forget(&mut self, word: u64) {
        self.signals.remove(&word);
    }

    /// The signal drawn at `instant` stored `value`.
    pub fn signalled(&mut self, word: u64, value: u64, instant: usize) {
        let list = self.signals.entry(word).or_default();
        if list.last().is_none_or(|(greatest, _)| *greatest < value) {
            list.push((value, instant));
        }
    }

    /// The instant of the first signal with `value` or more; `None` when the fence began with it or it was not seen.
    pub fn releasing(&self, word: u64, value: u64) -> Option<usize> {
        let list = self.signals.get(&word)?;
        list.get(list.partition_point(|(stored, _)| *stored < value)).map(|(_, instant)| *instant)
    }

    /// Whether `value` has been signalled.
    pub fn reached(&self, word: u64, value: u64) -> bool {
        self.releasing(word, value).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_that_reaches_or_passes_releases() {
        let mut fences = Fences::default();
        for (instant, value) in [5, 7, 6, 9].into_iter().enumerate() {
            fences.signalled(64, value, instant);
        }
        assert_eq!(fences.releasing(64, 1), Some(0));
        assert_eq!(fences.releasing(64, 6), Some(1));
        assert_eq!(fences.releasing(64, 9), Some(3));
        assert_eq!(fences.releasing(64, 10), None);
        assert_eq!(fences.releasing(72, 1), None);
        fences.forget(64);
        assert!(!fences.reached(64, 1));
    }
}
