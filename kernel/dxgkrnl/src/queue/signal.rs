//! What stands between the buffers of kernel-mode queues: waits and signals (sync §3.7, §3.8).

use kmt_calls::{Refusal, SignalFlags};
use vidsch::{Packet, SoftwareTurn};

use super::refused;
use crate::adapter::Adapter;
use crate::fence::POINTS_MAX;
use crate::machine::Cx;
use crate::packet::Signal;
use crate::refusal::invalid;
use crate::scheduling::AnyContext;

impl Adapter {
    /// `D3DKMTSubmitWaitForSyncObjectsToHwQueue`.
    pub fn submit_wait(&mut self, cx: &mut Cx<'_>, number: u64, points: &[(u64, u64)]) -> Result<(), Refusal> {
        if points.is_empty() || points.len() > POINTS_MAX {
            return Err(invalid(format!("1 to {POINTS_MAX} fences")));
        }
        let points = points.iter().map(|(fence, value)| self.point(*fence, *value)).collect();
        self.submit_packet(number, Packet::Wait(points))?;
        self.pump_queue(cx, number);
        Ok(())
    }

    /// `D3DKMTSubmitSignalSyncObjectsToHwQueue`: from the CPU, when everything before has finished on all these queues; or, with
    /// SignalAtSubmission, has been handed to the hardware.
    // spec: sync §2.4, sync §3.7
    pub fn submit_signal(
        &mut self,
        cx: &mut Cx<'_>,
        numbers: &[u64],
        points: Vec<(u64, u64)>,
        flags: SignalFlags,
    ) -> Result<(), Refusal> {
        let known = SignalFlags::SIGNAL_AT_SUBMISSION | SignalFlags::ALLOW_FENCE_REWIND;
        if !known.contains(flags) {
            let wrong = flags.difference(known);
            return Err(invalid(format!("signal flags {:#x} mean nothing for hardware queues", wrong.bits())));
        }
        // Two packets on each queue, or on none.
        for number in numbers {
            self.vidsch.may_submit(self.queues[*number].vidsch, 2).map_err(refused)?;
        }
        if !flags.contains(SignalFlags::SIGNAL_AT_SUBMISSION) {
            for number in numbers {
                let queue = &self.queues[*number];
                let before = self.point(queue.progress, queue.last_submitted);
                self.submit_packet(*number, Packet::Wait(vec![before]))?;
            }
        }
        let contexts: Vec<_> =
            numbers.iter().map(|number| AnyContext::Hardware(self.queues[*number].context)).collect();
        let queues: Vec<_> = numbers.iter().map(|number| self.queues[*number].vidsch).collect();
        let signal = Signal { points, flags, ..Signal::default() };
        self.promise(&contexts, &queues, signal, SoftwareTurn::Submitted);
        for number in numbers {
            self.pump_queue(cx, *number);
        }
        Ok(())
    }
}
