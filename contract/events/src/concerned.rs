//! Whom an event concerns. Each event says it where it is declared; the host, which lets a process see the events about itself, resolves the
//! number to the processes that have the object.

/// Whom an event concerns. Numbers of objects are those of the event's adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concerned {
    /// This process.
    Process(u32),
    /// The process of a device.
    Device(u64),
    /// The processes that have an allocation.
    Allocation(u64),
    /// The processes whose memory a paging work moves, and the process that waits for the work's fence.
    Work(u64),
    /// The process of a hardware queue.
    Queue(u64),
    /// The processes that have a fence.
    Fence(u64),
    /// The process of a packet context.
    PacketContext(u64),
    /// The processes that have a mutex, a semaphore, a packet fence or a CPU notification.
    SyncObject(u64),
    /// The kernel alone: no process may see the event.
    Kernel,
}

impl Concerned {
    /// The process of a packet context, or else of a hardware queue.
    pub(crate) const fn fed(number: u64, packets: bool) -> Concerned {
        if packets { Concerned::PacketContext(number) } else { Concerned::Queue(number) }
    }

    /// The process of a packet context. Of a context with hardware queues no event says whose it is.
    pub(crate) const fn packets_of(context: u64, packets: bool) -> Concerned {
        if packets { Concerned::PacketContext(context) } else { Concerned::Kernel }
    }
}
