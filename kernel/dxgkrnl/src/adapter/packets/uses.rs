//! The points at which buffers have used allocations (memory §6.1, §6.2). What each buffer uses is `packet::uses`'.

use gpu_fence::FenceId;
use vidmm::AllocationId;
use wddm_types::{FencePoint, ProcessId};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, PacketContextNumber};

impl Adapter {
    /// The last packet of a context uses these.
    pub(super) fn note_uses(
        &mut self,
        cx: &Cx<'_>,
        context: PacketContextNumber,
        allocations: Vec<(AllocationId, bool)>,
    ) {
        let Some(progress) = self.packets.get(context).map(|known| known.progress) else { return };
        let done = self.sync.current_value(cx.memory, progress);
        self.packets.note_uses(context, done, allocations);
    }

    /// The points after which no buffer submitted so far uses an allocation, or writes it.
    // spec: memory §6.1
    pub fn gpu_uses(&self, cx: &Cx<'_>, allocation: AllocationId, writes_only: bool) -> Vec<FencePoint<FenceId>> {
        let contexts = self.packets.contexts();
        let queued = contexts.filter_map(|(context, _)| self.last_use(cx, context, allocation, writes_only));
        let waiting = self.packets.waiting_for(allocation, writes_only).map(|waiting| self.sync.point(waiting.done, 1));
        queued.chain(waiting).collect()
    }

    /// The points after which no buffer that one device has submitted so far uses an allocation.
    // spec: memory §6.2
    pub(in crate::adapter) fn gpu_uses_of(
        &self,
        cx: &Cx<'_>,
        device: DeviceNumber,
        allocation: AllocationId,
    ) -> Vec<FencePoint<FenceId>> {
        let contexts = self.packets.of_device(device);
        let queued = contexts.filter_map(|context| self.last_use(cx, context, allocation, false));
        let waiting = self.packets.waiting_for(allocation, false).filter(|waiting| waiting.device == device);
        queued.chain(waiting.map(|waiting| self.sync.point(waiting.done, 1))).collect()
    }

    /// The last buffer of a context that uses an allocation, or writes it, and is not done.
    fn last_use(
        &self,
        cx: &Cx<'_>,
        context: PacketContextNumber,
        allocation: AllocationId,
        writes_only: bool,
    ) -> Option<FencePoint<FenceId>> {
        let progress = self.packets[context].progress;
        let last = self.packets.last_use(context, allocation, writes_only);
        Some(self.sync.point(progress, last.filter(|packet| *packet > self.sync.current_value(cx.memory, progress))?))
    }

    /// Whether what uses an allocation waits for a turn of its device.
    pub(in crate::adapter) fn is_waited_for_a_turn_with(&self, allocation: AllocationId) -> bool {
        self.packets.waiting_for(allocation, false).next().is_some()
    }

    /// Whether what uses an allocation has no turn before a process unlocks something: it must not wait for that.
    pub(in crate::adapter) fn waits_for_unlock_by(
        &mut self,
        cx: &Cx<'_>,
        allocation: AllocationId,
        process: ProcessId,
    ) -> bool {
        let waiting = self.packets.waiting_for(allocation, false);
        let devices: Vec<DeviceNumber> = waiting.map(|waiting| waiting.device).collect();
        devices.into_iter().any(|device| self.is_kept_out_by(cx, device, process))
    }
}
