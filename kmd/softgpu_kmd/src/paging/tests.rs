//! Paging operations: the commands, and the resumption. Operations by address and by device pages, and those of context allocations, are in
//! `address`, those that the CPU carries out in `immediate`.

mod address;
mod immediate;
mod leaves;
mod pairs;

use ddi::{
    BuildPagingBuffer, KmdProcess, Mdl, Miniport, PageTableUpdateMode, PagingOp, PagingStatus, Pte, PteFlags,
    TransferEnd, TransferFlags,
};
use device_port::DevicePort;
use shared_words::Word;
use softgpu_spec::bus::{APERTURE_BASE, SYSTEM_BASE, aperture_entry};
use softgpu_spec::{Command, page_table, register};
use wddm_types::{GpuVa, PageRun, Pages, PhysicalAddress, SegmentId};

use crate::driver::SoftGpuKmd;
use crate::fake_port::started;
use crate::packet::translate;
use crate::segments::{APERTURE, LOCAL};

const RUNS: [PageRun; 4] = [run(10, 2), run(20, 1), run(30, 5), run(50, 4)];

const fn run(first: u64, count: u64) -> PageRun {
    PageRun { first, count: Pages(count) }
}

fn transfer(
    source: TransferEnd<'static>,
    destination: TransferEnd<'static>,
    transfer_offset: u64,
    mdl_offset: u64,
    pages: u64,
) -> PagingOp<'static> {
    let flags = TransferFlags::TRANSFER_START | TransferFlags::TRANSFER_END;
    PagingOp::Transfer {
        allocation: None,
        transfer_offset,
        size_bytes: pages * 4096,
        source,
        destination,
        flags,
        mdl_offset,
    }
}

fn mdl() -> TransferEnd<'static> {
    TransferEnd::Mdl(Mdl { runs: &RUNS })
}

fn local(address: u64) -> TransferEnd<'static> {
    TransferEnd::Segment { segment: LOCAL, address }
}

fn table_update(first: Pte, count: u32, repeat: bool) -> PagingOp<'static> {
    PagingOp::UpdatePageTable {
        allocation: None,
        allocation_offset: 0,
        driver_protection: 0,
        notify_eviction: false,
        use_64kb_pages: false,
        native_fence: false,
        first_64kb: None,
        table_va: GpuVa::NULL,
        level: 0,
        table: PhysicalAddress { segment: LOCAL, offset: 0x3000 },
        start_index: 5,
        count,
        first,
        repeat,
        initial: false,
        process: KmdProcess(1),
        mode: PageTableUpdateMode::GpuPhysical,
        first_va: GpuVa(0x5000),
    }
}

fn pte(flags: PteFlags, segment: SegmentId, offset: u64) -> Pte {
    Pte { flags: flags | PteFlags::VALID, address: PhysicalAddress { segment, offset } }
}

/// Builds with buffers of `words` words until it is done; the words of all of them.
fn build(kmd: &mut SoftGpuKmd, operation: PagingOp<'_>, words: usize) -> Result<Vec<u64>, PagingStatus> {
    let (mut all, mut multipass) = (Vec::new(), 0);
    for _ in 0..1000 {
        let (mut buffer, mut private_data) = (vec![0xdead; words], [0; 4]);
        let mut build = BuildPagingBuffer {
            buffer: &mut buffer,
            written: 0,
            private_data: &mut private_data,
            private_written: 0,
            operation,
            multipass_offset: multipass,
            buffer_va: GpuVa(0x1000),
            immediate: false,
            system_context: ddi::KmdContext(0),
            write_offset: 0,
        };
        let result = kmd.build_paging_buffer(&mut build);
        let (written, taken) = (build.written, build.private_written);
        multipass = build.multipass_offset;
        // spec: memory §3.1: the buffer is known again by its private data
        assert_eq!((translate::words_of(&private_data), taken), (Some(written as u32), 0));
        all.extend_from_slice(&buffer[..written]);
        assert!(buffer[written..].iter().all(|word| *word == 0xdead), "nothing behind what was written");
        match result {
            Err(PagingStatus::InsufficientDmaBuffer) if written > 0 => {}
            Err(status) => return Err(status),
            Ok(()) => return Ok(all),
        }
    }
    panic!("no end");
}

