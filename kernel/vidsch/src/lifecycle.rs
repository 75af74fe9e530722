//! The life of a queue: one enum, one table. Whether a packet is due at all is decided here; which one, in `queue`.
//!
//! ```text
//!                 WaitTaken
//!     ┌─────────┐ ────────▶ ┌─────────┐
//!  ──▶│  Ready  │           │ Waiting │
//!     └─────────┘ ◀──────── └─────────┘
//!      │       ▲    Waited    │     ▲
//!  Suspend   Resume       Suspend  Resume           Fail, from anywhere
//!      ▼       │              ▼     │                    │
//!     ┌───────────┐ Waited ┌──────────────────┐     ┌────▼───┐
//!     │ Suspended │ ◀───── │ SuspendedWaiting │     │ Failed │  for good
//!     └───────────┘        └──────────────────┘     └────────┘
//! ```
//! Suspending what is suspended and resuming what is not change nothing (sync §4.1: suspend succeeds if already
//! suspended). In Failed a late `Waited` is heard and ignored: the wait may have been released by the failure itself.

/// Where a queue is in its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QueueState {
    /// Packets come out as they become due. A context is created resumed (sync §4.1).
    Ready,
    /// A wait was handed out and is not over: nothing behind it comes out.
    Waiting,
    /// The queue gives nothing out. Work in flight may still complete.
    Suspended,
    /// Suspended while a wait is not over; the wait goes on.
    SuspendedWaiting,
    /// Its device is in error: nothing comes out or goes in any more.
    Failed,
}

/// The events that change the state of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    WaitTaken,
    Waited,
    Suspend,
    Resume,
    Fail,
}

impl QueueState {
    /// The next state. `None`: this cannot happen here, the caller has a bug.
    // spec: sync §4.1
    pub(crate) fn after(self, event: Event) -> Option<QueueState> {
        use Event::*;
        use QueueState::*;
        match (self, event) {
            (Ready, WaitTaken) => Some(Waiting),
            (Waiting, Waited) => Some(Ready),
            (SuspendedWaiting, Waited) => Some(Suspended),
            (Failed, Waited) => Some(Failed),
            (Waiting | Suspended | SuspendedWaiting | Failed, WaitTaken) => None,
            (Ready | Suspended, Waited) => None,
            (Ready | Suspended, Suspend) => Some(Suspended),
            (Waiting | SuspendedWaiting, Suspend) => Some(SuspendedWaiting),
            (Ready | Suspended, Resume) => Some(Ready),
            (Waiting | SuspendedWaiting, Resume) => Some(Waiting),
            (Failed, Suspend | Resume) => Some(Failed),
            (_, Fail) => Some(Failed),
        }
    }

    /// Whether a wait was handed out whose end the caller still owes.
    pub const fn is_waiting(self) -> bool {
        matches!(self, QueueState::Waiting | QueueState::SuspendedWaiting)
    }
}

#[cfg(test)]
mod tests {
    use super::Event::*;
    use super::QueueState::*;

    #[test]
    fn every_event_in_every_state() {
        // spec: sync §4.1
        let events = [WaitTaken, Waited, Suspend, Resume, Fail];
        #[rustfmt::skip]
        let table = [
            //                  WaitTaken      Waited           Suspend                 Resume         Fail
            (Ready,            [Some(Waiting), None,            Some(Suspended),        Some(Ready),   Some(Failed)]),
            (Waiting,          [None,          Some(Ready),     Some(SuspendedWaiting), Some(Waiting), Some(Failed)]),
            (Suspended,        [None,          None,            Some(Suspended),        Some(Ready),   Some(Failed)]),
            (SuspendedWaiting, [None,          Some(Suspended), Some(SuspendedWaiting), Some(Waiting), Some(Failed)]),
            (Failed,           [None,          Some(Failed),    Some(Failed),           Some(Failed),  Some(Failed)]),
        ];
        for (state, row) in table {
            for (event, next) in events.into_iter().zip(row) {
                assert_eq!(state.after(event), next, "{event:?} in {state:?}");
            }
        }
    }
}
