//! Start, features and the segment query.

use ddi::{
    DESCRIPTOR4_BYTES, DescriptorArray, DriverModel, FeatureId, Miniport, PagingBufferInfo, QuerySegment,
    QuerySegment3, QuerySegment4, QuerySegmentIn, SegmentDescriptor, SegmentDescriptor3, SegmentDescriptor4,
    SegmentFlags,
};
use shared_words::Word;
use softgpu_spec::{bus, register};
use wddm_types::SegmentId;

use super::{APERTURE, LOCAL};
use crate::config::{KmdConfig, Layout};
use crate::fake_port::{APERTURE_BYTES, FakeHost, LOCAL_BYTES, started, stopped};

/// Longer than a descriptor, so that a driver that indexes instead of striding is seen.
const STRIDE: usize = 128;

const POISON: PagingBufferInfo =
    PagingBufferInfo { segment: SegmentId(0x55), size_bytes: 0x5555_5555, private_data_bytes: 0x5555_5555 };

#[test]
fn the_first_call_tells_the_count_and_nothing_else_the_second_fills_everything() {
    // spec: memory §1.3, memory §10.4
    // seed: M04, M05, M25
    let (kmd, port, _) = started();
    let mut first = QuerySegment4 { physical_adapter: 0, count: 0, descriptors: None, paging_buffer: POISON };
    kmd.query_segment4(&mut first).unwrap();
    assert_eq!((first.count, first.paging_buffer, first.descriptors.is_none()), (2, POISON, true));

    let mut bytes = [0x55; 3 * STRIDE];
    let array = DescriptorArray::new(&mut bytes, STRIDE).unwrap();
    let mut second = QuerySegment4 { physical_adapter: 0, count: 2, descriptors: Some(array), paging_buffer: POISON };
    kmd.query_segment4(&mut second).unwrap();
    assert_eq!(second.paging_buffer.segment, APERTURE);
    assert_eq!(second.paging_buffer.size_bytes, KmdConfig::default().paging_buffer_bytes);
    let [local, aperture] = [0, 1].map(|index| second.descriptors.as_ref().unwrap().get(index).unwrap());
    let between = |element: &[u8]| element[DESCRIPTOR4_BYTES..].iter().all(|&byte| byte == 0x55);
    assert!(bytes.chunks_exact(STRIDE).all(between), "between descriptors nothing is written");
    assert!(bytes[2 * STRIDE..].iter().all(|&byte| byte == 0x55), "behind the last descriptor nothing is written");
    assert!(
        local
            .flags
            .contains(SegmentFlags::USE_64KB_PAGES | SegmentFlags::CPU_VISIBLE | SegmentFlags::LOCAL_BUDGET_GROUP)
    );
    assert!(!local.flags.contains(SegmentFlags::APERTURE));
    assert!(local.size_bytes.is_multiple_of(65536) && local.size_bytes + APERTURE_BYTES / 4096 * 8 <= LOCAL_BYTES);
    assert!(
        aperture
            .flags
            .contains(SegmentFlags::APERTURE | SegmentFlags::CACHE_COHERENT | SegmentFlags::NON_LOCAL_BUDGET_GROUP)
    );
    assert_eq!(
        (aperture.base_address, aperture.size_bytes, aperture.commit_limit_bytes),
        (bus::APERTURE_BASE, APERTURE_BYTES, APERTURE_BYTES)
    );
    let table = port.local_table();
    assert_eq!(table, local.size_bytes, "the table begins where the segment ends");
}

#[test]
fn small_pages_and_a_hidden_local_memory_are_reported_as_configured() {
    // spec: memory §1.5
    let (mut kmd, _) = stopped(KmdConfig { segment_page_bytes: 4096, cpu_visible: false, ..KmdConfig::default() });
    kmd.start_device(&mut FakeHost::default()).unwrap();
    let mut bytes = [0; 2 * STRIDE];
    let array = DescriptorArray::new(&mut bytes, STRIDE).unwrap();
    let mut query = QuerySegment4 { physical_adapter: 0, count: 2, descriptors: Some(array), paging_buffer: POISON };
    kmd.query_segment4(&mut query).unwrap();
    let local = query.descriptors.unwrap().get(0).unwrap();
    assert!(!local.flags.intersects(SegmentFlags::USE_64KB_PAGES | SegmentFlags::CPU_VISIBLE));
    assert_eq!(local.size_bytes, LOCAL_BYTES - 4096, "a table of half a page takes a page");
}

