//! A process as the whole kernel knows it: its handles, its events, its terms, its quota. What it has on one adapter each part of that adapter
//! keeps by itself.

use kmt_calls::Refusal;
use wddm_types::{Blame, NtStatus, RawHandle};

use crate::event::Event;
use crate::handle::HandleTable;
use crate::number::EventNumber;
use crate::object::Object;
use crate::quota::Admission;
use crate::refusal::refuse;
use crate::store::Store;
use crate::system_handle::SystemHandles;

/// A process.
pub struct Process {
    /// Its handles.
    pub handles: HandleTable<Object>,
    /// Its handles of events and sections, which the operating system would have: they take no numbers from the others.
    pub system_handles: SystemHandles,
    /// On which terms it shares memory.
    pub terms: Terms,
    /// It may ask for priorities above the ordinary ones (`SE_INC_BASE_PRIORITY_NAME`).
    pub may_raise_priority: bool,
    /// Its events.
    pub events: Store<EventNumber, Event>,
    /// Its quota and account, if its creation named them.
    pub admission: Option<Admission>,
}

impl Process {
    /// One that has nothing yet.
    pub fn new(admission: Option<Admission>) -> Process {
        Process {
            handles: HandleTable::counting(|object| {
                matches!(object, Object::Fence(..) | Object::Legacy(..) | Object::KeyedMutex(_))
            }),
            system_handles: SystemHandles::default(),
            terms: Terms::default(),
            may_raise_priority: false,
            events: Store::default(),
            admission,
        }
    }

    /// The event that a handle names.
    ///
    /// # Errors
    /// `INVALID_HANDLE`.
    // spec: sync §5
    pub fn event(&mut self, handle: RawHandle) -> Result<EventNumber, Refusal> {
        match self.system_handles.get(handle) {
            Some(Object::Event(number)) => Ok(*number),
            _ => {
                let reason = format!("{handle} is no event of this process");
                Err(refuse(NtStatus::INVALID_HANDLE, Blame::Caller, reason))
            }
        }
    }

    /// All handles, with what they name.
    pub fn named(&self) -> impl Iterator<Item = (RawHandle, &Object)> {
        self.handles.iter().chain(self.system_handles.iter())
    }
}

/// On which terms a process shares an adapter's memory (memory §5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// `D3DKMT_SCHEDULINGPRIORITYCLASS`: 0 IDLE to 5 REALTIME.
    pub class: u32,
    /// Most bytes of local memory, if an administrator said so.
    pub budget_bytes: Option<u64>,
}

impl Default for Terms {
    fn default() -> Self {
        Terms { class: NORMAL_CLASS, budget_bytes: None }
    }
}

/// `NORMAL`.
const NORMAL_CLASS: u32 = 2;
/// `REALTIME`, the highest.
pub const CLASS_MAX: u32 = 5;
