//! Ranks of contexts at work (sync §4.2): contexts enter them, wait for each other, get other priorities, and the driver of a hardware context
//! hears its rank. `vidsch::Ranks` has the rule, `scheduling` the words that calls and drivers use for it.

use engine_time::{Contender, Quanta, Rank};
use events::Event;
use gpu_fence::FenceId;
use vidsch::QueueId;
use wddm_types::{FencePoint, ProcessId};

use crate::adapter::Adapter;
use crate::due::{DriverRefusal, RefusedWork, Verdict};
use crate::effect::Cx;
use crate::number::{ContextNumber, DeviceNumber, PacketContextNumber};
use crate::queue::Context;
use crate::scheduling::{AnyContext, Awaited, ContextPriority, priority_of, set_rank};

impl Adapter {
    /// A context's priorities as calls have set them.
    pub fn context_priority(&self, context: AnyContext) -> ContextPriority {
        self.vidsch.ranks.priority(context)
    }

    /// The device of a context.
    pub fn device_of_context(&self, context: AnyContext) -> DeviceNumber {
        match context {
            AnyContext::Hardware(number) => self.queues[number].device,
            AnyContext::Packets(number) => self.packets[number].device,
        }
    }

    /// A context of a process was created: it ranks by the process's class.
    pub(super) fn enter_ranks(&mut self, context: AnyContext, process: ProcessId) {
        self.vidsch.ranks.enter(context, process.0.into(), self.owners.class_of(process));
    }

    /// Packet contexts as contenders for a node, with the ranks that they have now.
    // spec: sync §4.2
    pub(super) fn contenders(&self, contexts: &[PacketContextNumber]) -> Vec<Contender<PacketContextNumber>> {
        let ranks = self.vidsch.ranks.ranks_of(contexts.iter().copied().map(AnyContext::Packets));
        let contender = |(&context, rank)| Contender { context, rank, quanta: Quanta::default() };
        contexts.iter().zip(ranks).map(contender).collect()
    }

    /// A queue of a context waits for these, as the wait at its head says.
    pub(super) fn note_wait(&mut self, queue: QueueId, context: AnyContext, points: &[FencePoint<FenceId>]) {
        let awaits = points.iter().map(|point| (Awaited::Fence(point.fence), point.value));
        self.vidsch.ranks.awaits(queue, context, awaits.collect());
    }

    /// The wait at a queue's head is over. Answers with the points that it waited for.
    pub(super) fn waits_no_more(&mut self, queue: QueueId) -> Vec<FencePoint<FenceId>> {
        let awaited = self.vidsch.ranks.waits_no_more(queue).into_iter();
        let fences = awaited.filter_map(|(what, value)| match what {
            Awaited::Fence(fence) => Some(FencePoint { fence, value }),
            Awaited::Object(_) => None,
        });
        fences.collect()
    }

    /// Another priority, from the next decision on.
    // spec: sync §4.2
    pub fn set_context_priority(&mut self, cx: &mut Cx<'_>, context: AnyContext, priority: ContextPriority) {
        self.vidsch.ranks.set_priority(context, priority);
        if let AnyContext::Hardware(number) = context {
            self.tell_rank(cx, number);
        }
        let packets = matches!(context, AnyContext::Packets(_));
        let (priority, in_process) = (priority_of(priority), priority.in_process());
        cx.emit(self.index, Event::ContextPriority { context: context.number(), packets, priority, in_process });
        self.pump_packets(cx);
    }

    /// Tells the driver a context's rank before any work is submitted on it. A refusal is judged as one of the device's work.
    // spec: sync §4.2
    pub(super) fn rank_newcomer(&mut self, cx: &Cx<'_>, number: ContextNumber) {
        let rank = self.vidsch.ranks.tell(AnyContext::Hardware(number));
        let Context { kmd, node, device, .. } = self.queues[number];
        if let Err(status) = set_rank(&mut self.driver.call(cx), kmd, rank) {
            let verdict = Verdict::Lose(format!("SetContextSchedulingProperties failed for a new context: {status}"));
            self.due.refused(DriverRefusal::new(RefusedWork::Rank(number), Some(device), [node], verdict));
        }
    }

    /// Lends hardware contexts the rank of contexts that wait for them, as long as those wait.
    // spec: sync §4.2
    pub(super) fn lend_ranks(&mut self, cx: &mut Cx<'_>) {
        let news = self.vidsch.ranks.to_tell();
        self.tell_driver(cx, news);
    }

    /// A context ranks otherwise by itself.
    // spec: sync §4.2
    pub(super) fn tell_rank(&mut self, cx: &mut Cx<'_>, number: ContextNumber) {
        let context = AnyContext::Hardware(number);
        let rank = self.vidsch.ranks.tell(context);
        self.tell_driver(cx, vec![(context, rank)]);
    }

    /// A process has another class: all its contexts rank otherwise.
    // spec: sync §4.2
    pub(super) fn tell_ranks(&mut self, cx: &mut Cx<'_>, process: ProcessId, class: u32) {
        let news = self.vidsch.ranks.set_class(process.0.into(), class);
        self.tell_driver(cx, news);
    }

    /// Tells the driver of these ranks, as long as it answers; not the driver of an adapter that has stopped.
    fn tell_driver(&mut self, cx: &Cx<'_>, news: Vec<(AnyContext, Rank)>) {
        if self.life.has_stopped() {
            return;
        }
        for (context, rank) in news {
            let AnyContext::Hardware(number) = context else { unreachable!("packet contexts' ranks are not told") };
            let Context { kmd, node, device, .. } = self.queues[number];
            if let Err(status) = set_rank(&mut self.driver.call(cx), kmd, rank) {
                let verdict = Verdict::Stop(format!("SetContextSchedulingProperties failed: {status}"));
                self.due.refused(DriverRefusal::new(RefusedWork::Rank(number), Some(device), [node], verdict));
            }
        }
    }
}
