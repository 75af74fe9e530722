//! Lists bound to the places of memory (memory §5.6, §7.2), and bound anew with a turn of their device.

use ddi::PatchLocation;
use kmt_calls::{PatchLocationItem, Refusal};
use vidmm::{AllocationId, DeviceId, ReferenceError};

use crate::adapter::Adapter;
use crate::number::{DeviceNumber, PacketContextNumber};
use crate::packet::{Bindings, Bound, ListEntry};
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
                bindings: match entry.allocation {
                    Some(listed) => self.bindings_of(device, listed.instance, binding.unwrap_or_default()),
                    None => Bindings::new(Binding::default(), None),
                },
            }
        });
        (bound.collect(), wrong)
    }

    /// It is decided where the content of a suspended device returns: from its turn on, its packets find it there.
    // spec: memory §7.4, memory §10.1
    pub(in crate::adapter) fn packets_turn_decided(&mut self, device: DeviceNumber) {
        let contexts = self.packet_contexts_of(device);
        let (vidmm, owner) = (&self.vidmm, self.withholder(device));
        let place_of = |id| (Binding::of(vidmm, id), owner.and_then(|owner| vidmm.withheld_place(owner, id)));
        self.packets.turn_decided(&mut self.vidsch.nodes, device, &contexts, place_of);
    }

    /// A device gives way, and withholds content: its packets that need it wait for the turn that brings it.
    // spec: memory §8.6
    pub(in crate::adapter) fn packets_withheld(&mut self, device: DeviceNumber) {
        let contexts = self.packet_contexts_of(device);
        let (vidmm, owner) = (&self.vidmm, self.withholder(device));
        self.packets.withheld(&mut self.vidsch.nodes, &contexts, |id| vidmm.withheld_place(owner?, id));
    }

    /// A device as the memory manager knows it, if it withholds content.
    fn withholder(&self, device: DeviceNumber) -> Option<DeviceId> {
        self.owners.facts_of(device).map(|facts| facts.vidmm).filter(|owner| self.vidmm.withholds(*owner))
    }

    /// Content that a packet names which its device queues now.
    pub(super) fn bindings_of(&self, device: DeviceNumber, id: AllocationId, now: Binding) -> Bindings {
        let owner = self.owners.vidmm_of(device);
        let withheld = self.vidmm.withheld_place(owner, id).and_then(|_| self.vidmm.withheld_places(owner));
        Bindings::new(now, withheld.map(|[_, last]| last))
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
