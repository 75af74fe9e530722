//! Preemption of packets (sync §4.3, memory §7.4): the kernel takes a node back from what it has handed over. Part of packet
//! scheduling ([`PacketScheduling::preempt_command`](crate::PacketScheduling::preempt_command)).
//!
//! ```text
//! kernel                                   driver and device
//! PreemptCommand(preemption fence) ──────▶ stops where its granularity lets it, finishes what it must
//!                                  ◀────── DmaCompleted of what was done meanwhile
//!                                  ◀────── DmaPreempted(preemption fence, last completed fence)
//! paging packets again, first, with the ids that they had ─▶
//! packets of contexts again, with new ids, patched if what they name has moved ─▶
//! ```
//! Between the request and its answer the kernel hands nothing over to the node. Packets that come again bear
//! [`SubmitFlags::RESUBMISSION`](crate::SubmitFlags); the first of them of a context is the one that was interrupted, if one was, and
//! goes on where it was.

use wddm_types::{EngineId, NodeId};

/// `DXGKARG_PREEMPTCOMMAND` (sync §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptCommand {
    /// `NodeOrdinal`.
    pub node: NodeId,
    /// `EngineOrdinal`.
    pub engine: EngineId,
    /// `PreemptionFenceId`, which the answer names. Its numbers are not those of packets.
    pub preemption_fence_id: u32,
}

/// `DXGKARG_RESETENGINE` (sync §4.4): a node has not given back what it was asked for, and is made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetEngine {
    /// `NodeOrdinal`.
    pub node: NodeId,
    /// `EngineOrdinal`.
    pub engine: EngineId,
}

/// `D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY` (sync §4.3); NONE is a driver that is not PreemptionAware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GraphicsPreemption {
    /// Between two DMA buffers.
    DmaBuffer = 100,
    /// Between two primitives.
    Primitive = 200,
    /// Between two triangles.
    Triangle = 300,
    /// Between two pixels.
    Pixel = 400,
    /// Between two instructions of a shader.
    Shader = 500,
}

/// `D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY` (sync §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComputePreemption {
    /// Between two DMA buffers.
    DmaBuffer = 100,
    /// Between two dispatches.
    Dispatch = 200,
    /// Between two thread groups.
    ThreadGroup = 300,
    /// Between two threads.
    Thread = 400,
    /// Between two instructions of a shader.
    Shader = 500,
}

/// `D3DKMDT_PREEMPTION_CAPS`: how finely a driver that is PreemptionAware can stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionGranularity {
    /// Graphics work.
    pub graphics: GraphicsPreemption,
    /// Compute work.
    pub compute: ComputePreemption,
}

impl GraphicsPreemption {
    /// The name of the boundary.
    pub const fn name(self) -> &'static str {
        match self {
            GraphicsPreemption::DmaBuffer => "DMA buffer",
            GraphicsPreemption::Primitive => "primitive",
            GraphicsPreemption::Triangle => "triangle",
            GraphicsPreemption::Pixel => "pixel",
            GraphicsPreemption::Shader => "shader",
        }
    }
}

impl ComputePreemption {
    /// The name of the boundary.
    pub const fn name(self) -> &'static str {
        match self {
            ComputePreemption::DmaBuffer => "DMA buffer",
            ComputePreemption::Dispatch => "dispatch",
            ComputePreemption::ThreadGroup => "thread group",
            ComputePreemption::Thread => "thread",
            ComputePreemption::Shader => "shader",
        }
    }
}
