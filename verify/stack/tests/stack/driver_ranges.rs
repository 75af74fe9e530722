//! Addresses that a driver reserves while a process is created (memory §4.6): the process cannot use them; the kernel refuses a range that
//! breaks a rule and, with the driver's refusal, the process, of which nothing is left then.

use std::sync::{Arc, Mutex};

use d3dkmt::{GpuVaMapping, GpuVaReservation, Refusal, VirtualContext};
use ddi::{CreateProcess, DriverStatus, OsProcess, ReserveGpuVaRange, ReserveGpuVaRangeFlags};
use dxgk_host::{Host, HostConfig, ProcessLink, Profile};
use kmt_link::Link;
use softgpu_kmd::KmdConfig;
use softgpu_umd::{Gpu, SurfaceKind, UmdError};
use wddm_types::{Blame, GpuVa, NodeId, NtStatus};

use crate::stubborn::{Whims, host_with, wrapped};
use stack::world::{Client, MIB, VIRTUAL, client};

/// The bytes that a leaf table of the device covers.
const LEAF: u64 = 2 * MIB;

/// A driver's requests, made from a range that would do and the end of all addresses.
type Ask = fn(ReserveGpuVaRange, u64) -> Vec<ReserveGpuVaRange>;
type Answer = Result<GpuVa, DriverStatus>;
/// The kernel's answers, process by process.
type Answers = Arc<Mutex<Vec<Answer>>>;

fn whole(create: &CreateProcess<'_>) -> ReserveGpuVaRange {
    ReserveGpuVaRange { process: create.process, size_bytes: LEAF, ..Default::default() }
}

/// A driver that asks for this for each process of user mode, and refuses the process as it is refused.
fn asking(ask: impl Fn(&CreateProcess<'_>) -> Vec<ReserveGpuVaRange> + Send + 'static) -> (Whims, Answers) {
    let answers = Answers::default();
    let list = Arc::clone(&answers);
    let process = move |host: &mut dyn ddi::Host, create: &CreateProcess<'_>| {
        if create.system {
            return Ok(());
        }
        for reserve in ask(create) {
            let answer = host.reserve_gpu_va_range(reserve);
            list.lock().unwrap().push(answer);
            answer?;
        }
        Ok(())
    };
    (Whims { process: Box::new(process), ..Whims::default() }, answers)
}

fn open(host: &Arc<Host>) -> Result<Gpu, UmdError> {
    Gpu::open(ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>)
}

fn refusal<T>(result: Result<T, UmdError>) -> Refusal {
    match result {
        Err(UmdError::Refused(refusal)) => refusal,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opens"),
    }
}

fn map(client: &Client, base: GpuVa) -> Result<(), Refusal> {
    let surface = client.pinned(SurfaceKind::Local, 4096);
    let mapping = GpuVaMapping { base, size_in_pages: 1, ..GpuVaMapping::default() };
    let mapped = client.gpu.paging().map_gpu_va(Some(surface.allocation()), mapping).map(drop);
    // The test frees the range that it has mapped itself.
    if mapped.is_ok() {
        client.gpu.device().free_gpu_va(base, 4096)?;
    }
    mapped
}

#[test]
fn what_a_driver_keeps_is_its_own_in_each_process() {
    // spec: memory §4.6
    let flags = ReserveGpuVaRangeFlags::ALLOW_USER_MODE_MAPPING;
    let ask = move |create: &CreateProcess<'_>| vec![whole(create), ReserveGpuVaRange { flags, ..whole(create) }];
    let (whims, answers) = asking(ask);
    let host = host_with(8 * MIB, whims);
    let (first, second) = (client(&host), client(&host));
    let answers: Vec<GpuVa> = answers.lock().unwrap().iter().copied().map(Result::unwrap).collect();
    let [own, shared, ..] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(answers, [own, shared, own, shared], "each process has addresses of its own");
    assert_eq!(shared, own.offset(LEAF));
    for client in [&first, &second] {
        let device = client.gpu.device();
        let refused = |result: Result<(), Refusal>| result.unwrap_err().status;
        assert_eq!(refused(map(client, own)), NtStatus::CONFLICTING_ADDRESSES);
        assert_eq!(refused(device.free_gpu_va(own, 4096)), NtStatus::INVALID_PARAMETER);
        map(client, shared).expect("user mode may map there");
        for base in [own, shared] {
            let reservation = GpuVaReservation { base, size_bytes: LEAF, ..GpuVaReservation::default() };
            let refused = device.reserve_gpu_va(reservation).unwrap_err().status;
            assert_eq!(refused, NtStatus::CONFLICTING_ADDRESSES);
        }
        let anywhere = GpuVaReservation { size_bytes: LEAF, ..GpuVaReservation::default() };
        assert!(device.reserve_gpu_va(anywhere).expect("room").0 >= shared.0 + LEAF);
    }
    assert_eq!(host.check_invariants(), Ok(()));
}

