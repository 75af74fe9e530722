//! Hardware contexts and hardware queues (sync §2.5), and the rings of kernel-mode queues.
//!
//! ```text
//! create ─► Prepared ──(root, ring known: ENABLE)──► Enabled ──(fault, stop_hw_queue: DISABLE)──► Stopped
//!              ▲                                        │
//!              └────────(its doorbell is destroyed: DISABLE)
//! ```
//! A kernel-mode queue has a ring of the driver's own, reached by bus address; it is enabled as soon as its context has a
//! root page table. A user-mode queue's ring is the process's; it is enabled when its doorbell is first connected
//! (`doorbells`). ENABLE starts the device at read pointer 0, so a queue is never disabled and enabled again over the same
//! ring: its content would run twice.

mod areas;
mod execution;
pub(crate) mod ranks;

use ddi::{
    CreateHwContext, CreateHwQueue, DriverStatus, FState, HardwareQueues, Host, HwQueueFlags, KmdContext, KmdDevice,
    KmdDoorbell, KmdQueue, OsContext, ProgressFence, SetContextSchedulingProperties, SetSchedulingLogBuffer,
    SetupPriorityBands, SubmitCommandToHwQueue, SuspendStatus,
};
use softgpu_spec::register::{self, queue_control};
use softgpu_spec::{Command, QUEUE_COUNT, queue_data, submission_data};
use wddm_types::{EngineId, GpuVa, NodeId, PageRun};

use crate::driver::SoftGpuKmd;
use crate::handles::Handles;
use crate::logs::Logged;
use crate::packet::translate;
pub(crate) use areas::save_area;

/// Most words of one submission in a kernel-mode ring: a branch and a signal.
const SUBMISSION_WORDS: usize = 6;
/// Most bytes of one submission in a kernel-mode ring.
pub(crate) const SUBMISSION_BYTES: u64 = SUBMISSION_WORDS as u64 * 8;

/// A hardware context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: KmdDevice,
    node: NodeId,
    system: bool,
    /// The value by which the device finds the context's page tables: their root, or the process's number at the IOMMU.
    root: Option<u64>,
    queues: u32,
    /// The kernel's handle.
    pub(crate) os: OsContext,
    /// Off the run list; with the kernel's value for it as long as the device has not acknowledged it.
    pub(crate) suspended: Option<Option<u64>>,
    /// Its scheduling rank.
    pub(crate) rank: ranks::RankRegisters,
}

/// Where a queue is in its life; the drawing is above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueStage {
    /// The device does not know it.
    Prepared,
    /// The device executes it.
    Enabled,
    /// It will never run again.
    Stopped,
}

/// A queue's ring, by its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ring {
    /// The driver's: system pages, and bytes written so far and seen as read.
    Kernel { run: PageRun, written: u64, read: u64 },
    /// The process's, once there is a doorbell.
    User(Option<UserRing>),
}

/// A ring in a process's space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserRing {
    pub(crate) doorbell: KmdDoorbell,
    pub(crate) va: GpuVa,
    pub(crate) bytes: u64,
}

/// A hardware queue.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The device's number of it, and of its doorbell.
    pub(crate) index: u32,
    pub(crate) context: KmdContext,
    pub(crate) node: NodeId,
    pub(crate) state: QueueStage,
    pub(crate) ring: Ring,
    pub(crate) progress: ProgressFence,
    /// Its fault has been reported: a queue faults once.
    pub(crate) fault_reported: bool,
    /// The device has been told to suspend it and has not acknowledged it.
    pub(crate) suspending: bool,
    /// The logs of its waits and of its signals are known (`logs`).
    pub(crate) logged: Logged,
}

/// The queues, by handle and by the device's number.
#[derive(Debug, Default)]
pub(crate) struct QueueTable {
    pub(crate) handles: Handles<Queue>,
    by_index: Vec<Option<KmdQueue>>,
}

impl QueueTable {
    /// The queue that the device calls `index`.
    pub(crate) fn at(&self, index: u64) -> Option<(KmdQueue, &Queue)> {
        let handle = (*self.by_index.get(usize::try_from(index).ok()?)?)?;
        self.handles.get(handle.0).map(|queue| (handle, queue))
    }

