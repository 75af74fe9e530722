//! Flips of primaries that are not over. A buffer that writes a primary is held while that primary is displayed or queued to
//! be displayed (memory §10.1 row 14): who would draw into what the screen shows waits until it shows something else.
//!
//! ```text
//!              queued                    shown                 another one shown
//! free ───────────────────▶ queued ────────────────▶ shown ─────────────────────▶ free
//! ```
//! `A` names primaries. It knows no display: whoever does says what happens, whoever starts buffers asks.

use std::collections::BTreeMap;

/// Flips of one adapter's displays. `A`: a primary, as the caller names it.
#[derive(Clone, Debug, Default)]
pub struct Flips<A> {
    /// Flips to each primary that are queued and not shown.
    queued: BTreeMap<A, u32>,
    /// What each display shows.
    shown: BTreeMap<u32, A>,
}

impl<A: Copy + Ord> Flips<A> {
    /// Nothing is displayed.
    pub fn new() -> Self {
        Flips { queued: BTreeMap::new(), shown: BTreeMap::new() }
    }

    /// A flip to a primary is queued.
    pub fn queue(&mut self, primary: A) {
        *self.queued.entry(primary).or_insert(0) += 1;
    }

    /// A queued flip is carried out on a display. Returns the primary that it replaces, if nobody shows it any more.
    ///
    /// # Panics
    /// When no flip to the primary is queued.
    pub fn show(&mut self, display: u32, primary: A) -> Option<A> {
        self.unqueue(primary);
        let replaced = self.shown.insert(display, primary)?;
        self.may_write(replaced).then_some(replaced)
    }

    /// A queued flip is cancelled.
    ///
    /// # Panics
    /// When no flip to the primary is queued.
    pub fn cancel(&mut self, primary: A) {
        self.unqueue(primary);
    }

    /// A primary is destroyed, or its display is off.
    pub fn forget(&mut self, primary: A) {
        self.queued.remove(&primary);
        self.shown.retain(|_, shown| *shown != primary);
    }

    /// Whether a buffer that writes this primary may start.
    // spec: memory §5.6, memory §10.1
    pub fn may_write(&self, primary: A) -> bool {
        !self.queued.contains_key(&primary) && self.shown.values().all(|shown| *shown != primary)
    }

    fn unqueue(&mut self, primary: A) {
        let count = self.queued.get_mut(&primary).expect("a flip that is carried out or cancelled was queued");
        *count -= 1;
        if *count == 0 {
            self.queued.remove(&primary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_is_written_only_while_nobody_is_to_see_it() {
        // spec: memory §5.6, memory §10.1
        // seed: R18
        let mut flips = Flips::new();
        assert!(flips.may_write('a'));
        flips.queue('a');
        assert!(!flips.may_write('a') && flips.may_write('b'));
        assert_eq!(flips.show(0, 'a'), None);
        assert!(!flips.may_write('a'), "it is on the screen");
        flips.queue('b');
        assert_eq!(flips.show(0, 'b'), Some('a'), "replaced: whoever waits to draw into it goes on");
        assert!(flips.may_write('a') && !flips.may_write('b'));
    }

    #[test]
    fn it_is_free_when_the_last_flip_and_the_last_display_are_over() {
        let mut flips = Flips::new();
        (0..2).for_each(|_| flips.queue('a'));
        flips.show(0, 'a');
        flips.queue('b');
        assert_eq!(flips.show(0, 'b'), None, "another flip to it is queued");
        flips.cancel('a');
        assert!(flips.may_write('a'));
        flips.queue('b');
        flips.show(1, 'b');
        flips.queue('a');
        assert_eq!(flips.show(0, 'a'), None, "the other display shows it still");
        flips.forget('b');
        assert!(flips.may_write('b'));
    }
}
