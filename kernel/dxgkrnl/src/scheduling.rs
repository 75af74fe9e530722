//! The meaning of priorities here (sync §4.2). The specification names bands, levels and classes; the policy here says which class is in
//! which band, how classes of one band relate, and what a context's own priority does. `call` decides which process may ask.

mod hardware;

pub use engine_time::Band;
use engine_time::{IN_PROCESS_MAX, Quanta, REALTIME_LEVEL_MAX, Rank, WEIGHT_NORMAL};
use events::Event;
use gpu_fence::FenceId;
use kmt_calls::{PRIORITY_ABSOLUTE, Refusal};
use wddm_types::ProcessId;

use crate::adapter::{Adapter, Payload};
use crate::machine::{Cx, Machine};
use crate::object::{ContextNumber, DeviceNumber};
use crate::packet::PacketContextNumber;
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

/// One context's priorities as calls have set them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextPriority {
    /// `D3DKMTSetContextSchedulingPriority`.
    priority: i32,
    /// `D3DKMTSetContextInProcessSchedulingPriority`.
    in_process: i32,
}

impl ContextPriority {
    pub fn priority(self) -> i32 {
        self.priority
    }

    pub fn in_process(self) -> i32 {
        self.in_process
    }

    /// With another priority as against all others.
    // spec: sync §4.2
    pub fn with_priority(self, priority: i32) -> Result<ContextPriority, Refusal> {
        let level = priority & !PRIORITY_ABSOLUTE;
        let absolute = priority & PRIORITY_ABSOLUTE != 0;
        let known = match absolute && priority > 0 {
            true => (0..=i32::from(REALTIME_LEVEL_MAX)).contains(&level),
            false => (-IN_PROCESS_MAX..=IN_PROCESS_MAX).contains(&priority),
        };
        match known {
            true => Ok(ContextPriority { priority, ..self }),
            false => Err(invalid(format!(
                "priority {priority:#x}: -{IN_PROCESS_MAX} to {IN_PROCESS_MAX}, or a level up to {REALTIME_LEVEL_MAX} with ABSOLUTE"
            ))),
        }
    }

    /// With another priority among the contexts of its process.
    // spec: sync §4.2
    pub fn with_in_process(self, in_process: i32) -> Result<ContextPriority, Refusal> {
        if !(-IN_PROCESS_MAX..=IN_PROCESS_MAX).contains(&in_process) {
            return Err(invalid(format!("in-process priority {in_process}: -{IN_PROCESS_MAX} to {IN_PROCESS_MAX}")));
        }
        Ok(ContextPriority { in_process, ..self })
    }

    /// The rank of a context with these priorities in a process of this class.
    // spec: sync §4.2
    pub fn rank(self, process: u64, class: u32) -> Rank {
        let rank = Rank { in_process: self.in_process, ..rank_of_class(process, class) };
        if self.priority >= PRIORITY_ABSOLUTE {
            // CAST: 31 at most, as was checked when it was set.
            return Rank { band: Band::Realtime, level: (self.priority - PRIORITY_ABSOLUTE) as u8, ..rank };
        }
        // The first step stays within what the class has anyway: only those above it, which are privileged, lift the band.
        let step = if self.priority == 1 { 0 } else { self.priority.signum() };
        let band = match (rank.band, step) {
            (Band::Realtime, -1) => Band::Focus,
            (Band::Focus, -1) | (Band::Idle, 1) => Band::Normal,
            (Band::Normal, -1) => Band::Idle,
            (Band::Normal, 1) => Band::Focus,
            (band, _) => band,
        };
        let in_process = (self.in_process + self.priority).clamp(-IN_PROCESS_MAX, IN_PROCESS_MAX);
        Rank { band, in_process, ..rank }
    }
}

impl Adapter {
    /// A context's priorities as calls have set them.
    pub fn context_priority(&self, context: AnyContext) -> ContextPriority {
        match context {
            AnyContext::Hardware(number) => self.contexts[number].priority,
            AnyContext::Packets(number) => self.packet_contexts[number].priority,
        }
    }

    /// The device of a context.
    pub fn device_of_context(&self, context: AnyContext) -> DeviceNumber {
        match context {
            AnyContext::Hardware(number) => self.contexts[number].device,
            AnyContext::Packets(number) => self.packet_contexts[number].device,
        }
    }

