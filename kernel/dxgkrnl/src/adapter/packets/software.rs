//! Software packets where they meet other parts (sync §2.4, §3.7, §3.8): mutexes and semaphores are taken, objects signalled, events set,
//! flips queued. The actions, and the parts of broadcasts, are `packet::software`'s.

use events::Event;
use gpu_fence::FenceId;
use kmt_calls::{FenceFlags, Refusal, SignalFlags};
use vidmm::AllocationId;
use vidsch::{Packet as Queued, QueueId, SoftwareTurn, SubmitError, Unstarted};

use crate::adapter::Adapter;
use crate::display::Flip;
use crate::effect::Cx;
use crate::number::{FenceNumber, PacketContextNumber, QueueNumber, SyncObjectNumber};
use crate::packet::{BroadcastEnd, Signal, SoftwareNumber, SoftwareStep};
use crate::refusal::{invalid, no_memory, removed};
use crate::scheduling::{AnyContext, Awaited, Payload};
use crate::store::ObjectNumber;
use crate::sync::Fed;

impl Adapter {
    /// `D3DKMTWaitForSynchronizationObjectFromGpu`, `D3DKMTWaitForSynchronizationObject2`: holds the context's later work. Fences first,
    /// then all objects at once.
    // spec: sync §3.8, sync §2.4
    pub fn packet_wait(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        points: &[(FenceNumber, u64)],
        objects: Vec<SyncObjectNumber>,
        value: u64,
    ) -> Result<(), Refusal> {
        if !objects.iter().all(|object| self.sync.is_waited_for_by_contexts(*object)) {
            return Err(invalid("no context can wait for a CPU notification: wait for its event"));
        }
        let queue = self.packets[context].vidsch;
        let packets = usize::from(!points.is_empty()) + usize::from(!objects.is_empty());
        self.vidsch.queues.may_submit(queue, packets).map_err(refused)?;
        if !points.is_empty() {
            let named = points.iter().map(|(fence, value)| self.sync.point(*fence, *value)).collect();
            self.vidsch.queues.submit(queue, Queued::Wait(named)).expect("there is room");
            self.sync.tell_fed(cx, Fed::Packets(context), points, false, false);
        }
        if !objects.is_empty() {
            let number = self.software.put(SoftwareStep::Take { objects, value });
            self.submit_software(queue, number, SoftwareTurn::Holds);
        }
        self.pump_packets(cx);
        Ok(())
    }

    /// A submission with NullRendering. Answers with how many the context has queued.
    // spec: sync §2.5
    pub fn submit_null(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) -> Result<u32, Refusal> {
        let queue = self.packets[context].vidsch;
        self.vidsch.queues.may_submit(queue, 1).map_err(refused)?;
        let number = self.software.put(SoftwareStep::Nothing);
        self.submit_software(queue, number, SoftwareTurn::Completed);
        self.pump_packets(cx);
        Ok(self.unfinished(cx, context) + u32::from(self.software.is_pending(number)))
    }

    /// `D3DKMTSignalSynchronizationObjectFromGpu` and its relatives: when all these contexts have come so far.
    // spec: sync §3.7, sync §2.4, sync §2.3
    pub fn packet_signal(
        &mut self,
        cx: &mut Cx<'_>,
        contexts: &[PacketContextNumber],
        mut signal: Signal,
    ) -> Result<(), Refusal> {
        let queues: Vec<QueueId> = contexts.iter().map(|context| self.packets[*context].vidsch).collect();
        for queue in &queues {
            self.vidsch.queues.may_submit(*queue, 2).map_err(refused)?;
        }
        let keepers: Vec<_> = contexts.iter().map(|context| AnyContext::Packets(*context)).collect();
        signal.fed = contexts.iter().map(|context| Fed::Packets(*context)).collect();
        signal.fed.iter().for_each(|fed| self.sync.tell_fed(cx, *fed, &signal.points, true, false));
        let at_submission = signal.flags.contains(SignalFlags::SIGNAL_AT_SUBMISSION);
        // Signalled when what is before has entered the pipeline: as early as the kernel knows of.
        let top = |(fence, _): &(FenceNumber, u64)| self.sync.fence(*fence).flags.contains(FenceFlags::TOP_OF_PIPELINE);
        let (early, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut signal.points).into_iter().partition(top);
        if !early.is_empty() {
            let early = Signal { points: early, flags: signal.flags, fed: signal.fed.clone(), ..Signal::default() };
            self.promise(&keepers, &queues, early, SoftwareTurn::Submitted);
        }
        signal.points = rest;
        if !signal.points.is_empty() || !signal.objects.is_empty() || signal.event.is_some() {
            let turn = if at_submission { SoftwareTurn::Submitted } else { SoftwareTurn::Completed };
            self.promise(&keepers, &queues, signal, turn);
        }
        self.pump_packets(cx);
        Ok(())
    }

