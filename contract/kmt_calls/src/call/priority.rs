//! Calls on priorities: the order of contexts on the GPU, and the order in which memory is evicted (sync §4.2).

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

/// `D3DKMT_SETCONTEXTSCHEDULINGPRIORITY_ABSOLUTE`: a bit of the priority. The rest is a level of the realtime band then, 0 to 31, and
/// nothing that the context's process is counts.
pub const PRIORITY_ABSOLUTE: i32 = 0x4000_0000;

/// A call on a priority. Contexts are of either kind: those that take packets, and those with hardware queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PriorityCall {
    /// `D3DKMTSetContextSchedulingPriority`: how the context ranks as against all others.
    SetContextSchedulingPriority {
        /// The context.
        context: RawHandle,
        /// -7 to 7, 0 at first: below 0 one band lower than its process, above 0 one band higher but not in the realtime band, and among
        /// those of the process by the number. Or a level with [`PRIORITY_ABSOLUTE`]. Above 0 needs the privilege.
        priority: i32,
    },
    /// `D3DKMTGetContextSchedulingPriority` → `ContextPriority`.
    GetContextSchedulingPriority {
        /// The context.
        context: RawHandle,
    },
    /// `D3DKMTSetContextInProcessSchedulingPriority`: how it ranks among those of its process.
    SetContextInProcessSchedulingPriority {
        /// The context.
        context: RawHandle,
        /// -7 to 7; 0 at first.
        priority: i32,
    },
    /// `D3DKMTGetContextInProcessSchedulingPriority` → `ContextPriority`.
    GetContextInProcessSchedulingPriority {
        /// The context.
        context: RawHandle,
    },
    /// `D3DKMTSetProcessSchedulingPriorityClass` of the calling process: the band of its contexts, and whether its memory is evicted
    /// before others' under pressure. HIGH and REALTIME need the privilege.
    SetProcessSchedulingPriorityClass {
        /// The adapter.
        adapter: RawHandle,
        /// 0 IDLE, 1 BELOW_NORMAL, 2 NORMAL, 3 ABOVE_NORMAL, 4 HIGH, 5 REALTIME.
        class: u32,
    },
    /// `D3DKMTGetProcessSchedulingPriorityClass` of the calling process → `PriorityClass`.
    GetProcessSchedulingPriorityClass {
        /// The adapter.
        adapter: RawHandle,
    },
}

impl PriorityCall {
    /// The name of its `D3DKMT` function, without the prefix.
    pub const fn name(&self) -> &'static str {
        match self {
            PriorityCall::SetContextSchedulingPriority { .. } => "SetContextSchedulingPriority",
            PriorityCall::GetContextSchedulingPriority { .. } => "GetContextSchedulingPriority",
            PriorityCall::SetContextInProcessSchedulingPriority { .. } => "SetContextInProcessSchedulingPriority",
            PriorityCall::GetContextInProcessSchedulingPriority { .. } => "GetContextInProcessSchedulingPriority",
            PriorityCall::SetProcessSchedulingPriorityClass { .. } => "SetProcessSchedulingPriorityClass",
            PriorityCall::GetProcessSchedulingPriorityClass { .. } => "GetProcessSchedulingPriorityClass",
        }
    }
}
