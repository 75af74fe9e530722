//! Answers that a driver may not give at adapter start, rule by rule; and the facts that it is told.

mod rules;

mod stub;

use std::sync::{Arc, Mutex};

use ddi::{
    AdapterCaps, DdiVersion, DriverStatus, FeatureId, FeatureInterface, NativeFenceOsCaps, PagingBufferInfo,
    SegmentDescriptor4,
};
use dxgkrnl::{AdapterConfig, FeaturePolicy, Machine, Platform, StartError};
use events::Silence;
use stub::{Answers, Bare, NoCache, PAGES, Seen, Stub, Surroundings, system_run};
use wddm_types::{GpuVa, Luid, PageRun, Pages, SegmentId};

/// The same on a platform whose GPUs do not snoop the CPU's caches.
fn start_without_coherency(answers: Answers) -> Result<(), StartError> {
    let (mut machine, stub, _, config) = asked(answers, vec![]);
    let mut surroundings = Surroundings::of(NoCache);
    machine.start_adapter(&mut surroundings.cx(&mut Silence), Box::new(stub), config).map(drop)
}

fn start(answers: Answers, off: Vec<FeatureId>) -> (Result<(), StartError>, Arc<Mutex<Seen>>) {
    start_behind(answers, off, Bare)
}

/// The same on a computer that provides this.
fn start_behind(
    answers: Answers,
    off: Vec<FeatureId>,
    platform: impl Platform + 'static,
) -> (Result<(), StartError>, Arc<Mutex<Seen>>) {
    let (mut machine, stub, seen, config) = asked(answers, off);
    let mut surroundings = Surroundings::of(platform);
    let result = machine.start_adapter(&mut surroundings.cx(&mut Silence), Box::new(stub), config).map(drop);
    (result, seen)
}

/// A machine without an adapter, and a driver of one that can be started there.
fn asked(answers: Answers, off: Vec<FeatureId>) -> (Machine, Stub, Arc<Mutex<Seen>>, AdapterConfig) {
    let machine = Machine::new([1, 2]);
    let (stub, seen) = Stub::new(answers);
    let config = AdapterConfig {
        name: "stub".into(),
        luid: Luid(1),
        pci: Default::default(),
        kernel_pages: PageRun { first: 0, count: Pages(PAGES / 2) },
        system_pages: system_run(),
        page_table_reserve: Pages(1024),
        directory_reserve: Pages(128),
        paging_buffers: 4,
        snoops: false,
        clear_pages: true,
        memory_policy: dxgkrnl::MemoryPolicy::default(),
        features: FeaturePolicy::without(off),
        recovery: Default::default(),
        scheduling: Default::default(),
    };
    (machine, stub, seen, config)
}

#[test]
fn a_truthful_driver_starts_and_learns_what_is_on() {
    // spec: sync §3.1, sync §2.10
    // seed: N36, N38
    let (result, seen) = start(Answers::default(), vec![]);
    result.expect("it starts");
    let seen = seen.lock().unwrap();
    let state = seen.native_enabled.unwrap();
    assert!(state.enabled && state.known && state.version == 1);
    assert!(seen.os_caps.is_some(), "the negotiated version has its interface");
    assert_eq!(seen.stopped, 0);
    let of_machine = seen.of_machine.as_ref().expect("it has asked");
    assert!(matches!(of_machine, Err(DriverStatus::InvalidParameter(_))), "no adapter's: {of_machine:?}");
}

/// The table is fetched with room for it; it holds the kernel's permissions as the configuration says them.
#[test]
fn the_interface_has_its_size_and_tells_what_the_kernel_allows() {
    // spec: sync §3.1 step 6, sync §3.1 (invariants), sync §2.10
    // seed: N39, N40
    for (optimized_default_fence_type, intra_gpu_fence_type) in
        [(false, false), (true, false), (false, true), (true, true)]
    {
        let allowed = NativeFenceOsCaps { optimized_default_fence_type, intra_gpu_fence_type };
        let (mut machine, stub, seen, mut config) = asked(Answers::default(), vec![]);
        config.features.native_fence = allowed;
        let mut surroundings = Surroundings::of(Bare);
        machine.start_adapter(&mut surroundings.cx(&mut Silence), Box::new(stub), config).expect("it starts");
        let seen = seen.lock().unwrap();
        assert_eq!(seen.os_caps, Some(allowed));
        assert_eq!(seen.interfaces.len(), 5);
        for (room, answer, query) in &seen.interfaces {
            let told = match query.interface {
                FeatureInterface::NativeFence1(interface) => Some(interface.get_os_caps()),
                _ => None,
            };
            match room {
                0..8 => {
                    assert!(matches!(answer, Err(DriverStatus::BufferTooSmall(_))), "{room}: {answer:?}");
                    assert_eq!((query.size, told), (*room, None), "the query is as it was");
                }
                _ => assert_eq!((*answer, query.size, told), (Ok(()), 8, Some(allowed)), "{room}"),
            }
        }
    }
}

#[test]
fn native_fences_without_the_feature_fail_the_start() {
    // spec: sync §3.1, sync §5
    // seed: N37
    for off in [FeatureId::NATIVE_FENCE, FeatureId::HWSCH] {
        let (result, seen) = start(Answers::default(), vec![off]);
        let error = result.expect_err("the feature is off");
        assert!(error.to_string().contains("NATIVE_FENCE"), "{error}");
        let seen = seen.lock().unwrap();
        assert_eq!((seen.started, seen.stopped), (1, 1), "the device is stopped again");
        assert_eq!(seen.fence_calls, 0, "no native-fence entry point is called while the feature is off");
        let state = seen.native_enabled.unwrap();
        assert!(!state.enabled && state.version == 0);
        assert!(seen.os_caps.is_none());
    }
}

