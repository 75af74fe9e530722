//! Operations by address of the paging process, by device pages, for context allocations; and those that leave no command.

use super::immediate::now;
use super::*;
use ddi::{Adl, AllocNotice, CopyEntries, KmdAllocation, VirtualDirection, VirtualTransferFlags};

const ALLOCATION: KmdAllocation = KmdAllocation(3);

fn virtual_transfer(size_bytes: u64) -> PagingOp<'static> {
    PagingOp::VirtualTransfer {
        allocation: Some(ALLOCATION),
        allocation_offset: 0x20_0000,
        size_bytes,
        source: GpuVa(0x1_0000),
        destination: GpuVa(0x9_0000),
        source_page_table: GpuVa::NULL,
        destination_page_table: GpuVa::NULL,
        direction: VirtualDirection::LocalToSystem,
        flags: VirtualTransferFlags::empty(),
    }
}

fn virtual_fill(size_bytes: u64) -> PagingOp<'static> {
    PagingOp::VirtualFill {
        allocation: Some(ALLOCATION),
        allocation_offset: 0x20_0000,
        size_bytes,
        pattern: 6,
        destination: GpuVa(0x9_0000),
    }
}

#[test]
fn tables_that_lie_in_the_paging_process_are_written_by_address() {
    // spec: memory §4.2
    let (mut kmd, _, _) = started();
    let first = pte(PteFlags::empty(), LOCAL, 0x6000);
    let by_address = |va| {
        let mut update = table_update(first, 7, false);
        if let PagingOp::UpdatePageTable { table_va, mode, .. } = &mut update {
            (*table_va, *mode) = (va, PageTableUpdateMode::GpuVirtual);
        }
        update
    };
    let entry = 0x6000 | page_table::VALID;
    assert_eq!(
        commands(&mut kmd, by_address(GpuVa(0x70_0000))),
        [Command::StoreRun { va: 0x70_0000 + 5 * 8, count: 7, first: entry, step: 4096 }]
    );
    assert!(build(&mut kmd, by_address(GpuVa::NULL), 64).is_err(), "no address");
}

#[test]
fn what_is_addressed_is_copied_and_filled_where_it_is() {
    // spec: memory §3.4
    let (mut kmd, _, _) = started();
    let copy = Command::Copy { source_va: 0x1_0000, target_va: 0x9_0000, bytes: 8192 };
    assert_eq!(commands(&mut kmd, virtual_transfer(8192)), [copy], "AllocationOffset is not added");
    let fill = Command::Fill { va: 0x9_0000, bytes: 8192, pattern: 6 };
    assert_eq!(commands(&mut kmd, virtual_fill(8192)), [fill]);
    for nothing in [virtual_transfer(0), virtual_fill(0)] {
        assert_eq!(commands(&mut kmd, nothing), []);
    }
    for odd in [virtual_transfer(12), virtual_fill(12)] {
        assert!(matches!(build(&mut kmd, odd, 64), Err(PagingStatus::Fatal(_))));
    }
    assert!(now(&mut kmd, virtual_transfer(8192)).is_err(), "the CPU has no addresses of the paging process");
}

#[test]
fn device_pages_are_mapped_in_both_forms() {
    // spec: memory §3.4, memory §10.2
    let (mut kmd, _, _) = started();
    let map = |adl, adl_offset, number_of_pages| PagingOp::MapApertureSegment2 {
        device: None,
        allocation: None,
        segment: APERTURE,
        offset_in_pages: 100,
        number_of_pages,
        adl,
        adl_offset,
        cache_coherent: false,
        cpu_visible_address: None,
    };
    let mapped =
        |first, count, page: u64| Command::MapAperture { first, count, system_address: page * 4096, step: 4096 };
    let one = Adl::Contiguous(run(0x100, 5));
    assert_eq!(commands(&mut kmd, map(one, 2, 3)), [mapped(100, 3, 0x102)]);
    let pages = [7, 8, 9, 20, 30, 31];
    let many = Adl::Pages(&pages);
    assert_eq!(commands(&mut kmd, map(many, 1, 5)), [mapped(100, 2, 8), mapped(102, 1, 20), mapped(103, 2, 30)]);
    let whole = build(&mut kmd, map(many, 0, 6), 4096).unwrap();
    for words in 5..=whole.len() {
        assert_eq!(build(&mut kmd, map(many, 0, 6), words).unwrap(), whole, "{words} words");
    }
    for short in [map(one, 0, 6), map(many, 0, 7), map(many, 7, 1), map(one, u64::MAX, 1)] {
        assert!(matches!(build(&mut kmd, short, 64), Err(PagingStatus::Fatal(_))), "{short:?}");
    }
}

