//! Signals of fences by the CPU, the MonitoredValues that are published behind each look at a fence, and what a fence becomes when its
//! device is lost (sync §3.6, §3.9, §3.16).

use std::collections::BTreeMap;

use events::Event;
use gpu_fence::{FenceKind, MonitoredUpdate};
use kmt_calls::{Refusal, SignalFlags};
use shared_words::Word;

use super::moved::MonitoredWords;
use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::effect::Cx;
use crate::number::{FenceNumber, FenceOpenNumber};
use crate::store::ObjectNumber;
use crate::sync::{Fence, News};

impl Adapter {
    /// `D3DKMTSignalSynchronizationObjectFromCpu`.
    // spec: sync §3.6, sync §1.6
    pub fn signal_from_cpu(
        &mut self,
        cx: &mut Cx<'_>,
        points: &[(FenceNumber, u64)],
        flags: SignalFlags,
    ) -> Result<(), Refusal> {
        let changes = self.sync.changes_from_cpu(cx.memory, points, flags)?;
        self.signal_fences(cx, &changes);
        Ok(())
    }

    /// Brings a fence to a value from the CPU and releases the waits that it satisfies. A value that it has already is no change.
    pub(in crate::adapter) fn signal_fence(&mut self, cx: &mut Cx<'_>, number: FenceNumber, value: u64) {
        self.set_fence(cx, number, value, false);
    }

    /// The same; with `rewind` also to a lower value. Released waits stay released.
    // spec: sync §3.6, sync §6 B4
    pub(in crate::adapter) fn set_fence(&mut self, cx: &mut Cx<'_>, number: FenceNumber, value: u64, rewind: bool) {
        let current = self.sync.current_value(cx.memory, number);
        if !self.sync.fence(number).always_signaled && (value > current || rewind && value != current) {
            self.signal_fences(cx, &[(number, value)]);
        }
    }

    /// Brings fences to values that they do not have yet, all by one call of the driver.
    // spec: sync §3.6, sync §2.6
    fn signal_fences(&mut self, cx: &mut Cx<'_>, changes: &[(FenceNumber, u64)]) {
        debug_assert!(
            changes.iter().all(|(fence, _)| !self.sync.fence(*fence).always_signaled),
            "what is reached for ever gets no value: {changes:?}"
        );
        let told = self.sync.set_current(self.driver.call(cx), cx.memory, changes);
        if self.heed(cx, told).is_none() {
            return;
        }
        for &(fence, value) in changes {
            let first = self.sync.fence(fence).opens.first().map(|open| self.sync.open(*open));
            self.tally.signaled_from_cpu(first.map(|open| open.process));
            cx.emit(self.index, Event::FenceSignaledFromCpu { fence: fence.raw(), value });
            self.sync.tell_others(fence, News::Stored);
        }
        let fences: Vec<_> = changes.iter().map(|(fence, _)| *fence).collect();
        self.sample_fences(cx, &fences);
    }

    /// The device that may signal a fence of user mode is lost: a monitored fence gets its greatest value, a native one is
    /// satisfied for ever.
    // spec: sync §3.16
    pub(in crate::adapter) fn lose_signaller(&mut self, cx: &mut Cx<'_>, number: FenceNumber) {
        match self.sync.kind_of(number) {
            FenceKind::Monitored => self.set_fence(cx, number, u64::MAX, false),
            FenceKind::Native | FenceKind::NativeCrossAdapter => self.signal_always(cx, number),
        }
    }

    /// Looks at fences' values and releases the waits that they satisfy; all values to be published go to the driver in one call. Returns
    /// how many waits ended.
    pub(in crate::adapter) fn sample_fences(&mut self, cx: &mut Cx<'_>, numbers: &[FenceNumber]) -> u32 {
        let (mut count, mut updates) = (0, BTreeMap::new());
        for &number in numbers {
            let Some(sampled) = self.sync.sample(cx.memory, number) else { continue };
            count += self.release(cx, sampled.released);
            // A fence that a later one of the list touched once more has its last value published only.
            updates.extend(sampled.updates.into_iter().map(|update| (update.fence, update)));
        }
        count + self.publish(cx, updates.into_values().collect())
    }