#[test]
fn old_aperture_entries_are_cleared_at_start() {
    let (mut kmd, port) = stopped(KmdConfig::default());
    let entry = LOCAL_BYTES - 65536 + 8 * 7;
    Word::store(port.local_memory_word(entry), 0x1001);
    kmd.start_device(&mut FakeHost::default()).unwrap();
    assert_eq!(
        Word::load(port.local_memory_word(entry)),
        0,
        "start clears the entry of a page that the kernel has not mapped"
    );
}

#[test]
fn the_cap_follows_the_feature() {
    // spec: sync §3.1 steps 5 to 7
    // seed: N38, N125
    for (query_fails, enabled, granted, cap, asked) in [
        (false, true, true, true, vec![1]),
        (false, true, false, false, vec![1]),
        (false, false, true, false, vec![]),
        (true, true, true, false, vec![]),
    ] {
        let (mut kmd, _) = stopped(KmdConfig::default());
        assert!(!kmd.adapter_caps().native_gpu_fence, "not before start");
        let mut host = FakeHost { query_fails, enabled, ..FakeHost::default() };
        if !granted {
            host.os_caps = None;
        }
        kmd.start_device(&mut host).unwrap();
        assert_eq!(kmd.adapter_caps().native_gpu_fence, cap, "fails {query_fails}, on {enabled}, granted {granted}");
        assert_eq!(kmd.hardware_queues().is_some(), cap, "its queues signal native progress fences and no others");
        assert_eq!(host.asked, asked);
        kmd.stop_device(&mut host);
        assert!(!kmd.adapter_caps().native_gpu_fence);
    }
    let (mut kmd, _) = stopped(KmdConfig::default());
    for feature in [FeatureId::HWSCH, FeatureId::USER_MODE_SUBMISSION, FeatureId::NATIVE_FENCE] {
        let support = kmd.query_feature_support(feature, false).unwrap();
        assert!(support.supported_by_driver && support.min_version == 1 && support.max_version == 1);
    }
    assert!(kmd.query_feature_support(FeatureId(31), true).is_err(), "an unknown id");
}

#[test]
fn foreign_devices_and_bad_choices_do_not_start() {
    let (mut kmd, port) = stopped(KmdConfig::default());
    port.set(register::ID, 1);
    assert!(kmd.start_device(&mut FakeHost::default()).is_err());
    for (offset, value) in [
        (register::LOCAL_BYTES, 4096),
        (register::LOCAL_BYTES, u64::MAX),
        (register::APERTURE_BYTES, 0),
        (register::APERTURE_BYTES, u64::MAX),
    ] {
        let (mut kmd, port) = stopped(KmdConfig::default());
        port.set(offset, value);
        assert!(kmd.start_device(&mut FakeHost::default()).is_err(), "{offset:#x} = {value:#x}");
    }
    let good = KmdConfig::default();
    for config in [
        KmdConfig { segment_page_bytes: 8192, ..good },
        KmdConfig { ring_bytes: 5000, ..good },
        KmdConfig { ring_bytes: 4096, max_in_flight: 85, ..good },
        KmdConfig { paging_buffer_bytes: 100, ..good },
        KmdConfig { max_in_flight: 0, ..good },
    ] {
        let (mut kmd, _) = stopped(config);
        assert!(kmd.start_device(&mut FakeHost::default()).is_err(), "{config:?}");
    }
}

#[test]
fn only_what_lies_in_a_segment_has_a_bus_address() {
    // spec: memory §10.4 test 28
    let (kmd, _, _) = started();
    let geometry = kmd.geometry.unwrap();
    let end = geometry.local_bytes;
    assert_eq!(geometry.bus_of_range(LOCAL, end - 4096, 4096), Some(end - 4096));
    assert_eq!(geometry.bus_of_range(LOCAL, end - 4096, 4104), None, "the aperture table");
    assert_eq!(geometry.bus_of_range(APERTURE, 0, 8), None, "a GPU address contains the base");
    assert_eq!(geometry.bus_of_range(SegmentId(3), 0, 8), None);
    assert_eq!(geometry.bus_of_range(LOCAL, u64::MAX, 8), None);
}

/// The segments that a driver with this configuration reports.
fn reported(config: KmdConfig) -> Vec<SegmentDescriptor4> {
    let (mut kmd, _) = stopped(config);
    kmd.start_device(&mut FakeHost::default()).unwrap();
    let mut first = QuerySegment4 { physical_adapter: 0, count: 0, descriptors: None, paging_buffer: POISON };
    kmd.query_segment4(&mut first).unwrap();
    let mut bytes = vec![0; first.count as usize * STRIDE];
    let descriptors = Some(DescriptorArray::new(&mut bytes, STRIDE).unwrap());
    let mut second = QuerySegment4 { physical_adapter: 0, count: first.count, descriptors, paging_buffer: POISON };
    kmd.query_segment4(&mut second).unwrap();
    let array = second.descriptors.unwrap();
    (0..first.count as usize).map(|index| array.get(index).unwrap()).collect()
}

