//! How a driver is asked for its segments, and which answers about memory fail the start.

use ddi::*;
use wddm_types::SegmentId;

use crate::start;
use crate::stub::{Answers, PAGES};

mod coherency;
mod devices;
mod flags;
mod logs;
mod models;

const MIB: u64 = 1 << 20;

/// A driver of the first generation: 64 MiB of memory in two banks, an aperture.
fn first_generation(ddi_version: DdiVersion) -> Answers {
    let memory = SegmentDescriptor3 {
        flags: SegmentFlags::USE_BANKING | SegmentFlags::CPU_VISIBLE,
        size_bytes: 64 * MIB,
        bank_count: 2,
        bank_ends: vec![16 * MIB],
        ..Default::default()
    };
    let aperture = SegmentDescriptor3 {
        flags: SegmentFlags::APERTURE | SegmentFlags::CACHE_COHERENT,
        base_address: 1 << 44,
        size_bytes: 16 * MIB,
        commit_limit_bytes: 16 * MIB,
        ..Default::default()
    };
    let old = |d: &SegmentDescriptor3| SegmentDescriptor {
        base_address: d.base_address,
        cpu_translated_address: d.cpu_translated_address,
        size_bytes: d.size_bytes,
        bank_count: d.bank_count,
        bank_ends: d.bank_ends.clone(),
        commit_limit_bytes: d.commit_limit_bytes,
        flags: d.flags,
    };
    Answers {
        caps: AdapterCaps { driver_model: DriverModel::Wddm1, ddi_version, ..Default::default() },
        segments1: [&memory, &aperture].map(old).to_vec(),
        segments3: vec![memory, aperture],
        has_gpu_va: false,
        ..Answers::packets_only()
    }
}

fn expect_error(answers: Answers, words: &str) {
    let (result, seen) = start(answers, vec![]);
    let error = result.expect_err(words).to_string();
    assert!(error.contains(words), "expected `{words}` in: {error}");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.started, seen.stopped, "a started device is stopped again: {words}");
}

#[test]
fn each_generation_is_asked_in_its_own_form_twice() {
    // spec: memory §1.2, memory §1.3, memory §10.1
    // seed: M03, M04, M05
    let rows = [
        (Answers::default(), "QUERYSEGMENT4"),
        (first_generation(DdiVersion::WDDM_1_3), "QUERYSEGMENT3"),
        (first_generation(DdiVersion::WDDM_1_2), "QUERYSEGMENT3"),
        (first_generation(DdiVersion::WDDM_1_1), "QUERYSEGMENT"),
        (first_generation(DdiVersion::WDDM_1_0), "QUERYSEGMENT"),
    ];
    for (answers, name) in rows {
        let (_, seen) = start(answers, vec![]);
        let seen = seen.lock().unwrap();
        // The AGP window comes in on both calls, all zero: this kernel has none.
        // seed: M17
        let zero = QuerySegmentIn::default();
        assert_eq!(seen.segment_queries, [(name, false, zero), (name, true, zero)]);
    }
}

#[test]
fn an_adapter_without_addresses_takes_packets_and_nothing_else() {
    // spec: memory §5.6, memory §1.6
    let whole = first_generation(DdiVersion::WDDM_1_3);
    start(whole.clone(), vec![]).0.expect("it starts");
    expect_error(Answers { has_packets: false, ..whole.clone() }, "takes packets");
    let rule = "need GPU virtual addresses";
    expect_error(Answers { has_hardware_queues: true, ..whole.clone() }, rule);
    expect_error(Answers { native_facet: true, ..whole.clone() }, rule);
    expect_error(Answers { native_cap: true, ..whole.clone() }, rule);
    let alone = Answers { segments3: whole.segments3[..1].to_vec(), ..whole };
    let paging_buffer = PagingBufferInfo { segment: SegmentId(0), ..alone.paging_buffer };
    expect_error(Answers { paging_buffer, ..alone }, "no aperture");
}

#[test]
fn every_form_keeps_the_two_call_protocol() {
    // spec: memory §1.3
    for version in [DdiVersion::WDDM_1_0, DdiVersion::WDDM_1_3] {
        let answers = first_generation(version);
        expect_error(Answers { first_call_writes_more: true, ..answers.clone() }, "writes only NbSegment");
        expect_error(Answers { second_count: Some(1), ..answers.clone() }, "same number of segments");
        expect_error(Answers { segments1: vec![], segments3: vec![], ..answers }, "1 to 31 segments");
    }
}

#[test]
fn an_agp_segment_has_no_window_here() {
    // spec: memory §1.9, memory §1.13
    // seed: M17
    for version in [DdiVersion::WDDM_1_1, DdiVersion::WDDM_1_3] {
        let with = |flags: SegmentFlags| {
            let mut answers = first_generation(version);
            answers.segments1[1].flags = flags;
            answers.segments3[1].flags = flags;
            answers.paging_buffer.segment = SegmentId(0);
            answers
        };
        expect_error(with(SegmentFlags::AGP), "an AGP segment without an AGP window");
        expect_error(with(SegmentFlags::AGP | SegmentFlags::APERTURE), "no other flag may stand beside Agp");
    }
}

