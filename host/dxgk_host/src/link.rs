//! A process's way to the kernel of this host.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use dxgkrnl::Admission;
use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, QueuedFence, Refusal, Reply};
use kmt_link::{CpuMapping, DoorbellPage, Link, OrderedAnswer, OwnCommands, WritableWord};
use shared_words::{Memory, ReadOnlyWord};
use wddm_types::{Blame, NtStatus, ProcessId, RawHandle, WordAddress};

use crate::host::Host;

/// A process of this program as the kernel sees it. Dropping it is the process's death.
pub struct ProcessLink {
    host: Arc<Host>,
    process: ProcessId,
}

impl ProcessLink {
    /// A new process.
    pub fn new(host: Arc<Host>) -> Arc<ProcessLink> {
        let process = host.process_created();
        host.identify_process(process, host.identity().clone());
        Arc::new(ProcessLink { host, process })
    }

    /// A new process with limits.
    pub fn admitted(host: Arc<Host>, admission: Admission) -> Arc<ProcessLink> {
        let process = host.process_admitted(admission);
        host.identify_process(process, host.identity().clone());
        Arc::new(ProcessLink { host, process })
    }

    /// System memory, all of it, for tests that look at the words of others.
    pub fn system_memory(&self) -> &Arc<Memory> {
        self.host.system_memory()
    }

    /// The process's id.
    pub fn process(&self) -> ProcessId {
        self.process
    }
}

impl Link for ProcessLink {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        self.host.call(self.process, call)
    }

    fn call_in_order(&self, call: Call, waits: &dyn Fn()) -> OrderedAnswer {
        self.host.call_in_order(self.process, call, waits)
    }

    fn system_memory(&self) -> Option<&Arc<Memory>> {
        Some(self.host.system_memory())
    }

    fn read_only(&self, address: WordAddress) -> ReadOnlyWord {
        self.host.read_only(address)
    }

    fn writable(&self, address: WordAddress) -> WritableWord {
        WritableWord::new(Arc::clone(self.host.system_memory()), address.0)
    }

    fn mapping(&self, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        self.host.mapping(self.process, mapping)
    }

    fn doorbell(&self, address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        self.host.doorbell(self.process, address)
    }

    fn take_notification(&self) -> Option<Notification> {
        self.host.take_notification(self.process)
    }

    fn wait_notification(&self) -> Option<Notification> {
        self.host.wait_notification(self.process)
    }

    fn descriptor(&self, handle: u64) -> Result<OwnedFd, Refusal> {
        self.host.nt_descriptor(self.process, handle)
    }

    fn described(&self, descriptor: BorrowedFd<'_>) -> Result<u64, Refusal> {
        self.host.nt_handle_of(descriptor)
    }

    fn section_over(
        &self,
        adapter: RawHandle,
        file: BorrowedFd<'_>,
        offset_bytes: u64,
        size_bytes: u64,
    ) -> Result<Reply, Refusal> {
        let copy = file.try_clone_to_owned().map_err(|error| Refusal {
            status: NtStatus::NO_MEMORY,
            blame: Blame::Scarcity,
            reason: format!("the operating system gives no descriptor for a section: {error}").into(),
            bytes_to_trim: 0,
        });
        self.host.section_over(self.process, adapter, copy?, offset_bytes, size_bytes)
    }

    fn own_commands(&self) -> Result<OwnCommands, Refusal> {
        Ok(self.host.own_commands(self.process))
    }

    fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    fn traces_fences(&self) -> bool {
        self.host.traces_fences()
    }

    fn fences_queued(&self, queue: RawHandle, queued: &[QueuedFence]) {
        self.host.fences_queued(self.process, queue, queued);
    }
}

impl Drop for ProcessLink {
    fn drop(&mut self) {
        self.host.process_died(self.process);
    }
}
