//! What goes between the adapter's synchronization and its other parts. Waits that begin are published to the driver: those of the CPU,
//! which block or set an event, and those that the kernel holds for queues (sync §3.5, §3.8). What ended lets its context, queue, lock or
//! call go on with the loop of settling, and the machine sets events and forgets names.

use events::Event;
use gpu_fence::{FenceId, WaitMode};
use kmt_calls::{Refusal, Reply, WaitFlags};
use wddm_types::{FencePoint, RawHandle};

use crate::adapter::Adapter;
use crate::due::Waiter;
use crate::effect::{Answer, Cx};
use crate::number::{DeviceNumber, EventName, FenceNumber, SectionNumber, SyncObjectNumber, SyncOpenNumber, Token};
use crate::refusal::invalid;
use crate::store::ObjectNumber;
use crate::sync::{News, SyncNews, WaitsOf};

impl Adapter {
    /// `D3DKMTWaitForSynchronizationObjectFromCpu`: blocks, or with an event answers at once and sets it once.
    // spec: sync §3.5, sync §6 B9, sync §6 B10
    pub fn wait_from_cpu(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        device: DeviceNumber,
        points: &[(FenceNumber, u64)],
        event: Option<EventName>,
        flags: WaitFlags,
    ) -> Result<Answer, Refusal> {
        if !WaitFlags::WAIT_ANY.contains(flags) {
            return Err(invalid(format!("wait flags {:#x} are reserved", flags.bits())));
        }
        let mode = if flags.contains(WaitFlags::WAIT_ANY) { WaitMode::Any } else { WaitMode::All };
        let first = points[0];
        let points: Vec<_> = points.iter().map(|(fence, value)| self.sync.point(*fence, *value)).collect();
        let (waiter, answer) = match event {
            None => (Waiter::Answer { token, device }, Answer::Later(token)),
            Some(event) => (Waiter::Event { token, device, event }, Answer::Done(Ok(Reply::Done))),
        };
        let Some(updates) = self.sync.register_wait(cx.memory, &points, mode, waiter) else {
            self.due.set_event(event);
            return Ok(Answer::Done(Ok(Reply::Done)));
        };
        self.tally.cpu_wait_began();
        let process = self.owners.process_of(device).0;
        cx.emit(self.index, Event::CpuWaitBegan { process, wait: token.0, fence: first.0.raw(), value: first.1 });
        // Publishing may find the value reached already: the wait then ends in this turn.
        self.publish(cx, updates);
        Ok(answer)
    }

    /// Waits for the work that the device's contexts and queues have been given so far.
    ///
    /// # Errors
    /// A queue's last-queued word lies (sync §3.11).
    pub fn wait_until_idle(&mut self, cx: &mut Cx<'_>, token: Token, device: DeviceNumber) -> Result<Answer, Refusal> {
        let queued = self.sync.live_points(self.queued_work(cx, device)?);
        let queued = self.unreached(cx, queued).into_iter();
        let queued: Vec<_> = queued.map(|point| (self.sync.number_of(point.fence), point.value)).collect();
        match queued.is_empty() {
            true => Ok(Answer::Done(Ok(Reply::Done))),
            false => self.wait_from_cpu(cx, token, device, &queued, None, WaitFlags::empty()),
        }
    }

    /// Registers a wait; true when it is satisfied at once (the waiter is dropped then).
    pub fn begin_wait(
        &mut self,
        cx: &mut Cx<'_>,
        points: &[FencePoint<FenceId>],
        mode: WaitMode,
        waiter: Waiter,
    ) -> bool {
        match self.sync.register_wait(cx.memory, points, mode, waiter) {
            None => true,
            Some(updates) => {
                self.publish(cx, updates);
                false
            }
        }
    }

    /// Ends the CPU waits of a device that is lost, or goes; they are answered so.
    // spec: sync §3.16, sync §6 B8
    pub fn end_waits_of_device(&mut self, cx: &mut Cx<'_>, number: DeviceNumber) {
        let ended = self.sync.end_waits_of(WaitsOf::Device(number));
        self.release(cx, ended.released);
        self.publish(cx, ended.updates);
    }

