//! Counts the calls of a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dxgk_host::{Host, ProcessLink};
use kmt_calls::{AllocationCall, Call, SyncCall};
use kmt_link::{Link, heard};

/// Counts a process's calls.
#[derive(Default)]
pub struct Counting {
    /// All of them.
    pub calls: AtomicU64,
    /// Waits of the CPU.
    pub waits: AtomicU64,
    /// Creations of allocations.
    pub creations: AtomicU64,
}

impl Counting {
    /// A process whose calls are counted, and the counts.
    pub fn of(host: &Arc<Host>) -> (Arc<dyn Link>, Arc<Counting>) {
        let counting = Arc::new(Counting::default());
        let counts = Arc::clone(&counting);
        let link = heard(ProcessLink::new(Arc::clone(host)), move |call| counts.hear(call));
        (Arc::new(link), counting)
    }

    fn hear(&self, call: &Call) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match call {
            Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu { .. }) => {
                _ = self.waits.fetch_add(1, Ordering::SeqCst)
            }
            Call::Allocation(AllocationCall::CreateAllocation { .. }) => {
                _ = self.creations.fetch_add(1, Ordering::SeqCst)
            }
            _ => {}
        }
    }
}
