//! The calls, a kind an enum of its own in a file beside this one; flags of several kinds are in `flags`.

use serde::{Deserialize, Serialize};

mod adapter;
mod allocation;
mod device;
mod display;
mod event;
mod flags;
mod gpu_va;
mod keyed_mutex;
mod lock;
mod name;
mod notification;
mod packet;
mod priority;
mod property;
mod queue;
mod reach;
mod residency;
mod section;
mod share;
mod statistics;
mod sync;

pub use adapter::AdapterCall;
pub use allocation::AllocationCall;
pub use device::DeviceCall;
pub use display::{DisplayCall, SourceOwnerType};
pub use event::EventCall;
pub use flags::{EvictFlags, FenceFlags, LockFlags, MakeResidentFlags, OfferFlags, QueueFlags, SignalFlags, WaitFlags};
pub use gpu_va::GpuVaCall;
pub use keyed_mutex::{AcquiredKeyedMutex, CreatedKeyedMutex, KeyedMutexCall, KeyedMutexFlags};
pub use lock::LockCall;
pub use notification::NotificationCall;
pub use packet::PacketCall;
pub use priority::{PRIORITY_ABSOLUTE, PriorityCall};
pub use property::PropertyCall;
pub use queue::QueueCall;
pub use reach::Reach;
pub use residency::ResidencyCall;
pub use section::SectionCall;
pub use share::ShareCall;
pub use statistics::StatisticsCall;
pub use sync::SyncCall;

/// One call of user mode. The name of a kind's variant is the `D3DKMT` function's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Calls on adapters, and questions to them.
    Adapter(AdapterCall),
    /// Calls on devices and their paging queues.
    Device(DeviceCall),
    /// Calls on allocations and resources.
    Allocation(AllocationCall),
    /// Calls on properties of allocations.
    Property(PropertyCall),
    /// Calls on GPU virtual addresses.
    GpuVa(GpuVaCall),
    /// Calls on content that must be resident or may go.
    Residency(ResidencyCall),
    /// Calls about the CPU's access to allocations.
    Lock(LockCall),
    /// Calls on NT handles and names of shared objects.
    Share(ShareCall),
    /// Calls on sections.
    Section(SectionCall),
    /// Calls on registrations for notifications.
    Notification(NotificationCall),
    /// The operating system's calls on events.
    Event(EventCall),
    /// Calls on hardware contexts, their queues and doorbells.
    Queue(QueueCall),
    /// Calls on packet contexts.
    Packet(PacketCall),
    /// Calls on priorities.
    Priority(PriorityCall),
    /// Calls on displays.
    Display(DisplayCall),
    /// Calls on synchronization objects.
    Sync(SyncCall),
    /// Calls for figures.
    Statistics(StatisticsCall),
    /// Calls on keyed mutexes.
    KeyedMutex(KeyedMutexCall),
    /// `D3DKMTEscape` → `Escaped`.
    Escape(crate::EscapeCall),
}
