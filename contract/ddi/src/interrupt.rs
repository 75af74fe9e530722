//! The reports of a driver's interrupt routine (sync §2.8).

use wddm_types::{EngineId, NodeId, VidPnTargetId};

use crate::display::NotificationId;
use crate::fence::OsGlobalFence;
use crate::queue::{KmdQueue, OsContext};

bitflags::bitflags! {
    /// `DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS` (sync §2.8).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct InterruptFlags: u32 {
        /// Of a vertical blank: an immediate flip is carried out, and no blank was there.
        const HSYNC_FLIP_COMPLETION = 1 << 1;
        /// Also look at legacy monitored fences.
        const EVALUATE_LEGACY_MONITORED_FENCES = 1 << 2;
    }
}

/// `DXGKARGCB_NOTIFY_INTERRUPT_DATA` (sync §2.8). The kernel copies what it needs during the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt<'a> {
    /// 19, `DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED`.
    NativeFenceSignaled {
        /// The node of the engine.
        node: NodeId,
        /// The engine that signalled.
        engine: EngineId,
        /// The *kernel's* handles; `None` (or empty): any may have been signalled.
        fences: Option<&'a [OsGlobalFence]>,
        /// Queues whose logs tell; none: those of the engine. Read only of a driver with OptimizedNativeFenceSignaledInterrupt, of
        /// which the fences are not read.
        queues: &'a [KmdQueue],
        /// Flags of the report.
        flags: InterruptFlags,
    },
    /// 11, `DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED`: some monitored fence has been, by the GPU; there is no list.
    MonitoredFenceSignaled {
        /// The node of the engine.
        node: NodeId,
        /// The engine that signalled.
        engine: EngineId,
    },
    /// 17, `DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED`: no engine executes for the context any more (sync §4.1).
    SuspendContextCompleted {
        /// The *kernel's* handle.
        context: OsContext,
        /// The value that `suspend_context` was given.
        suspend_fence: u64,
    },
    /// 20, `DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE` (sync §3.17).
    EngineStateChange {
        /// The node of the engine.
        node: NodeId,
        /// The engine whose state changes.
        engine: EngineId,
        /// `NewState`.
        state: EngineState,
    },
    /// 16, `DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT`: the hardware's own watchdog has found an engine without progress.
    GpuEngineTimeout {
        /// The node of the engine.
        node: NodeId,
        /// The engine that makes no progress.
        engine: EngineId,
    },
    /// 15, `DXGK_INTERRUPT_SCHEDULING_LOG_INTERRUPT`: the hardware has written the entry of a scheduling log at which it was to say so.
    SchedulingLogInterrupt {
        /// The node of the engine.
        node: NodeId,
        /// The engine whose log it is.
        engine: EngineId,
    },
    /// 1, `DXGK_INTERRUPT_DMA_COMPLETED`: this packet, and every one handed over before it on the node, is done.
    DmaCompleted {
        /// The node that ran the packet.
        node: NodeId,
        /// `SubmissionFenceId`.
        fence_id: u32,
    },
    /// 2, `DXGK_INTERRUPT_DMA_PREEMPTED`: the node has given back what `preempt_command` asked for. Everything that was handed over
    /// behind the last completed packet counts as preempted (sync §4.3); the kernel hands it over again. The kernel stops the adapter if
    /// the last completed packet is one that the node never had or that lies behind one that was reported, or if it has not asked for
    /// this preemption.
    DmaPreempted {
        /// The node that was preempted.
        node: NodeId,
        /// The engine that was preempted.
        engine: EngineId,
        /// `PreemptionFenceId`: the request.
        preemption_fence_id: u32,
        /// `LastCompletedFenceId`: the packet that was done last on the node; 0: none ever was.
        last_completed_fence_id: u32,
    },
    /// 3, `DXGK_INTERRUPT_CRTC_VSYNC`: a vertical blank of a target has begun. A target that no path leads to stops the adapter.
    CrtcVsync {
        /// The target.
        target: VidPnTargetId,
        /// The address that is shown from now on, as `set_vidpn_source_address` gave it.
        physical_address: u64,
        /// Flags of the report.
        flags: InterruptFlags,
    },
    /// 18, `DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY3`: the same, of a source with a flip queue. The log holds each flip that
    /// was shown or passed over until then.
    CrtcVsyncWithMultiPlaneOverlay3 {
        /// The target.
        target: VidPnTargetId,
        /// Its planes.
        planes: &'a [PlaneVsync],
        /// Flags of the report.
        flags: InterruptFlags,
    },
    /// 14, `DXGK_INTERRUPT_PERIODIC_MONITORED_FENCE_SIGNALED`: a notification's time before a vertical blank has come. One that was never
    /// asked for stops the adapter.
    PeriodicMonitoredFenceSignaled {
        /// The target.
        target: VidPnTargetId,
        /// The notification that has come.
        notification: NotificationId,
    },
    /// 9, `DXGK_INTERRUPT_DMA_PAGE_FAULTED`.
    DmaPageFaulted(DmaFault),
    /// 12, `DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED`.
    HwQueuePageFaulted(PageFault),
}

/// The flip that a plane shows from a vertical blank on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaneVsync {
    /// LayerIndex. One that the source has not stops the adapter.
    pub layer: u32,
    /// PresentId of what is on the screen; 0: the first address of the mode.
    pub present_id: u64,
    /// FirstFreeFlipQueueLogEntryIndex: the entry behind the last one that is written.
    pub first_free_log_entry: u32,
}

/// The new state of an engine (sync §2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineState {
    /// 0: it executes, or is about to.
    Active,
    /// 1: it had nothing to do for a while, and may be given less power: the kernel takes the doorbells of its queues away and, if nothing
    /// was rung meanwhile, calls `set_engine_f_state`.
    TransitionToF1,
    /// 2: it makes no progress; the kernel begins its timeout recovery.
    Hung,
}

/// How much power an engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FState {
    /// All that it needs.
    F0,
    /// Too little to look at doorbells and to execute. It keeps what it knows of its queues.
    F1,
}

/// A fault of a packet (memory §5.8). Its context runs nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaFault {
    /// The node that ran the packet.
    pub node: NodeId,
    /// `FaultedFenceId`: the packet; every one before it on the node is done.
    pub fence_id: u32,
    /// The address.
    pub virtual_address: u64,
    /// It was a write.
    pub write: bool,
    /// Not an address but an instruction was wrong (`FaultErrorCode` 1).
    pub invalid_instruction: bool,
}

/// The page-fault arm (sync §2.8, memory §5.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// The queue that faulted.
    pub queue: KmdQueue,
    /// The node of the queue.
    pub node: NodeId,
    /// The address.
    pub virtual_address: u64,
    /// It was a write.
    pub write: bool,
    /// Level of the page table that had no entry.
    pub level: u32,
    /// Not an address but an instruction was wrong (`FaultErrorCode` 1).
    pub invalid_instruction: bool,
}
