//! Words of fences in local memory that move (sync §1.5): the driver's notice, and how the kernel loses nothing that
//! it publishes meanwhile.
//!
//! All devices of the process are quiesced while a page of its words moves, so no engine compares with a MonitoredValue to decide whether
//! to interrupt. But the kernel goes on: waits begin and end. It may store nothing at a word's new place before the old content has
//! arrived, and nothing at its old place any more, which is another owner's next. So from the moment at which the driver hears of the
//! move (`there_after`) until the hardware is past it the kernel holds MonitoredValues back, and then publishes all of the page as they
//! are by then. It waits for the hardware only: whatever else the move had to wait for is over when the driver hears of it, and the
//! kernel is told of the end in any case: a process that creates a fence waits for its words, and quiesced devices go on behind their
//! move. Values that the paging engine signals by itself (paging queues) never lie here.

use std::sync::atomic::AtomicU64;

use gpu_fence::FenceId;
use shared_words::Memory;
use vidmm::{AllocationId, VidMm};
use wddm_types::SegmentId;

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::platform::BusMemory;
use crate::sync::{Fence, Synchronization};

/// Where the kernel finds MonitoredValues.
#[derive(Clone, Copy)]
pub(super) struct MonitoredWords<'a> {
    pub memory: &'a Memory,
    pub bus: Option<&'a dyn BusMemory>,
    pub vidmm: &'a VidMm<FenceId>,
    pub sync: &'a Synchronization,
    /// The paging work that the hardware is past.
    pub done: u64,
}

impl<'a> MonitoredWords<'a> {
    /// A fence's MonitoredValue for the CPU; `None`: there is none for it, or none just now.
    // spec: sync §1.5: valid for one call only
    pub fn of(self, fence: &Fence) -> Option<&'a AtomicU64> {
        let Some(word) = fence.slot.local_monitored() else {
            return fence.slot.on_cpu().then(|| self.memory.word(fence.slot.monitored.0));
        };
        let place = self.sync.published_place(word, self.done)?;
        if place.segment == SegmentId::SYSTEM {
            return Some(self.memory.word(place.offset));
        }
        self.bus?.word(self.vidmm.bus_address(place)?)
    }
}

impl Adapter {
    pub(super) fn monitored_words<'a, 'x: 'a>(&'a self, cx: &Cx<'x>) -> MonitoredWords<'a> {
        let (memory, bus) = (cx.memory, cx.platform(self.index).bus());
        MonitoredWords { memory, bus, vidmm: &self.vidmm, sync: &self.sync, done: self.memory.ring.done() }
    }

    /// Fence words have moved: the hardware knows words that are satisfied for ever by their place, and what was to be published
    /// meanwhile is published.
    // spec: sync §3.16, sync §3.9
    pub(in crate::adapter) fn words_have_moved(&mut self, cx: &mut Cx<'_>, storage: AllocationId) {
        let there = |fence: &Fence| fence.slot.stands_in(storage);
        let sealed = self.sync.fences().filter(|(_, fence)| fence.always_signaled && there(fence));
        for number in sealed.map(|(number, _)| number).collect::<Vec<_>>() {
            let told = self.tell_always_signaled(cx, number);
            if self.heed(cx, told).is_none() {
                return;
            }
        }
        let words = self.monitored_words(cx);
        let published = |fence: &Fence| there(fence) && fence.kmd.is_some() && words.of(fence).is_some();
        let published = self.sync.fences().filter(|(_, fence)| published(fence));
        let updates = published.map(|(_, fence)| self.sync.update_of(fence)).collect();
        self.publish(cx, updates);
    }
}
