//! A link that counts what goes over it: what the kernel is asked, a stage at a time, is what stages differ in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kmt_calls::{Call, MappingId, Notification, Refusal, Reply};
use kmt_link::{CpuMapping, Link};
use shared_words::Memory;
use wddm_types::{Luid, RawHandle};

/// The link of a process, and how many calls it has made.
pub struct Counted {
    link: Arc<dyn Link>,
    calls: AtomicU64,
}

impl Counted {
    /// No call yet.
    pub fn new(link: Arc<dyn Link>) -> Arc<Counted> {
        Arc::new(Counted { link, calls: AtomicU64::new(0) })
    }

    /// Calls made, refused ones too.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Link for Counted {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.link.call(call)
    }

    fn system_memory(&self) -> &Arc<Memory> {
        self.link.system_memory()
    }

    fn mapping(&self, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        self.link.mapping(mapping)
    }

    fn doorbell_page(&self, adapter: Luid) -> Option<Arc<Memory>> {
        self.link.doorbell_page(adapter)
    }

    fn doorbell_rung(&self, adapter: Luid, index: u32) {
        self.link.doorbell_rung(adapter, index);
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
