//! The allocations that unfinished buffers with lists use: the lock of WDDM 1 waits for them (memory §6.1). `render` notes each buffer,
//! and forgets finished ones with the next. A buffer that waits for its device's turn (`split`) was submitted, too.

use gpu_fence::FenceId;
use vidmm::AllocationId;
use wddm_types::{FencePoint, ProcessId};

use super::{Bound, ListEntry, WaitingRender};
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::DeviceNumber;
use crate::packet::PacketContextNumber;

/// The allocations that one buffer uses.
pub struct Uses {
    packet: u64,
    allocations: Vec<(AllocationId, bool)>,
}

/// The allocations of a list, and whether each is written.
pub(super) fn of(list: &[Bound]) -> Vec<(AllocationId, bool)> {
    list.iter().filter_map(|bound| Some((bound.vidmm?, bound.write))).collect()
}

impl Adapter {
    /// The last packet of a context uses these.
    pub(super) fn note_uses(
        &mut self,
        cx: &Cx<'_>,
        context: PacketContextNumber,
        allocations: Vec<(AllocationId, bool)>,
    ) {
        let Some(progress) = self.packet_contexts.get(context).map(|known| known.progress) else { return };
        let done = self.current_value(cx, progress);
        let known = &mut self.packet_contexts[context];
        let packet = known.last_submitted;
        known.uses.retain(|uses| uses.packet > done);
        known.uses.push_back(Uses { packet, allocations });
    }

    /// The points after which no buffer submitted so far uses an allocation, or writes it.
    // spec: memory §6.1
    pub fn gpu_uses(&self, cx: &Cx<'_>, allocation: AllocationId, writes_only: bool) -> Vec<FencePoint<FenceId>> {
        let contexts = self.packet_contexts.iter();
        let queued = contexts.filter_map(|(_, known)| self.last_use(cx, known, allocation, writes_only));
        let waiting = self.waiting_for(allocation, writes_only).map(|waiting| self.point(waiting.done, 1));
        queued.chain(waiting).collect()
    }

    /// The points after which no buffer that one device has submitted so far uses an allocation.
    // spec: memory §6.2
    pub fn gpu_uses_of(&self, cx: &Cx<'_>, device: DeviceNumber, allocation: AllocationId) -> Vec<FencePoint<FenceId>> {
        let contexts = self.devices[device].packet_contexts.iter().map(|context| &self.packet_contexts[*context]);
        let queued = contexts.filter_map(|known| self.last_use(cx, known, allocation, false));
        let waiting = self.waiting_for(allocation, false).filter(|waiting| waiting.device == device);
        queued.chain(waiting.map(|waiting| self.point(waiting.done, 1))).collect()
    }

    /// The last buffer of a context that uses an allocation, or writes it, and is not done.
    fn last_use(
        &self,
        cx: &Cx<'_>,
        known: &super::PacketContext,
        allocation: AllocationId,
        writes_only: bool,
    ) -> Option<FencePoint<FenceId>> {
        let counts = |&(id, write): &(AllocationId, bool)| id == allocation && (write || !writes_only);
        let using = known.uses.iter().filter(|uses| uses.allocations.iter().any(counts));
        let last =
            using.map(|uses| uses.packet).max().filter(|packet| *packet > self.current_value(cx, known.progress));
        Some(self.point(known.progress, last?))
    }

    /// The submissions that wait for a turn of their devices and use an allocation, or write it.
    fn waiting_for(&self, allocation: AllocationId, writes_only: bool) -> impl Iterator<Item = &WaitingRender> {
        let uses = move |entry: &ListEntry| {
            entry.allocation.is_some_and(|listed| listed.instance == allocation) && (entry.write || !writes_only)
        };
        self.waiting_renders.iter().filter(move |waiting| waiting.entries.iter().any(uses))
    }

    /// Whether what uses an allocation waits for a turn of its device.
    pub fn is_waited_for_a_turn_with(&self, allocation: AllocationId) -> bool {
        self.waiting_for(allocation, false).next().is_some()
    }

    /// Whether what uses an allocation has no turn before a process unlocks something: it must not wait for that.
    pub fn waits_for_unlock_by(&self, allocation: AllocationId, process: ProcessId) -> bool {
        self.waiting_for(allocation, false).any(|waiting| self.is_kept_out_by(waiting.device, process))
    }
}