    /// A context's rank, by its own priorities and its process's class.
    pub fn rank_of_context(&self, context: AnyContext) -> Rank {
        let process = self.devices[self.device_of_context(context)].process;
        self.context_priority(context).rank(u64::from(process.0), self.processes[&process].class)
    }

    /// The times of a context as against others of its process.
    pub fn quanta(&self) -> Quanta {
        Quanta::default()
    }

    /// Another priority, from the next decision on.
    // spec: sync §4.2
    pub fn set_context_priority(&mut self, cx: &mut Cx<'_>, context: AnyContext, priority: ContextPriority) {
        match context {
            AnyContext::Hardware(number) => {
                self.contexts[number].priority = priority;
                self.tell_rank(cx, number);
            }
            AnyContext::Packets(number) => self.packet_contexts[number].priority = priority,
        }
        let packets = matches!(context, AnyContext::Packets(_));
        let (priority, in_process) = (priority.priority, priority.in_process);
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

/// How contexts of a process of this class rank (`D3DKMT_SCHEDULINGPRIORITYCLASS`): IDLE in the idle band, the three around NORMAL in
/// the normal band with half, once and twice the weight, HIGH in the focus band, REALTIME in the middle of the realtime band.
// spec: sync §4.2
pub fn rank_of_class(process: u64, class: u32) -> Rank {
    let rank = Rank::ordinary(process);
    match class {
        0 => Rank { band: Band::Idle, ..rank },
        1 => Rank { weight: WEIGHT_NORMAL / 2, ..rank },
        2 => rank,
        3 => Rank { weight: 2 * WEIGHT_NORMAL, ..rank },
        4 => Rank { band: Band::Focus, ..rank },
        _ => Rank { band: Band::Realtime, level: REALTIME_LEVEL_MAX / 2, ..rank },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(priority: i32, in_process: i32) -> ContextPriority {
        ContextPriority::default().with_priority(priority).and_then(|known| known.with_in_process(in_process)).unwrap()
    }

    #[test]
    fn every_class_and_every_priority_of_a_context_has_its_band() {
        // spec: sync §4.2
        use Band::*;
        #[rustfmt::skip]
        let table = [
            // class  below     nothing   above
            (0,      [Idle,     Idle,     Normal]),
            (1,      [Idle,     Normal,   Focus]),
            (2,      [Idle,     Normal,   Focus]),
            (3,      [Idle,     Normal,   Focus]),
            (4,      [Normal,   Focus,    Focus]),
            (5,      [Focus,    Realtime, Realtime]),
        ];
        for (class, bands) in table {
            for (priority, band) in [-7, -1, 0, 2, 7].into_iter().zip([0, 0, 1, 2, 2].map(|column| bands[column])) {
                assert_eq!(said(priority, 0).rank(1, class).band, band, "class {class}, priority {priority}");
            }
            // The first step above is the class's own still, and needs no privilege.
            assert_eq!(said(1, 0).rank(1, class).band, bands[1], "class {class}");
            for level in 0..=31 {
                let rank = said(PRIORITY_ABSOLUTE | level, 3).rank(1, class);
                assert_eq!((rank.band, i32::from(rank.level), rank.in_process), (Realtime, level, 3));
            }
        }
        assert_eq!([1, 2, 3].map(|class| rank_of_class(1, class).weight), [1, 2, 4]);
        assert_eq!(said(5, 5).rank(1, 2).in_process, 7);
        assert_eq!(said(-5, 3).rank(1, 2).in_process, -2);
    }

    #[test]
    fn there_is_nothing_beyond_the_bounds() {
        // spec: sync §4.2
        let known = ContextPriority::default();
        for wrong in [-8, 8, 31, PRIORITY_ABSOLUTE | 32, i32::MIN, i32::MIN | PRIORITY_ABSOLUTE, i32::MAX] {
            assert!(known.with_priority(wrong).is_err(), "{wrong:#x}");
        }
        for wrong in [-8, 8, PRIORITY_ABSOLUTE, i32::MIN, i32::MAX] {
            assert!(known.with_in_process(wrong).is_err(), "{wrong:#x}");
        }
    }
}
