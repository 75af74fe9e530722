//! Start, features and the segment query.

use ddi::{DESCRIPTOR4_BYTES, DescriptorArray, FeatureId, Miniport, PagingBufferInfo, QuerySegment4, SegmentFlags};
use shared_words::Word;
use softgpu_spec::{bus, register};
use wddm_types::SegmentId;

use super::{APERTURE, LOCAL};
use crate::config::KmdConfig;
use crate::fake_port::{APERTURE_BYTES, FakeHost, LOCAL_BYTES, started, stopped};

/// Longer than a descriptor, so that a driver that indexes instead of striding is seen.
const STRIDE: usize = 128;

const POISON: PagingBufferInfo =
    PagingBufferInfo { segment: SegmentId(0x55), size_bytes: 0x5555_5555, private_data_bytes: 0x5555_5555 };

#[test]
fn the_first_call_tells_the_count_and_nothing_else_the_second_fills_everything() {
    // spec: memory §1.3, memory §10.4
    // seed: M04 M05 M06
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
    assert_eq!(Word::load(port.local_memory_word(entry)), 0, "a page that nobody mapped points to nothing");
}

#[test]
fn the_cap_follows_the_feature() {
    // spec: sync §3.1
    for (enabled, granted, cap, asked) in
        [(true, true, true, vec![1]), (true, false, false, vec![1]), (false, true, false, vec![])]
    {
        let (mut kmd, _) = stopped(KmdConfig::default());
        assert!(!kmd.adapter_caps().native_gpu_fence, "not before start");
        let mut host = FakeHost { enabled, ..FakeHost::default() };
        if !granted {
            host.os_caps = None;
        }
        kmd.start_device(&mut host).unwrap();
        assert_eq!(kmd.adapter_caps().native_gpu_fence, cap, "enabled {enabled}, granted {granted}");
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
    let end = geometry.segment_bytes;
    assert_eq!(geometry.bus_of_range(LOCAL, end - 4096, 4096), Some(end - 4096));
    assert_eq!(geometry.bus_of_range(LOCAL, end - 4096, 4104), None, "the aperture table");
    assert_eq!(geometry.bus_of_range(APERTURE, 0, 8), None, "a GPU address contains the base");
    assert_eq!(geometry.bus_of_range(SegmentId(3), 0, 8), None);
    assert_eq!(geometry.bus_of_range(LOCAL, u64::MAX, 8), None);
}
