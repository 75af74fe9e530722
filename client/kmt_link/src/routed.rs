//! A link whose calls go another way: code that watches a process's calls, or answers them otherwise, stands between the process and its
//! kernel. All else is the link's behind it.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, QueuedFence, Refusal, Reply};
use shared_words::{Memory, ReadOnlyWord};
use wddm_types::{RawHandle, WordAddress};

use crate::{CpuMapping, DoorbellPage, Link, OwnCommands, WritableWord};

/// A link that gives each call to a route, which makes it on the link behind, or does not.
pub struct Routed<L: ?Sized, F> {
    route: F,
    link: Arc<L>,
}

impl<L: Link + ?Sized, F: Fn(&L, Call) -> Result<Reply, Refusal> + Send + Sync> Routed<L, F> {
    /// The link, whose calls go by `route` on the thread that calls.
    pub fn new(link: Arc<L>, route: F) -> Routed<L, F> {
        Routed { route, link }
    }
}

/// A link that shows each call to a listener, on the thread that calls, before it makes it.
pub fn heard(link: Arc<dyn Link>, hear: impl Fn(&Call) + Send + Sync) -> impl Link {
    Routed::new(link, move |link: &(dyn Link + 'static), call| {
        hear(&call);
        link.call(call)
    })
}

impl<L: Link + ?Sized, F: Fn(&L, Call) -> Result<Reply, Refusal> + Send + Sync> Link for Routed<L, F> {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        (self.route)(&self.link, call)
    }

    fn system_memory(&self) -> Option<&Arc<Memory>> {
        self.link.system_memory()
    }

    fn read_only(&self, address: WordAddress) -> ReadOnlyWord {
        self.link.read_only(address)
    }

    fn writable(&self, address: WordAddress) -> WritableWord {
        self.link.writable(address)
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

    fn descriptor(&self, handle: u64) -> Result<OwnedFd, Refusal> {
        self.link.descriptor(handle)
    }

    fn described(&self, descriptor: BorrowedFd<'_>) -> Result<u64, Refusal> {
        self.link.described(descriptor)
    }

    fn section_over(
        &self,
        adapter: RawHandle,
        file: BorrowedFd<'_>,
        offset_bytes: u64,
        size_bytes: u64,
    ) -> Result<Reply, Refusal> {
        self.link.section_over(adapter, file, offset_bytes, size_bytes)
    }

    fn own_commands(&self) -> Result<OwnCommands, Refusal> {
        self.link.own_commands()
    }

    fn now_ns(&self) -> u64 {
        self.link.now_ns()
    }

    fn traces_fences(&self) -> bool {
        self.link.traces_fences()
    }

    fn fences_queued(&self, queue: RawHandle, queued: &[QueuedFence]) {
        self.link.fences_queued(queue, queued);
    }
}
