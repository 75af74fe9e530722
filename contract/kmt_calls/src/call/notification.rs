//! Calls on registrations: of what a process wants to be told (memory §5.4, §5.5).

use serde::{Deserialize, Serialize};
use wddm_types::{Luid, RawHandle};

/// A call on a registration for notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotificationCall {
    /// `D3DKMTRegisterTrimNotification` → `Handle`: trims of this device are told from now on.
    RegisterTrim {
        /// The adapter that the caller takes it for; `None`: it does not say.
        adapter: Option<Luid>,
        /// The device.
        device: RawHandle,
    },
    /// `D3DKMTRegisterBudgetChangeNotification` → `Handle`.
    RegisterBudgetChange {
        /// The device.
        device: RawHandle,
    },
    /// `D3DKMTUnregisterTrimNotification`, `D3DKMTUnregisterBudgetChangeNotification`.
    Unregister {
        /// The registration.
        registration: RawHandle,
    },
}

impl NotificationCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            NotificationCall::RegisterTrim { .. } => "RegisterTrimNotification",
            NotificationCall::RegisterBudgetChange { .. } => "RegisterBudgetChangeNotification",
            NotificationCall::Unregister { .. } => "UnregisterNotification",
        }
    }
}
