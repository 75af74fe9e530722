//! The numbers and names by which the parts of an adapter know each other's objects. A part that only says which object it means needs
//! nothing but this; the object itself it asks the object's owner for.

use wddm_types::ProcessId;

use crate::store::object_number;

object_number! {
    /// A device of an adapter, for as long as the adapter runs. The memory manager has a number of its own for it, [`vidmm::DeviceId`].
    DeviceNumber
}

object_number! {
    /// A hardware context of an adapter, for as long as the adapter runs.
    ContextNumber
}

object_number! {
    /// A hardware queue of an adapter, for as long as the adapter runs.
    QueueNumber
}

object_number! {
    /// A doorbell of an adapter, for as long as the adapter runs.
    DoorbellNumber
}

object_number! {
    /// A packet context of an adapter, for as long as the adapter runs.
    PacketContextNumber
}

object_number! {
    /// A paging queue of an adapter, for as long as the adapter runs. Events have 0 where the ring works for no queue.
    PagingQueueNumber
}

object_number! {
    /// A work of an adapter's paging ring, for as long as the adapter runs. Works that the memory manager has decided have a serial
    /// there, too.
    PagingWorkNumber
}

object_number! {
    /// A packet of a packet context, for as long as the context lives: the value that its progress fence gets with it.
    PacketNumber
}

object_number! {
    /// A change of a mapping that an adapter has told the outside, among all that it has told.
    MappingChangeNumber
}

object_number! {
    /// An allocation as one device of an adapter has it, for as long as the adapter runs. All devices that have it share one
    /// [`vidmm::AllocationId`].
    AllocationNumber
}

object_number! {
    /// A resource as one device of an adapter has it, for as long as the adapter runs.
    ResourceNumber
}

object_number! {
    /// A registration on an adapter, for as long as the adapter runs.
    RegistrationNumber
}

object_number! {
    /// A legacy lock that waits for the GPU, for as long as the adapter runs.
    WaitingLockNumber
}

object_number! {
    /// A fence of an adapter, for as long as the adapter runs. Its waiters know it by its [`gpu_fence::FenceId`].
    FenceNumber
}

object_number! {
    /// A device's open of a fence, for as long as the adapter runs.
    FenceOpenNumber
}

object_number! {
    /// An object without a word in memory, for as long as the adapter runs.
    SyncObjectNumber
}

object_number! {
    /// A device's open of an object without a word in memory, for as long as the adapter runs.
    SyncOpenNumber
}

object_number! {
    /// What the devices share of a resource, and what names keep of it, for as long as the adapter runs.
    ResourceBodyNumber
}

object_number! {
    /// A fence of several adapters, for as long as the machine runs. Each of them has a [`FenceNumber`] of its own for it.
    CrossFenceNumber
}

object_number! {
    /// A section of the machine, for as long as it runs.
    SectionNumber
}

object_number! {
    /// A keyed mutex of the machine, for as long as it runs.
    KeyedMutexNumber
}

object_number! {
    /// A process's open of a keyed mutex, for as long as the machine runs.
    KeyedMutexOpenNumber
}

object_number! {
    /// An event of a process, for as long as the process lives.
    EventNumber
}

object_number! {
    /// An NT handle by its token, which a process cannot guess. A number that stands outside is a claim until the table of them knows it.
    NtHandleNumber
}

/// A context with a queue of updates: one that has hardware queues, or a packet context with GPU virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdateContext {
    /// With hardware queues.
    Hardware(ContextNumber),
    /// With packets.
    Packets(PacketContextNumber),
}

/// An event as adapters remember it. Its process may close it before its time comes: then the kernel sets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventName {
    pub process: ProcessId,
    pub number: EventNumber,
}

/// The place of an adapter among those that are linked into one (`PhysicalAdapterIndex`). One that is linked to no other has 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysicalAdapterIndex(pub u32);

/// Names a call whose answer comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);
