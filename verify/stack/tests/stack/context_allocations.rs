//! Context allocations through the whole stack: made with the context, initialised once, changed by their driver, resident
//! before the context runs, gone with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt::{Adapter, Device, VirtualContext};
use ddi::{DriverStatus, MapContextAllocation, MapProtection, PagingOp, PteFlags};
use dxgk_host::{Host, HostConfig, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_kmd::KmdConfig;
use softgpu_umd::{Gpu, SurfaceKind, UmdError};
use wddm_types::{NodeId, NtStatus};

use crate::stubborn::{Shared, Whims, wrapped};
use stack::world::{MIB, VIRTUAL, client};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    Init(u64),
    Update(Vec<u8>),
    /// Valid entries that show one: whether engines may write there, and the driver's own bits.
    Shown(bool, u64),
}

fn start(save_bytes: u64) -> (Arc<Host>, Shared<Heard>) {
    start_on("discrete-4k", save_bytes, false, |_| ())
}

fn start_on(
    profile: &str,
    save_bytes: u64,
    protections: bool,
    map: impl Fn(&mut MapContextAllocation) + Send + 'static,
) -> (Arc<Host>, Shared<Heard>) {
    let base = Profile::named(profile).expect("a built-in profile");
    start_with(
        &Profile { driver: KmdConfig { context_save_bytes: save_bytes, ..base.driver }, ..*base },
        protections,
        map,
    )
}

fn start_with(
    profile: &Profile,
    protections: bool,
    map: impl Fn(&mut MapContextAllocation) + Send + 'static,
) -> (Arc<Host>, Shared<Heard>) {
    start_refusing(profile, protections, map, |_| Ok(()))
}

fn start_refusing(
    profile: &Profile,
    protections: bool,
    map: impl Fn(&mut MapContextAllocation) + Send + 'static,
    refuse: impl Fn(&'static str) -> Result<(), DriverStatus> + Send + 'static,
) -> (Arc<Host>, Shared<Heard>) {
    let heard: Shared<Heard> = Arc::default();
    let list = Arc::clone(&heard);
    let protected = protections;
    let whims = Whims {
        build: Box::new(move |driver, build| {
            let heard = match build.operation {
                PagingOp::InitContextResource { allocation, .. } => Some(Heard::Init(allocation.0)),
                PagingOp::UpdateContextAllocation { private_data, .. } => Some(Heard::Update(private_data.to_vec())),
                PagingOp::UpdatePageTable { allocation: Some(of), first, driver_protection, .. }
                    if of.0 > u64::MAX / 2 && protected && first.flags.contains(PteFlags::VALID) =>
                {
                    Some(Heard::Shown(!first.flags.contains(PteFlags::READ_ONLY), driver_protection))
                }
                _ => None,
            };
            if build.multipass_offset == 0 {
                list.lock().expect("a test").extend(heard);
            }
            driver.build_paging_buffer(build)
        }),
        packets: !profile.driver.hardware_queues,
        map_context: Box::new(map),
        refuse: Box::new(refuse),
        ..Whims::default()
    };
    let mut config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 16 * MIB,
        ..HostConfig::new(profile, VIRTUAL)
    };
    config.wrap_miniport = Some(wrapped(whims));
    (Host::start(config).expect("the host starts"), heard)
}

/// The word behind this one where this is the second word of a system page; commands hold it elsewhere.
fn behind(host: &Host, word: u64) -> Option<u64> {
    let memory = host.system_memory();
    let count = memory.bytes() / 8;
    let at = memory.scan_words(0, count, |index, value| value != word || index % 512 != 1)?;
    let mut bytes = [0; 8];
    memory.read(at * 8 + 8, &mut bytes);
    Some(u64::from_le_bytes(bytes))
}

#[test]
fn a_driver_makes_fills_and_changes_what_its_context_needs() {
    // spec: memory §7.5, memory §5.1
    let (host, heard) = start(8192);
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).unwrap();
    assert!(heard.lock().unwrap().is_empty(), "the system's context has none");
    let context = gpu.device().create_context(NodeId(0)).unwrap();
    let seen = heard.lock().unwrap().clone();
    let [Heard::Init(allocation), Heard::Update(data)] = &seen[..] else { panic!("{seen:?}") };
    let number = u64::MAX - allocation;
    assert_eq!(data[8..], number.to_le_bytes());
    // The creation was synchronous: when it has answered, the driver's content is there.
    assert_eq!(behind(&host, *allocation), Some(number));
    let second = gpu.device().create_context(NodeId(1)).unwrap();
    assert_eq!(heard.lock().unwrap().len(), 4, "each context has its own, and each is initialised once");
    drop((context, second));
    drop(gpu);
}

