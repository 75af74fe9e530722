//! Paging operations that the driver carries out by the CPU, at once: the same effects, without a buffer.

use super::*;

pub(super) fn now(kmd: &mut SoftGpuKmd, operation: PagingOp<'_>) -> Result<(), PagingStatus> {
    let mut build = BuildPagingBuffer {
        buffer: &mut [],
        written: 0,
        private_data: &mut [],
        private_written: 0,
        operation,
        multipass_offset: 0,
        buffer_va: GpuVa::NULL,
        immediate: true,
        system_context: ddi::KmdContext(0),
        write_offset: 0,
    };
    kmd.build_paging_buffer(&mut build)
}

#[test]
fn the_cpu_does_the_same_at_once() {
    // spec: memory §3.4
    let (mut kmd, port, _) = started();
    let table = port.local_table();
    let word = |offset: u64| Word::load(port.local_memory_word(offset));
    now(&mut kmd, table_update(pte(PteFlags::empty(), LOCAL, 0x6000), 2, false)).unwrap();
    assert_eq!(
        [word(0x3000 + 4 * 8), word(0x3000 + 5 * 8), word(0x3000 + 6 * 8), word(0x3000 + 7 * 8)],
        [0, 0x6001, 0x7001, 0]
    );
    let map = PagingOp::MapApertureSegment {
        device: None,
        allocation: None,
        segment: APERTURE,
        offset_in_pages: 4,
        number_of_pages: 3,
        mdl: Mdl { runs: &RUNS },
        mdl_offset: 1,
        cache_coherent: false,
    };
    now(&mut kmd, map).unwrap();
    assert_eq!([4, 5, 6].map(|page| word(table + page * 8)), [11, 20, 30].map(|page| aperture_entry::to(page * 4096)));

    port.local_memory().fill(0x10_0000, 12 * 4096, 0xabcd_0123);
    now(&mut kmd, transfer(local(0x10_0000), mdl(), 0, 0, 12)).unwrap();
    for page in [10, 11, 20, 30, 34, 50, 53] {
        assert_eq!(Word::load(kmd.system.word(page * 4096 + 4088)), 0xabcd_0123_abcd_0123, "page {page}");
    }
    assert_eq!([12, 19, 21, 35, 54].map(|page| Word::load(kmd.system.word(page * 4096))), [0; 5]);
    now(
        &mut kmd,
        PagingOp::Fill {
            allocation: None,
            size_bytes: 8192,
            pattern: 9,
            segment: APERTURE,
            address: APERTURE_BASE + 4 * 4096,
        },
    )
    .unwrap();
    assert_eq!(
        [11, 20, 30].map(|page| Word::load(kmd.system.word(page * 4096)) as u32),
        [9, 9, 0xabcd_0123],
        "through the aperture"
    );

    let unmap = PagingOp::UnmapApertureSegment {
        device: None,
        allocation: None,
        segment: APERTURE,
        offset_in_pages: 4,
        number_of_pages: 3,
        dummy_page: 0x9000,
    };
    now(&mut kmd, unmap).unwrap();
    assert_eq!([4, 5, 6].map(|page| word(table + page * 8)), [aperture_entry::to(0x9000); 3], "access stays enabled");

    port.writes();
    let flush = PagingOp::FlushTlb {
        root: PhysicalAddress { segment: LOCAL, offset: 0x7000 },
        process: KmdProcess(1),
        start: GpuVa(1),
        end: GpuVa(2),
    };
    now(&mut kmd, flush).unwrap();
    let arguments = [(register::CMP_ARGUMENT_0, 0x7000), (register::CMP_ARGUMENT_1, 1), (register::CMP_ARGUMENT_2, 2)];
    assert_eq!(port.writes(), [&arguments[..], &[(register::CMP_COMMAND, register::cmp::FLUSH_TLB)]].concat());
    let unmapped =
        PagingOp::Fill { allocation: None, size_bytes: 8, pattern: 0, segment: APERTURE, address: APERTURE_BASE };
    assert!(now(&mut kmd, unmapped).is_err(), "an aperture page that points to nothing");
    assert!(
        now(&mut kmd, PagingOp::SignalMonitoredFence { current: GpuVa(8), monitored: GpuVa(16), value: 1 }).is_err()
    );
}
