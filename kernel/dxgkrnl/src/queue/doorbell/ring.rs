//! Rings of doorbells that live: they stay where an engine finds them. The kernel refuses any call that would take one away, for the
//! engine would fetch what its process queues next from memory that is not there, and that costs the device. The calls that evict, offer,
//! destroy, unmap and map anew ask; for moves of its own the kernel stops the device first, or its doorbells (`suspension`, `power`).

use kmt_calls::Refusal;
use vidmm::AllocationId;
use wddm_types::GpuVa;

use crate::adapter::Adapter;
use crate::object::{DeviceNumber, DoorbellNumber};
use crate::queue::Connection;
use crate::refusal::invalid;
use crate::store::ObjectNumber;

impl Adapter {
    /// Whether these may go: none is the ring of a doorbell that lives.
    // spec: sync §3.17
    pub fn check_rings(&self, device: DeviceNumber, list: &[AllocationId]) -> Result<(), Refusal> {
        self.check_rings_among(device, list, |_| true)
    }

    /// Whether these may leave the device's list, of which each takes one count.
    // spec: sync §3.17, memory §5.3
    pub fn check_rings_leaving(&self, device: DeviceNumber, list: &[AllocationId]) -> Result<(), Refusal> {
        self.check_rings_among(device, list, |id| {
            let given_up = list.iter().filter(|other| **other == id).count() as u64;
            given_up == self.vidmm.count(self.owners.vidmm_of(device), id)
        })
    }

    /// Whether a process may have this range of addresses show something else, or nothing.
    // spec: sync §3.17
    pub fn check_rings_at(&self, device: DeviceNumber, base: GpuVa, size_bytes: u64) -> Result<(), Refusal> {
        let base = self.vidmm.plain(base);
        let of_process = self.owners.devices_of(self.owners.process_of(device));
        let rings = of_process.flat_map(|device| self.devices[device].rings.values().flatten());
        for number in rings.filter(|number| self.keeps_ring(**number)) {
            let doorbell = &self.doorbells[*number];
            let (va, bytes) = doorbell.ring;
            if base < va.0.saturating_add(bytes) && va.0 < base.saturating_add(size_bytes) {
                let (of, at) = (doorbell.queue.raw(), va.0);
                return Err(invalid(format!(
                    "the ring of queue {of} is at {at:#x}, and its doorbell lives: destroy the doorbell first"
                )));
            }
        }
        Ok(())
    }

    fn check_rings_among(
        &self,
        device: DeviceNumber,
        list: &[AllocationId],
        goes: impl Fn(AllocationId) -> bool,
    ) -> Result<(), Refusal> {
        let rings = &self.devices[device].rings;
        if rings.is_empty() {
            return Ok(());
        }
        for (at, id) in list.iter().enumerate() {
            let doorbell = rings.get(id).and_then(|of_ring| of_ring.iter().find(|number| self.keeps_ring(**number)));
            if let Some(doorbell) = doorbell.filter(|_| goes(*id)) {
                let of = self.doorbells[*doorbell].queue.raw();
                return Err(invalid(format!(
                    "allocation {at} of the list is the ring of queue {of}, whose doorbell lives: destroy the doorbell first"
                )));
            }
        }
        Ok(())
    }

    /// One that was lost with its device, or its adapter, rings no engine.
    fn keeps_ring(&self, doorbell: DoorbellNumber) -> bool {
        !self.life.has_stopped() && self.doorbells[doorbell].connection != Connection::Aborted
    }
}
