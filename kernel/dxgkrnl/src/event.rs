//! Events of the operating system: asynchronous waits, `EnqueueCpuEvent`, CPU notifications (sync §2.4) and their process set them. A
//! real system has them outside of the graphics kernel; here they are objects of a process. Adapters only name them, and a
//! process by its handles (`process`); the machine sets them at the end of the turn (`machine::event`).

use std::collections::VecDeque;

use kmt_calls::{Notification, NotificationKind, Refusal, Reply};
use wddm_types::{Blame, NtStatus, ProcessId, RawHandle};

use crate::effect::{Answer, Cx, Effect, Token};
use crate::refusal::refuse;

/// An event.
#[derive(Debug)]
pub struct Event {
    manual_reset: bool,
    set: bool,
    /// Calls that wait for it, oldest first.
    waiting: VecDeque<Token>,
    /// Its process and its handle there, if the process is told.
    tells: Option<(ProcessId, RawHandle)>,
}

impl Event {
    /// Not set.
    pub fn new(manual_reset: bool) -> Event {
        Event { manual_reset, set: false, waiting: VecDeque::new(), tells: None }
    }

    /// The process is told of it by this handle.
    pub fn tell(&mut self, process: ProcessId, handle: RawHandle) {
        self.tells = Some((process, handle));
    }

    /// `WaitForSingleObject`.
    ///
    /// # Errors
    /// `TIMEOUT` when it is not set and the caller does not want to wait.
    pub fn wait(&mut self, token: Token, block: bool) -> Result<Answer, Refusal> {
        debug_assert!(!self.set || self.waiting.is_empty(), "no thread waits for an event that is set: {self:?}");
        if self.set {
            self.set = self.manual_reset;
            return Ok(Answer::Done(Ok(Reply::Done)));
        }
        if !block {
            return Err(refuse(NtStatus::TIMEOUT, Blame::Caller, "the event is not set"));
        }
        self.waiting.push_back(token);
        Ok(Answer::Later(token))
    }

    /// `ResetEvent`.
    pub fn reset(&mut self) {
        self.set = false;
    }

    /// Sets it: waiting threads go on, all or the oldest.
    pub fn set(&mut self, cx: &mut Cx<'_>) {
        if let Some((process, registration)) = self.tells {
            let notification = Notification { registration, kind: NotificationKind::EventSet };
            cx.effects.push(Effect::Notify { process, notification });
        }
        let woken = if self.manual_reset { self.waiting.len() } else { self.waiting.len().min(1) };
        self.set = self.manual_reset || woken == 0;
        for token in self.waiting.drain(..woken) {
            cx.effects.push(Effect::Answer { token, result: Ok(Reply::Done) });
        }
        debug_assert!(!self.set || self.waiting.is_empty(), "no thread waits for an event that is set: {self:?}");
    }

    /// Its handle is closed: nothing will ever set it, so waiting threads go on with an error.
    pub fn close(self, cx: &mut Cx<'_>) {
        for token in self.waiting {
            let closed = refuse(NtStatus::INVALID_HANDLE, Blame::Caller, "the event was closed");
            cx.effects.push(Effect::Answer { token, result: Err(closed) });
        }
    }
}
