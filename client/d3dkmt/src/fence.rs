//! Fences as user mode holds them.

use std::sync::Arc;

use kmt_calls::{Call, CreatedFence};
use kmt_link::{Link, read_only};
use shared_words::ReadOnlyWord;
use wddm_types::{GpuVa, RawHandle, WordAddress};

use crate::Owned;

/// A fence: polled by a load, waited for by a call, signalled by the GPU or the CPU.
pub struct Fence {
    created: CreatedFence,
    current: ReadOnlyWord,
    // Held for its drop; a queue's own fence goes with the queue.
    _owned: Option<Owned>,
}

impl Fence {
    pub(crate) fn owned(link: Arc<dyn Link>, created: CreatedFence) -> Fence {
        let current = read_only(link.as_ref(), created.current);
        let destroy = |fence| Call::DestroySynchronizationObject { fence };
        Fence { created, current, _owned: Some(Owned { link, handle: created.fence, destroy }) }
    }

    pub(crate) fn borrowed(link: Arc<dyn Link>, created: CreatedFence) -> Fence {
        let current = read_only(link.as_ref(), created.current);
        Fence { created, current, _owned: None }
    }

    /// CurrentValue, by a load from the read-only mapping; no call.
    pub fn current(&self) -> u64 {
        self.current.load()
    }

    /// CurrentValue for the GPU.
    pub fn current_va(&self) -> GpuVa {
        self.created.current_va
    }

    /// MonitoredValue for the GPU.
    pub fn monitored_va(&self) -> GpuVa {
        self.created.monitored_va
    }

    /// System address of CurrentValue: names the fence in traces of the device.
    pub fn address(&self) -> WordAddress {
        self.created.current
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.created.fence
    }
}
