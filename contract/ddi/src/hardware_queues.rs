//! The facet of drivers with hardware scheduling: contexts, their queues, where they stand, and how they leave the hardware.

use wddm_types::{EngineId, NodeId};

use crate::adapter::DriverStatus;
use crate::host::Host;
use crate::interrupt::FState;
use crate::queue::{CreateHwContext, CreateHwQueue, KmdContext, KmdQueue, SubmitCommandToHwQueue, SuspendStatus};
use crate::scheduling::{SetContextSchedulingProperties, SetupPriorityBands};
use crate::scheduling_log::SetSchedulingLogBuffer;

/// Hardware scheduling (sync §2.5).
pub trait HardwareQueues {
    /// `DxgkDdiCreateHwContext`.
    ///
    /// # Errors
    /// `NoMemory`, `InvalidParameter`.
    fn create_hw_context(
        &mut self,
        host: &mut dyn Host,
        create: CreateHwContext<'_>,
    ) -> Result<KmdContext, DriverStatus>;

    /// `DxgkDdiDestroyHwContext`. Its queues are gone already.
    fn destroy_hw_context(&mut self, context: KmdContext);

    /// `DxgkDdiCreateHwQueue`.
    ///
    /// # Errors
    /// `NoMemory`, `InvalidParameter`.
    fn create_hw_queue(&mut self, host: &mut dyn Host, create: CreateHwQueue<'_>) -> Result<KmdQueue, DriverStatus>;

    /// `DxgkDdiDestroyHwQueue`. When it returns the hardware executes nothing for it any more.
    fn destroy_hw_queue(&mut self, host: &mut dyn Host, queue: KmdQueue);

    /// `DmaBufferPrivateDataSize` of hardware contexts: so much private data of the user-mode driver's goes with a buffer at most.
    fn submission_data_bytes(&mut self) -> u32 {
        0
    }

    /// `DxgkDdiSubmitCommandToHwQueue`. Its ring has room: the kernel keeps to `MaxInFlightHwQueueBuffers`.
    ///
    /// # Errors
    /// Any status puts the device in error, unless a fault explains it: see [`crate::PacketScheduling::submit_command`].
    fn submit_command_to_hw_queue(&mut self, submit: SubmitCommandToHwQueue<'_>) -> Result<(), DriverStatus>;

    /// `DxgkDdiSuspendContext`: the context's queues leave the run list; their rings stay as they are and may be filled on.
    /// Answered by [`Interrupt::SuspendContextCompleted`] with this `suspend_fence`, unless nothing executes at return.
    ///
    /// # Errors
    /// Any status stops the adapter, unless a fault explains it: see [`crate::PacketScheduling::submit_command`].
    fn suspend_context(&mut self, context: KmdContext, suspend_fence: u64) -> Result<SuspendStatus, DriverStatus>;

    /// `DxgkDdiResumeContext`: its queues go on where they were. Must succeed.
    fn resume_context(&mut self, context: KmdContext);

    /// `DxgkDdiSetupPriorityBands`: how the hardware is to share its engines out. At adapter start and restart, before any context is
    /// made.
    ///
    /// # Errors
    /// `NotSupported`, as by default: the hardware shares them out as it likes. Any other fails the start.
    fn setup_priority_bands(&mut self, setup: SetupPriorityBands) -> Result<(), DriverStatus> {
        let _ = setup;
        Err(DriverStatus::NotSupported("SetupPriorityBands"))
    }

    /// `DxgkDdiSetContextSchedulingProperties`: where a context stands. Before anything is submitted on it, and at any time again: it
    /// holds from the next decision of its band on.
    ///
    /// # Errors
    /// `NotSupported`, as by default. Any other fails the creation, and later stops the adapter, unless a fault explains it: see
    /// [`crate::PacketScheduling::submit_command`].
    fn set_context_scheduling_properties(
        &mut self,
        properties: SetContextSchedulingProperties,
    ) -> Result<(), DriverStatus> {
        let _ = properties;
        Err(DriverStatus::NotSupported("SetContextSchedulingProperties"))
    }

    /// `DxgkDdiSetSchedulingLogBuffer`: where the hardware is to write which contexts an engine runs. Synchronous: when it returns
    /// nothing more is written to the log that the engine had before.
    ///
    /// # Errors
    /// Any status, `NotSupported` as by default: the engine has the log that it had before, and the kernel has none of it.
    fn set_scheduling_log_buffer(&mut self, set: SetSchedulingLogBuffer<'_>) -> Result<(), DriverStatus> {
        let _ = set;
        Err(DriverStatus::NotSupported("SetSchedulingLogBuffer"))
    }

    /// How long engines have executed for a queue, in nanoseconds. The fact sheets have no such call: ours (decision 0028). It only
    /// rises, and goes on over suspensions, resets and sleeps; the driver chooses where it begins, and may count work under way before or
    /// when it is done. It does not count waits for which the CMP parks the queue. The kernel asks at a queue's creation, before its
    /// destruction, and when a process asks the kernel for figures: never while work is handed over.
    ///
    /// # Errors
    /// `NotSupported`, as by default: the hardware does not count. No other is of consequence either.
    fn hw_queue_running_ns(&mut self, queue: KmdQueue) -> Result<u64, DriverStatus> {
        let _ = queue;
        Err(DriverStatus::NotSupported("no running time of hardware queues"))
    }

    /// `DxgkDdiResetHwEngine` narrowed to one queue after a fault: the queue is stopped and stays stopped, all others go
    /// on. Must succeed.
    fn stop_hw_queue(&mut self, queue: KmdQueue);

    /// `DxgkDdiSetPowerComponentFState` of an engine (sync §3.17): down if the driver has asked, up before work comes. Must succeed.
    fn set_engine_f_state(&mut self, node: NodeId, engine: EngineId, state: FState);

    /// `DxgkDdiResetHwEngine`: contexts of the node have not left the hardware although they were suspended. When it returns none
    /// of these runs, and none will: their queues are stopped. All others lose nothing, but for those on nodes that are reset
    /// with it ([`Miniport::query_dependent_engine_group`](crate::Miniport::query_dependent_engine_group)) and have not left the hardware,
    /// as they were asked. Answers with the contexts that have lost what they ran (`DxgkCbInvalidateHwContext`).
    ///
    /// # Errors
    /// Any status has the kernel reset the adapter; so does the default, which says that engines cannot be reset by themselves.
    fn reset_hw_engine(&mut self, node: NodeId, engine: u32) -> Result<Vec<KmdContext>, DriverStatus> {
        let _ = (node, engine);
        Err(DriverStatus::NotSupported("ResetHwEngine"))
    }

    /// `DxgkDdiResumeHwEngine`: the node goes on with what the other contexts have given it.
    ///
    /// # Errors
    /// Any status has the kernel reset the adapter.
    fn resume_hw_engine(&mut self, node: NodeId, engine: u32) -> Result<(), DriverStatus> {
        let _ = (node, engine);
        Err(DriverStatus::NotSupported("ResumeHwEngine"))
    }
}
