//! What an adapter schedules, by the names that the scheduler (`vidsch`) keeps for it; and priorities of contexts as calls say them and
//! drivers hear of them (sync §4.2). `vidsch::Ranks` gives priorities their meaning, `call` decides which process may ask, `adapter::rank`
//! tells drivers. Nothing here has state.

mod hardware;

pub use engine_time::Band;
use engine_time::{IN_PROCESS_MAX, REALTIME_LEVEL_MAX};
use events::Stillness;
use gpu_fence::FenceId;
use kmt_calls::{PRIORITY_ABSOLUTE, Refusal};
use vidmm::{DeviceId, SpaceId};
pub use vidsch::{ContextPriority, rank_of_class};
use vidsch::{OutOfBounds, OwnPriority};

pub use crate::leaving::Leaving;
use crate::number::{
    ContextNumber, DeviceNumber, PacketContextNumber, PacketNumber, PagingWorkNumber, QueueNumber, SyncObjectNumber,
};
use crate::packet::{Handed, Running, SoftwareNumber};
use crate::queue::Command;
use crate::refusal::invalid;
use crate::store::ObjectNumber;
pub use hardware::{rank_paging, set_rank, setup_bands};

/// The kernel's names for what an adapter schedules.
pub struct Scheduled;

impl vidsch::Names for Scheduled {
    type Work = Payload;
    type Fence = FenceId;
    type Device = Suspendable;
    type Context = Leaving;
    type Ranked = AnyContext;
    type Turning = PacketContextNumber;
    type Packet = Handed;
    type Awaited = Awaited;
    type Queue = QueueNumber;
    type Running = Running;
}

/// The content of a scheduler packet.
pub enum Payload {
    /// Paging work by its number.
    Paging(PagingWorkNumber),
    /// Devices that must quiesce before the paging work of this number.
    Suspend(PagingWorkNumber, Vec<DeviceId>),
    /// The devices of the paging work of this number are quiesced while the ring carries it out.
    Quiesce(PagingWorkNumber),
    /// Address spaces that must be idle before the paging work of this number.
    IdleSpaces(PagingWorkNumber, Vec<(SpaceId, Stillness)>),
    /// A packet of a packet context by its number there.
    Packet(PacketNumber),
    /// A software packet of a packet context.
    Software(SoftwareNumber),
    /// A command buffer.
    Command(Command),
}

/// A context of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnyContext {
    Hardware(ContextNumber),
    Packets(PacketContextNumber),
}

impl AnyContext {
    /// How it stands in events, which name its kind beside it.
    pub fn number(self) -> u64 {
        match self {
            AnyContext::Hardware(number) => number.raw(),
            AnyContext::Packets(number) => number.raw(),
        }
    }
}

impl From<PacketContextNumber> for AnyContext {
    fn from(number: PacketContextNumber) -> AnyContext {
        AnyContext::Packets(number)
    }
}

/// An object that a context waits for and that another one is to signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// A value of a fence with a word in memory.
    Fence(FenceId),
    /// An object that the kernel alone signals; of these it does not matter how often.
    Object(SyncObjectNumber),
}

/// What is suspended as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspendable {
    /// The paging ring, which is of no device.
    Ring,
    /// The contexts of a device.
    Device(DeviceNumber),
}

impl Suspendable {
    /// The device, if it is one.
    pub fn device(self) -> Option<DeviceNumber> {
        match self {
            Suspendable::Ring => None,
            Suspendable::Device(device) => Some(device),
        }
    }
}

/// These priorities with another one as against all others, as `D3DKMTSetContextSchedulingPriority` says it: steps, or a level with
/// [`PRIORITY_ABSOLUTE`].
// spec: sync §4.2
pub fn with_priority(known: ContextPriority, priority: i32) -> Result<ContextPriority, Refusal> {
    let level = u8::try_from(priority & !PRIORITY_ABSOLUTE).ok().filter(|_| priority >= PRIORITY_ABSOLUTE);
    let own = level.map_or(OwnPriority::Steps(priority), OwnPriority::Realtime);
    known.with_own(own).map_err(|OutOfBounds| {
        invalid(format!(
            "priority {priority:#x}: -{IN_PROCESS_MAX} to {IN_PROCESS_MAX}, or a level up to {REALTIME_LEVEL_MAX} with ABSOLUTE"
        ))
    })
}

/// The same the other way round.
pub fn priority_of(known: ContextPriority) -> i32 {
    match known.own() {
        OwnPriority::Steps(steps) => steps,
        OwnPriority::Realtime(level) => PRIORITY_ABSOLUTE | i32::from(level),
    }
}

/// These priorities with another one among the contexts of its process.
// spec: sync §4.2
pub fn with_in_process(known: ContextPriority, in_process: i32) -> Result<ContextPriority, Refusal> {
    known.with_in_process(in_process).map_err(|OutOfBounds| {
        invalid(format!("in-process priority {in_process}: -{IN_PROCESS_MAX} to {IN_PROCESS_MAX}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_steps_or_a_level_and_nothing_beyond_the_bounds() {
        // spec: sync §4.2
        let known = ContextPriority::default();
        for own in [-7, -1, 0, 1, 7, PRIORITY_ABSOLUTE, PRIORITY_ABSOLUTE | 31] {
            assert_eq!(with_priority(known, own).map(priority_of), Ok(own), "{own:#x}");
        }
        for wrong in [
            -8,
            8,
            31,
            PRIORITY_ABSOLUTE | 32,
            PRIORITY_ABSOLUTE | 256,
            i32::MIN,
            i32::MIN | PRIORITY_ABSOLUTE,
            i32::MAX,
        ] {
            assert!(with_priority(known, wrong).is_err(), "{wrong:#x}");
        }
        for wrong in [-8, 8, PRIORITY_ABSOLUTE, i32::MIN, i32::MAX] {
            assert!(with_in_process(known, wrong).is_err(), "{wrong:#x}");
        }
    }
}
