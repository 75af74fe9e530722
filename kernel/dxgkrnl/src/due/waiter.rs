//! What an ended wait lets go on: the value that goes into the wait and comes out of it.

use crate::number::{
    DeviceNumber, EventName, FenceNumber, PacketContextNumber, QueueNumber, Token, UpdateContext, WaitingLockNumber,
};

/// The action of a fence wait that ends.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiter {
    /// Ends destroyed allocations: a call waits for it.
    Burial,
    /// Carries out evictions of a device that stood aside.
    Evictions {
        /// The device that asked for them.
        device: vidmm::DeviceId,
    },
    /// Answers a call of a device.
    Answer {
        /// The call that waits.
        token: Token,
        /// The device it was made on.
        device: DeviceNumber,
    },
    /// Sets an event of a device's process.
    Event {
        /// Which call asked for it.
        token: Token,
        /// The device it was made on.
        device: DeviceNumber,
        /// The event that the wait sets.
        event: EventName,
    },
    /// Says that a submission that waited for its device's turn is done.
    Render {
        /// Its fence.
        done: FenceNumber,
    },
    /// Carries out a lock that waited for the GPU.
    Lock {
        /// The number of the waiting lock.
        waiting: WaitingLockNumber,
    },
    /// Lets a kernel-mode queue go on, past a wait packet or with room for another buffer.
    Queue {
        /// The queue's number.
        queue: QueueNumber,
        /// The wait packet at its head is over.
        packet: bool,
    },
    /// Lets a packet context go on, past the wait at its head.
    Packets {
        /// The context.
        context: PacketContextNumber,
    },
    /// Lets the paging ring go on.
    Ring(RingWait),
    /// Lets the oldest update of a context's tile mappings be applied.
    Update {
        /// The context whose update is due.
        context: UpdateContext,
    },
}

/// A condition that the paging ring waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RingWait {
    /// The wait packet at its head.
    Packet,
    /// Devices that must quiesce before the work at its head.
    Suspension,
    /// Its own progress: a buffer to be filled again, an answer.
    Progress,
}
