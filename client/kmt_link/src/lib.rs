//! Carries calls from a client to a kernel, and turns the addresses in answers into mappings.
//!
//! # The law of this boundary
//! A link speaks for one process: whoever holds it is that process. It adds no meaning to a call and checks nothing; the
//! kernel does. It owns the mapping of shared memory: a client gets read-only words where the specification grants reading,
//! and never an address of its own making. A blocking call blocks the calling thread, nothing else.

mod cpu_mapping;
mod doorbell;
mod mapping;
mod routed;
pub mod socket;
mod writable_word;

pub use cpu_mapping::{CpuMapping, PassTime, Piece};
pub use doorbell::{Doorbell, DoorbellPage, WakeEngine};
pub use mapping::MappedBytes;
pub use routed::{Routed, heard};
pub use writable_word::WritableWord;

use std::sync::Arc;

use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, Refusal, Reply};
use shared_words::{Memory, ReadOnlyWord};
use wddm_types::{RawHandle, WordAddress};

/// A way to a kernel, for one process.
pub trait Link: Send + Sync {
    /// Makes a call and waits for its answer.
    ///
    /// # Errors
    /// What the kernel answers when it refuses; `DEVICE_REMOVED` when the kernel has gone.
    fn call(&self, call: Call) -> Result<Reply, Refusal>;

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

    /// What a lock of this process shows; `None` when there is no such lock.
    fn mapping(&self, mapping: MappingId) -> Option<Arc<CpuMapping>>;

    /// What a doorbell of this process shows; `None` when there is no such doorbell.
    fn doorbell(&self, address: DoorbellAddress) -> Option<Arc<DoorbellPage>>;

    /// Takes the oldest thing that the kernel has told this process by itself, if there is any.
    fn take_notification(&self) -> Option<Notification>;

    /// The same, waiting for one to come; `None` when none will come any more.
    fn wait_notification(&self) -> Option<Notification>;

    /// The kernel's clock in nanoseconds: real or virtual.
    fn now_ns(&self) -> u64;

    /// Whether a tool traces native fences: then it wants to hear of every wait and signal that is submitted where the kernel does
    /// not see it.
    fn traces_fences(&self) -> bool;

    /// A wait for a fence, or a signal of one, is in what this process submits on a queue that it feeds. For tools alone.
    fn fence_queued(&self, queue: RawHandle, fence: RawHandle, value: u64, signal: bool);
}
