//! Waiting for the kernel's answers and notifications: a thread sleeps in real time (`kernel_lock`), and lets virtual time pass otherwise. Each time
//! a waiting thread wakes, it checks whether the kernel has failed: then no answer will come.

use std::collections::VecDeque;

use dxgkrnl::Token;
use kmt_calls::{Notification, Refusal, Reply};
use wddm_types::{Blame, NtStatus, ProcessId};

use super::state::HostState;
use super::{Host, Pending, inspect};
use crate::config::Mode;

impl Host {
    /// Takes the answer of a pending call, if it has come.
    pub fn take_answer(&self, pending: Pending) -> Option<Result<Reply, Refusal>> {
        self.hold().answers.remove(&pending.0).map(|answer| answer.result)
    }

    /// A conductor watches for the answer of a call that one of its players waits for ([`Host::take_watched`]).
    pub(crate) fn watch(&self, pending: Pending, player: usize) {
        let mut state = self.hold();
        let has_come = state.answers.contains_key(&pending.0);
        state.waiting.watch(pending.0, player);
        if has_come {
            state.waiting.answered(pending.0);
        }
    }

    /// The conductor watches for this call no more.
    pub(crate) fn unwatch(&self, pending: Pending) {
        self.hold().waiting.unwatch(pending.0);
    }

    /// Names the players whose answers have come since the last call.
    pub(crate) fn take_watched(&self, come: impl FnMut(usize)) {
        self.hold().waiting.take_come().for_each(come);
    }

    /// Takes a process's oldest notification.
    pub fn take_notification(&self, process: ProcessId) -> Option<Notification> {
        self.hold().notifications.get_mut(&process)?.pop_front()
    }

    /// The same, but waits for one: on this thread in real time, by letting virtual time pass otherwise. `None` when
    /// virtual time stands still, or the kernel has failed.
    pub fn wait_notification(&self, process: ProcessId) -> Option<Notification> {
        let mut state = self.hold();
        loop {
            if let Some(notification) = state.notifications.get_mut(&process).and_then(VecDeque::pop_front) {
                return Some(notification);
            }
            if self.has_failed() {
                return None;
            }
            match self.mode {
                Mode::Real => {
                    state.waiting.for_notification(process);
                    state.sleep();
                }
                Mode::Virtual { .. } if self.step_locked(&mut state) => {}
                Mode::Virtual { .. } => return None,
            }
        }
    }

    /// The refusal of a pending call when virtual time stands still.
    pub(crate) fn wait_has_no_end(&self, pending: Pending) -> Refusal {
        self.hold().wait_has_no_end(pending.0)
    }

    /// Waits for the answer of a pending call, on this thread in real time, by letting virtual time pass otherwise. The number is that of the
    /// answer in the kernel's order.
    pub(super) fn finish(&self, process: Option<ProcessId>, pending: Pending) -> (Result<Reply, Refusal>, Option<u64>) {
        let mut state = self.hold();
        let result = loop {
            if let Some(answer) = state.answers.remove(&pending.0) {
                break (answer.result, Some(answer.order));
            }
            if self.has_failed() {
                break (Err(inspect::kernel_failed()), None);
            }
            if process.is_some_and(|process| !state.machine.has_process(process)) {
                break (Err(inspect::process_gone()), None);
            }
            match self.mode {
                Mode::Real => {
                    state.waiting.for_answer(pending.0);
                    state.sleep();
                }
                Mode::Virtual { .. } if self.step_locked(&mut state) => {}
                Mode::Virtual { .. } => break (Err(state.wait_has_no_end(pending.0)), None),
            }
        };
        state.waiting.answer_taken(pending.0);
        result
    }
}

impl HostState {
    /// The refusal of a call that virtual time cannot end: either the call lacks memory, which no destruction gives back any more, or its
    /// wait has no end.
    fn wait_has_no_end(&mut self, token: Token) -> Refusal {
        self.machine.give_up_memory(token).unwrap_or_else(|| Refusal {
            status: NtStatus::TIMEOUT,
            blame: Blame::Caller,
            reason: "virtual time stands still: nothing is left that could end this wait".into(),
            bytes_to_trim: 0,
        })
    }
}
