//! Calls on events, which are the operating system's and not `D3DKMT`'s: asynchronous waits, `EnqueueCpuEvent`, CPU notifications (sync
//! §2.4), and the process itself set them.

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

/// A call on an event of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventCall {
    /// `CreateEvent` → `Handle`; not set.
    Create {
        /// It stays set until it is reset; else one wait takes it.
        manual_reset: bool,
    },
    /// The same with a notification each time it is set ([`crate::NotificationKind::EventSet`]), for programs whose events are not the
    /// kernel's: the notification names this handle.
    CreateTold,
    /// `WaitForSingleObject` → `Done` when it is set; `TIMEOUT` without `block`.
    Wait {
        /// The event.
        event: RawHandle,
        /// Until it is set.
        block: bool,
    },
    /// `SetEvent`: as a set by the kernel, it lets all waiters go on, or the oldest, or the next that comes.
    Set {
        /// The event.
        event: RawHandle,
    },
    /// `ResetEvent`.
    Reset {
        /// The event.
        event: RawHandle,
    },
    /// `CloseHandle`. Its waiters go on.
    Close {
        /// The event.
        event: RawHandle,
    },
}

impl EventCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            EventCall::Create { .. } | EventCall::CreateTold => "CreateEvent",
            EventCall::Wait { .. } => "WaitForSingleObject",
            EventCall::Set { .. } => "SetEvent",
            EventCall::Reset { .. } => "ResetEvent",
            EventCall::Close { .. } => "CloseHandle",
        }
    }
}
