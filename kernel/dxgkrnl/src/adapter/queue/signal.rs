//! Waits and signals between the buffers of kernel-mode queues (sync §3.7, §3.8).

use kmt_calls::{FenceFlags, Refusal, SignalFlags};
use vidsch::{Packet, SoftwareTurn};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{FenceNumber, QueueNumber};
use crate::packet::Signal;
use crate::queue::refused;
use crate::refusal::invalid;
use crate::scheduling::AnyContext;
use crate::sync::{Fed, POINTS_MAX};

impl Adapter {
    /// `D3DKMTSubmitWaitForSyncObjectsToHwQueue`.
    pub fn submit_wait(
        &mut self,
        cx: &mut Cx<'_>,
        number: QueueNumber,
        points: &[(FenceNumber, u64)],
    ) -> Result<(), Refusal> {
        if points.is_empty() || points.len() > POINTS_MAX {
            return Err(invalid(format!("1 to {POINTS_MAX} fences")));
        }
        let named = points.iter().map(|(fence, value)| self.sync.point(*fence, *value)).collect();
        self.submit_packet(number, Packet::Wait(named))?;
        self.sync.tell_fed(cx, Fed::Queue(number), points, false, false);
        self.pump_queue(cx, number);
        Ok(())
    }

    /// `D3DKMTSubmitSignalSyncObjectsToHwQueue`: from the CPU, when everything before has finished on all these queues; or, with
    /// SignalAtSubmission, has been handed to the hardware.
    // spec: sync §2.4, sync §3.7
    pub fn submit_signal(
        &mut self,
        cx: &mut Cx<'_>,
        numbers: &[QueueNumber],
        points: Vec<(FenceNumber, u64)>,
        flags: SignalFlags,
    ) -> Result<(), Refusal> {
        let known = SignalFlags::SIGNAL_AT_SUBMISSION | SignalFlags::ALLOW_FENCE_REWIND;
        if !known.contains(flags) {
            let wrong = flags.difference(known);
            return Err(invalid(format!("signal flags {:#x} mean nothing for hardware queues", wrong.bits())));
        }
        // spec: sync §2.5: a signal of one queue is no broadcast
        let takes_part = |number: &&QueueNumber| numbers.len() == 1 || !self.queues[**number].no_broadcast_signal;
        let numbers: Vec<_> = numbers.iter().filter(takes_part).copied().collect();
        if numbers.is_empty() {
            return Err(invalid("none of these queues takes part in broadcasts"));
        }
        // Three packets on each queue, or on none.
        for number in &numbers {
            self.vidsch.queues.may_submit(self.queues[*number].vidsch, 3).map_err(refused)?;
        }
        let contexts: Vec<_> =
            numbers.iter().map(|number| AnyContext::Hardware(self.queues[*number].context)).collect();
        let queues: Vec<_> = numbers.iter().map(|number| self.queues[*number].vidsch).collect();
        // spec: sync §2.3: signalled when what is before has entered the pipeline, as early as the kernel knows of
        let at_submission = flags.contains(SignalFlags::SIGNAL_AT_SUBMISSION);
        let top = |(fence, _): &(FenceNumber, u64)| {
            at_submission || self.sync.fence(*fence).flags.contains(FenceFlags::TOP_OF_PIPELINE)
        };
        let fed: Vec<Fed> = numbers.iter().map(|number| Fed::Queue(*number)).collect();
        fed.iter().for_each(|fed| self.sync.tell_fed(cx, *fed, &points, true, false));
        let (early, rest): (Vec<_>, Vec<_>) = points.into_iter().partition(top);
        if !early.is_empty() {
            let signal = Signal { points: early, flags, fed: fed.clone(), ..Signal::default() };
            self.promise(&contexts, &queues, signal, SoftwareTurn::Submitted);
        }
        if !rest.is_empty() {
            for number in &numbers {
                let queue = &self.queues[*number];
                let before = self.sync.point(queue.progress, queue.feed.submitted());
                self.submit_packet(*number, Packet::Wait(vec![before]))?;
            }
            let signal = Signal { points: rest, flags, fed, ..Signal::default() };
            self.promise(&contexts, &queues, signal, SoftwareTurn::Submitted);
        }
        for number in numbers {
            self.pump_queue(cx, number);
        }
        Ok(())
    }
}
