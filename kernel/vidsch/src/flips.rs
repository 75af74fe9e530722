//! Flips of primaries that are not over. The scheduler holds a buffer that writes a primary while that primary is displayed or queued to be
//! displayed (memory §10.1 row 14): the buffer starts once the display shows another primary.
//!
//! ```text
//!              queued                    shown                 another one shown
//! free ───────────────────▶ queued ────────────────▶ shown ─────────────────────▶ free
//! ```
//! # Invariants
//! - A primary in `queued` has a flip at least: its entry goes with the last.
//! - A primary that is queued or shown may not be written.
//!
//! `A` names primaries. This module knows no display: `dxgkrnl` reports each change of a display and asks before it starts a buffer.

use std::collections::BTreeMap;

/// Flips of one adapter's displays. `A`: a primary, as the caller names it.
#[derive(Clone, Debug)]
pub struct Flips<A> {
    /// Flips to each primary that are queued and not shown.
    queued: BTreeMap<A, u32>,
    /// The primary that each display shows.
    shown: BTreeMap<u32, A>,
}

impl<A: Copy + Ord> Default for Flips<A> {
    fn default() -> Self {
        Flips::new()
    }
}

impl<A: Copy + Ord> Flips<A> {
    /// Nothing is displayed.
    pub fn new() -> Self {
        Flips { queued: BTreeMap::new(), shown: BTreeMap::new() }
    }

    /// A flip to a primary is queued.
    pub fn queue(&mut self, primary: A) {
        *self.queued.entry(primary).or_insert(0) += 1;
        debug_assert!(!self.may_write(primary), "a primary may be written to which a flip is queued");
    }

    /// A queued flip is carried out on a display. Returns what the display showed before.
    ///
    /// # Panics
    /// When no flip to the primary is queued.
    pub fn show(&mut self, display: u32, primary: A) -> Option<A> {
        self.unqueue(primary);
        self.begin(display, primary)
    }

    /// A queued flip is cancelled.
    ///
    /// # Panics
    /// When no flip to the primary is queued.
    pub fn cancel(&mut self, primary: A) {
        self.unqueue(primary);
    }

    /// A display shows a primary from now on to which no flip was queued: its first one. Returns what it showed before.
    pub fn begin(&mut self, display: u32, primary: A) -> Option<A> {
        let before = self.shown.insert(display, primary);
        debug_assert!(!self.may_write(primary), "a primary may be written that display {display} shows");
        before
    }

    /// A display is off. Returns what it showed.
    pub fn end(&mut self, display: u32) -> Option<A> {
        self.shown.remove(&display)
    }

    /// The primary that a display shows.
    pub fn shown_on(&self, display: u32) -> Option<A> {
        self.shown.get(&display).copied()
    }

    /// The primaries that displays show.
    pub fn shown(&self) -> impl Iterator<Item = A> + '_ {
        self.shown.values().copied()
    }

    /// Whether a buffer that writes this primary may start.
    // spec: memory §5.6, memory §10.1
    pub fn may_write(&self, primary: A) -> bool {
        !self.queued.contains_key(&primary) && self.shown.values().all(|shown| *shown != primary)
    }

    fn unqueue(&mut self, primary: A) {
        let count = self.queued.get_mut(&primary).expect("a flip that is carried out or cancelled was queued");
        debug_assert!(*count > 0, "a primary stands among the queued ones with no flip");
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
    fn a_primary_is_written_only_while_no_display_is_to_show_it() {
        // spec: memory §5.6, memory §10.1
        // seed: R18
        let mut flips = Flips::new();
        assert!(flips.may_write('a'));
        flips.queue('a');
        assert!(!flips.may_write('a') && flips.may_write('b'));
        assert_eq!(flips.show(0, 'a'), None);
        assert!(!flips.may_write('a'), "it is on the screen");
        flips.queue('b');
        assert_eq!(flips.show(0, 'b'), Some('a'), "replaced: a buffer held for 'a' may start");
        assert!(flips.may_write('a') && !flips.may_write('b'));
    }

    #[test]
    fn it_is_free_when_the_last_flip_and_the_last_display_are_over() {
        let mut flips = Flips::new();
        (0..2).for_each(|_| flips.queue('a'));
        flips.show(0, 'a');
        flips.queue('b');
        flips.show(0, 'b');
        assert!(!flips.may_write('a'), "another flip to it is queued");
        flips.cancel('a');
        assert!(flips.may_write('a'));
        flips.queue('b');
        flips.show(1, 'b');
        flips.queue('a');
        flips.show(0, 'a');
        assert!(!flips.may_write('b'), "the other display shows it still");
        assert_eq!([0, 1, 2].map(|display| flips.shown_on(display)), [Some('a'), Some('b'), None]);
        assert_eq!(flips.shown().collect::<String>(), "ab");
        assert_eq!(flips.end(1), Some('b'));
        assert!(flips.may_write('b'));
        assert_eq!((flips.begin(0, 'b'), flips.end(0)), (Some('a'), Some('b')));
        assert!(flips.may_write('a') && flips.may_write('b'));
    }
}
