//! A link with a listener: who wants to know what a process asks for stands between it and its kernel.

use std::sync::Arc;

use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, Refusal, Reply};
use shared_words::Memory;
use wddm_types::RawHandle;

use crate::{CpuMapping, DoorbellPage, Link};

/// A link that shows each call to a listener before it makes it.
pub struct Heard<F> {
    link: Arc<dyn Link>,
    hear: F,
}

impl<F: Fn(&Call) + Send + Sync> Heard<F> {
    /// The link, heard by `hear` on the thread that calls.
    pub fn new(link: Arc<dyn Link>, hear: F) -> Heard<F> {
        Heard { link, hear }
    }
}

impl<F: Fn(&Call) + Send + Sync> Link for Heard<F> {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        (self.hear)(&call);
        self.link.call(call)
    }

    fn system_memory(&self) -> &Arc<Memory> {
        self.link.system_memory()
    }

    fn mapping(&self, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        self.link.mapping(mapping)
    }

    fn doorbell(&self, address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        self.link.doorbell(address)
    }

    fn take_notification(&self) -> Option<Notification> {
        self.link.take_notification()
    }

    fn wait_notification(&self) -> Option<Notification> {
        self.link.wait_notification()
    }

    fn now_ns(&self) -> u64 {
        self.link.now_ns()
    }

    fn traces_fences(&self) -> bool {
        self.link.traces_fences()
    }

    fn fence_queued(&self, queue: RawHandle, fence: RawHandle, value: u64, signal: bool) {
        self.link.fence_queued(queue, fence, value, signal);
    }
}