    /// The driver's own rings.
    pub(crate) fn rings(&self) -> Vec<PageRun> {
        let kernel = |queue: &Queue| if let Ring::Kernel { run, .. } = queue.ring { Some(run) } else { None };
        self.handles.iter().filter_map(|(_, queue)| kernel(queue)).collect()
    }

    /// How many of the device's queues are in use.
    pub(crate) fn taken(&self) -> u32 {
        // CAST: at most QUEUE_COUNT.
        self.by_index.iter().flatten().count() as u32
    }

    fn free_index(&mut self) -> Option<u32> {
        self.by_index.resize(QUEUE_COUNT as usize, None);
        // CAST: at most QUEUE_COUNT.
        self.by_index.iter().position(Option::is_none).map(|index| index as u32)
    }

    /// Keeps a queue of the device for a packet context.
    pub(crate) fn reserve_index(&mut self) -> Option<u32> {
        let index = self.free_index()?;
        // No queue has this handle, so records with the number are not taken for those of a hardware queue.
        self.by_index[index as usize] = Some(KmdQueue(0));
        Some(index)
    }

    /// Gives it back.
    pub(crate) fn release_index(&mut self, index: u32) {
        self.by_index[index as usize] = None;
    }

    fn insert(&mut self, queue: Queue) -> KmdQueue {
        let index = queue.index as usize;
        let handle = KmdQueue(self.handles.insert(queue));
        self.by_index[index] = Some(handle);
        handle
    }

    fn remove(&mut self, handle: KmdQueue) -> Queue {
        let queue = self.handles.remove(handle.0, "hardware queue");
        self.by_index[queue.index as usize] = None;
        queue
    }
}

const NO_QUEUE: DriverStatus = DriverStatus::InvalidParameter("no such hardware queue");

impl HardwareQueues for SoftGpuKmd {
    fn create_hw_context(
        &mut self,
        host: &mut dyn Host,
        create: CreateHwContext<'_>,
    ) -> Result<KmdContext, DriverStatus> {
        if u32::from(create.node.0) >= softgpu_spec::engine::COUNT {
            return Err(DriverStatus::InvalidParameter("no such node"));
        }
        let device = self.devices.get_mut(create.device.0).ok_or(DriverStatus::InvalidParameter("no such device"))?;
        if create.system != device.system {
            return Err(DriverStatus::InvalidParameter("a system context belongs to the system device, and only that"));
        }
        if !create.system && self.config.context_save_bytes != 0 {
            let system = self.geometry.as_ref().expect("the device is started").system();
            save_area(host, system, self.config.context_save_bytes, create.context.0)?;
        }
        device.contexts += 1;
        let context = Context {
            device: create.device,
            node: create.node,
            system: create.system,
            root: None,
            queues: 0,
            os: create.context,
            suspended: None,
            rank: ranks::ORDINARY,
        };
        let handle = KmdContext(self.contexts.insert(context));
        // spec: memory §4.1: the kernel sets no root where the IOMMU translates
        if let Some(root) = self.process_root(create.device) {
            self.set_root(handle, root);
        }
        Ok(handle)
    }

    fn destroy_hw_context(&mut self, context: KmdContext) {
        let context = self.contexts.remove(context.0, "hardware context");
        assert_eq!(context.queues, 0, "a context outlives its queues");
        self.devices.get_mut(context.device.0).expect("a device outlives its contexts").contexts -= 1;
    }

