//! Hardware that fails and is reset, through the whole stack: the content of its memory and its devices are lost, and the adapter works as
//! after its start.

mod late;
mod two_adapters;
mod works;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use d3dkmt::{DeviceState, EvictFlags, MakeResidentFlags, Residency};
use ddi::{DriverStatus, PagingOp, PowerState};
use device_port::DevicePort;
use dxgk_host::{AdapterSetup, Host, HostConfig, Mode, PROFILES, ProcessLink, Profile, RecoveryPolicy};
use events::Event;
use kmt_link::Link;
use shared_words::Memory;
use softgpu_umd::{Gpu, Lane, Surface, SurfaceKind, UmdError};
use wddm_types::{NodeId, NtStatus, PAGE_BYTES};

use crate::stubborn::{Whims, wrapped};
use stack::heard::Heard;
use stack::world::{MIB, VIRTUAL};

/// Profiles whose paging is of one kind each, in real time too: on a hardware queue, by address, in packets with and without
/// addresses, on the first generation.
const REAL: [&str; 5] = ["discrete-4k", "by-address", "wddm2-packets", "packets-by-address", "wddm1-banks"];

/// The tests break the hardware and watch the driver by this.
#[derive(Clone, Default)]
pub struct Breakage {
    /// The next paging buffer is none.
    next: Arc<AtomicBool>,
    /// The calls to the driver while its hardware was off: transfers of nothing, unmaps.
    lost: Arc<AtomicU32>,
    off: Arc<AtomicBool>,
    local: Arc<OnceLock<Arc<Memory>>>,
    pub refusal: Arc<Mutex<Option<&'static str>>>,
}

impl Breakage {
    fn whims(&self) -> Whims {
        let (breaks, told) = (self.clone(), self.clone());
        Whims {
            build: Box::new(move |driver, build| {
                let nothing = matches!(
                    build.operation,
                    PagingOp::Transfer { size_bytes: 0, .. } | PagingOp::UnmapApertureSegment { .. }
                );
                if breaks.off.load(Ordering::SeqCst) {
                    assert!(build.immediate && nothing, "the hardware is not touched: {:?}", build.operation);
                    breaks.lost.fetch_add(1, Ordering::SeqCst);
                }
                driver.build_paging_buffer(build)?;
                if !build.immediate && build.written > 0 && breaks.next.swap(false, Ordering::SeqCst) {
                    // No such opcode: the engine stops.
                    build.buffer[0] = 0x7f | 1 << 8;
                }
                Ok(())
            }),
            reset: Box::new(move |driver, host, down| {
                if let Some(reason) = *told.refusal.lock().unwrap()
                    && reason.starts_with("reset") == down
                {
                    told.off.store(false, Ordering::SeqCst);
                    return Err(DriverStatus::Unsuccessful(reason));
                }
                told.off.store(down, Ordering::SeqCst);
                if down {
                    driver.reset_from_timeout(host)?;
                    told.scramble();
                    Ok(())
                } else {
                    driver.restart_from_timeout(host)
                }
            }),
            packets: true,
            ..Whims::default()
        }
    }

    /// Overwrites memory as a reset may: none of its content stays.
    fn scramble(&self) {
        let local = self.local.get().expect("the host has started");
        for first in (0..local.bytes()).step_by(PAGE_BYTES as usize) {
            if first < 8 * MIB || local.scan_words(first, PAGE_BYTES / 8, |_, word| word == 0).is_some() {
                local.fill(first, PAGE_BYTES, 0x5A5A_5A5A);
            }
        }
    }

    pub fn host(&self, profile: &str, mode: Mode, recovery: RecoveryPolicy) -> (Arc<Host>, Heard) {
        self.host_with(profile, mode, recovery, self.whims())
    }

    fn host_with(&self, profile: &str, mode: Mode, recovery: RecoveryPolicy, whims: Whims) -> (Arc<Host>, Heard) {
        self.start(profile, mode, recovery, whims, Vec::new())
    }

    /// The same with other adapters beside the one that breaks.
    fn host_of_several(&self, profile: &str, mode: Mode, others: Vec<AdapterSetup>) -> (Arc<Host>, Heard) {
        self.start(profile, mode, RecoveryPolicy::default(), self.whims(), others)
    }

