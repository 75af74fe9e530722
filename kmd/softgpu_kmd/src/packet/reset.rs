//! The reset of a node that does not give its packets back (sync §4.4). The device forgets the queue of the ring that has them, and
//! is given it again, empty. Only the packet that the engine was in is lost: the first of the ring that is not done.

use std::collections::VecDeque;

use ddi::{DriverStatus, Interrupt, Notify};
use softgpu_spec::register::{self, queue_state};
use wddm_types::NodeId;

use super::preemption::Interrupted;
use super::ring::Packet;
use crate::driver::SoftGpuKmd;

impl SoftGpuKmd {
    // spec: sync §4.4
    pub(super) fn reset_node(&mut self, node: NodeId, notify: &mut dyn Notify) -> Result<u32, DriverStatus> {
        // The driver takes the node's records while their places still mean it; the answer to the preemption may be among them.
        self.gather();
        let at = usize::from(node.0);
        // None of these began, and none begins because others turn out to be done.
        let behind = std::mem::take(&mut self.packets.nodes[at].waiting);
        let ring = self.packets.busy_ring(node.0);
        let ring = ring.ok_or(DriverStatus::InvalidParameter("a node that never had a packet"))?;
        let index = self.packets.ring_mut(ring).index;
        let group = self.reset_group(node);
        if group.is_some() {
            self.port.write_register(register::ENGINE_RESET, 1 << node.0);
        }
        self.disable_index(index);
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        if self.port.read_register(register::QUEUE_CONTROL) != queue_state::DISABLED {
            return Err(DriverStatus::Unsuccessful("an engine does not let go of a queue"));
        }
        self.gather();
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        let read = self.port.read_register(register::QUEUE_READ_POINTER);
        self.complete_read(ring, read);
        let mut left = std::mem::take(&mut self.packets.ring_mut(ring).in_flight);
        let aborted = left.pop_front().map(|packet| packet.fence_id);
        self.keep_interrupted(left, behind);
        self.packets.nodes[at].preempting = None;
        // The answer may have come with the reset, and the ring have begun anew. The next packet needs it: a device that does
        // not take it back is to be reset as a whole.
        self.disable_index(index);
        self.enable_ring(ring)?;
        self.revive_rings(group.unwrap_or(0))?;
        for fence_id in self.gathered.take_completed(node) {
            notify.interrupt(Interrupt::DmaCompleted { node, fence_id });
        }
        Ok(aborted.unwrap_or(self.packets.nodes[at].last_completed))
    }

    /// Rings that these engines have forgotten with the reset of one of them run again, if they are empty. One that is not is to be reset
    /// itself: the kernel has been told that it would be.
    pub(crate) fn revive_rings(&mut self, group: u64) -> Result<(), DriverStatus> {
        for (ring, index) in self.packets.idle_rings(group) {
            self.port.write_register(register::QUEUE_SELECT, u64::from(index));
            if self.port.read_register(register::QUEUE_CONTROL) == queue_state::DISABLED {
                self.enable_ring(ring)?;
            }
        }
        Ok(())
    }

    /// These come again. One that came back half done before, and was not begun again since, goes on where it was.
    fn keep_interrupted(&mut self, left: VecDeque<Packet>, behind: VecDeque<(u64, Packet)>) {
        for packet in left.into_iter().chain(behind.into_iter().map(|(_, packet)| packet)) {
            let interrupted = Interrupted { at: packet.body.at, done: packet.body.done };
            if interrupted.done > 0
                && let Some(context) = self.packets.get_mut(packet.context)
            {
                context.interrupted.get_or_insert(interrupted);
            }
        }
    }
}