#[test]
fn a_query_that_fails_counts_as_off() {
    // spec: sync §3.1
    // seed: N38
    let (result, seen) = start(Answers { feature_query_fails: true, ..Answers::default() }, vec![]);
    assert!(result.is_err(), "the driver advertises native fences all the same");
    assert_eq!(seen.lock().unwrap().native_enabled.map(|state| (state.enabled, state.version)), Some((false, 0)));
}

#[test]
fn versions_must_meet() {
    // spec: sync §3.1
    for (versions, on) in [((1, 1), true), ((1, 9), true), ((2, 5), false), ((0, 0), false)] {
        let (_, seen) = start(Answers { versions, ..Answers::default() }, vec![]);
        assert_eq!(seen.lock().unwrap().native_enabled.unwrap().enabled, on, "{versions:?}");
    }
}

#[test]
fn every_broken_rule_is_named() {
    // spec: sync §3.1, memory §1.3, memory §1.11, memory §4.2
    let broken: Vec<(&str, Answers)> = vec![
        ("all native-fence entry points", Answers { native_facet: false, ..Answers::default() }),
        // seed: N44, N120
        ("SetNativeFenceLogBuffer", Answers { has_fence_logs: false, ..Answers::default() }),
        ("64-bit atomics", Answers { no_64_bit_atomics: true, ..Answers::default() }),
        (
            "OptimizedNativeFenceSignaledInterrupt needs",
            Answers { optimized_cap: true, native_cap: false, ..Answers::default() },
        ),
        ("MonitoredValueStride", Answers { stride: 12, ..Answers::default() }),
        ("MonitoredValueStride", Answers { stride: 8192, ..Answers::default() }),
        ("MaximumAddress", Answers { fence_addresses: (GpuVa(1 << 40), GpuVa(1 << 40)), ..Answers::default() }),
        ("writes only NbSegment", Answers { first_call_writes_more: true, ..Answers::default() }),
        ("1 to 31 segments", Answers { segments: vec![], ..Answers::default() }),
        ("1 to 31 segments", Answers { segments: vec![SegmentDescriptor4::default(); 32], ..Answers::default() }),
        ("same number of segments", Answers { second_count: Some(1), ..Answers::default() }),
        // seed: M06
        ("an aperture segment or 0", paging(SegmentId(1), 65536)),
        ("an aperture segment or 0", paging(SegmentId(9), 65536)),
        ("multiple of the host page", paging(SegmentId(2), 100)),
        ("multiple of the host page", paging(SegmentId(2), 0)),
        (
            "PagingBufferPrivateDataSize is at most",
            Answers {
                paging_buffer: PagingBufferInfo {
                    segment: SegmentId(2),
                    size_bytes: 65536,
                    private_data_bytes: (16 << 20) + 1,
                },
                ..Answers::default()
            },
        ),
        ("2 to 6", Answers { levels: 1, ..Answers::default() }),
        ("2 to 6", Answers { levels: 7, ..Answers::default() }),
        ("GetRootPageTableSize", Answers { levels: 2, ..Answers::default() }),
        ("names a node", Answers { paging_node: 4, ..Answers::default() }),
    ];
    for (rule, answers) in broken {
        let (result, seen) = start(answers, vec![]);
        let error = result.expect_err(rule).to_string();
        assert!(error.contains(rule), "expected a word of `{rule}` in: {error}");
        let seen = seen.lock().unwrap();
        assert_eq!(seen.started, seen.stopped, "a started device is stopped again: {rule}");
    }
}

#[test]
fn native_fences_belong_to_a_version_and_to_hardware_scheduling() {
    // spec: sync §0, sync §4.1
    // seed: N09
    let version =
        |ddi_version| Answers { caps: AdapterCaps { ddi_version, ..AdapterCaps::default() }, ..Answers::default() };
    for old in [DdiVersion::WDDM_3_0, DdiVersion::WDDM_3_1, DdiVersion(DdiVersion::WDDM_3_2.0 - 1)] {
        let error = start(version(old), vec![]).0.expect_err("it is too old for what it advertises").to_string();
        assert!(error.contains("from WDDM 3.2 on"), "{old}: {error}");
    }
    start(version(DdiVersion::WDDM_3_2), vec![]).0.expect("it is new enough");
    let packets_only = Answers { native_cap: true, native_facet: true, ..Answers::packets_only() };
    let error = start(packets_only, vec![]).0.expect_err("nothing would wait for them on the GPU").to_string();
    assert!(error.contains("hardware queues"), "{error}");
}

#[test]
fn words_are_shown_to_the_paging_process_as_the_driver_wants() {
    // spec: sync §1.5, sync §2.6
    // seed: N49
    for map_to_system_process in [true, false] {
        let (result, seen) = start(Answers { map_to_system_process, ..Answers::default() }, vec![]);
        result.expect("it starts either way");
        let seen = seen.lock().unwrap();
        assert!(!seen.system_addresses.is_empty(), "the paging queue has its progress fence");
        for (current, monitored) in &seen.system_addresses {
            assert_eq!((current.is_null(), monitored.is_null()), (!map_to_system_process, !map_to_system_process));
            assert!(current != monitored || !map_to_system_process);
        }
    }
}

fn paging(segment: SegmentId, size_bytes: u32) -> Answers {
    Answers { paging_buffer: PagingBufferInfo { segment, size_bytes, private_data_bytes: 0 }, ..Answers::default() }
}