    /// Publishes MonitoredValues and samples again until nothing changes. Returns how many waits that released.
    // spec: sync §3.9
    pub(in crate::adapter) fn publish(&mut self, cx: &mut Cx<'_>, mut updates: Vec<MonitoredUpdate>) -> u32 {
        let mut released = 0;
        while !updates.is_empty() && !self.life.has_stopped() {
            let live = self.sync.live_updates(&updates);
            if live.is_empty() {
                break;
            }
            let told = self.tell_monitored(cx, &live);
            if self.heed(cx, told).is_none() {
                break;
            }
            updates.clear();
            for published in live {
                let sampled = self.sync.value_published(cx, cx.memory, published);
                released += self.release(cx, sampled.released);
                updates.extend(sampled.updates);
            }
        }
        released
    }

    /// Has the driver store MonitoredValues. A device without power signals nothing, and is told when it wakes; words that move, when they
    /// are there.
    ///
    /// # Errors
    /// The driver failed: bug check 0x119, parameter 0x12.
    // spec: sync §3.9
    fn tell_monitored(&mut self, cx: &Cx<'_>, values: &[(FenceNumber, u64)]) -> Result<(), Breach> {
        if self.life.is_off() {
            return Ok(());
        }
        // The words borrow nothing that the driver's call needs.
        let (memory, bus) = (cx.memory, cx.platform(self.index).bus());
        let (vidmm, sync, done) = (&self.vidmm, &self.sync, self.memory.ring.done());
        let words = MonitoredWords { memory, bus, vidmm, sync, done };
        self.sync.tell_monitored(self.driver.call(cx), values, |fence| words.of(fence))
    }

    /// Marks a fence satisfied for ever and releases all its waits (sync §3.16).
    // spec: sync §3.16
    pub fn signal_always(&mut self, cx: &mut Cx<'_>, number: FenceNumber) {
        if !self.sync.seal(number) {
            return;
        }
        let told = self.tell_always_signaled(cx, number);
        if self.heed(cx, told).is_none() {
            return;
        }
        let sampled = self.sync.end_waits_on_sealed(number);
        self.release(cx, sampled.released);
        self.publish(cx, sampled.updates);
    }

    /// The same of a fence by an open of it.
    pub fn signal_open_always(&mut self, cx: &mut Cx<'_>, open: FenceOpenNumber) {
        let fence = self.sync.open(open).fence;
        self.signal_always(cx, fence);
    }

    /// Readers see the largest value, and the driver passes every wait.
    ///
    /// # Errors
    /// The driver failed: bug check 0x119, parameter 0x13.
    // spec: sync §3.16, sync §6 B12
    pub(super) fn tell_always_signaled(&mut self, cx: &Cx<'_>, number: FenceNumber) -> Result<(), Breach> {
        if self.sync.fence(number).slot.on_cpu() {
            self.sync.store(cx.memory, number, u64::MAX);
        }
        // A device without power passes no wait, and its page tables may be away: it is told when it wakes. While a word is on its
        // way the place where it will be is another's content: it is told when the word is there.
        if self.life.is_off() || self.sync.is_word_on_its_way(number, self.memory.ring.done()) {
            return Ok(());
        }
        self.sync.tell_always(self.driver.call(cx), cx.memory, number)
    }

    /// The device has power again: tells it what it missed while it slept: the fences whose every wait passes, and those whose waits have
    /// begun or ended.
    pub(in crate::adapter) fn tell_slept_through(&mut self, cx: &mut Cx<'_>) {
        let sealed = self.sync.fences().filter(|(_, fence)| fence.always_signaled && fence.kmd.is_some());
        for number in sealed.map(|(number, _)| number).collect::<Vec<_>>() {
            let told = self.tell_always_signaled(cx, number);
            if self.heed(cx, told).is_none() {
                return;
            }
        }
        let words = self.monitored_words(cx);
        let differs = |fence: &Fence| {
            let update = self.sync.update_of(fence);
            let word = fence.kmd.and_then(|_| words.of(fence))?;
            (Word::load(word) != update.value).then_some(update)
        };
        let updates = self.sync.fences().filter_map(|(_, fence)| differs(fence)).collect();
        self.publish(cx, updates);
        // spec: sync §3.12: other adapters have signalled meanwhile
        let common: Vec<_> = self.sync.members().map(|(_, number)| number).collect();
        let told = self.notify_only(cx, &common);
        self.heed(cx, told);
    }
}