#[test]
fn what_has_no_memory_is_not_created() {
    // spec: memory §7.5
    let (host, heard) = start(64 * MIB);
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).unwrap();
    assert!(gpu.device().create_context(NodeId(0)).is_err());
    assert!(heard.lock().unwrap().is_empty());
    assert_eq!(gpu.device().state(), Ok(d3dkmt::DeviceState::Active), "nothing has changed");
}

#[test]
fn a_quiesced_device_gets_contexts_whose_content_comes_with_its_turn() {
    // spec: memory §7.5, memory §8.6
    let (host, heard) = start(8192);
    let mut stands = client(&host);
    let mine = stands.pinned(SurfaceKind::Local, 5 * MIB);
    let runs = client(&host);
    host.set_process_priority(runs.link.process(), 4);
    let theirs = runs.pinned(SurfaceKind::Local, 5 * MIB);
    let before = heard.lock().unwrap().len();
    let context =
        stands.gpu.device().create_context(NodeId(1)).expect("the kernel creates a context for a quiesced device");
    while host.step() {}
    assert_eq!(heard.lock().unwrap().len(), before, "it has no room for its list now");
    drop((theirs, runs));
    stands.run(|commands| {
        commands.fill(mine.va(), 8, 3);
    });
    let seen = heard.lock().unwrap()[before..].to_vec();
    let [Heard::Init(allocation), Heard::Update(data)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(data[8..], (u64::MAX - allocation).to_le_bytes());
    drop(context);
}

#[test]
fn contexts_of_packets_have_theirs_where_paging_buffers_have_addresses() {
    // spec: memory §7.5, memory §3.4 operations 10 and 13
    let (host, heard) = start_on("packets-by-address", 8192, false, |_| ());
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).unwrap();
    assert!(heard.lock().unwrap().is_empty(), "the system's context has none");
    let context = VirtualContext::create(gpu.device(), NodeId(0), Vec::new()).unwrap();
    let seen = heard.lock().unwrap().clone();
    let [Heard::Init(allocation), Heard::Update(data)] = &seen[..] else { panic!("{seen:?}") };
    let number = u64::MAX - allocation;
    assert_eq!(data[8..], number.to_le_bytes());
    assert_eq!(behind(&host, *allocation), Some(number), "when the creation has answered, the content is there");
    let second = VirtualContext::create(gpu.device(), NodeId(1), Vec::new()).unwrap();
    assert_eq!(heard.lock().unwrap().len(), 4, "each context has its own, and each is initialised once");
    drop((context, second));
    while host.step() {}
    drop(gpu);
    host.check_invariants().unwrap();
    let (host, heard) = start_on("wddm2-packets", 8192, false, |_| ());
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).unwrap();
    let refused =
        VirtualContext::create(gpu.device(), NodeId(0), Vec::new()).err().expect("nothing shows it to the driver");
    assert_eq!(refused.status, NtStatus::NOT_SUPPORTED, "{refused}");
    assert!(heard.lock().unwrap().is_empty());
    host.check_invariants().unwrap();
}

#[test]
fn they_are_shown_with_the_protections_that_their_driver_wants() {
    // spec: memory §7.5, memory §4.8, memory §4.11
    for (protection, driver, write) in [(MapProtection::WRITE, 0, true), (MapProtection::empty(), 0x42, false)] {
        let (host, heard) = start_on("packets-by-address", 4096, true, move |map| {
            (map.protection, map.driver_protection) = (protection, driver);
        });
        let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).unwrap();
        let context = VirtualContext::create(gpu.device(), NodeId(0), Vec::new()).unwrap();
        let shown = |heard: &&Heard| matches!(heard, Heard::Shown(..));
        let seen: Vec<_> = heard.lock().unwrap().iter().filter(shown).cloned().collect();
        assert_eq!(seen, [Heard::Shown(write, driver)]);
        drop(context);
        host.check_invariants().unwrap();
    }
    // Zero, NoAccess and SystemUseOnly show no allocation to a process.
    for bit in 2..5 {
        let (host, heard) = start_on("packets-by-address", 4096, false, move |map| {
            map.protection |= MapProtection::from_bits_retain(1 << bit);
        });
        let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).unwrap();
        let refused = VirtualContext::create(gpu.device(), NodeId(0), Vec::new()).err().expect("bit {bit}");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "bit {bit}: {refused}");
        while host.step() {}
        assert!(heard.lock().unwrap().len() <= 1, "the kernel takes its decision back");
        host.check_invariants().unwrap();
    }
}

