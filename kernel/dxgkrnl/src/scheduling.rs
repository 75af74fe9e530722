//! Priorities of contexts as calls set them and as nodes and drivers hear of them (sync §4.2); `vidsch::Ranks` gives them their meaning.
//! `call` decides which process may ask.

mod hardware;

pub use engine_time::Band;
use engine_time::{Contender, IN_PROCESS_MAX, Quanta, REALTIME_LEVEL_MAX};
use events::Event;
use gpu_fence::FenceId;
use kmt_calls::{PRIORITY_ABSOLUTE, Refusal};
use vidsch::QueueId;
pub use vidsch::{ContextPriority, rank_of_class};
use vidsch::{OutOfBounds, OwnPriority};
use wddm_types::{FencePoint, ProcessId};

use crate::adapter::{Adapter, Payload};
use crate::effect::Cx;
use crate::machine::Machine;
use crate::number::{ContextNumber, DeviceNumber, QueueNumber, SyncObjectNumber};
use crate::packet::{Handed, PacketContextNumber, Running};
use crate::refusal::invalid;
use crate::store::ObjectNumber;
use crate::suspension::{Leaving, Suspendable};
pub use hardware::{rank_paging, setup_bands};

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

impl Adapter {
    /// A context's priorities as calls have set them.
    pub fn context_priority(&self, context: AnyContext) -> ContextPriority {
        self.vidsch.ranks.priority(context)
    }

    /// The device of a context.
    pub fn device_of_context(&self, context: AnyContext) -> DeviceNumber {
        match context {
            AnyContext::Hardware(number) => self.contexts[number].device,
            AnyContext::Packets(number) => self.packets[number].device,
        }
    }

    /// A context of a process was created: it ranks by the process's class.
    pub fn enter_ranks(&mut self, context: AnyContext, process: ProcessId) {
        self.vidsch.ranks.enter(context, process.0.into(), self.owners.class_of(process));
    }

    /// Packet contexts as contenders for a node, with the ranks that they have now.
    // spec: sync §4.2
    pub fn contenders(&self, contexts: &[PacketContextNumber]) -> Vec<Contender<PacketContextNumber>> {
        let ranks = self.vidsch.ranks.ranks_of(contexts.iter().copied().map(AnyContext::Packets));
        let contender = |(&context, rank)| Contender { context, rank, quanta: Quanta::default() };
        contexts.iter().zip(ranks).map(contender).collect()
    }

    /// A queue of a context waits for these, as the wait at its head says.
    pub fn note_wait(&mut self, queue: QueueId, context: AnyContext, points: &[FencePoint<FenceId>]) {
        let awaits = points.iter().map(|point| (Awaited::Fence(point.fence), point.value));
        self.vidsch.ranks.awaits(queue, context, awaits.collect());
    }

    /// The wait at a queue's head is over. Answers with the points that it waited for.
    pub fn waits_no_more(&mut self, queue: QueueId) -> Vec<FencePoint<FenceId>> {
        let awaited = self.vidsch.ranks.waits_no_more(queue).into_iter();
        let fences = awaited.filter_map(|(what, value)| match what {
            Awaited::Fence(fence) => Some(FencePoint { fence, value }),
            Awaited::Object(_) => None,
        });
        fences.collect()
    }

    /// Another priority, from the next decision on.
    // spec: sync §4.2
    pub fn set_context_priority(&mut self, cx: &mut Cx<'_>, context: AnyContext, priority: ContextPriority) {
        self.vidsch.ranks.set_priority(context, priority);
        if let AnyContext::Hardware(number) = context {
            self.tell_rank(cx, number);
        }
        let packets = matches!(context, AnyContext::Packets(_));
        let (priority, in_process) = (priority_of(priority), priority.in_process());
        cx.emit(self.index, Event::ContextPriority { context: context.number(), packets, priority, in_process });
        self.pump_packets(cx);
    }
}

impl Machine {
    /// Whether a process may ask for priorities above the ordinary ones (`SE_INC_BASE_PRIORITY_NAME`), from now on; it may not at first.
    /// Priorities that it has set stay. Unknown processes are ignored.
    // spec: sync §4.2
    pub fn allow_raised_priority(&mut self, id: ProcessId, allowed: bool) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.may_raise_priority = allowed;
        }
    }
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
