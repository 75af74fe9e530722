//! Lists bound to the places of memory (memory §5.6, §7.2), and bound anew with a turn of their device.

use ddi::PatchLocation;
use kmt_calls::{PatchLocationItem, Refusal};
use vidmm::{AllocationId, ReferenceError};

use crate::adapter::Adapter;
use crate::number::{DeviceNumber, PacketContextNumber};
use crate::packet::{Bound, ListEntry};
use crate::paging::Binding;

impl Adapter {
    /// The rules of a caller's patch-location list.
    // spec: memory §7.3
    pub(super) fn check_places(
        &self,
        context: PacketContextNumber,
        command_bytes: u64,
        list: &[ListEntry],
        places: &[PatchLocationItem],
    ) -> Result<Vec<PatchLocation>, Refusal> {
        self.packets.check_places(context, command_bytes, list, places, |id| self.vidmm.reach_bytes(id))
    }

    /// Binds a list to the places that its allocations have now. Says also what may not be named, and why.
    // spec: memory §5.6
    pub(super) fn bind(&self, device: DeviceNumber, list: &[ListEntry]) -> (Vec<Bound>, Option<String>) {
        let (owner, mut wrong) = (self.owners.vidmm_of(device), None);
        let brought_in = self.lists_are_residency();
        let bound = list.iter().map(|&entry| {
            let mut unlisted = false;
            let binding = entry.allocation.map(|listed| match self.vidmm.reference(owner, listed.instance) {
                Ok(reference) => Binding { place: reference.place, serial: reference.serial },
                Err(ReferenceError::NotListed) if brought_in => {
                    unlisted = true;
                    // It may still be where it was; if not, the driver is told when it is known.
                    self.binding_of(listed.instance)
                }
                Err(error) => {
                    wrong.get_or_insert(error.to_string());
                    Binding::default()
                }
            });
            Bound {
                write: entry.write,
                unlisted,
                kmd: entry.allocation.map(|listed| self.memory.allocations[listed.number].open),
                vidmm: entry.allocation.map(|listed| listed.instance),
                written: None,
                bindings: binding.unwrap_or_default().into(),
            }
        });
        (bound.collect(), wrong)
    }

    /// It is decided where the content of a suspended device returns: from its turn on, its packets find it there.
    // spec: memory §7.4, memory §10.1
    pub(in crate::adapter) fn packets_turn_decided(&mut self, device: DeviceNumber) {
        let contexts = self.packet_contexts_of(device);
        let place_of = |id| Binding::of(&self.vidmm, id);
        self.packets.turn_decided(&mut self.vidsch.nodes, device, &contexts, place_of);
    }

    /// The oldest turn that was decided has come, or never comes: its content was taken away again before.
    // spec: memory §8.6
    pub(in crate::adapter) fn packets_turn_over(&mut self, device: DeviceNumber, came: bool) {
        let contexts = self.packet_contexts_of(device);
        self.packets.turn_over(&mut self.vidsch.nodes, device, &contexts, came);
    }

    /// Content moves while a device is quiesced: buffers that were bound before learn its new place.
    // spec: memory §7.4
    pub(in crate::adapter) fn packets_relocated(&mut self, device: DeviceNumber, moved: &[(AllocationId, Binding)]) {
        let contexts = self.packet_contexts_of(device);
        self.packets.relocated(&mut self.vidsch.nodes, &contexts, moved);
    }

    /// Where an allocation is after all that is decided.
    pub(in crate::adapter) fn binding_of(&self, id: AllocationId) -> Binding {
        Binding::of(&self.vidmm, id)
    }
}