    /// Ends the waits of a queue or a context that goes, or of a ring that has nothing left to wait for: no work goes on by them. Without this
    /// a fence of another process that lives on would have them for as long as it lives.
    // spec: sync §4.4
    pub fn end_idle_waits(&mut self, cx: &mut Cx<'_>, ended: WaitsOf) {
        let updates = self.sync.end_waits_of(ended).updates;
        self.publish(cx, updates);
    }

    /// Queues what released waits do, and says so. Answers how many they are.
    pub fn release(&mut self, cx: &mut Cx<'_>, released: Vec<Waiter>) -> u32 {
        // CAST: waits are bounded by calls in flight.
        let count = released.len() as u32;
        for waiter in released {
            if let Waiter::Answer { token, device } | Waiter::Event { token, device, .. } = &waiter {
                let process = self.owners.facts_of(*device).map_or(0, |facts| facts.process.0);
                cx.emit(self.index, Event::CpuWaitEnded { process, wait: token.0 });
            }
            self.due.wait_ended(waiter);
        }
        count
    }

    /// Carries out news in their order.
    pub fn carry_out_sync(&mut self, news: Vec<SyncNews>) {
        for news in news {
            match news {
                SyncNews::Ended(waiter) => {
                    if let Waiter::Packets { context } = waiter {
                        self.software.waits_no_more(context);
                    }
                    self.due.wait_ended(waiter);
                }
                SyncNews::SetEvent(event) => self.due.set_event(event),
                SyncNews::GlobalGone(global) => self.due.global_gone(global),
            }
        }
    }

    /// A call has an event set when its turn is over.
    pub fn set_event(&mut self, event: EventName) {
        self.due.set_event(event);
    }

    /// A signal of an object without a word in memory; `value` and `rewind` are for a fence.
    pub fn signal_sync_object(&mut self, cx: &mut Cx<'_>, object: SyncObjectNumber, value: u64, rewind: bool) {
        let news = self.sync.signal_object(cx, object, value, rewind);
        self.carry_out_sync(news);
    }

    /// An open of such an object ends.
    pub fn close_sync_object(&mut self, cx: &mut Cx<'_>, open: SyncOpenNumber) {
        let news = self.sync.close_object(cx, open);
        self.carry_out_sync(news);
    }

    /// A name of such an object has gone.
    pub fn unname_sync_object(&mut self, cx: &mut Cx<'_>, object: SyncObjectNumber) {
        let news = self.sync.unname_object(cx, object);
        self.carry_out_sync(news);
    }
}

/// News for the machine, which takes them when the adapter has settled.
impl Adapter {
    /// The events to set, in the order in which they fell due.
    #[must_use]
    pub fn take_events(&mut self) -> Vec<EventName> {
        self.due.take_events()
    }

    /// The global handles to forget.
    #[must_use]
    pub fn take_gone_globals(&mut self) -> Vec<RawHandle> {
        self.due.take_gone_globals()
    }

    /// The sections that allocations have left, one item for each use that is over.
    #[must_use]
    pub fn take_left_sections(&mut self) -> Vec<SectionNumber> {
        self.due.take_left_sections()
    }

    /// The machine acts on the adapter, and settles it before the turn ends.
    pub fn touch(&mut self) {
        self.due.touch();
    }

    /// Whether the machine has acted on the adapter since it settled last.
    pub fn is_touched(&self) -> bool {
        self.due.is_touched()
    }

    /// The kind of news that nothing has taken yet, if any, for the check between calls.
    pub fn news_left_over(&self) -> Option<&'static str> {
        self.due.left_over()
    }

    /// Whether there is anything to tell other adapters.
    pub fn has_news_for_others(&self) -> bool {
        self.sync.has_news_for_others()
    }

    /// Takes the news for other adapters.
    #[must_use]
    pub fn take_news_for_others(&mut self) -> Vec<News> {
        self.sync.take_news_for_others()
    }
}
