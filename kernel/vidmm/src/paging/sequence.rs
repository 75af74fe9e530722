//! The sequence of works: the number that each gets as VidMm returns it, how far the ring is, and what was decided between works.
//!
//! It owns four numbers and the moves that came to no work; it knows neither content nor devices. What holds between its fields:
//! `completed <= returned`, because the ring completes only what it was given; `synchronous <= returned` between two calls, and
//! `returned + 1` at most while a work is under construction; `untold` is in the order of its serials, none beyond `returned + 1`.
//!
//! # The law of this boundary
//! Between two calls, all that waits for a work names one that was returned. The serial of a work under construction stands for nothing until
//! that work is handed out: where nothing comes of it, the content that took its serial waits for the last work returned instead.

use super::{Batch, Move, Work};

/// The works of one adapter, by number.
#[derive(Debug, Default)]
pub(crate) struct WorkSequence {
    /// Serial of the last work returned.
    returned: u64,
    /// Of the last one known to be complete.
    completed: u64,
    /// Of the last one that moved content with SynchronousPaging.
    synchronous: u64,
    /// Moves without any work, each with the serial of the work before which it was decided.
    untold: Vec<(u64, Move)>,
}

impl WorkSequence {
    /// Begins the next work. It gets its number only if something comes of it.
    pub fn begin<F: Copy + Eq>(&self) -> Batch<F> {
        Batch::new(self.next())
    }

    /// The work that was begun is returned to the kernel.
    pub fn hand_out<F>(&mut self, work: Work<F>) -> Work<F> {
        self.returned += 1;
        assert_eq!(work.serial, self.returned, "works are numbered in the order of return");
        debug_assert!(
            self.completed < self.returned,
            "work {} is new, and the ring past {}",
            work.serial,
            self.completed
        );
        work
    }

    /// Nothing came of the work that was begun but these moves.
    pub fn keep_untold(&mut self, moves: Vec<Move>) {
        let before = self.next();
        let last = self.untold.last().map(|(last, _)| *last);
        debug_assert!(last.is_none_or(|last| last <= before), "moves before work {before} are noted behind {last:?}");
        self.untold.extend(moves.into_iter().map(|moved| (before, moved)));
    }

    /// Takes the moves that were decided before the work of this serial and not yet taken.
    pub fn take_untold(&mut self, before: u64) -> Vec<Move> {
        // Each call and each turn asks, and hardly any finds a move.
        if self.untold.is_empty() {
            return Vec::new();
        }
        let later = self.untold.partition_point(|(serial, _)| *serial <= before);
        self.untold.drain(..later).map(|(_, moved)| moved).collect()
    }

    /// The hardware has completed the work with this serial, and with it every earlier one: the ring keeps order. Answers how far
    /// the ring is.
    pub fn complete(&mut self, serial: u64) -> u64 {
        assert!(serial <= self.returned, "only returned work completes");
        self.completed = self.completed.max(serial);
        debug_assert!(self.completed <= self.returned, "the ring is past {} of {}", self.completed, self.returned);
        self.completed
    }

    /// Serial of the last work returned.
    pub fn returned(&self) -> u64 {
        self.returned
    }

    /// Serial of the last completed work.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Whether the ring is past a work.
    pub fn is_past(&self, serial: u64) -> bool {
        serial <= self.completed
    }

    /// Buffers wait for this work although they name none of what it moves.
    // spec: memory §2.2, bit 11
    pub fn note_synchronous(&mut self, serial: u64) {
        debug_assert!(serial <= self.next(), "a work that is under way moves content");
        self.synchronous = self.synchronous.max(serial);
    }

    /// The last work that buffers have to wait for so.
    pub fn synchronous(&self) -> u64 {
        debug_assert!(self.synchronous <= self.next(), "{} is waited for before {}", self.synchronous, self.next());
        self.synchronous
    }

    /// Finds a fault.
    pub fn check(&self) -> Result<(), String> {
        let WorkSequence { returned, completed, synchronous, untold } = self;
        let in_order = untold.iter().map(|(before, _)| *before).is_sorted();
        let sound = completed <= returned
            && synchronous <= returned
            && in_order
            && untold.last().is_none_or(|(before, _)| *before <= self.next());
        let text = || format!("{returned} works, {completed} completed, {synchronous} waited for, untold {untold:?}");
        if sound { Ok(()) } else { Err(text()) }
    }

    fn next(&self) -> u64 {
        self.returned + 1
    }
}
