//! Logs while a tool traces: the kernel makes them long beforehand, so that it reads each entry before the engine overwrites it, and
//! short again when the tool has gone; it reads them when they are half full, and at the end; it passes on what the processes say of
//! their recording; and it sets the clock of each node beside its own, so that times of logs and times of the processor lie on one line
//! (sync §3.14).
//!
//! | condition | reported by | clock |
//! |---|---|---|
//! | wait queued, signal queued | the process, when it submits what it has recorded, with the time of recording | the kernel's |
//! | signal executed, wait unblocked | the logs | the node's |
//! | the same four of queues and contexts that the kernel feeds | the kernel | the kernel's |

use events::Event;
use kmt_calls::QueuedFence;

use super::Names;
use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::QueueNumber;
use crate::object::Object;
use crate::process::Process;
use crate::store::ObjectNumber;

impl Adapter {
    /// A tool begins or ceases to trace. At the end the kernel reads the logs once more.
    pub fn trace_fences(&mut self, cx: &mut Cx<'_>, names: &Names<'_>, on: bool) {
        if self.sync.is_traced() {
            let queues: Vec<_> = self.queues.iter().map(|(number, _)| number).collect();
            let news = self.read_logs(cx, names, &queues);
            self.heed_logs(cx, &news);
        }
        if self.sync.trace(on) && !self.life.has_stopped() {
            self.resize_logs(cx);
        }
        self.calibrate_clocks(cx);
    }

    /// A tool switches further types of logs on or off. Both drivers are told: the kernel-mode driver at once, the other when it finds its
    /// doorbell disconnected and connects it again.
    // spec: sync §3.14, sync §6 C13
    pub fn set_verbose_logs(&mut self, cx: &mut Cx<'_>, on: bool) {
        if self.sync.has_verbose_logs() == on || self.life.has_stopped() {
            return;
        }
        let Some(driver) = self.driver.call(cx).native_fence_logs() else { return };
        // Queued work still writes what is switched off: the kernel tells the driver when it gives no queue such a log any more.
        if on {
            driver.set_verbose_logs(true);
        }
        self.sync.set_verbose_logs(on);
        self.resize_logs(cx);
        if let (false, Some(driver)) = (on, self.driver.call(cx).native_fence_logs()) {
            driver.set_verbose_logs(false);
        }
    }

    /// Reads the logs that are half full.
    pub fn drain_logs(&mut self, cx: &mut Cx<'_>, names: &Names<'_>) {
        self.free_retired_logs(cx, names);
        if !self.sync.is_traced() {
            return;
        }
        let full = self.queues.iter().filter(|(_, queue)| queue.logs.any_half_full(cx.memory));
        let queues: Vec<_> = full.map(|(number, _)| number).collect();
        if !queues.is_empty() {
            let news = self.read_logs(cx, names, &queues);
            self.heed_logs(cx, &news);
            self.touch();
        }
    }

    /// A process says that it has put a wait or a signal into what it submits on a queue of its own. Names that mean nothing are
    /// ignored: it says so for a tool's sake.
    // spec: sync §3.14
    pub fn fence_queued(&self, cx: &mut Cx<'_>, process: &Process, queue: QueueNumber, queued: QueuedFence) {
        let QueuedFence { fence, value, signal, recorded_ns } = queued;
        let Some(Object::Fence(index, open)) = process.handles.get(fence) else { return };
        if *index != self.index || self.queues.get(queue).is_none() {
            return;
        }
        // As in a log: such a queue waits for native fences and signals them.
        let Some(fence) = self.sync.driver_fence_of(*open) else { return };
        // A process records before it submits.
        let recorded_ns = recorded_ns.min(cx.now_ns);
        cx.emit(
            self.index,
            match signal {
                true => Event::FenceSignalQueued { queue: queue.raw(), fence: fence.raw(), value, recorded_ns },
                false => Event::FenceWaitQueued { queue: queue.raw(), fence: fence.raw(), value, recorded_ns },
            },
        );
    }

    /// Sets the clocks of the nodes beside the kernel's.
    pub(in crate::adapter) fn calibrate_clocks(&self, cx: &mut Cx<'_>) {
        // CAST: at most 64 nodes.
        for node in self.driver.node_ids() {
            if let Ok(clock) = self.driver.calibrate_gpu_clock(node) {
                let ddi::GpuClock { frequency_hz, counter } = clock;
                cx.emit(self.index, Event::GpuClockCalibrated { node: node.0, frequency_hz, counter });
            }
        }
    }
}
