//! The end of a world: nothing is left of anybody.

use super::*;
use kmt_calls::{AdapterCall, DeviceCall};

/// Steps in which the hardware comes to rest when no process calls any more.
const DRAIN_STEPS_MAX: u64 = 1_000_000;

impl World {
    /// All processes are dead: the hardware comes to rest, and the kernel and its driver hold nothing of them.
    pub(super) fn finish(mut self) -> Result<Report, Broken> {
        self.drain()?;
        // A newcomer's device is there when the ring has got past everything older, so that what was put off has been done.
        let newcomer = self.host.process_created();
        let opened =
            self.host.call(newcomer, Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: self.host.luid() }));
        let Ok(Reply::Handle(adapter)) = opened else {
            return Err(("answers", format!("a newcomer's open answered {opened:?}")));
        };
        let device = self.host.call(newcomer, Call::Device(DeviceCall::CreateDevice { adapter }));
        if !matches!(device, Ok(Reply::Handle(_))) {
            return Err(("liveness", format!("a newcomer's device answered {device:?}")));
        }
        self.drain()?;
        self.look()?;
        let ledger = shared(&self.ledger);
        // The paging process with its device, context, queue and progress fence, and the newcomer's process and device. Once a device has
        // been suspended, the fence of suspensions stays. Where paging is packets there are no queues, and the fences are the kernel's
        // alone.
        let queues = usize::from(self.renderers.is_none());
        let fences = queues * (1 + usize::from(ledger.seen().contains_key("DeviceSuspended")));
        let expected = ObjectCounts {
            processes: 2,
            devices: 2,
            contexts: 1,
            queues,
            doorbells: 0,
            allocations: 0,
            fences,
            opens: fences,
        };
        let held = ledger.contract.held();
        if held != expected {
            return Err(("ddi contract", format!("at the end the driver holds {held:?}, expected {expected:?}")));
        }
        if ledger.resident_bytes() != 0 {
            return Err((
                "frames",
                format!("{} bytes stay resident although no process is left", ledger.resident_bytes()),
            ));
        }
        if !ledger.paging.idle() {
            return Err(("liveness", "paging work was never completed".into()));
        }
        ledger.packets.idle().map_err(|place| ("packets", place))?;
        let (trace_hash, events) = ledger.trace();
        let mut seen = ledger.seen().clone();
        if let Some(bystander) = &self.bystander {
            seen.extend(bystander.tally().map(|(what, count)| (what.to_owned(), count)));
        }
        let calls = self.calls + self.renderers.as_ref().map_or(0, Renderers::calls);
        let (seed, turns, virtual_ns) = (self.seed, self.turns, self.host.now_ns());
        Ok(Report { seed, trace_hash, events, calls, turns, virtual_ns, seen })
    }

    pub(super) fn drain(&mut self) -> Result<(), Broken> {
        for _ in 0..DRAIN_STEPS_MAX {
            if !self.host.step() {
                return Ok(());
            }
        }
        Err(("liveness", "the hardware never comes to rest although all processes are dead".into()))
    }
}
