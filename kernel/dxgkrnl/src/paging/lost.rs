//! The ring when the hardware has lost everything that it was given (memory §8.4, sync §4.4): its works are over, whatever became of
//! them, because the content that they moved is lost and their waiters are lost, too. The ring goes on under a new context, queue and
//! fence; the numbers of its works and of its progress rise on.
//!
//! Here the ring forgets what it had; this part asks no other. `adapter::lost` does the kernel's own part of the works.

use ddi::KmdContext;
use vidmm::{HeldRange, WindowPages};

use super::PagingRing;
use super::rotation::{Stage, Unanswered};
use super::work::QueuedWork;
use crate::number::PagingWorkNumber;
use crate::store::ObjectNumber;

/// The works that the ring gives up, each kind in its order.
#[must_use = "the kernel does its own part of them"]
pub struct GivenUp {
    /// Those with the hardware, by number and serial.
    pub built: Vec<(PagingWorkNumber, u64)>,
    /// Those that the hardware was not given, or in part.
    pub unbuilt: Vec<QueuedWork>,
}

impl PagingRing {
    /// Windows that locked content has left: they go when the CPU is shown what is left.
    pub fn windows_left(&mut self, windows: Vec<WindowPages>) {
        self.lost_windows.extend(windows);
    }

    /// The ring gives up all works that it has.
    pub fn give_up(&mut self) -> GivenUp {
        let numbers = |work: super::Submitted| (work.number, work.serial);
        let built = self.submitted.drain(..).map(numbers).collect();
        let mut unbuilt: Vec<_> = std::mem::take(&mut self.building).into();
        unbuilt.extend(std::mem::take(&mut self.held));
        self.entry_works.clear();
        GivenUp { built, unbuilt }
    }

    /// A work that was given up is over.
    pub fn is_past(&mut self, number: PagingWorkNumber) {
        debug_assert!(
            (self.last_done + 1..=self.last_queued).contains(&number.raw()),
            "works are given up in their order: {number:?} behind {}",
            self.last_done
        );
        self.last_done = number.raw();
    }

    /// Buffers that wait for the node are given up, and the stage of locked content. Answers with the places that the content has left or
    /// was to leave. The kernel ignores a later answer to a protection: nothing waits for that change any more.
    #[must_use = "nothing is in these places any more"]
    pub fn lose_stage(&mut self) -> Vec<(Vec<WindowPages>, Vec<HeldRange>)> {
        self.ready.clear();
        match std::mem::take(&mut self.stage) {
            Stage::None | Stage::Building | Stage::Protecting(_) => Vec::new(),
            Stage::Moving(_, turns) => turns.into_iter().map(|turn| turn.left()).collect(),
            Stage::Showing(_, windows, ranges) => vec![(windows, ranges)],
        }
    }

    /// The paging process has a new context.
    pub fn begins_anew(&mut self, context: KmdContext) {
        self.context = context;
    }

    /// The tables of the scratch area were written anew.
    pub fn scratch_lost(&mut self) {
        self.scratch.forget();
    }

    /// Mappings show what is left when the outside has answered; then the windows of content that was lost go.
    pub fn shows_what_is_left(&mut self, unanswered: Unanswered) {
        let windows = std::mem::take(&mut self.lost_windows);
        self.stage = Stage::Showing(unanswered, windows, Vec::new());
    }
}