fn commands(kmd: &mut SoftGpuKmd, operation: PagingOp<'_>) -> Vec<Command<'static>> {
    let words = build(kmd, operation, 4096).unwrap();
    let (mut rest, mut commands) = (&words[..], Vec::new());
    while !rest.is_empty() {
        let (command, length) = Command::decode(rest).unwrap();
        commands.push(match command {
            Command::CopyPhysical { source_bus, target_bus, bytes } => {
                Command::CopyPhysical { source_bus, target_bus, bytes }
            }
            Command::FillPhysical { target_bus, bytes, pattern } => {
                Command::FillPhysical { target_bus, bytes, pattern }
            }
            Command::WriteEntryRun { table, first, count, entry, step } => {
                Command::WriteEntryRun { table, first, count, entry, step }
            }
            Command::MapAperture { first, count, system_address, step } => {
                Command::MapAperture { first, count, system_address, step }
            }
            Command::FlushTlb { root, first_va, last_va } => Command::FlushTlb { root, first_va, last_va },
            Command::Copy { source_va, target_va, bytes } => Command::Copy { source_va, target_va, bytes },
            Command::Fill { va, bytes, pattern } => Command::Fill { va, bytes, pattern },
            Command::StoreRun { va, count, first, step } => Command::StoreRun { va, count, first, step },
            Command::CopyRun { source_va, target_va, count } => Command::CopyRun { source_va, target_va, count },
            Command::TouchPhysical { bus, write } => Command::TouchPhysical { bus, write },
            Command::Signal { current_va, monitored_va, value, log } => {
                Command::Signal { current_va, monitored_va, value, log }
            }
            other => panic!("no paging command: {other:?}"),
        });
        rest = &rest[length..];
    }
    commands
}

fn copy(source_bus: u64, target_bus: u64, pages: u64) -> Command<'static> {
    Command::CopyPhysical { source_bus, target_bus, bytes: pages * 4096 }
}

#[test]
fn a_segment_end_is_moved_by_transfer_offset_an_mdl_by_mdl_offset() {
    // spec: memory §3.4, memory §10.2
    let (mut kmd, _, _) = started();
    let system = |page: u64| SYSTEM_BASE + page * 4096;
    let got = commands(&mut kmd, transfer(mdl(), local(0x10_0000), 0x4000, 1, 6));
    assert_eq!(got, [copy(system(11), 0x10_4000, 1), copy(system(20), 0x10_5000, 1), copy(system(30), 0x10_6000, 4)]);
    let got = commands(&mut kmd, transfer(local(0x10_0000), mdl(), 0, 3, 6));
    assert_eq!(got, [copy(0x10_0000, system(30), 5), copy(0x10_5000, system(50), 1)]);
    let got = commands(&mut kmd, transfer(local(0x10_0000), local(0x20_0000), 0x1000, 9, 2));
    assert_eq!(got, [copy(0x10_1000, 0x20_1000, 2)], "both segment ends move");
    assert_eq!(commands(&mut kmd, transfer(mdl(), local(0), 0, 99, 0)), [], "after a reset there is nothing to copy");
}

#[test]
fn each_operation_becomes_its_command() {
    // spec: memory §3.3, memory §3.4
    let (mut kmd, _, _) = started();
    let fill = PagingOp::Fill { allocation: None, size_bytes: 8192, pattern: 7, segment: LOCAL, address: 0x8000 };
    assert_eq!(commands(&mut kmd, fill), [Command::FillPhysical { target_bus: 0x8000, bytes: 8192, pattern: 7 }]);
    let map = PagingOp::MapApertureSegment {
        device: None,
        allocation: None,
        segment: APERTURE,
        offset_in_pages: 100,
        number_of_pages: 3,
        mdl: Mdl { runs: &RUNS },
        mdl_offset: 1,
        cache_coherent: true,
    };
    // spec: memory §6.7, what is cacheable is snooped
    // seed: U25
    let mapped = |first, count, page: u64, bits| Command::MapAperture {
        first,
        count,
        system_address: (page * 4096) | bits,
        step: 4096,
    };
    for (cacheable, bits) in [(true, aperture_entry::COHERENT), (false, 0)] {
        let mut map = map;
        if let PagingOp::MapApertureSegment { cache_coherent, .. } = &mut map {
            *cache_coherent = cacheable;
        }
        let pages = [(100, 11), (101, 20), (102, 30)].map(|(first, page)| mapped(first, 1, page, bits));
        assert_eq!(commands(&mut kmd, map), pages);
    }
    // spec: memory §10.4 test 15
    let unmap = PagingOp::UnmapApertureSegment {
        device: None,
        allocation: None,
        segment: APERTURE,
        offset_in_pages: 100,
        number_of_pages: 3,
        dummy_page: 0x9000,
    };
    assert_eq!(
        commands(&mut kmd, unmap),
        [Command::MapAperture { first: 100, count: 3, system_address: 0x9000, step: 0 }]
    );
    let flush = PagingOp::FlushTlb {
        root: PhysicalAddress { segment: LOCAL, offset: 0x7000 },
        process: KmdProcess(1),
        start: GpuVa(0),
        end: GpuVa(0),
    };
    assert_eq!(commands(&mut kmd, flush), [Command::FlushTlb { root: 0x7000, first_va: 0, last_va: 0 }]);
    let signal = PagingOp::SignalMonitoredFence { current: GpuVa(0x100), monitored: GpuVa(0x200), value: 9 };
    assert_eq!(
        commands(&mut kmd, signal),
        [Command::Signal { current_va: 0x100, monitored_va: 0x200, value: 9, log: None }]
    );
}

