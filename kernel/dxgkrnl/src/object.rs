//! What a handle names. The objects themselves are their owners', which know them by the same numbers; those of allocations and resources
//! are in `allocations`.

use wddm_types::AdapterIndex;

use crate::number::{
    AllocationNumber, ContextNumber, DeviceNumber, DoorbellNumber, EventNumber, FenceOpenNumber, KeyedMutexOpenNumber,
    PacketContextNumber, PagingQueueNumber, QueueNumber, RegistrationNumber, ResourceNumber, SectionNumber,
    SyncOpenNumber,
};

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
