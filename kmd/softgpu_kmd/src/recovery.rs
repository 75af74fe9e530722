//! Reset and restart of the device (sync §4.4): `ResetFromTimeout` leaves a device that touches nothing, and objects that run
//! nothing; `RestartFromTimeout` a device as after its start. In between the kernel only destroys objects and reports losses.

use ddi::{DriverStatus, HardwareQueues, KmdContext, KmdQueue, PowerState};
use softgpu_spec::QUEUE_COUNT;
use softgpu_spec::register::{self, queue_state};
use wddm_types::NodeId;

use crate::driver::SoftGpuKmd;
use crate::queues::{Queue, QueueStage};

impl SoftGpuKmd {
    /// The engines that are reset together, if a node's is one of them.
    // spec: sync §4.4
    pub(crate) fn reset_group(&self, node: NodeId) -> Option<u64> {
        let group = self.port.read_register(register::RESET_GROUP);
        (group != register::ABSENT && group >> node.0 & 1 == 1).then_some(group)
    }

    /// Resets a node's engine and those of its reset group. Returns the contexts of the queues that were ready or parked there; a
    /// context whose queues had left the hardware loses nothing.
    pub(crate) fn reset_group_of(&mut self, node: NodeId, group: u64) -> Result<Vec<KmdContext>, DriverStatus> {
        self.gather();
        let there = |(_, queue): &(u64, &Queue)| group >> queue.node.0 & 1 == 1 && queue.state == QueueStage::Enabled;
        let enabled = self.queues.handles.iter().filter(there);
        let enabled: Vec<_> = enabled.map(|(number, queue)| (KmdQueue(number), queue.index, queue.context)).collect();
        let state = |kmd: &SoftGpuKmd, index: u32| {
            kmd.port.write_register(register::QUEUE_SELECT, u64::from(index));
            kmd.port.read_register(register::QUEUE_CONTROL)
        };
        let mut lost = enabled;
        lost.retain(|(_, index, _)| matches!(state(self, *index), queue_state::READY | queue_state::PARKED));
        self.port.write_register(register::ENGINE_RESET, 1 << node.0);
        if lost.iter().any(|(_, index, _)| state(self, *index) != queue_state::DISABLED) {
            return Err(DriverStatus::Unsuccessful("an engine does not let go of a queue"));
        }
        lost.iter().for_each(|(queue, ..)| self.stop_hw_queue(*queue));
        self.revive_rings(group)?;
        Ok(lost.into_iter().map(|(.., context)| context).collect())
    }

    /// Stops the queues of a node that the driver told to leave the hardware and that have not; returns their contexts. The device
    /// lets go of a queue on that write, whatever its engine does: if it does not, this call fails.
    // spec: sync §4.4
    pub(crate) fn stop_hung_queues(&mut self, node: NodeId) -> Result<Vec<KmdContext>, DriverStatus> {
        // A queue that has left the hardware meanwhile is not hung: its record clears `suspending`.
        self.gather();
        let hung = |(number, queue): (u64, &Queue)| {
            (queue.node == node && queue.suspending).then_some((KmdQueue(number), queue.index, queue.context))
        };
        let hung: Vec<_> = self.queues.handles.iter().filter_map(hung).collect();
        let mut contexts = Vec::new();
        for (queue, index, context) in hung {
            self.stop_hw_queue(queue);
            self.port.write_register(register::QUEUE_SELECT, u64::from(index));
            if self.port.read_register(register::QUEUE_CONTROL) != queue_state::DISABLED {
                return Err(DriverStatus::Unsuccessful("an engine does not let go of a queue"));
            }
            contexts.push(context);
        }
        Ok(contexts)
    }

    /// Stops the engines, has the device forget all queues, and drops all records so far.
    // spec: memory §3.5, sync §4.4
    pub(crate) fn reset(&mut self) -> Result<(), DriverStatus> {
        if self.geometry.is_none() {
            return Err(DriverStatus::Unsuccessful("the device is not started"));
        }
        self.port.write_register(register::ENGINE_ENABLE, 0);
        self.blacken();
        self.drop_scheduling_logs();
        for index in 0..QUEUE_COUNT {
            self.disable_index(index);
        }
        while !matches!(self.port.read_register(register::INTERRUPT_POP), register::record::NONE | register::ABSENT) {}
        self.gathered = Default::default();
        for (_, queue) in self.queues.handles.iter_mut() {
            (queue.state, queue.suspending) = (QueueStage::Stopped, false);
        }
        for (_, context) in self.contexts.iter_mut() {
            // The reset replaces the device's acknowledgement: the kernel itself ends the wait for it.
            context.suspended = context.suspended.map(|_| None);
        }
        self.packets.stop_all();
        self.forget_translations();
        self.unseal_all();
        Ok(())
    }

    /// Flushes all translations of the engines: queued flushes were lost with the reset, and the kernel may give a root's memory to
    /// another process.
    fn forget_translations(&self) {
        let done = self.cmp_command(register::cmp::FLUSH_TLB, [u64::MAX, 0, 0]);
        assert_ne!(done, register::cmp_result::FAULT, "it names no address that could be missing");
    }

    /// The device works, with an empty aperture. The rings that packets of several contexts share are empty and run again;
    /// those of one context stay off, as that does.
    // spec: sync §4.4
    pub(crate) fn restart(&mut self) -> Result<(), DriverStatus> {
        self.power(PowerState::On)?;
        self.enable_node_rings()
    }
}