    /// Puts a part of a signal into the queue of each of these contexts: a waiter for the signal waits for all of them.
    // spec: sync §4.2
    pub(in crate::adapter) fn promise(
        &mut self,
        contexts: &[AnyContext],
        queues: &[QueueId],
        signal: Signal,
        turn: SoftwareTurn,
    ) {
        let fences = signal.points.iter().map(|(fence, value)| self.sync.point(*fence, *value));
        let fences = fences.map(|point| (Awaited::Fence(point.fence), point.value));
        let objects = signal.objects.iter().map(|object| (Awaited::Object(*object), 0));
        let points: Vec<_> = fences.chain(objects).collect();
        for (part, context) in self.broadcast(queues, signal, turn).into_iter().zip(contexts) {
            self.vidsch.ranks.promise(part.raw(), *context, points.clone());
        }
    }

    /// Puts a part of a signal into each of these queues, which have room. Answers with the numbers of the parts.
    fn broadcast(&mut self, queues: &[QueueId], signal: Signal, turn: SoftwareTurn) -> Vec<SoftwareNumber> {
        let broadcast = self.software.begin_broadcast(queues.len(), signal);
        let part = |queue: &QueueId| {
            let number = self.software.put(SoftwareStep::Part(broadcast));
            self.submit_software(*queue, number, turn);
            number
        };
        queues.iter().map(part).collect()
    }

    fn submit_software(&mut self, queue: QueueId, number: SoftwareNumber, turn: SoftwareTurn) {
        let packet = Queued::Software(Payload::Software(number), turn);
        self.vidsch.queues.submit(queue, packet).expect("there is room");
    }

    /// The turn of a software packet has come.
    // spec: sync §3.7, sync §3.8
    pub(super) fn software_turn(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber, number: SoftwareNumber) {
        match self.software.take(number).expect("a packet comes once") {
            SoftwareStep::Take { objects, value } => {
                let vidsch = self.packets[context].vidsch;
                match self.sync.wait_for_objects(context, &objects, value) {
                    None => self.vidsch.queues.waited(vidsch),
                    Some(wait) => {
                        self.software.waits_for(context, wait);
                        let awaits = objects.iter().map(|object| (Awaited::Object(*object), 0)).collect();
                        self.vidsch.ranks.awaits(vidsch, AnyContext::Packets(context), awaits);
                        let held = Event::ContextHeld { context: context.raw(), object: objects[0].raw() };
                        cx.emit(self.index, held);
                    }
                }
            }
            SoftwareStep::Part(broadcast) => {
                self.vidsch.ranks.over(number.raw());
                self.part_is_over(cx, broadcast, false);
            }
            SoftwareStep::Flip(flip) => self.flip_complete(cx, flip),
            SoftwareStep::Nothing => {}
            SoftwareStep::Writes(_) => unreachable!("packets have lists of what they write"),
        }
    }

    /// Puts a flip into the queue of a context, or into a hardware queue, which has room.
    pub fn queue_flip(&mut self, queue: QueueId, flip: Flip) {
        let number = self.software.put(SoftwareStep::Flip(flip));
        self.submit_software(queue, number, SoftwareTurn::Completed);
    }