#[test]
fn coherency_accesses_touch_one_word_of_their_segment() {
    // spec: memory §3.3, memory §3.4
    let (mut kmd, _, _) = started();
    let read = |segment, address| PagingOp::ReadPhysical { segment, address };
    assert_eq!(commands(&mut kmd, read(LOCAL, 0x1003)), [Command::TouchPhysical { bus: 0x1000, write: false }]);
    let write = PagingOp::WritePhysical { segment: APERTURE, address: APERTURE_BASE + 8 };
    assert_eq!(commands(&mut kmd, write), [Command::TouchPhysical { bus: APERTURE_BASE + 8, write: true }]);
    for outside in [read(LOCAL, 1 << 43), read(SegmentId(9), 0)] {
        assert!(matches!(build(&mut kmd, outside, 64), Err(PagingStatus::Fatal(_))));
    }
}

#[test]
fn entries_are_copied_from_table_to_table() {
    // spec: memory §3.4
    let (mut kmd, _, _) = started();
    let range = |source_start, target_start, count| CopyEntries {
        count,
        source_table: GpuVa(0x1_0000),
        target_table: GpuVa(0x2_0000),
        source_start,
        target_start,
    };
    let ranges = [range(3, 500, 12), range(0, 0, 512)];
    let copied = |source_va, target_va, count| Command::CopyRun { source_va, target_va, count };
    let expected = [copied(0x1_0018, 0x2_0fa0, 12), copied(0x1_0000, 0x2_0000, 512)];
    assert_eq!(commands(&mut kmd, PagingOp::CopyPageTableEntries { ranges: &ranges }), expected);
    let whole = build(&mut kmd, PagingOp::CopyPageTableEntries { ranges: &ranges }, 64).unwrap();
    assert_eq!(build(&mut kmd, PagingOp::CopyPageTableEntries { ranges: &ranges }, 4).unwrap(), whole);
    for wrong in [range(501, 0, 12), range(0, u32::MAX, 2)] {
        let operation = PagingOp::CopyPageTableEntries { ranges: &[wrong] };
        assert!(matches!(build(&mut kmd, operation, 64), Err(PagingStatus::Fatal(_))));
    }
}

#[test]
fn a_context_allocation_gets_its_head_once() {
    // spec: memory §3.4
    let (mut kmd, _, _) = started();
    let init = |va| PagingOp::InitContextResource {
        allocation: ALLOCATION,
        destination: local(0x8000),
        cpu_address: None,
        va,
    };
    let words = build(&mut kmd, init(GpuVa(0x7000)), 16).unwrap();
    let head = [u64::from_le_bytes(*b"SGCTXT01"), ALLOCATION.0];
    assert_eq!(Command::decode(&words), Ok((Command::Store { va: 0x7000, words: &head }, words.len())));
    assert!(matches!(build(&mut kmd, init(GpuVa::NULL), 16), Err(PagingStatus::Fatal(_))));
}

#[test]
fn a_context_allocation_is_updated_from_the_drivers_own_data() {
    // spec: memory §3.4
    let (mut kmd, _, _) = started();
    let data = |offset: u64, words: u64| {
        let mut bytes = offset.to_le_bytes().to_vec();
        (0..words).for_each(|word| bytes.extend((word + 100).to_le_bytes()));
        bytes
    };
    fn update(private_data: &[u8]) -> PagingOp<'_> {
        PagingOp::UpdateContextAllocation { va: GpuVa(0x5000), size_bytes: 4096, private_data }
    }
    let long = data(64, 150);
    let whole = build(&mut kmd, update(&long), 4096).unwrap();
    let (mut rest, mut stored) = (&whole[..], Vec::new());
    while !rest.is_empty() {
        let (Command::Store { va, words }, length) = Command::decode(rest).unwrap() else { panic!("stores only") };
        assert_eq!(va, 0x5040 + stored.len() as u64 * 8);
        stored.extend_from_slice(words);
        rest = &rest[length..];
    }
    assert_eq!(stored, (100..250).collect::<Vec<u64>>());
    assert_eq!(build(&mut kmd, update(&long), 66).unwrap(), whole);
    for wrong in [data(4096, 1), data(4, 1), data(u64::MAX, 1), vec![1, 2, 3], [data(0, 1), vec![0]].concat()] {
        assert!(matches!(build(&mut kmd, update(&wrong), 4096), Err(PagingStatus::Fatal(_))), "{wrong:?}");
    }
}

#[test]
fn notices_leave_no_command() {
    // spec: memory §3.4
    let (mut kmd, _, _) = started();
    let address = PhysicalAddress { segment: LOCAL, offset: 0 };
    for notice in [
        PagingOp::DiscardContent { allocation: ALLOCATION, allocation_is_idle: false, segment: LOCAL, address: 0 },
        PagingOp::NotifyResidency { allocation: ALLOCATION, address, resident: true },
        PagingOp::NotifyAlloc {
            allocation: ALLOCATION,
            process: None,
            notice: AllocNotice::Eviction,
            offset_bytes: 0,
            size_bytes: 4096,
            va: GpuVa(0x1000),
        },
    ] {
        assert_eq!(commands(&mut kmd, notice), [], "{notice:?}");
    }
}
