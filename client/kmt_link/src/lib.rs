//! Carries calls from a client to a kernel, and turns the addresses in answers into mappings.
//!
//! # The law of this boundary
//! A link speaks for one process: its holder acts as that process. The link adds no meaning to a call and checks nothing; the kernel
//! does. It owns the mapping of shared memory: a client gets read-only words where the specification grants reading, and never an address
//! of its own making. A blocking call blocks the calling thread, nothing else.

mod call_order;
mod cpu_mapping;
mod descriptor;
mod doorbell;
mod mapping;
mod notifications;
mod own_commands;
mod own_events;
mod routed;
pub mod socket;
mod writable_word;

pub use call_order::{CallOrder, OrderedAnswer};
pub use cpu_mapping::{CpuMapping, NoAddresses, PassTime, Piece};
pub use descriptor::Descriptors;
pub use doorbell::{Doorbell, DoorbellPage, WakeEngine};
pub use mapping::MappedBytes;
pub use notifications::tell;
pub use own_commands::{CommandUses, OwnCommands};
pub use own_events::{OwnEvent, OwnEvents};
pub use routed::{Routed, heard};
pub use writable_word::WritableWord;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, QueuedFence, Refusal, Reply};
use shared_words::{Memory, ReadOnlyWord};
use wddm_types::{RawHandle, WordAddress};

/// A way to a kernel, for one process.
pub trait Link: Send + Sync {
    /// Makes a call and waits for its answer.
    ///
    /// # Errors
    /// The kernel's refusal; `DEVICE_REMOVED` when the kernel has gone.
    fn call(&self, call: Call) -> Result<Reply, Refusal>;

    /// As [`Link::call`], and tells the call's place in the kernel's order. A call that the kernel has taken and answers later is told by
    /// `waits` meanwhile, on the calling thread. For tools that record calls and make them again.
    fn call_in_order(&self, call: Call, waits: &dyn Fn()) -> OrderedAnswer {
        let _ = waits;
        (self.call(call), None)
    }

    /// Makes calls one after the other, and waits for all of their answers: as [`Link::call`] for each, with one way to the kernel and
    /// back. The kernel makes each call even when it has refused one before it.
    fn calls(&self, calls: Vec<Call>) -> Vec<Result<Reply, Refusal>> {
        calls.into_iter().map(|call| self.call(call)).collect()
    }

    /// Makes a call without reading its answer. The kernel makes it before every later call of this process, and perhaps not yet at
    /// return.
    fn post(&self, call: Call) {
        let _ = self.call(call);
    }

    /// System memory, where the process reaches all of it: its kernel is in the same program.
    fn system_memory(&self) -> Option<&Arc<Memory>>;

    /// A word that the kernel's answers name and this process may read.
    ///
    /// # Panics
    /// For any other word.
    fn read_only(&self, address: WordAddress) -> ReadOnlyWord;

    /// The same for one that it may write.
    ///
    /// # Panics
    /// For any other word.
    fn writable(&self, address: WordAddress) -> WritableWord;

    /// The memory that a lock of this process shows; `None` when there is no such lock.
    fn mapping(&self, mapping: MappingId) -> Option<Arc<CpuMapping>>;

    /// The page of a doorbell of this process; `None` when there is no such doorbell.
    fn doorbell(&self, address: DoorbellAddress) -> Option<Arc<DoorbellPage>>;

    /// Takes the oldest thing that the kernel has told this process by itself, if there is any.
    fn take_notification(&self) -> Option<Notification>;

    /// The same, waiting for one to come; `None` when none will come any more.
    fn wait_notification(&self) -> Option<Notification>;

    /// A descriptor that stands for an NT handle of this process: each holder of a copy may open what the handle names and pass the copy
    /// on. The last close of a copy closes the NT handle, whatever becomes of this process; until then the process cannot close it.
    ///
    /// # Errors
    /// `INVALID_HANDLE` when the process has no such NT handle; `NO_MEMORY` when it has as many descriptors as it may.
    fn descriptor(&self, handle: u64) -> Result<OwnedFd, Refusal>;

    /// The NT handle that a descriptor stands for.
    ///
    /// # Errors
    /// `INVALID_HANDLE` when it is no such descriptor of this kernel.
    fn described(&self, descriptor: BorrowedFd<'_>) -> Result<u64, Refusal>;

    /// Creates a section over bytes of a file that the process hands over (`kmt_calls::SectionCall::CreateOver`): of the adapter, or
    /// the device's.
    ///
    /// # Errors
    /// As the call; `NOT_SUPPORTED` for a file that is none in memory (`memfd_create`), or may become smaller.
    fn section_over(
        &self,
        adapter: RawHandle,
        file: BorrowedFd<'_>,
        offset_bytes: u64,
        size_bytes: u64,
    ) -> Result<Reply, Refusal>;

    /// The commands that engines have begun for this process since it asked first, by kind: those of its queues and contexts, of no other's
    /// and not the kernel's own. The first answer has none.
    ///
    /// # Errors
    /// `DEVICE_REMOVED` when the kernel has gone.
    fn own_commands(&self) -> Result<OwnCommands, Refusal>;

    /// The kernel's clock in nanoseconds: real or virtual.
    fn now_ns(&self) -> u64;

    /// Whether a tool traces native fences: then it wants to hear of every wait and signal that is submitted where the kernel does
    /// not see it.
    fn traces_fences(&self) -> bool;

    /// These waits for fences, and signals of them, are in what this process submits next on a queue that it feeds. For tools alone.
    fn fences_queued(&self, queue: RawHandle, queued: &[QueuedFence]);
}