/// Bytes of the area that the driver makes for each device.
const AREA: u64 = 8192;

fn with_areas(name: &str, area: u64) -> Profile {
    let base = Profile::named(name).expect("a built-in profile");
    Profile { driver: KmdConfig { device_save_bytes: area, ..base.driver }, ..*base }
}

/// An allocation that a driver makes while a device is created belongs to the device: it is there before the first context, and goes with
/// the device.
#[test]
fn a_driver_makes_what_all_contexts_of_a_device_need() {
    // spec: memory §7.5, memory §5.1
    for name in ["discrete-4k", "packets-by-address"] {
        let (host, heard) = start_with(&with_areas(name, AREA), false, |_| ());
        assert!(heard.lock().unwrap().is_empty(), "{name}: the system's device has none");
        let link = ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>;
        let gpu = Gpu::open(Arc::clone(&link)).unwrap();
        let seen = heard.lock().unwrap().clone();
        let [Heard::Init(allocation), Heard::Update(data)] = &seen[..] else { panic!("{name}: {seen:?}") };
        let number = u64::from_le_bytes(data[8..].try_into().unwrap());
        assert_eq!(behind(&host, *allocation), Some(number), "{name}: it has answered, the content is there");
        let usage = |gpu: &Gpu| gpu.adapter().video_memory_info(false).unwrap().current_usage_bytes;
        let before = usage(&gpu);
        let adapter = Adapter::open(Arc::clone(&link), gpu.adapter().luid()).unwrap();
        let second = Device::create(&adapter).unwrap();
        assert_eq!(heard.lock().unwrap().len(), 4, "{name}: each device has its own");
        assert_eq!(usage(&gpu), before + AREA, "{name}: it stands on its device's list");
        let context = (name == "discrete-4k").then(|| second.create_context(NodeId(0)).unwrap());
        drop(context);
        assert_eq!(usage(&gpu), before + AREA, "{name}: it is no context's");
        drop(second);
        while host.step() {}
        assert_eq!(usage(&gpu), before, "{name}: it went with its device");
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_device_that_its_driver_refuses_leaves_nothing_that_was_made_for_it() {
    // spec: memory §7.5
    let refusing = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&refusing);
    let refuse = move |what| match what == "device" && now.load(Ordering::Relaxed) {
        true => Err(DriverStatus::NoMemory("a test's")),
        false => Ok(()),
    };
    let (host, heard) = start_refusing(&with_areas("discrete-4k", AREA), false, |_| (), refuse);
    let link = ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>;
    let gpu = Gpu::open(Arc::clone(&link)).unwrap();
    let adapter = Adapter::open(Arc::clone(&link), gpu.adapter().luid()).unwrap();
    while host.step() {}
    let usage = || gpu.adapter().video_memory_info(false).unwrap().current_usage_bytes;
    let before = usage();
    refusing.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(Device::create(&adapter).err().expect("refused").status, NtStatus::NO_MEMORY);
    }
    // Of a process that has no other device either.
    let stranger = ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>;
    let theirs = Adapter::open(stranger, gpu.adapter().luid()).unwrap();
    assert_eq!(Device::create(&theirs).err().expect("refused").status, NtStatus::NO_MEMORY);
    while host.step() {}
    assert_eq!(usage(), before);
    host.check_invariants().unwrap();
    refusing.store(false, Ordering::Relaxed);
    drop(Device::create(&theirs).unwrap());
    assert_eq!(heard.lock().unwrap().iter().filter(|heard| matches!(heard, Heard::Update(_))).count(), 6);
    host.check_invariants().unwrap();
}

#[test]
fn what_a_device_cannot_have_refuses_its_creation() {
    // spec: memory §7.5
    let none = with_areas("wddm2-packets", AREA);
    for (profile, status) in [(with_areas("discrete-4k", 64 * MIB), None), (none, Some(NtStatus::NOT_SUPPORTED))] {
        let (host, heard) = start_with(&profile, false, |_| ());
        let error =
            Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).err().expect("no room, or no address");
        let UmdError::Refused(refused) = error else { panic!("{error}") };
        assert!(status.is_none_or(|status| refused.status == status), "{refused}");
        assert!(heard.lock().unwrap().is_empty());
        host.check_invariants().unwrap();
    }
}