#[test]
fn an_integrated_gpu_reports_an_aperture_only() {
    // spec: memory §1.6, memory §4.3
    let config = KmdConfig { layout: Layout::Aperture, ..KmdConfig::default() };
    let segments = reported(config);
    assert_eq!(segments.len(), 1);
    assert!(segments[0].flags.contains(SegmentFlags::APERTURE));
    let (mut kmd, _) = stopped(config);
    kmd.start_device(&mut FakeHost::default()).unwrap();
    assert!(kmd.gpu_va().unwrap().page_table_level(0).segment.is_system());
}

#[test]
fn between_two_memory_segments_lies_what_the_driver_hides() {
    // spec: memory §1.1, memory §1.4
    // seed: M18, M20, M21
    let layout = Layout::TwoMemories { second_bytes: 4 << 20, hidden_bytes: 1 << 20 };
    let segments = reported(KmdConfig { layout, ..KmdConfig::default() });
    let [first, aperture, second] = segments.as_slice() else { panic!("three segments: {segments:?}") };
    assert!(aperture.flags.contains(SegmentFlags::APERTURE));
    assert_eq!(second.base_address, first.base_address + first.size_bytes + (1 << 20));
    assert_eq!(second.size_bytes, 4 << 20);
    let (mut kmd, _) = stopped(KmdConfig { layout, ..KmdConfig::default() });
    kmd.start_device(&mut FakeHost::default()).unwrap();
    let geometry = kmd.geometry.unwrap();
    let hidden = first.base_address + first.size_bytes;
    assert_eq!(geometry.bus_of_range(LOCAL, hidden, 4096), None, "no address of a segment leads there");
    assert_eq!(geometry.bus_of_range(LOCAL, hidden - 4096, 8192), None);
    let page = |segment, offset| wddm_types::PhysicalAddress { segment: SegmentId(segment), offset };
    assert_eq!(geometry.bus_of_page(page(1, first.size_bytes)), None);
    assert_eq!(geometry.bus_of_page(page(3, 0)), Some(second.base_address));
    assert_eq!(geometry.bus_of_page(page(3, second.size_bytes)), None, "nor behind the last");
    for (second_bytes, hidden_bytes) in [(0, 0), (100, 0), (65536, 100), (1 << 40, 0), (u64::MAX, 65536)] {
        let layout = Layout::TwoMemories { second_bytes, hidden_bytes };
        let (mut kmd, _) = stopped(KmdConfig { layout, ..KmdConfig::default() });
        assert!(kmd.start_device(&mut FakeHost::default()).is_err(), "{layout:?}");
    }
}

#[test]
fn a_small_bar_is_a_window() {
    // spec: memory §1.4, memory §1.7
    let config = KmdConfig { cpu_visible: false, cpu_window_pages: 16, ..KmdConfig::default() };
    let local = reported(config)[0];
    assert!(local.flags.contains(SegmentFlags::SUPPORTS_CPU_HOST_APERTURE));
    assert!(!local.flags.contains(SegmentFlags::CPU_VISIBLE));
    assert_eq!(local.cpu.host_aperture().unwrap().size_in_pages, 16);
    let both = KmdConfig { cpu_visible: true, ..config };
    assert!(stopped(both).0.start_device(&mut FakeHost::default()).is_err());
    let large = reported(KmdConfig { cpu_window_pages: u32::MAX, ..config })[0];
    let window = large.cpu.host_aperture().unwrap();
    assert_eq!(u64::from(window.size_in_pages) * 65536, large.size_bytes, "no larger than what it shows");
}