    /// Queues the primaries that the next command of a hardware queue writes, if displays may show them.
    ///
    /// # Errors
    /// When there is no room for both.
    pub(in crate::adapter) fn queue_writes(
        &mut self,
        queue: QueueId,
        primaries: Vec<AllocationId>,
    ) -> Result<(), SubmitError> {
        if primaries.is_empty() || !self.displays.are_there() {
            return Ok(());
        }
        self.vidsch.queues.may_submit(queue, 2)?;
        let number = self.software.put(SoftwareStep::Writes(primaries));
        self.submit_software(queue, number, SoftwareTurn::Holds);
        Ok(())
    }

    /// The turn of a software packet on a hardware queue has come.
    // spec: sync §3.7
    pub(in crate::adapter) fn queue_software_turn(
        &mut self,
        cx: &mut Cx<'_>,
        queue: QueueNumber,
        number: SoftwareNumber,
    ) {
        match self.software.take(number).expect("a packet comes once") {
            SoftwareStep::Part(broadcast) => {
                self.vidsch.ranks.over(number.raw());
                self.part_is_over(cx, broadcast, false);
            }
            SoftwareStep::Writes(primaries) => {
                if self.queue_may_write(cx, queue, primaries) {
                    self.vidsch.queues.waited(self.queues[queue].vidsch);
                }
            }
            SoftwareStep::Flip(flip) => self.flip_complete(cx, flip),
            SoftwareStep::Take { .. } => unreachable!("a hardware queue takes no objects"),
            SoftwareStep::Nothing => unreachable!("a hardware queue has no commands that are not processed"),
        }
    }

    fn part_is_over(&mut self, cx: &mut Cx<'_>, number: SoftwareNumber, lost: bool) {
        let signal = match self.software.part_is_over(number, lost) {
            None => return,
            Some(BroadcastEnd::Dropped(signal)) => return self.drop_signal(cx, signal),
            Some(BroadcastEnd::Signal(signal)) => signal,
        };
        let rewind = signal.flags.contains(SignalFlags::ALLOW_FENCE_REWIND);
        signal.fed.iter().for_each(|fed| self.sync.tell_fed(cx, *fed, &signal.points, true, true));
        for (fence, value) in signal.points {
            // A fence that was destroyed meanwhile has no waiter.
            if self.sync.fence_if_there(fence).is_some() {
                self.set_fence(cx, fence, value, rewind);
            }
        }
        for object in signal.objects {
            self.signal_sync_object(cx, object, signal.fence_value, rewind);
        }
        self.due.set_event(signal.event);
    }

    fn drop_signal(&mut self, cx: &mut Cx<'_>, signal: Signal) {
        // No other call sets it: a thread that waits for it would sleep for ever.
        // spec: sync §2.4 (EnqueueCpuEvent)
        self.due.set_event(signal.event);
        cx.emit(
            self.index,
            Event::SignalDropped { fences: signal.points.len() as u32, objects: signal.objects.len() as u32 },
        );
    }

    /// A context goes or is lost: with what it waits for, and with what it had still to do.
    pub(super) fn drop_software(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        dropped: Unstarted<Payload, FenceId>,
    ) {
        let wait = self.software.waits_no_more(context);
        let news = self.sync.context_leaves(cx, context, wait);
        self.carry_out_sync(news);
        self.drop_parts(cx, dropped);
    }

    /// A context or a hardware queue goes or is lost, with its parts of signals.
    pub(in crate::adapter) fn drop_parts(&mut self, cx: &mut Cx<'_>, dropped: Unstarted<Payload, FenceId>) {
        for packet in dropped.into_packets() {
            let Queued::Software(Payload::Software(number), _) = packet else { continue };
            match self.software.take(number) {
                Some(SoftwareStep::Part(broadcast)) => {
                    self.vidsch.ranks.over(number.raw());
                    self.part_is_over(cx, broadcast, true);
                }
                Some(SoftwareStep::Flip(flip)) => self.drop_flip(cx, flip),
                Some(SoftwareStep::Take { .. } | SoftwareStep::Nothing | SoftwareStep::Writes(_)) | None => {}
            }
        }
    }
}

fn refused(error: SubmitError) -> Refusal {
    match error {
        SubmitError::UserQueue => unreachable!("a packet context is fed by the kernel"),
        SubmitError::TooMany => no_memory("the context holds as many packets as it may"),
        SubmitError::Stopped => removed("the context has stopped"),
    }
}