    fn start(
        &self,
        profile: &str,
        mode: Mode,
        recovery: RecoveryPolicy,
        whims: Whims,
        others: Vec<AdapterSetup>,
    ) -> (Arc<Host>, Heard) {
        let heard = Heard::of(|event| {
            matches!(event, Event::AdapterReset { .. } | Event::AdapterStopped { .. } | Event::DeviceInError { .. })
        });
        let mut config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            tracer: Box::new(heard.clone()),
            recovery,
            others,
            ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), mode)
        };
        config.wrap_miniport = Some(wrapped(whims));
        let local = Arc::clone(&self.local);
        config.wrap_port = Some(Box::new(move |port: Arc<dyn DevicePort>| {
            let _ = local.set(Arc::clone(port.local_memory()));
            port
        }));
        (Host::start(config).expect("the host starts"), heard)
    }
}

pub struct Worker {
    gpu: Gpu,
    lane: Lane,
    report: Surface,
    /// Where its content lies: in local memory, if there is any.
    kind: SurfaceKind,
}

impl Worker {
    pub fn new(host: &Arc<Host>) -> Worker {
        Worker::of(host, ProcessLink::new(Arc::clone(host)))
    }

    fn of(host: &Arc<Host>, process: Arc<ProcessLink>) -> Worker {
        let gpu = Gpu::open(process as Arc<dyn Link>).expect("the adapter opens");
        let lane = Lane::create(&gpu, NodeId(0)).expect("a lane");
        let report = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
        bring_in(&gpu, &report).expect("room");
        let local = host.describe().segments.iter().any(|segment| !segment.aperture);
        let kind = if local { SurfaceKind::Local } else { SurfaceKind::System };
        Worker { gpu, lane, report, kind }
    }

    fn local(&self, bytes: u64) -> Surface {
        self.gpu.create_surface(self.kind, bytes).expect("a surface")
    }

    fn run(&mut self) -> Result<(), UmdError> {
        let value = self.lane.submit(&self.gpu, None)?;
        self.lane.wait(&self.gpu, value)
    }

    fn write(&mut self, surface: &Surface, seed: u64) -> Result<(), UmdError> {
        self.lane.pattern(surface, seed);
        self.run()
    }

    fn holds(&mut self, surface: &Surface, seed: u64) -> bool {
        self.lane.check(surface, seed, &self.report, 1);
        self.run().expect("it runs");
        self.report.lock().expect("system memory").read_word(0) == 0
    }

    fn state(&self) -> DeviceState {
        self.gpu.device().state().expect("it may always be asked")
    }
}

/// Onto the list.
fn bring_in(gpu: &Gpu, surface: &Surface) -> Result<(), UmdError> {
    let handles = vec![surface.allocation().handle()];
    if let Residency::Pending { paging_fence_value, .. } =
        gpu.paging().make_resident(handles, MakeResidentFlags::empty())?
    {
        gpu.device().wait(&[(gpu.paging().fence(), paging_fence_value)])?;
    }
    Ok(())
}

/// Hardware is reset because it fails, and not because the machine that runs the tests is slow.
pub fn patient() -> RecoveryPolicy {
    RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() }
}

/// Breaks the hardware with this worker's next page-in, and waits until it notices.
pub fn break_hardware(breakage: &Breakage, worker: &mut Worker) {
    breakage.next.store(true, Ordering::SeqCst);
    let surface = worker.local(MIB);
    let lost = bring_in(&worker.gpu, &surface).and_then(|()| worker.write(&surface, 9));
    let built = !breakage.next.load(Ordering::SeqCst);
    assert!(lost.is_err(), "its device is lost; a paging buffer was built: {built}");
    std::mem::forget(surface);
}

