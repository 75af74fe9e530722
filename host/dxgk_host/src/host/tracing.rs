//! Tools that trace: what they switch on for all processes, and what a process says for them.

use std::sync::atomic::Ordering;

use kmt_calls::QueuedFence;
use wddm_types::{ProcessId, RawHandle};

use super::Host;

impl Host {
    /// A tool begins or ceases to trace the waits and signals of user-mode queues.
    pub fn trace_fences(&self, on: bool) {
        let mut state = self.hold();
        state.turn(|machine, cx| machine.trace_fences(cx, on));
        if self.traces_fences.swap(on, Ordering::AcqRel) != on {
            state.views.all_elsewhere().for_each(|process| process.traces(on));
        }
    }

    /// A tool begins or ceases to trace the contexts that engines run where hardware schedules by itself.
    pub fn trace_scheduling(&self, on: bool) {
        self.hold().turn(|machine, cx| machine.trace_scheduling(cx, on));
    }

    /// A tool switches further types of logs on or off: when submissions begin, told while it traces.
    pub fn set_verbose_logs(&self, on: bool) {
        self.hold().turn(|machine, cx| machine.set_verbose_logs(cx, on));
    }

    /// Whether a tool traces.
    pub fn traces_fences(&self) -> bool {
        self.traces_fences.load(Ordering::Acquire)
    }

    /// A process names the waits and signals that it submits next on a user-mode queue.
    pub fn fences_queued(&self, process: ProcessId, queue: RawHandle, queued: &[QueuedFence]) {
        if let Ok(mut state) = self.hold_sound() {
            state.turn(|machine, cx| machine.fences_queued(cx, process, queue, queued));
        }
    }
}
