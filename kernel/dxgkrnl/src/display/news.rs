//! The loan that the adapter makes the displays for one call, and the news that the displays have of it.

use ddi::{Display, FlipQueue};
use events::Event;
use shared_words::Memory;
use vidmm::AllocationId;
use wddm_types::AdapterIndex;

use crate::driver::EntryPoints;
use crate::effect::{Cx, Token};
use crate::number::{DeviceNumber, QueueNumber};
use crate::tally::Tally;

/// Something that other parts have to do because of a display.
#[must_use = "without its consequences a primary stays pinned, a queue held, a call unanswered"]
#[derive(Debug)]
pub enum DisplayNews {
    /// One use less of a primary: the memory manager pins it once less.
    Unpin(AllocationId),
    /// The primaries of a held hardware queue are free: the queue goes on.
    GoesOn(QueueNumber),
    /// A call of a device that is lost is over.
    Lost(Token, DeviceNumber),
    /// The hardware takes no flips any more, for this reason: a reset of the adapter falls due.
    ResetDue(String),
}

/// The leaves and the turn of one call. The displays hear of nothing else.
pub struct Lent<'a, 'b> {
    /// The adapter, as events name it.
    pub adapter: AdapterIndex,
    pub driver: EntryPoints<'a>,
    pub tally: &'a mut Tally,
    /// System memory, in which the logs of flip queues lie.
    pub memory: &'a Memory,
    pub cx: &'a mut Cx<'b>,
    /// The adapter has neither stopped nor lost its power. Else the displays ask its driver for nothing.
    pub runs: bool,
    /// The news of this call in their order. They hold also where the call ends with a breach, and come before it.
    pub news: Vec<DisplayNews>,
}

impl Lent<'_, '_> {
    pub(super) fn tell(&mut self, news: DisplayNews) {
        self.news.push(news);
    }

    pub(super) fn emit(&mut self, event: Event) {
        self.cx.emit(self.adapter, event);
    }

    pub(super) fn display(&mut self) -> &mut dyn Display {
        self.driver.again().display().expect("it had displays when it started")
    }

    pub(super) fn flip_queue(&mut self) -> &mut dyn FlipQueue {
        self.driver.again().flip_queue().expect("it had flip queues when it started")
    }
}
