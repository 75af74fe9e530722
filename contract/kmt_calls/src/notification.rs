//! Notifications that the kernel sends to a process by itself: the callbacks of the C interface as values (memory §5.4, §5.5). A process
//! that registered for them takes them from its link; the kernel calls no function of the process.

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

/// A callback that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// The registration that it belongs to.
    pub registration: RawHandle,
    /// The content of the notification.
    pub kind: NotificationKind,
}

/// The content of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotificationKind {
    /// `D3DKMT_TRIMNOTIFICATION`: the user-mode driver gives memory back.
    Trim {
        /// The reasons of the trim.
        flags: TrimFlags,
        /// With TRIM_TO_BUDGET: at least so many bytes.
        bytes_to_trim: u64,
    },
    /// The event that is named as the registration was set, once or more often since this was last told.
    EventSet,
    /// The budget of a group has changed.
    BudgetChanged {
        /// Local group, else non-local.
        local: bool,
        /// The budget now.
        budget_bytes: u64,
    },
}

bitflags::bitflags! {
    /// `D3DDDI_TRIMRESIDENCYSET_FLAGS` (memory §5.4).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TrimFlags: u32 {
        /// Evict what was last used before the last periodic trim; then the last periodic trim is now.
        const PERIODIC_TRIM = 1 << 0;
        /// Only move the last periodic trim to now; never with the bit before.
        const RESTART_PERIODIC_TRIM = 1 << 1;
        /// Evict at least the bytes asked for.
        const TRIM_TO_BUDGET = 1 << 2;
    }
}
