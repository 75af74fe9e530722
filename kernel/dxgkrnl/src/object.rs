//! The objects of the kernel and how a process names them. Allocations and their resources are in `allocations`.

use std::collections::BTreeSet;

use ddi::{KmdContext, KmdQueue};
use shared_words::ClientAccess;
use wddm_types::{AdapterIndex, NodeId};

use crate::context_allocation::ContextAllocation;
use crate::fence_log::{LogPool, Logs};
use crate::handle::HandleTable;
use crate::notification::RegistrationNumber;
use crate::number::{
    AllocationNumber, ContextNumber, DeviceNumber, DoorbellNumber, EventNumber, FenceNumber, FenceOpenNumber,
    KeyedMutexOpenNumber, PagingQueueNumber, QueueNumber, ResourceNumber, SectionNumber,
};
use crate::packet::PacketContextNumber;
use crate::queue::Feed;
use crate::store::Store;
use crate::sync::SyncOpenNumber;
use crate::system_handle::SystemHandles;
use crate::word_page::WordPages;

/// A process as the whole kernel knows it.
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
    pub events: Store<EventNumber, crate::event::Event>,
    /// Its quota and account, if its creation named them.
    pub admission: Option<crate::quota::Admission>,
}

impl Process {
    /// One that has nothing yet.
    pub fn new(admission: Option<crate::quota::Admission>) -> Process {
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
}

impl Process {
    /// All handles, with what they name.
    pub fn named(&self) -> impl Iterator<Item = (wddm_types::RawHandle, &Object)> {
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

/// The object of a handle: an adapter's index and the object's number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// An opened adapter.
    Adapter(AdapterIndex),
    /// A device.
    Device(AdapterIndex, DeviceNumber),
    /// A paging queue.
    PagingQueue(AdapterIndex, PagingQueueNumber),
    /// An allocation.
    Allocation(AdapterIndex, AllocationNumber),
    /// An allocation by the name of an instance that a rename made.
    Instance(AdapterIndex, AllocationNumber, u32),
    /// A resource.
    Resource(AdapterIndex, ResourceNumber),
    /// A context.
    Context(AdapterIndex, ContextNumber),
    /// A packet context.
    PacketContext(AdapterIndex, PacketContextNumber),
    /// A hardware queue.
    Queue(AdapterIndex, QueueNumber),
    /// A doorbell.
    Doorbell(AdapterIndex, DoorbellNumber),
    /// A device's open of a fence.
    Fence(AdapterIndex, FenceOpenNumber),
    /// A synchronization object without a word in memory.
    Legacy(AdapterIndex, SyncOpenNumber),
    /// A registration for notifications.
    Registration(AdapterIndex, RegistrationNumber),
    /// A section, of no adapter.
    Section(SectionNumber),
    /// An event, of no adapter.
    Event(EventNumber),
    /// The process's open of a keyed mutex, of no adapter.
    KeyedMutex(KeyedMutexOpenNumber),
}

/// The words and logs of a process on one adapter that no part has yet; its facts are in `owners`, its fences in `sync`.
#[derive(Debug)]
pub struct ProcessOnAdapter {
    /// Words that the process writes (last-queued values).
    pub user_words: WordPages,
    /// Logs of its queues, mapped likewise.
    pub logs: LogPool,
    /// Words that it only reads: doorbell status, fences without GPU access.
    pub status_words: WordPages,
    /// The ring's position at which the last fence words are mapped.
    pub words_mapped_at: u64,
    /// The ring's position at which the last allocation of a present is mapped.
    pub views_mapped_at: u64,
}

impl ProcessOnAdapter {
    /// One that has nothing yet.
    pub fn new() -> ProcessOnAdapter {
        ProcessOnAdapter {
            logs: Default::default(),
            user_words: WordPages::new(ClientAccess::ReadWrite),
            status_words: WordPages::new(ClientAccess::Read),
            words_mapped_at: 0,
            views_mapped_at: 0,
        }
    }
}

/// The objects of a device, and its state in the parts that have no record of their own yet; its facts are in `owners`.
#[derive(Debug)]
pub struct Device {
    /// Works under way that move content of its list within a segment.
    pub relocations: u32,
    /// Works that change its page tables while it is quiesced.
    pub table_changes: u32,
    pub contexts: BTreeSet<ContextNumber>,
    /// Those of all its contexts.
    pub queues: BTreeSet<QueueNumber>,
    pub packet_contexts: BTreeSet<PacketContextNumber>,
    pub paging_queues: BTreeSet<PagingQueueNumber>,
    pub allocations: BTreeSet<AllocationNumber>,
    pub resources: BTreeSet<ResourceNumber>,
    /// The driver's allocations for all its contexts.
    pub context_allocations: Vec<ContextAllocation>,
    /// Its opens of fences.
    pub fences: BTreeSet<FenceOpenNumber>,
}

/// A hardware context.
#[derive(Debug)]
pub struct Context {
    pub device: DeviceNumber,
    pub kmd: KmdContext,
    pub node: NodeId,
    pub queues: BTreeSet<QueueNumber>,
    /// The driver's allocations for it.
    pub allocations: Vec<ContextAllocation>,
}

/// A hardware queue.
#[derive(Debug)]
pub struct Queue {
    pub context: ContextNumber,
    pub device: DeviceNumber,
    pub kmd: KmdQueue,
    pub vidsch: vidsch::QueueId,
    /// Its progress fence.
    pub progress: FenceNumber,
    /// User-mode submission.
    pub user_mode: bool,
    pub doorbell: Option<DoorbellNumber>,
    /// Its logs, if its process feeds it.
    pub logs: Logs,
    /// The work that the kernel has fed it.
    pub feed: Feed,
    /// DisableGpuTimeout: its work may take as long as it takes.
    pub no_timeout: bool,
    /// NoBroadcastSignal: signals of several queues do not wait for it.
    pub no_broadcast_signal: bool,
    /// The hardware's count of its running time at the last charge; `None`: it does not count.
    pub counted_ns: Option<u64>,
}