#[test]
fn ranges_that_no_allocation_may_have_are_asked_for_when_they_are_announced() {
    // spec: memory §1.4
    let mut answers = Answers {
        invalid_ranges: vec![MemoryRange { segment_offset: MIB, size_bytes: 4096 }],
        uefi_ranges: vec![MemoryRange { segment_offset: 0, size_bytes: 8192 }],
        ..Answers::default()
    };
    let (_, seen) = start(answers.clone(), vec![]);
    assert!(seen.lock().unwrap().range_queries.is_empty(), "none announced, none asked for");
    answers.segments[0].num_invalid_memory_ranges = 1;
    answers.segments[0].num_uefi_frame_buffer_ranges = 1;
    let (result, seen) = start(answers.clone(), vec![]);
    result.expect("it starts");
    let expected = [("SEGMENTMEMORYSTATE", SegmentId(1), 1), ("UEFIFRAMEBUFFERRANGES", SegmentId(1), 1)];
    assert_eq!(seen.lock().unwrap().range_queries, expected);

    let mut old = answers.clone();
    old.caps.ddi_version = DdiVersion::WDDM_2_1;
    expect_error(old, "before WDDM 2.2");
    let mut twice = answers.clone();
    twice.uefi_ranges[0].segment_offset = MIB;
    expect_error(twice, "invalid ranges");
    let mut odd = answers.clone();
    odd.invalid_ranges[0].size_bytes = 100;
    expect_error(odd, "invalid ranges");
    answers.segments[0].num_invalid_memory_ranges = u32::MAX;
    expect_error(answers, "no more invalid ranges than pages");
}

#[test]
fn page_table_capabilities_belong_to_the_version_or_are_refused_by_name() {
    // spec: memory §4.2
    use GpuMmuFlags as F;
    let with = |mmu_flags, ddi_version| Answers {
        mmu_flags: mmu_flags | F::CACHE_COHERENT_MEMORY_SUPPORTED,
        caps: AdapterCaps { ddi_version, ..Default::default() },
        ..Answers::packets_only()
    };
    let rows = [
        (F::ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS, DdiVersion::WDDM_2_0, "from WDDM 2.1 on"),
        (F::SYS_MEM_64KB_PAGE_SUPPORTED, DdiVersion::WDDM_2_0, "from WDDM 2.1 on"),
        (F::INVALID_TLB_ENTRIES_NOT_CACHED, DdiVersion::WDDM_2_2, "from WDDM 2.6 on"),
        (F::SYS_MEM_LARGE_PAGE_SUPPORTED, DdiVersion::WDDM_2_6, "from WDDM 2.9 on"),
        (F::DUAL_PTE_SUPPORTED, DdiVersion::WDDM_2_0, "DualPteSupported needs leaf tables of 64-KB entries"),
        (F::CACHED_PAGE_TABLES, DdiVersion::WDDM_3_0, "CachedPageTables is not built"),
        (F::from_bits_retain(1 << 13), DdiVersion::WDDM_3_0, "reserved bits 0x2000"),
    ];
    for (flag, version, error) in rows {
        expect_error(with(flag, version), error);
    }
    start(with(F::INVALID_TLB_ENTRIES_NOT_CACHED, DdiVersion::WDDM_2_6), vec![]).0.expect("its version has it");
}

#[test]
fn capabilities_agree_with_the_version_with_each_other_and_with_the_facets() {
    // spec: memory §1.13, memory §1.14, memory §4.1, memory §10.2
    use VidMmCaps as C;
    let with = |memory| Answers { caps: AdapterCaps { memory, ..Default::default() }, ..Answers::default() };
    let rows = [
        (
            "belongs to its generation",
            Answers {
                caps: AdapterCaps { ddi_version: DdiVersion::WDDM_1_3, ..Default::default() },
                ..Answers::default()
            },
        ),
        ("GPU virtual addresses are WDDM 2", Answers { has_gpu_va: true, ..first_generation(DdiVersion::WDDM_1_3) }),
        ("needs the entry points", Answers { has_gpu_va: false, ..with(C::GPU_MMU_SUPPORTED) }),
        ("needs GpuMmuSupported or", Answers { has_gpu_va: false, ..with(C::VIRTUAL_ADDRESSING_SUPPORTED) }),
        ("exclude each other", with(C::IO_MMU_SUPPORTED)),
        ("are 0", with(C::DEDICATED_PAGING_ENGINE)),
        ("are 0", with(C::PAGING_ENGINE_CAN_SWIZZLE)),
        ("Texture needs", with(C::CROSS_ADAPTER_RESOURCE_TEXTURE)),
        ("Scanout needs", with(C::CROSS_ADAPTER_RESOURCE_SCANOUT | C::CROSS_ADAPTER_RESOURCE)),
        ("reserved bits", with(C::from_bits_retain(1 << 18))),
        (
            "HighestAcceptableAddress",
            Answers {
                caps: AdapterCaps { highest_acceptable_address: PAGES * 4096 - 2, ..Default::default() },
                ..Answers::default()
            },
        ),
    ];
    for (words, answers) in rows {
        expect_error(answers, words);
    }
    let whole = C::CROSS_ADAPTER_RESOURCE | C::CROSS_ADAPTER_RESOURCE_TEXTURE | C::CROSS_ADAPTER_RESOURCE_SCANOUT;
    start(with(whole | C::GPU_MMU_SUPPORTED | C::VIRTUAL_ADDRESSING_SUPPORTED), vec![]).0.expect("these agree");
}

#[test]
fn an_adapter_that_only_computes_needs_no_aperture() {
    // spec: memory §1.6, memory §1.11
    let mut answers = Answers::default();
    answers.segments.truncate(1);
    expect_error(answers.clone(), "an aperture segment or 0");
    answers.paging_buffer.segment = SegmentId(0);
    start(answers, vec![]).0.expect("paging buffers lie in system memory");
}

#[test]
fn a_window_needs_its_entry_points() {
    // spec: memory §6.6, memory §1.13
    let mut answers = Answers::default();
    answers.segments[0].flags |= SegmentFlags::SUPPORTS_CPU_HOST_APERTURE;
    answers.segments[0].cpu = CpuAccess::HostAperture(CpuHostAperture { physical_address: 1 << 45, size_in_pages: 16 });
    expect_error(answers, "needs the entry points of the CPU host aperture");
}