#[test]
fn the_first_generation_has_banks_and_its_own_query() {
    // spec: memory §1.3, memory §1.8, memory §10.1
    // seed: M28, M30
    let config = KmdConfig { driver_model: DriverModel::Wddm1, banks: 4, ..KmdConfig::default() };
    let (mut kmd, _) = stopped(config);
    kmd.start_device(&mut FakeHost::default()).unwrap();
    assert_eq!(kmd.adapter_caps().driver_model, DriverModel::Wddm1);
    assert!(kmd.gpu_va().is_none());
    let mut other = QuerySegment4 { physical_adapter: 0, count: 0, descriptors: None, paging_buffer: POISON };
    assert!(kmd.query_segment4(&mut other).is_err(), "not with another generation's query");
    let input = QuerySegmentIn::default();
    let mut first = QuerySegment3 { input, count: 0, descriptors: None, paging_buffer: POISON };
    kmd.query_segment3(&mut first).unwrap();
    assert_eq!((first.count, first.paging_buffer), (2, POISON));
    let mut descriptors = vec![SegmentDescriptor3::default(); 2];
    let mut second = QuerySegment3 { input, count: 2, descriptors: Some(&mut descriptors), paging_buffer: POISON };
    kmd.query_segment3(&mut second).unwrap();
    assert_eq!(second.paging_buffer.segment, APERTURE);
    let local = &descriptors[0];
    assert!(local.flags.contains(SegmentFlags::USE_BANKING));
    assert_eq!((local.bank_count, local.bank_ends.len()), (4, 3), "the last end is left out");
    assert!(local.bank_ends.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(local.bank_ends.iter().all(|end| end.is_multiple_of(65536) && *end < local.size_bytes));
    assert!(!descriptors[1].flags.contains(SegmentFlags::USE_BANKING));
    let mut oldest = vec![SegmentDescriptor::default(); 2];
    let mut second = QuerySegment { input, count: 2, descriptors: Some(&mut oldest), paging_buffer: POISON };
    kmd.query_segment(&mut second).unwrap();
    assert_eq!((oldest[0].flags, &oldest[0].bank_ends), (local.flags, &local.bank_ends));
    let modern = KmdConfig { banks: 4, ..KmdConfig::default() };
    assert!(stopped(modern).0.start_device(&mut FakeHost::default()).is_err(), "descriptor 4 has no banks");
}

/// The segments of each layout by number: memory, apertures, and where an aperture's pages lie in the device's.
#[test]
fn each_layout_numbers_its_segments_and_lays_them_side_by_side() {
    // spec: memory §1.1
    let pages = APERTURE_BYTES / 4096;
    let of = |layout| {
        let (mut kmd, _) = stopped(KmdConfig { layout, ..KmdConfig::default() });
        kmd.start_device(&mut FakeHost::default()).unwrap();
        let geometry = kmd.geometry.unwrap();
        let set = |set: wddm_types::SegmentSet| set.iter().map(|id| id.0).collect::<Vec<_>>();
        let (memory, apertures) = (set(geometry.memory_segments()), set(geometry.aperture_segments()));
        let seen = apertures.iter().map(|id| geometry.aperture(SegmentId(*id)).expect("it is one")).collect();
        let first = geometry.first_memory_segment().map(|id| id.0);
        (memory, apertures, seen, first)
    };
    let half = pages / 2;
    assert_eq!(of(Layout::Memory), (vec![1], vec![2], vec![(0, pages)], Some(1)));
    assert_eq!(of(Layout::ComputeOnly), (vec![1], vec![], vec![], Some(1)));
    assert_eq!(of(Layout::TwoApertures), (vec![1], vec![2, 3], vec![(0, half), (half, pages - half)], Some(1)));
    assert_eq!(of(Layout::Aperture), (vec![], vec![1], vec![(0, pages)], None));
    let two = Layout::TwoMemories { second_bytes: 1 << 20, hidden_bytes: 0 };
    assert_eq!(of(two), (vec![1, 3], vec![2], vec![(0, pages)], Some(1)));
}

/// What the bus and the port leave room for is taken to the last byte.
#[test]
fn the_largest_memory_starts_and_a_byte_more_does_not() {
    let start = |local_bytes, aperture_bytes| {
        let (mut kmd, port) = stopped(KmdConfig::default());
        port.set(register::LOCAL_BYTES, local_bytes);
        port.set(register::APERTURE_BYTES, aperture_bytes);
        kmd.start_device(&mut FakeHost::default()).map_err(|error| error.to_string())
    };
    let beyond = |result: Result<_, String>| result.is_err_and(|error| error.contains("than the bus reaches"));
    assert!(start(LOCAL_BYTES, APERTURE_BYTES).is_ok());
    assert!(beyond(start(LOCAL_BYTES + 1, APERTURE_BYTES)), "more than the port shows");
    let most = bus::CPU_WINDOW_BASE - bus::APERTURE_BASE;
    assert!(!beyond(start(LOCAL_BYTES, most)), "the table of so much does not fit, which is another error");
    assert!(beyond(start(LOCAL_BYTES, most + 4096)));
}
