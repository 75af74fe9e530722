//! Rings of doorbells that live: they stay where an engine finds them. The kernel refuses any call that would take one away, for the
//! engine would fetch what its process queues next from memory that is not there, and that costs the device. The calls that evict, offer,
//! destroy, unmap and map anew ask; for moves of its own the kernel stops the device first, or its doorbells (`suspension`, `power`).

use kmt_calls::Refusal;
use vidmm::AllocationId;
use wddm_types::ProcessId;

use super::connection::Connection;
use super::{DoorbellUse, Doorbells};
use crate::number::{DeviceNumber, DoorbellNumber};
use crate::refusal::invalid;
use crate::store::ObjectNumber;

impl Doorbells {
    /// Whether these of a device may go: none that `goes` is the ring of a doorbell that lives.
    ///
    /// # Errors
    /// The first that is one.
    // spec: sync §3.17
    pub fn check_rings_among(
        &self,
        of: (ProcessId, DeviceNumber),
        list: &[AllocationId],
        goes: impl Fn(AllocationId) -> bool,
    ) -> Result<(), Refusal> {
        let Some(rings) = self.rings.get(&of) else { return Ok(()) };
        for (at, id) in list.iter().enumerate() {
            let doorbell = rings.get(id).and_then(|of_ring| of_ring.iter().find(|number| self.keeps_ring(**number)));
            if let Some(doorbell) = doorbell.filter(|_| goes(*id)) {
                let of = self.doorbells[*doorbell].of.queue.raw();
                return Err(invalid(format!(
                    "allocation {at} of the list is the ring of queue {of}, whose doorbell lives: destroy the doorbell first"
                )));
            }
        }
        Ok(())
    }

    /// Whether a process has no such ring in a range of its addresses. The check costs time for each ring of the process, not for each device.
    ///
    /// # Errors
    /// The first ring there.
    // spec: sync §3.17
    pub fn check_rings_at(&self, process: ProcessId, base: u64, size_bytes: u64) -> Result<(), Refusal> {
        let of_process = (process, DeviceNumber::from_raw(0))..=(process, DeviceNumber::from_raw(u64::MAX));
        let rings = self.rings.range(of_process).flat_map(|(_, rings)| rings.values().flatten());
        for number in rings.filter(|number| self.keeps_ring(**number)) {
            let DoorbellUse { queue, place: (va, bytes), .. } = self.doorbells[*number].of;
            if base < va.0.saturating_add(bytes) && va.0 < base.saturating_add(size_bytes) {
                let (of, at) = (queue.raw(), va.0);
                return Err(invalid(format!(
                    "the ring of queue {of} is at {at:#x}, and its doorbell lives: destroy the doorbell first"
                )));
            }
        }
        Ok(())
    }

    /// One that was lost with its device rings no engine.
    fn keeps_ring(&self, doorbell: DoorbellNumber) -> bool {
        self.doorbells[doorbell].connection != Connection::Aborted
    }

    pub(super) fn forget_ring(&mut self, of: DoorbellUse, number: DoorbellNumber) {
        debug_assert!(
            self.rings.contains_key(&(of.process, of.device)),
            "a doorbell has a ring until its end: {number:?}"
        );
        let Some(rings) = self.rings.get_mut(&(of.process, of.device)) else { return };
        rings.retain(|_, doorbells| {
            doorbells.remove(&number);
            !doorbells.is_empty()
        });
        if rings.is_empty() {
            self.rings.remove(&(of.process, of.device));
        }
    }
}
