//! Banks: their table, where hints and directions lead.

use super::*;

#[test]
fn a_bank_table_covers_its_segment() {
    // spec: memory §1.8, memory §10.1, memory §10.4
    // seed: M28, M30
    use SegmentError as E;
    let whole = 64 + RESERVE;
    for (count, ends) in [(1, vec![]), (1, vec![whole]), (3, vec![16, 32]), (3, vec![16, 32, whole])] {
        let mm = open(banked(count, &ends));
        let table = mm.segments()[0].banks.as_ref().expect("it has banks");
        assert_eq!(table.count(), count as usize);
        // Contiguous, from offset 0 to the segment's end.
        let mut next = 0;
        for bank in 1..=count as u8 {
            let window = table.window(bank).expect("the bank exists");
            assert_eq!(window.first, next);
            next = window.end();
        }
        assert_eq!((next, table.window(0), table.window(count as u8 + 1)), (whole, None, None));
    }
    let many: Vec<u64> = (1..=127).collect();
    open(banked(127 + 1 - 1, &[&many[..126], &[whole]].concat()));
    for (count, ends, error) in [
        (0, vec![], E::BankCount(VRAM)),
        (128, many.clone(), E::BankCount(VRAM)),
        (3, vec![16], E::BankCount(VRAM)),
        (1, vec![16, whole], E::BankCount(VRAM)),
        (3, vec![32, 16], E::BankEnds(VRAM)),
        (3, vec![16, 16], E::BankEnds(VRAM)),
        (3, vec![0, 16], E::BankEnds(VRAM)),
        (2, vec![whole], E::BankEnds(VRAM)),
        (3, vec![16, whole + 1], E::BankEnds(VRAM)),
        (3, vec![16, 32, whole - 1], E::BankEnds(VRAM)),
    ] {
        let layout = banked(count, &ends);
        assert_eq!(layout.check(), Err(error), "{count} banks ending at {ends:?}");
    }
    refused(|s| s[0].bank_ends[0] += 1, banked(2, &[16]), E::BankEnds(VRAM));
    refused(|s| s[0].flags |= F::USE_BANKING, new_layout(), E::Banking(VRAM));
}

#[test]
fn banks_on_an_aperture_are_refused() {
    // spec: memory §1.8
    let change = |s: &mut Vec<SegmentDescription>| {
        s[1].can_have_banks = true;
        s[1].flags |= F::USE_BANKING;
        s[1].bank_count = 1;
    };
    refused(change, old_layout(), SegmentError::BanksOnAperture(APERTURE));
}

/// A banked adapter of three banks (16, 16 and 32 pages) with a device; `place` makes one allocation resident.
fn place(hints: &[(u8, bool)], pages: u64, flags: ddi::AllocationFlags) -> Vec<(u64, u64)> {
    let mut mm = open(banked(3, &[16, 32]));
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let banks: Vec<_> = hints.iter().map(|&(bank, top_down)| PreferredBank { bank, top_down }).collect();
    let info = AllocationInfo { hinted_bank: SegmentBankPreference::of(&banks), flags, ..info(pages, &[VRAM]) };
    let id = mm.create_allocation(device, info).expect("it fits");
    mm.make_resident(device, &[id]).expect("there is room");
    frames(&mm, id)
}

#[test]
fn a_hint_changes_where_an_allocation_lies() {
    // spec: memory §2.5, memory §8.1
    // seed: M28
    for flags in [ddi::AllocationFlags::empty(), ddi::AllocationFlags::ACCESSED_PHYSICALLY] {
        assert_eq!(place(&[], 4, flags), [(0, 4)]);
        assert_eq!(place(&[(2, false)], 4, flags), [(16, 4)]);
        assert_eq!(place(&[(2, true)], 4, flags), [(28, 4)]);
        assert_eq!(place(&[(3, false), (1, false)], 4, flags), [(32, 4)]);
        assert_eq!(place(&[(9, false), (2, false)], 4, flags), [(16, 4)], "a bank that there is not is no wish");
        assert_eq!(place(&[(0, false), (2, false)], 4, flags), [(0, 4)], "0 ends the order");
    }
}

#[test]
fn an_allocation_may_cross_the_borders_of_banks() {
    // spec: memory §1.8
    // seed: M29
    let contiguous = ddi::AllocationFlags::ACCESSED_PHYSICALLY;
    assert_eq!(place(&[(2, false)], 20, contiguous), [(16, 20)], "from the start of bank 2 into bank 3");
    assert_eq!(place(&[(2, true)], 20, contiguous), [(12, 20)], "up to the end of bank 2, from bank 1");
    assert_eq!(place(&[(1, false)], 60, contiguous), [(0, 60)]);
    let scattered = place(&[(2, false)], 20, ddi::AllocationFlags::empty());
    assert_eq!(scattered[0], (16, 16), "all of the hinted bank first");
    assert_eq!(scattered.iter().map(|(_, pages)| pages).sum::<u64>(), 20);
    // A full bank is no reason to fail.
    assert_eq!(place(&[(2, false)], 64, ddi::AllocationFlags::empty()).iter().map(|(_, n)| n).sum::<u64>(), 64);
}

#[test]
fn a_direction_says_from_which_end() {
    // spec: memory §2.4, memory §10.1
    for (top_down, flags, first) in [
        (false, ddi::AllocationFlags::empty(), 0),
        (true, ddi::AllocationFlags::empty(), 60),
        (false, ddi::AllocationFlags::FROM_END_OF_SEGMENT, 60),
        (true, ddi::AllocationFlags::ACCESSED_PHYSICALLY, 60),
    ] {
        let mut mm = open(new_layout());
        let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
        let device = mm.create_device(space);
        let preferred = SegmentPreference::of_entries(&[PreferredSegment { segment: VRAM, top_down }]);
        let info = AllocationInfo { preferred_segment: preferred, flags, ..info(4, &[VRAM]) };
        let id = mm.create_allocation(device, info).expect("it fits");
        mm.make_resident(device, &[id]).expect("there is room");
        assert_eq!(frames(&mm, id), [(first, 4)], "{top_down} {flags:?}");
    }
}