    fn create_hw_queue(&mut self, host: &mut dyn Host, create: CreateHwQueue<'_>) -> Result<KmdQueue, DriverStatus> {
        let context =
            self.contexts.get(create.context.0).ok_or(DriverStatus::InvalidParameter("no such hardware context"))?;
        let (node, system) = (context.node, context.system);
        let user = create.flags.contains(HwQueueFlags::USER_MODE_SUBMISSION);
        if user && system {
            return Err(DriverStatus::InvalidParameter("a system context's queues take work from the kernel only"));
        }
        // spec: sync §2.5: without the flag the handle is none of a native fence, and of other kinds the hardware signals none
        if !create.flags.contains(HwQueueFlags::NATIVE_PROGRESS_FENCE) {
            return Err(DriverStatus::InvalidParameter("a queue whose progress fence is no native fence"));
        }
        if !self.fences.exists(create.progress.fence) {
            return Err(DriverStatus::InvalidParameter("the progress fence does not exist"));
        }
        // spec: sync §2.5
        if !create.private_data.is_empty() && !queue_data::answer(create.private_data, create.progress.monitored_va.0) {
            return Err(DriverStatus::InvalidParameter("the private data of a queue are none of this driver's"));
        }
        let index = self.queues.free_index().ok_or(DriverStatus::NoMemory("every hardware queue is taken"))?;
        let ring = if user { Ring::User(None) } else { self.kernel_ring(host)? };
        let queue = Queue {
            index,
            context: create.context,
            node,
            state: QueueStage::Prepared,
            ring,
            progress: create.progress,
            fault_reported: false,
            suspending: false,
            logged: Logged::default(),
        };
        let handle = self.queues.insert(queue);
        self.contexts.get_mut(create.context.0).expect("looked up above").queues += 1;
        let has_root = self.contexts.get(create.context.0).is_some_and(|context| context.root.is_some());
        if !user
            && has_root
            && let Err(status) = self.enable(handle)
        {
            self.destroy_hw_queue(host, handle);
            return Err(status);
        }
        Ok(handle)
    }

    fn destroy_hw_queue(&mut self, host: &mut dyn Host, queue: KmdQueue) {
        // The driver translates the queue's records while its number still means it.
        if let Some(index) = self.queues.handles.get(queue.0).map(|queue| queue.index) {
            self.disable_index(index);
            self.gather();
            self.gathered.forget_queue(queue);
            self.acknowledged(queue);
        }
        let queue = self.queues.remove(queue);
        match queue.ring {
            Ring::Kernel { run, .. } => host.free_contiguous(run),
            Ring::User(ring) => assert!(ring.is_none(), "a queue outlives its doorbell"),
        }
        self.contexts.get_mut(queue.context.0).expect("a context outlives its queues").queues -= 1;
    }

    fn submission_data_bytes(&mut self) -> u32 {
        submission_data::BYTES_MAX
    }

    fn submit_command_to_hw_queue(&mut self, submit: SubmitCommandToHwQueue<'_>) -> Result<(), DriverStatus> {
        let queue = self.queues.handles.get(submit.queue.0).ok_or(NO_QUEUE)?;
        match (queue.state, queue.ring) {
            (QueueStage::Enabled, Ring::Kernel { .. }) => {}
            (_, Ring::User(_)) => {
                return Err(DriverStatus::InvalidParameter("a user-mode queue takes no work from the kernel"));
            }
            (QueueStage::Prepared, _) => {
                return Err(DriverStatus::Unsuccessful("the queue's context has no page table"));
            }
            (QueueStage::Stopped, _) => return Err(DriverStatus::Unsuccessful("the queue is stopped")),
        }
        if !submit.buffer_bytes.is_multiple_of(8) {
            return Err(DriverStatus::InvalidParameter("a command buffer is made of 64-bit words"));
        }
        if submit.paging && !self.contexts.get(queue.context.0).is_some_and(|context| context.system) {
            return Err(DriverStatus::InvalidParameter("paging buffers run in the system context"));
        }
        let noted = submit.paging && submit.buffer_bytes > 0;
        if noted && translate::words_of(submit.private_data) != Some(submit.buffer_bytes / 8) {
            return Err(DriverStatus::InvalidParameter("the private data belong to another buffer"));
        }
        let mut words = Vec::with_capacity(SUBMISSION_WORDS);
        if submit.buffer_bytes > 0 {
            Command::Branch { va: submit.buffer.0, words: submit.buffer_bytes / 8 }.encode(&mut words);
        }
        let (current_va, monitored_va) = (queue.progress.current_va.0, queue.progress.monitored_va.0);
        Command::Signal { current_va, monitored_va, value: submit.progress_value, log: None }.encode(&mut words);
        self.append(submit.queue, &words)
    }

