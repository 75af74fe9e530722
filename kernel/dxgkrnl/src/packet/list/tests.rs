//! Split points that a driver may not name, rule by rule.

use ddi::KmdOpenAllocation;

use super::*;

/// A list of a NULL element and an allocation, a buffer of eight words, sixteen slots.
fn verdict(places: &[PatchLocation]) -> Result<(), &'static str> {
    let named = |named: bool| AllocationListEntry {
        allocation: named.then(KmdOpenAllocation::default),
        ..AllocationListEntry::default()
    };
    check_answer(places, 2, 8).and_then(|()| check_splits(places, &[named(false), named(true)], 16))
}

#[test]
fn split_points_of_a_driver_keep_the_rules() {
    // spec: memory §7.3, memory §10.2
    let place = |slot_id, patch_offset, split_offset| PatchLocation {
        allocation_index: 1,
        slot_id,
        patch_offset,
        split_offset,
        ..PatchLocation::default()
    };
    let null = PatchLocation { allocation_index: 0, ..place(1, 0, 32) };
    assert_eq!(verdict(&[place(1, 8, 8), place(2, 16, 8), null, place(15, 40, 32)]), Ok(()), "shared ones, an unbind");
    let behind = Err("a split offset of the driver lies behind the address that it is for");
    assert_eq!(verdict(&[place(1, 8, 16)]), behind);
    let fall = Err("split offsets of the driver fall, or lie outside the buffer");
    assert_eq!(verdict(&[place(1, 24, 16), place(2, 32, 8)]), fall);
    assert_eq!(verdict(&[place(1, 56, 72)]), fall);
    let slot = Err("a patch location of the driver names a slot that MaxAllocationListSlotId excludes");
    assert_eq!(verdict(&[place(16, 8, 8)]), slot);
    assert_eq!(verdict(&[PatchLocation { slot_id: u32::MAX, ..null }]), slot);
}
