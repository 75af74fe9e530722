//! Allocation lists and patch-location lists (memory §7.2, §7.3): the entries that a caller may write, and a driver's answers. Handles
//! were resolved before.

use ddi::{AllocationListEntry, PatchLocation, WRITTEN_PRIMARIES_MAX};
use kmt_calls::{AllocationListFlags, PatchLocationItem, Refusal};
use vidmm::AllocationId;
use wddm_types::{GpuVa, SegmentId};

use super::Packets;
use super::work::{Bound, Portion};
use crate::number::{AllocationNumber, PacketContextNumber};
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

impl Packets {
    /// The rules of a caller's patch-location list. `reach` says how many bytes a place in an allocation may be away from its begin.
    // spec: memory §7.3
    pub fn check_places(
        &self,
        context: PacketContextNumber,
        command_bytes: u64,
        list: &[ListEntry],
        places: &[PatchLocationItem],
        reach: impl Fn(AllocationId) -> u64,
    ) -> Result<Vec<PatchLocation>, Refusal> {
        let info = &self[context].info;
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
        let slots = self.slots();
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
            let bytes = entry.allocation.map(|listed| reach(listed.instance));
            if bytes.is_some_and(|bytes| u64::from(place.allocation_offset) >= bytes) {
                return Err(invalid("a patch location beyond its allocation"));
            }
        }
        Ok(places.iter().map(as_driver).collect())
    }
}

/// The list as the driver gets it.
// spec: memory §7.2
pub fn driver_list(entries: &[Bound], portion: Option<&Portion>) -> Vec<AllocationListEntry> {
    debug_assert!(
        portion.is_none_or(|portion| portion.needs.len() == entries.len()),
        "a portion says of each of {} entries where it is",
        entries.len()
    );
    let entry = |(at, bound): (usize, &Bound)| {
        let place = match portion {
            Some(portion) => portion.needs[at].as_ref().and_then(|needed| needed.bindings.now.place),
            None => bound.bindings.now.place,
        };
        let (segment, physical_address) = place.unwrap_or((SegmentId::SYSTEM, 0));
        let (allocation, write_operation) = (bound.kmd, bound.write);
        let virtual_address = GpuVa::NULL;
        AllocationListEntry { allocation, write_operation, segment, physical_address, virtual_address }
    };
    entries.iter().enumerate().map(entry).collect()
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

/// The rules of split points that a driver answers with, beside those of `list::check_answer`.
///
/// # Errors
/// The rule; the driver is to blame.
// spec: memory §7.3
pub fn check_splits(places: &[PatchLocation], entries: &[AllocationListEntry], slots: u32) -> Result<(), &'static str> {
    for place in places {
        if place.slot_id >= slots {
            return Err("a patch location of the driver names a slot that MaxAllocationListSlotId excludes");
        }
        let bound = entries[place.allocation_index as usize].allocation.is_some();
        if bound && place.patch_offset < place.split_offset {
            return Err("a split offset of the driver lies behind the address that it is for");
        }
    }
    Ok(())
}

/// Private data of a submission are as much as the driver takes at most.
///
/// # Errors
/// They are more.
// spec: memory §7.1 (DmaBufferPrivateDataSize)
pub fn check_private_data(data: &[u8], most: u32) -> Result<(), Refusal> {
    match data.len() as u64 > u64::from(most) {
        true => Err(invalid(format!("{} bytes of private data; the driver takes {most} with a buffer", data.len()))),
        false => Ok(()),
    }
}

/// The written primaries of a submission.
///
/// # Errors
/// More than 16 (memory §10.1 row 16).
// spec: memory §5.6, memory §10.1
pub fn check_primaries(count: usize) -> Result<(), Refusal> {
    if count > WRITTEN_PRIMARIES_MAX {
        return Err(invalid(format!("{count} written primaries; at most {WRITTEN_PRIMARIES_MAX}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