    // spec: sync §4.1
    fn suspend_context(&mut self, handle: KmdContext, suspend_fence: u64) -> Result<SuspendStatus, DriverStatus> {
        let context =
            self.contexts.get_mut(handle.0).ok_or(DriverStatus::InvalidParameter("no such hardware context"))?;
        match context.suspended {
            Some(None) => return Ok(SuspendStatus::Suspended),
            // The latest value is the one to acknowledge.
            Some(Some(_)) => {
                context.suspended = Some(Some(suspend_fence));
                return Ok(SuspendStatus::Pending);
            }
            None => context.suspended = Some(None),
        }
        let running = self.queues.enabled_of(handle);
        for &(number, index) in &running {
            self.queues.handles.get_mut(number).expect("just listed").suspending = true;
            self.suspend_index(index);
        }
        if running.is_empty() {
            return Ok(SuspendStatus::Suspended);
        }
        self.contexts.get_mut(handle.0).expect("looked up above").suspended = Some(Some(suspend_fence));
        Ok(SuspendStatus::Pending)
    }

    fn resume_context(&mut self, handle: KmdContext) {
        // Acknowledgements of the suspension that ends here are taken before the next one can begin.
        self.gather();
        let context = self.contexts.get_mut(handle.0).expect("the kernel names a context that there is");
        context.suspended = None;
        let root = context.root;
        for (number, index) in self.queues.enabled_of(handle) {
            self.queues.handles.get_mut(number).expect("just listed").suspending = false;
            self.port.write_register(register::QUEUE_SELECT, u64::from(index));
            self.port.write_register(register::QUEUE_ROOT, root.expect("an enabled queue has a root"));
            self.port.write_register(register::QUEUE_CONTROL, queue_control::RESUME);
        }
    }

    fn setup_priority_bands(&mut self, setup: SetupPriorityBands) -> Result<(), DriverStatus> {
        self.setup_bands(setup)
    }

    fn set_context_scheduling_properties(
        &mut self,
        properties: SetContextSchedulingProperties,
    ) -> Result<(), DriverStatus> {
        self.set_rank(properties)
    }

    fn set_scheduling_log_buffer(&mut self, set: SetSchedulingLogBuffer<'_>) -> Result<(), DriverStatus> {
        self.set_scheduling_log(set)
    }

    // The device's counter of a queue number goes on when the number goes to another queue: the kernel subtracts its value at the
    // creation of the queue.
    fn hw_queue_running_ns(&mut self, queue: KmdQueue) -> Result<u64, DriverStatus> {
        let index = self.queues.handles.get(queue.0).ok_or(NO_QUEUE)?.index;
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        match self.port.read_register(register::QUEUE_BUSY_NS) {
            register::ABSENT => Err(DriverStatus::Unsuccessful("the device is gone")),
            ns => Ok(ns),
        }
    }

    // spec: sync §3.17
    fn set_engine_f_state(&mut self, node: NodeId, _engine: EngineId, state: FState) {
        let (gates, bit) = (self.port.read_register(register::ENGINE_GATE), 1 << node.0);
        let gates = if state == FState::F1 { gates | bit } else { gates & !bit };
        self.port.write_register(register::ENGINE_GATE, gates);
    }

    fn reset_hw_engine(&mut self, node: NodeId, _engine: u32) -> Result<Vec<KmdContext>, DriverStatus> {
        match self.reset_group(node) {
            Some(group) => self.reset_group_of(node, group),
            None => self.stop_hung_queues(node),
        }
    }

    // spec: sync §4.4: the other queues of the node have never stopped, or go on when their contexts are resumed
    fn resume_hw_engine(&mut self, _node: NodeId, _engine: u32) -> Result<(), DriverStatus> {
        Ok(())
    }

    fn stop_hw_queue(&mut self, handle: KmdQueue) {
        let queue = self.queues.handles.get_mut(handle.0).expect("the kernel stops a queue that there is");
        queue.state = QueueStage::Stopped;
        let index = queue.index;
        self.disable_index(index);
        self.acknowledged(handle);
    }
}

#[cfg(test)]
pub(crate) mod tests;