#[test]
fn a_reset_takes_memory_and_devices_and_leaves_an_adapter_that_works() {
    // spec: memory §3.5, memory §5.8, memory §8.4, memory §8.5, memory §8.6, memory §10.4, sync §4.4
    // Behind an IOMMU, in packets, the driver writes nothing into a paging buffer: there is nothing to break.
    let breakable = PROFILES.iter().filter(|profile| profile.name != "iommu-packets");
    let virtually = breakable.map(|profile| (profile.name, VIRTUAL));
    for (profile, mode) in virtually.chain(REAL.map(|profile| (profile, Mode::Real))) {
        let breakage = Breakage::default();
        let (host, heard) = breakage.host(profile, mode, patient());
        let (mut first, mut second) = (Worker::new(&host), Worker::new(&host));
        let (kept, seen) = (first.local(MIB), second.local(MIB));
        for (worker, surface, seed) in [(&mut first, &kept, 1), (&mut second, &seen, 2)] {
            bring_in(&worker.gpu, surface).expect("room");
            worker.write(surface, seed).expect("it runs");
        }
        heard.take();
        break_hardware(&breakage, &mut first);
        let events = heard.take();
        let resets = events.iter().filter(|event| matches!(event, Event::AdapterReset { .. })).count();
        assert_eq!(resets, 1, "{profile} {mode:?}: {events:?}");
        assert!(!events.iter().any(|event| matches!(event, Event::AdapterStopped { .. })), "{profile}: {events:?}");
        let lost = events.iter().filter(|event| matches!(event, Event::DeviceInError { state: 2, .. })).count();
        assert_eq!(lost, 2, "{profile}: the device of each process, {events:?}");
        // Content in system memory is not lost.
        let (lost, local) = (breakage.lost.load(Ordering::SeqCst), first.kind == SurfaceKind::Local);
        assert!(lost >= 2 || !local, "{profile}: the driver hears what is lost");
        for worker in [&mut first, &mut second] {
            assert_eq!(worker.state(), DeviceState::Reset, "{profile} {mode:?}");
            let refused = worker.gpu.create_surface(SurfaceKind::Local, MIB).map(drop).expect_err("it is lost");
            assert!(
                matches!(&refused, UmdError::Refused(refusal) if refusal.status == NtStatus::DEVICE_REMOVED),
                "{refused:?}"
            );
        }
        assert_eq!(host.stopped(), None);
        host.check_invariants().unwrap_or_else(|broken| panic!("{profile}: {broken:?}"));
        // A new process finds an adapter as after its start, also beside processes that have not destroyed their objects yet.
        for round in 0..2 {
            let mut fresh = Worker::new(&host);
            let surfaces: Vec<Surface> = (0..6).map(|_| fresh.local(MIB)).collect();
            for (surface, seed) in surfaces.iter().zip(10..) {
                bring_in(&fresh.gpu, surface).expect("all of it has room");
                fresh.write(surface, seed).expect("it runs");
            }
            for (surface, seed) in surfaces.iter().zip(10..) {
                assert!(fresh.holds(surface, seed), "{profile} {mode:?}, round {round}: surface {seed}");
            }
            host.check_invariants().unwrap_or_else(|broken| panic!("{profile}: {broken:?}"));
            if round == 0 {
                host.power_transition(PowerState::Hibernate).expect("it falls asleep");
                host.power_transition(PowerState::On).expect("it wakes");
                assert!(fresh.holds(&surfaces[5], 15), "{profile} {mode:?}: after a sleep");
            }
        }
        drop((kept, seen, first, second));
        assert_eq!(host.stopped(), None, "{profile}");
        host.check_invariants().unwrap_or_else(|broken| panic!("{profile}: {broken:?}"));
    }
}

#[test]
fn an_address_of_a_lock_outlives_a_reset_and_shows_no_other_content() {
    // spec: memory §6.3, memory §8.4
    for profile in ["discrete-4k", "small-bar", "two-memories"] {
        for mode in [VIRTUAL, Mode::Real] {
            let breakage = Breakage::default();
            let (host, _) = breakage.host(profile, mode, patient());
            let mut first = Worker::new(&host);
            let surface =
                first.gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, MIB, false).expect("a surface");
            bring_in(&first.gpu, &surface).expect("room");
            first.write(&surface, 1).expect("it runs");
            let lock = surface.lock().expect("behind the window");
            break_hardware(&breakage, &mut first);
            assert_eq!(first.state(), DeviceState::Reset);
            let mut fresh = Worker::new(&host);
            let local = || fresh.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
            let surfaces: Vec<Surface> = (0..7).map(|_| local()).collect();
            for surface in &surfaces {
                bring_in(&fresh.gpu, surface).expect("room");
                fresh.write(surface, 3).expect("it runs");
            }
            let others = softgpu_umd::pattern::word(3, 0);
            let shown =
                (0..MIB).step_by(8).filter(|at| lock.read_word(*at) == softgpu_umd::pattern::word(3, *at)).count();
            assert_eq!(shown, 0, "{profile} {mode:?}: {others:#x} of another process");
            lock.write_words(0, &[0xdead]);
            assert_eq!(lock.read_word(0), 0xdead, "its writes stay its own");
            for surface in &surfaces {
                assert!(fresh.holds(surface, 3), "{profile} {mode:?}");
            }
            drop(lock);
            host.check_invariants().unwrap_or_else(|broken| panic!("{profile}: {broken:?}"));
        }
    }
}

