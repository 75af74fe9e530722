//! Allocation lists and patch-location lists (memory §7.2, §7.3): the entries that a caller may write, and a driver's answers. Handles
//! were resolved before.

use std::collections::VecDeque;

use ddi::{AllocationListEntry, PatchLocation};
use gpu_fence::FenceId;
use kmt_calls::{AllocationListFlags, PatchLocationItem, Refusal};
use vidmm::{AllocationId, ReferenceError, VidMm};
use wddm_types::{GpuVa, SegmentId};

use super::split::Portion;
use super::{Binding, Bound, Handed, Packet, Work};
use crate::adapter::Adapter;
use crate::object::{AllocationNumber, DeviceNumber};
use crate::packet::PacketContextNumber;
use crate::refusal::invalid;

/// Bits of a slot id.
const SLOT_BITS: u32 = 24;

/// An entry of a caller's allocation list.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListEntry {
    /// The allocation; `None`: the NULL element.
    pub allocation: Option<Listed>,
    /// The buffer writes it.
    pub write: bool,
    /// The instance stays valid, although a later one stands beside it.
    pub keeps: bool,
}

/// An allocation by the name that a list has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The allocation's number.
    pub number: AllocationNumber,
    /// The instance that the name means.
    pub instance: AllocationId,
}

impl ListEntry {
    /// From what a caller wrote.
    ///
    /// # Errors
    /// `INVALID_PARAMETER`.
    pub fn new(allocation: Option<Listed>, flags: AllocationListFlags) -> Result<ListEntry, Refusal> {
        let known = AllocationListFlags::WRITE_OPERATION | AllocationListFlags::DO_NOT_RETIRE_INSTANCE;
        // spec: memory §5.9
        if flags.intersects(AllocationListFlags::OFFER_PRIORITY) {
            return Err(invalid("allocations are offered by a call of its own, not in a list"));
        }
        if !known.contains(flags) {
            let reserved = flags.difference(known).bits();
            return Err(invalid(format!("flags {reserved:#x} of an allocation list are reserved")));
        }
        Ok(ListEntry {
            allocation,
            write: flags.contains(AllocationListFlags::WRITE_OPERATION),
            keeps: flags.contains(AllocationListFlags::DO_NOT_RETIRE_INSTANCE),
        })
    }
}

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
        let info = &self.packet_contexts[context].info;
        if list.len() > info.allocation_list_entries as usize
            || places.len() > info.patch_location_list_entries as usize
        {
            return Err(invalid(format!(
                "lists of {} and {} entries; the context has room for {} and {}",
                list.len(),
                places.len(),
                info.allocation_list_entries,
                info.patch_location_list_entries
            )));
        }
        let slots = self.packets.caps.expect("its driver schedules packets").max_allocation_list_slot_id;
        let mut split = 0;
        for place in places {
            let entry = list.get(place.allocation_index as usize);
            let entry = entry.ok_or_else(|| invalid("a patch location names an entry that the list has not"))?;
            if place.slot_id >> SLOT_BITS != 0 || place.slot_id >= slots {
                return Err(invalid(format!("slot {:#x}; slots are below {slots}", place.slot_id)));
            }
            if u64::from(place.patch_offset) >= command_bytes || u64::from(place.split_offset) > command_bytes {
                return Err(invalid("a patch location outside the command buffer"));
            }
            if place.split_offset < split {
                return Err(invalid("split offsets fall along the list"));
            }
            split = place.split_offset;
            let bytes = entry.allocation.map(|listed| self.vidmm.reach_bytes(listed.instance));
            if bytes.is_some_and(|bytes| u64::from(place.allocation_offset) >= bytes) {
                return Err(invalid("a patch location beyond its allocation"));
            }
        }
        Ok(places.iter().map(as_driver).collect())
    }

    /// Binds a list to the places that its allocations have now. Says also what may not be named, and why.
    // spec: memory §5.6
    pub(super) fn bind(&self, device: DeviceNumber, list: &[ListEntry]) -> (Vec<Bound>, Option<String>) {
        let (owner, mut wrong) = (self.devices[device].vidmm, None);
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
                kmd: entry.allocation.map(|listed| self.allocations[listed.number].open),
                vidmm: entry.allocation.map(|listed| listed.instance),
                written: None,
                binding: binding.unwrap_or_default(),
                turns: VecDeque::new(),
            }
        });
        (bound.collect(), wrong)
    }

    /// It is decided where the content of a suspended device returns: from its turn on, its packets find it there.
    // spec: memory §7.4, memory §10.1
    pub fn packets_turn_decided(&mut self, device: DeviceNumber) {
        let turn = self.packets.turns.entry(device).or_default();
        turn.0 += 1;
        let turn = turn.0;
        self.each_bound(device, |vidmm, bound, id| {
            bound.turns.push_back((turn, Binding::of(vidmm, id)));
        });
    }

    /// The oldest turn that was decided has come, or never comes: its content was taken away again before.
    // spec: memory §8.6
    pub fn packets_turn_over(&mut self, device: DeviceNumber, came: bool) {
        let turn = self.packets.turns.entry(device).or_default();
        turn.1 += 1;
        let turn = turn.1;
        self.each_bound(device, |_, bound, _| {
            if let Some((_, binding)) = bound.turns.pop_front_if(|(of, _)| *of == turn)
                && came
            {
                bound.binding = binding;
            }
        });
    }

    /// Content moves while a device is quiesced: buffers that were bound before learn its new place.
    // spec: memory §7.4
    pub fn packets_relocated(&mut self, device: DeviceNumber, moved: &[(AllocationId, Binding)]) {
        self.each_bound(device, |_, bound, id| {
            let Some((_, now)) = moved.iter().find(|(of, _)| *of == id) else { return };
            let turns = bound.turns.iter_mut().map(|(_, binding)| binding);
            turns.chain([&mut bound.binding]).filter(|old| old.serial < now.serial).for_each(|old| *old = *now);
        });
    }

    /// Where an allocation is after all that is decided.
    pub fn binding_of(&self, id: AllocationId) -> Binding {
        Binding::of(&self.vidmm, id)
    }

    /// Every list entry of a device's queued packets that names memory, and of those with the driver: they may come back.
    fn each_bound(&mut self, device: DeviceNumber, mut act: impl FnMut(&VidMm<FenceId>, &mut Bound, AllocationId)) {
        for context in self.packet_contexts_of(device) {
            let vidmm = &self.vidmm;
            let mut each = |packet: &mut Packet| {
                let Work::Patched { entries, .. } = &mut packet.work else { return };
                for bound in entries {
                    if let Some(id) = bound.vidmm {
                        act(vidmm, bound, id);
                    }
                }
            };
            let known = &mut self.packet_contexts[context];
            self.packets.nodes.change_each(known.node, context, |handed| match handed {
                Handed::Packet { packet, .. } => each(packet),
                Handed::Portion { .. } | Handed::Paging(_) => {}
            });
            known.queued.iter_mut().for_each(each);
        }
    }

    /// The list as the driver gets it.
    // spec: memory §7.2
    pub(super) fn driver_list(entries: &[Bound], portion: Option<&Portion>) -> Vec<AllocationListEntry> {
        let entry = |(at, bound): (usize, &Bound)| {
            let place = portion.map_or(bound.binding.place, |portion| portion.bindings[at].and_then(|now| now.place));
            let (segment, physical_address) = place.unwrap_or((SegmentId::SYSTEM, 0));
            let (allocation, write_operation) = (bound.kmd, bound.write);
            let virtual_address = GpuVa::NULL;
            AllocationListEntry { allocation, write_operation, segment, physical_address, virtual_address }
        };
        entries.iter().enumerate().map(entry).collect()
    }
}