#[test]
fn entries_have_the_bits_of_the_data_sheet() {
    // spec: memory §4.4
    let (mut kmd, _, _) = started();
    let (none, system) = (PteFlags::empty(), SegmentId::SYSTEM);
    for (first, repeat, entry, step) in [
        (pte(none, LOCAL, 0x6000), false, 0x6000 | page_table::VALID, 4096),
        (pte(PteFlags::READ_ONLY, LOCAL, 0x6000), true, 0x6000 | page_table::VALID | page_table::READ_ONLY, 0),
        (
            pte(PteFlags::CACHE_COHERENT, system, 0x6000),
            false,
            (SYSTEM_BASE + 0x6000) | page_table::VALID | page_table::COHERENT,
            4096,
        ),
        (pte(none, APERTURE, 0x6000), false, (APERTURE_BASE + 0x6000) | page_table::VALID, 4096),
        (pte(PteFlags::ZERO, system, 0), false, page_table::VALID | page_table::ZERO, 0),
        (Pte::INVALID, false, 0, 0),
    ] {
        let got = commands(&mut kmd, table_update(first, 7, repeat));
        assert_eq!(got, [Command::WriteEntryRun { table: 0x3000, first: 5, count: 7, entry, step }]);
    }
}

#[test]
fn small_buffers_give_the_same_commands_as_one_big_buffer() {
    // spec: memory §3.2, memory §10.4 test 16
    let (mut kmd, _, _) = started();
    let map = PagingOp::MapApertureSegment {
        device: None,
        allocation: None,
        segment: APERTURE,
        offset_in_pages: 0,
        number_of_pages: 11,
        mdl: Mdl { runs: &RUNS },
        mdl_offset: 1,
        cache_coherent: false,
    };
    for operation in [
        transfer(mdl(), local(0x10_0000), 0x4000, 0, 12),
        transfer(local(0x10_0000), mdl(), 0, 1, 10),
        map,
        table_update(Pte::INVALID, 3, true),
    ] {
        let whole = build(&mut kmd, operation, 4096).unwrap();
        for words in 5..=whole.len() + 2 {
            assert_eq!(build(&mut kmd, operation, words).unwrap(), whole, "{words} words: {operation:?}");
        }
        assert_eq!(
            build(&mut kmd, operation, 3),
            Err(PagingStatus::InsufficientDmaBuffer),
            "no progress is said, not hidden"
        );
    }
}

#[test]
fn operations_outside_of_memory_are_fatal() {
    let (mut kmd, _, _) = started();
    let end = kmd.geometry.unwrap().local_bytes;
    let map = |first, count| PagingOp::MapApertureSegment {
        device: None,
        allocation: None,
        segment: APERTURE,
        offset_in_pages: first,
        number_of_pages: count,
        mdl: Mdl { runs: &RUNS },
        mdl_offset: 0,
        cache_coherent: false,
    };
    for operation in [
        transfer(mdl(), local(end), 0, 0, 1),
        transfer(mdl(), local(0), end, 0, 1),
        transfer(mdl(), local(0), 0, 0, 13),
        transfer(mdl(), local(0), 0, u64::MAX, 1),
        PagingOp::Fill { allocation: None, size_bytes: 12, pattern: 0, segment: LOCAL, address: 0 },
        PagingOp::Fill { allocation: None, size_bytes: 8, pattern: 0, segment: SegmentId(9), address: 0 },
        map(255, 2),
        map(u64::MAX, 1),
        map(0, 13),
        table_update(pte(PteFlags::NO_EXECUTE, LOCAL, 0), 1, false),
        table_update(pte(PteFlags::empty(), LOCAL, end), 1, false),
        table_update(pte(PteFlags::empty(), LOCAL, 8), 1, false),
        table_update(Pte::INVALID, 508, false),
        PagingOp::SignalMonitoredFence { current: GpuVa(8), monitored: GpuVa::NULL, value: 1 },
    ] {
        assert!(matches!(build(&mut kmd, operation, 4096), Err(PagingStatus::Fatal(_))), "{operation:?}");
    }
}
