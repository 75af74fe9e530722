//! Counts the calls of a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dxgk_host::{Host, ProcessLink};
use kmt_calls::{Call, MappingId, Notification, Refusal, Reply, SyncCall};
use kmt_link::{CpuMapping, Link};
use shared_words::Memory;
use wddm_types::Luid;

/// A link that counts what goes over it.
pub struct Counting {
    inner: Arc<ProcessLink>,
    pub calls: AtomicU64,
    pub waits: AtomicU64,
    pub creations: AtomicU64,
}

impl Counting {
    /// A process whose calls are counted.
    pub fn new(host: &Arc<Host>) -> Arc<Counting> {
        let inner = ProcessLink::new(Arc::clone(host));
        Arc::new(Counting { inner, calls: 0.into(), waits: 0.into(), creations: 0.into() })
    }
}

impl Link for Counting {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match call {
            Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu { .. }) => {
                _ = self.waits.fetch_add(1, Ordering::SeqCst)
            }
            Call::CreateAllocation { .. } => _ = self.creations.fetch_add(1, Ordering::SeqCst),
            _ => {}
        }
        self.inner.call(call)
    }
    fn system_memory(&self) -> &Arc<Memory> {
        self.inner.system_memory()
    }
    fn mapping(&self, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        self.inner.mapping(mapping)
    }
    fn doorbell_page(&self, adapter: Luid) -> Option<Arc<Memory>> {
        self.inner.doorbell_page(adapter)
    }
    fn doorbell_rung(&self, adapter: Luid, index: u32) {
        self.inner.doorbell_rung(adapter, index);
    }
    fn take_notification(&self) -> Option<Notification> {
        self.inner.take_notification()
    }
    fn wait_notification(&self) -> Option<Notification> {
        self.inner.wait_notification()
    }
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
}