impl Binding {
    /// Where an allocation is after all that is decided.
    fn of(vidmm: &VidMm<FenceId>, id: AllocationId) -> Binding {
        let now = vidmm.whereabouts(id);
        Binding { place: now.place, serial: now.serial }
    }
}

fn as_driver(place: &PatchLocationItem) -> PatchLocation {
    PatchLocation {
        allocation_index: place.allocation_index,
        slot_id: place.slot_id,
        driver_id: place.driver_id,
        allocation_offset: place.allocation_offset,
        patch_offset: place.patch_offset,
        split_offset: place.split_offset,
    }
}

/// The rule of a driver's patch locations: places of addresses inside the buffer, in order.
///
/// # Errors
/// The rule; the driver is to blame.
// spec: memory §7.3
pub(super) fn check_answer(places: &[PatchLocation], entries: usize, words: usize) -> Result<(), &'static str> {
    let mut split = 0;
    for place in places {
        if place.allocation_index as usize >= entries {
            return Err("a patch location of the driver names an entry that the list has not");
        }
        if place.split_offset < split || place.split_offset as usize > words * 8 {
            return Err("split offsets of the driver fall, or lie outside the buffer");
        }
        split = place.split_offset;
        if place.patch_offset as usize + 8 > words * 8 {
            return Err("a patch location of the driver lies outside the buffer");
        }
    }
    Ok(())
}