/// The CPU stores into content that is on its way out, or in again at once, when the hardware fails: it waits for the move, and the move never
/// ends.
#[test]
fn who_stores_into_content_that_was_on_its_way_goes_on() {
    // spec: memory §6.3, memory §8.4
    let virtually = [None, Some("start it may not"), Some("reset it may not")].map(|refused| (VIRTUAL, refused));
    for (mode, refused) in virtually.into_iter().chain([(Mode::Real, None)]) {
        // It stays out, or comes back: at once, or behind others that take all buffers.
        for comes_back in [None, Some(0), Some(4)] {
            let breakage = Breakage::default();
            *breakage.refusal.lock().unwrap() = refused;
            let (host, _) = breakage.host("discrete-4k", mode, patient());
            let mut worker = Worker::new(&host);
            let surface = worker.gpu.create_lockable_surface(worker.kind, MIB, false).expect("a surface");
            bring_in(&worker.gpu, &surface).expect("room");
            worker.write(&surface, 1).expect("it runs");
            let lock = surface.lock().expect("behind the BAR");
            let others: Vec<Surface> = (0..comes_back.unwrap_or(0)).map(|_| worker.local(MIB)).collect();
            breakage.next.store(comes_back.is_none(), Ordering::SeqCst);
            worker.gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty()).expect("it is listed");
            if comes_back.is_some() {
                // In virtual time the kernel has built the move out, but no work behind it.
                breakage.next.store(true, Ordering::SeqCst);
                for surface in others.iter().chain([&surface]) {
                    let list = vec![surface.allocation().handle()];
                    let asked = worker.gpu.paging().make_resident(list, MakeResidentFlags::empty());
                    // With threads the first of them may have failed before the last is asked for.
                    if let (Mode::Real, Err(refusal)) = (mode, &asked) {
                        assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED, "{refusal:?}");
                        break;
                    }
                    asked.expect("room");
                }
            }
            lock.write_words(0, &[4711]);
            assert_eq!(lock.read_word(0), 4711, "{mode:?}");
            while mode == VIRTUAL && host.step() {}
            drop(lock);
            assert!(!breakage.next.load(Ordering::SeqCst) || mode == Mode::Real, "it broke");
            assert!(refused.is_none() || host.stopped().is_some(), "{mode:?}");
        }
    }
}

#[test]
fn an_adapter_that_is_reset_too_often_is_given_up() {
    // spec: sync §4.4
    let policy = RecoveryPolicy { limit_count: 2, delay_ns: None, ..RecoveryPolicy::default() };
    let breakage = Breakage::default();
    let (host, heard) = breakage.host("discrete-4k", VIRTUAL, policy);
    for _ in 0..2 {
        break_hardware(&breakage, &mut Worker::new(&host));
        assert_eq!(host.stopped(), None);
    }
    break_hardware(&breakage, &mut Worker::new(&host));
    let stopped = host.stopped().expect("a third time within a minute");
    assert!(stopped.contains("reset 2 times within 60 seconds"), "{stopped}");
    assert_eq!(heard.count(|event| matches!(event, Event::AdapterReset { .. })), 2);
    // Long ago does not count.
    let policy = RecoveryPolicy { limit_count: 1, limit_time_ns: 1, delay_ns: None, ..RecoveryPolicy::default() };
    let (host, _) = Breakage::default().host("discrete-4k", VIRTUAL, policy);
    assert_eq!(host.stopped(), None);
    let breakage = Breakage::default();
    let (host, _) = breakage.host("discrete-4k", VIRTUAL, policy);
    for _ in 0..4 {
        break_hardware(&breakage, &mut Worker::new(&host));
        assert_eq!(host.stopped(), None);
    }
}

#[test]
fn a_driver_that_cannot_reset_or_restart_its_device_stops_the_adapter() {
    // spec: memory §8.4, sync §4.4
    for (refused, says) in
        [("reset it may not", "ResetFromTimeout failed"), ("start it may not", "RestartFromTimeout failed")]
    {
        let breakage = Breakage::default();
        *breakage.refusal.lock().unwrap() = Some(refused);
        let (host, _) = breakage.host("discrete-4k", VIRTUAL, RecoveryPolicy::default());
        let mut worker = Worker::new(&host);
        break_hardware(&breakage, &mut worker);
        let stopped = host.stopped().expect("nothing is left of it");
        assert!(stopped.contains(says) && stopped.contains(refused), "{stopped}");
        drop(worker);
    }
}