#[test]
fn a_wrong_range_is_refused_and_nothing_of_its_process_stays() {
    // spec: memory §4.6
    let end = 1 << 48;
    let wrong: [(&str, Ask); 10] = [
        ("zero", |whole, _| vec![ReserveGpuVaRange { size_bytes: 0, ..whole }]),
        ("no whole leaf table", |whole, _| vec![ReserveGpuVaRange { size_bytes: LEAF + 65536, ..whole }]),
        ("an odd alignment", |whole, _| vec![ReserveGpuVaRange { alignment_bytes: 3, ..whole }]),
        ("an unaligned base", |whole, end| vec![ReserveGpuVaRange { base: GpuVa(end / 2 + 4096), ..whole }]),
        ("the root's first entry", |whole, _| vec![ReserveGpuVaRange { base: GpuVa(LEAF), ..whole }]),
        ("outside", |whole, end| vec![ReserveGpuVaRange { base: GpuVa(end), ..whole }]),
        ("too large", |whole, end| vec![ReserveGpuVaRange { size_bytes: end, ..whole }]),
        ("overlap", |whole, end| vec![ReserveGpuVaRange { base: GpuVa(end / 2), ..whole }; 2]),
        ("another process", |whole, _| vec![ReserveGpuVaRange { process: OsProcess(77), ..whole }]),
        ("flags", |whole, _| vec![ReserveGpuVaRange { flags: ReserveGpuVaRangeFlags::from_bits_retain(2), ..whole }]),
    ];
    for (name, ask) in wrong {
        let bad = Arc::new(Mutex::new(false));
        let turn = Arc::clone(&bad);
        let (whims, answers) =
            asking(move |create| if *turn.lock().unwrap() { ask(whole(create), end) } else { vec![] });
        let host = host_with(8 * MIB, whims);
        let honest = client(&host);
        *bad.lock().unwrap() = true;
        let refused = refusal(open(&host));
        let scarce = name == "too large";
        let status = if scarce { NtStatus::NO_MEMORY } else { NtStatus::INVALID_PARAMETER };
        assert_eq!(refused.status, status, "{name}: {refused}");
        assert_eq!(refused.blame == Blame::Scarcity, scarce, "{name}");
        assert!(answers.lock().unwrap().last().is_some_and(Result::is_err), "{name}");
        // Every page of tables would be used up if a root stayed behind.
        let tries = if name == "overlap" { 5000 } else { 1 };
        for _ in 0..tries {
            assert_eq!(refusal(open(&host)).status, status, "{name}");
        }
        assert_eq!(host.check_invariants(), Ok(()), "{name}");
        *bad.lock().unwrap() = false;
        drop(open(&host).expect("the driver takes processes again"));
        drop(honest);
    }
}

#[test]
fn the_paging_process_may_have_ranges_but_not_all_its_addresses() {
    // spec: memory §4.6, memory §4.7
    for (size_bytes, starts) in [(LEAF, true), (1 << 47, false)] {
        let process = move |host: &mut dyn ddi::Host, create: &CreateProcess<'_>| {
            let reserve = ReserveGpuVaRange { size_bytes, ..whole(create) };
            if create.system { host.reserve_gpu_va_range(reserve).map(drop) } else { Ok(()) }
        };
        let whims = Whims { process: Box::new(process), ..Whims::default() };
        let profile = Profile::named("by-address").expect("a built-in profile");
        let mut config =
            HostConfig { vram_bytes: 8 * MIB, system_bytes: 64 * MIB, ..HostConfig::new(profile, VIRTUAL) };
        config.wrap_miniport = Some(wrapped(whims));
        match Host::start(config) {
            Ok(host) => {
                assert!(starts);
                let mut client = client(&host);
                let surface = client.pinned(SurfaceKind::Local, 65536);
                client.run(|commands| {
                    commands.fill(surface.va(), 8, 3);
                });
            }
            Err(error) => assert!(!starts && error.to_string().contains("no free range"), "{error}"),
        }
    }
}

#[test]
fn where_the_gpu_has_no_tables_there_is_nothing_to_keep() {
    // spec: memory §4.1, memory §4.6
    for (profile, packets) in [("iommu", false), ("wddm1-banks", true)] {
        let (whims, answers) = asking(|create| vec![whole(create)]);
        let profile = Profile::named(profile).expect("a built-in profile");
        let whims = Whims { packets, ..whims };
        let mut config = HostConfig { system_bytes: 64 * MIB, ..HostConfig::new(profile, VIRTUAL) };
        config.wrap_miniport = Some(wrapped(whims));
        let host = Host::start(config).expect("the host starts");
        assert_eq!(refusal(open(&host)).status, NtStatus::NOT_SUPPORTED);
        assert!(matches!(answers.lock().unwrap()[..], [Err(DriverStatus::NotSupported(_))]));
    }
}

#[test]
fn a_drivers_context_allocations_may_lie_in_what_it_keeps() {
    // spec: memory §4.6, memory §7.5
    let own = GpuVa(1 << 47);
    for reserves in [true, false] {
        let ask = move |create: &CreateProcess<'_>| match reserves {
            true => vec![ReserveGpuVaRange { base: own, ..whole(create) }],
            false => vec![],
        };
        let (whims, _) = asking(ask);
        let whims = Whims { packets: true, map_context: Box::new(move |map| map.base = own), ..whims };
        let base = Profile::named("packets-by-address").expect("a built-in profile");
        let profile = Profile { driver: KmdConfig { context_save_bytes: 8192, ..base.driver }, ..*base };
        let mut config = HostConfig { system_bytes: 64 * MIB, ..HostConfig::new(&profile, VIRTUAL) };
        config.wrap_miniport = Some(wrapped(whims));
        let host = Host::start(config).expect("the host starts");
        let gpu = open(&host).expect("the adapter opens");
        let context = VirtualContext::create(gpu.device(), NodeId(0), Vec::new()).expect("a context");
        let free = gpu.device().free_gpu_va(own, 4096).map_err(|refusal| refusal.status);
        let expected = if reserves { Err(NtStatus::INVALID_PARAMETER) } else { Ok(()) };
        assert_eq!(free, expected, "elsewhere user mode may take it away");
        assert_eq!(host.check_invariants(), Ok(()));
        drop(context);
        let reservation = GpuVaReservation { base: own, size_bytes: LEAF, ..GpuVaReservation::default() };
        assert_eq!(gpu.device().reserve_gpu_va(reservation).is_err(), reserves, "they stay the driver's");
    }
}
