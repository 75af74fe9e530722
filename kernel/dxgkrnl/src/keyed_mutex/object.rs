//! One keyed mutex: its owner, its waiters, the runtime's data.

use std::collections::VecDeque;

use kmt_calls::{AcquiredKeyedMutex, Refusal, Reply};
use wddm_types::{Blame, NtStatus, RawHandle};

use crate::effect::Token;
use crate::number::KeyedMutexOpenNumber;
use crate::refusal::{invalid, refuse};

/// One of them.
#[derive(Debug)]
pub struct KeyedMutex {
    pub(super) state: KeyedMutexState,
    /// The key and the fence value of the last release.
    pub(super) key: u64,
    pub(super) fence_value: u64,
    pub(super) runtime_data: Vec<u8>,
    /// Its global handle; NONE: it has none.
    pub global: RawHandle,
    pub(super) by_nt_handle: bool,
    pub(super) opens: u32,
    /// NT handles that name it.
    pub(super) names: u32,
    /// Calls that wait for it, oldest first.
    pub(super) waiting: VecDeque<Wait>,
}

/// See the drawing at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyedMutexState {
    Free,
    Owned { open: KeyedMutexOpenNumber },
    Abandoned,
}

/// A call that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) token: Token,
    pub(super) open: KeyedMutexOpenNumber,
    pub(super) key: u64,
    pub(super) ends_ns: Option<u64>,
    pub(super) data_bytes: u32,
}

impl KeyedMutex {
    /// The data, if there is room for them.
    pub(super) fn data(&self, room_bytes: u32) -> Result<Vec<u8>, Refusal> {
        match room_bytes as usize {
            0 => Ok(Vec::new()),
            // A caller with room gets nothing when there are no data.
            _ if self.runtime_data.is_empty() => Ok(Vec::new()),
            room if room == self.runtime_data.len() => Ok(self.runtime_data.clone()),
            room => {
                Err(invalid(format!("{room} bytes for the runtime's data, which have {}", self.runtime_data.len())))
            }
        }
    }

    pub(super) fn acquired(&self, data_bytes: u32) -> Reply {
        debug_assert!(matches!(self.state, KeyedMutexState::Owned { .. }), "what is acquired has an owner: {self:?}");
        let runtime_data = self.data(data_bytes).expect("asked before the call waited");
        Reply::AcquiredKeyedMutex(AcquiredKeyedMutex { fence_value: self.fence_value, runtime_data })
    }

    /// Whether it has no global handle, but NT handles.
    pub fn goes_by_nt_handle(&self) -> bool {
        self.by_nt_handle
    }

    /// Whether its counts are these, and its owner and its waiters are among its opens.
    pub fn is_held_by(&self, opens: &[KeyedMutexOpenNumber], names: usize) -> bool {
        let owned = match self.state {
            KeyedMutexState::Owned { open } => opens.contains(&open),
            KeyedMutexState::Free => self.waiting.iter().all(|wait| wait.key != self.key),
            KeyedMutexState::Abandoned => self.waiting.is_empty(),
        };
        let waits = self.waiting.iter().all(|wait| opens.contains(&wait.open));
        owned && waits && (self.opens as usize, self.names as usize) == (opens.len(), names)
    }
}

pub(super) fn abandoned() -> Refusal {
    refuse(NtStatus::ABANDONED, Blame::Caller, "the owner of the keyed mutex has gone without releasing it")
}

pub(super) fn timeout() -> Refusal {
    refuse(NtStatus::TIMEOUT, Blame::Caller, "the keyed mutex was not released with this key in time")
}
