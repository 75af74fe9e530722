//! Residency of one process, and of several that want more than there is: the behaviour that the residency tests of the Windows hardware lab
//! kit look for, and cases that other systems get wrong.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use d3dkmt::{
    EvictFlags, MakeResidentFlags, NotificationKind, OfferFlags, ReclaimResult, Refusal, Residency, TrimFlags,
};
use dxgk_host::{Conductor, Host, HostConfig, Mode, ProcessLink, Profile};
use events::{Event, Tracer};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind, pattern};
use stack::world::{Client, MIB, VIRTUAL, client, host};
use wddm_types::{NodeId, NtStatus};

const CANT_TRIM: MakeResidentFlags = MakeResidentFlags::CANT_TRIM_FURTHER;

fn list(surfaces: &[&Surface]) -> Vec<wddm_types::RawHandle> {
    surfaces.iter().map(|surface| surface.allocation().handle()).collect()
}

/// Makes surfaces resident and waits for it.
fn bring_in(gpu: &Gpu, surfaces: &[&Surface], flags: MakeResidentFlags) -> Result<(), Refusal> {
    if let Residency::Pending { paging_fence_value, .. } = gpu.paging().make_resident(list(surfaces), flags)? {
        gpu.device().wait(&[(gpu.paging().fence(), paging_fence_value)])?;
    }
    Ok(())
}

/// Standard MakeResident: the list's allocations are resident, counts add up, and the kernel refuses one Evict too many.
#[test]
fn counts_hold_what_they_name() {
    // spec: memory §5.1, memory §5.2, memory §10.4
    // seed: R04, R06, R07, R09
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let one = client.gpu.create_surface(SurfaceKind::Local, MIB).unwrap();
    let usage = || client.gpu.adapter().video_memory_info(true).unwrap().current_usage_bytes;
    assert_eq!(usage(), 0, "nothing is resident by itself");
    for _ in 0..2 {
        bring_in(&client.gpu, &[&one], MakeResidentFlags::empty()).unwrap();
    }
    assert_eq!(usage(), MIB);
    client.gpu.device().evict(list(&[&one]), EvictFlags::empty()).unwrap();
    assert_eq!(usage(), MIB, "one of two counts is left");
    client.gpu.device().evict(list(&[&one]), EvictFlags::empty()).unwrap();
    assert_eq!(usage(), 0);
    let refusal = client.gpu.device().evict(list(&[&one]), EvictFlags::empty()).unwrap_err();
    assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER);
}

/// Over-commit: all or nothing, with the bytes to trim; trimming them is enough.
#[test]
fn what_does_not_fit_changes_nothing_and_says_what_is_missing() {
    // spec: memory §5.2, memory §10.1
    // seed: R06
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let surfaces: Vec<_> = (0..5).map(|_| client.gpu.create_surface(SurfaceKind::Local, MIB).unwrap()).collect();
    let first: Vec<_> = surfaces[..3].iter().collect();
    bring_in(&client.gpu, &first, MakeResidentFlags::empty()).unwrap();
    let rest: Vec<_> = surfaces[3..].iter().collect();
    let refusal = bring_in(&client.gpu, &rest, MakeResidentFlags::empty()).unwrap_err();
    assert_eq!((refusal.status, refusal.bytes_to_trim), (NtStatus::NO_MEMORY, MIB));
    let info = client.gpu.adapter().video_memory_info(true).unwrap();
    assert_eq!((info.budget_bytes, info.current_usage_bytes), (4 * MIB, 3 * MIB));
    // A list that never fits asks for no trim: it would be refused again.
    let all: Vec<_> = surfaces.iter().collect();
    let refusal = bring_in(&client.gpu, &all, MakeResidentFlags::empty()).unwrap_err();
    assert_eq!((refusal.status, refusal.bytes_to_trim), (NtStatus::NO_MEMORY, 0));
    let why = format!("never fit together: {} bytes of them can lie in segments of {} bytes only", 5 * MIB, 4 * MIB);
    assert!(refusal.reason.contains(&why), "{}", refusal.reason);
    client.gpu.device().evict(list(&first[..1]), EvictFlags::empty()).unwrap();
    bring_in(&client.gpu, &rest, MakeResidentFlags::empty()).unwrap();
}

/// Reads a surface back through system memory.
fn content_of(client: &mut Client, surface: &Surface) -> u64 {
    let copy = client.pinned(SurfaceKind::System, 4096);
    let (from, to) = (surface.va(), copy.va());
    client.run(|commands| {
        commands.copy(from, to, 4096);
    });
    copy.lock().unwrap().read_word(0)
}

/// Offered content goes first, uncopied; offered content that the kernel did not take comes back as it was.
#[test]
fn an_offer_is_kept_or_discarded_and_the_reclaim_says_which() {
    // spec: memory §5.9, memory §10.4
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let offered = client.pinned(SurfaceKind::Local, 2 * MIB);
    let va = offered.va();
    client.run(|commands| {
        commands.pattern(va, 2 * MIB, 9);
    });
    let handles = || list(&[&offered]);
    let offer = |priority| client.gpu.device().offer(handles(), priority, OfferFlags::empty());
    for wrong in [0, 5] {
        assert_eq!(offer(wrong).unwrap_err().status, NtStatus::INVALID_PARAMETER);
    }
    offer(2).unwrap();
    assert_eq!(offer(2).unwrap_err().status, NtStatus::INVALID_PARAMETER, "it is offered already");
    assert!(offered.lock().is_err(), "an offered allocation cannot be locked");
    let (results, _) = client.gpu.paging().reclaim(handles()).unwrap();
    assert_eq!(results, [ReclaimResult::Ok]);
    assert_eq!(content_of(&mut client, &offered), pattern::word(9, 0));
    let refusal = client.gpu.paging().reclaim(handles()).unwrap_err();
    assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER, "it is not offered");

    client.gpu.device().offer(handles(), 1, OfferFlags::empty()).unwrap();
    // Room for three: the offered two must go.
    let other = client.pinned(SurfaceKind::Local, 3 * MIB);
    client.gpu.device().evict(list(&[&other]), EvictFlags::empty()).unwrap();
    let (results, value) = client.gpu.paging().reclaim(handles()).unwrap();
    assert_eq!(results, [ReclaimResult::Discarded]);
    client.gpu.device().wait(&[(client.gpu.paging().fence(), value)]).unwrap();
    assert_eq!(content_of(&mut client, &offered), 0, "lost content is cleared, and shows no other process's old bytes");
}

/// The kernel asks a process over its budget to trim, and the evictions of that process are enough.
#[test]
fn a_process_over_its_budget_is_asked_to_trim() {
    // spec: memory §5.4, memory §5.5
    // seed: R08
    let host = host(VIRTUAL, 8 * MIB);
    let client = client(&host);
    let trim = client.gpu.device().register_trim().unwrap();
    let budget = client.gpu.device().register_budget_change().unwrap();
    let surfaces: Vec<_> = (0..6).map(|_| client.gpu.create_surface(SurfaceKind::Local, MIB).unwrap()).collect();
    let all: Vec<_> = surfaces.iter().collect();
    bring_in(&client.gpu, &all, MakeResidentFlags::empty()).unwrap();
    assert_eq!(client.link.take_notification(), None);
    host.set_process_budget(client.link.process(), Some(4 * MIB));
    let told = client.link.wait_notification().unwrap();
    assert_eq!(told.registration, budget.handle());
    assert_eq!(told.kind, NotificationKind::BudgetChanged { local: true, budget_bytes: 4 * MIB });
    let told = client.link.wait_notification().unwrap();
    assert_eq!(told.registration, trim.handle());
    let NotificationKind::Trim { flags, bytes_to_trim } = told.kind else { panic!("{told:?}") };
    assert!(flags.contains(TrimFlags::TRIM_TO_BUDGET));
    assert_eq!(bytes_to_trim, 2 * MIB);
    let over = client.gpu.device().evict(list(&all[..1]), EvictFlags::empty()).unwrap();
    assert_eq!(over, MIB, "NumBytesToTrim of Evict: still over budget");
    assert_eq!(client.gpu.device().evict(list(&all[1..2]), EvictFlags::empty()).unwrap(), 0);
    drop(trim);
    let refusal = client.gpu.adapter().change_reservation(true, 100 * MIB).unwrap_err();
    assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER);
    client.gpu.adapter().change_reservation(true, MIB).unwrap();
    assert_eq!(client.gpu.adapter().video_memory_info(true).unwrap().current_reservation_bytes, MIB);
    assert!(client.gpu.adapter().set_priority_class(6).is_err());
}

/// Counts suspensions.
#[derive(Clone, Default)]
struct Suspensions(Arc<AtomicU64>);

impl Tracer for Suspensions {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        if matches!(event, Event::DeviceSuspended { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn crowded(mode: Mode) -> (Arc<Host>, Suspensions) {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let suspensions = Suspensions::default();
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(suspensions.clone()),
        ..HostConfig::new(profile, mode)
    };
    (Host::start(config).expect("the host starts"), suspensions)
}

/// A process that keeps three quarters of the memory on its list for good and works on all of it.
/// The first two rounds begin together with those of others.
fn greedy(link: Arc<dyn Link>, rounds: u64, together: Option<&Barrier>) {
    let gpu = Gpu::open(link).expect("the adapter opens");
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let report = gpu.create_surface(SurfaceKind::System, 4096).unwrap();
    bring_in(&gpu, &[&report], MakeResidentFlags::empty()).unwrap();
    let surface = gpu.create_surface(SurfaceKind::Local, 3 * MIB).unwrap();
    bring_in(&gpu, &[&surface], CANT_TRIM).expect("it is the only one over its budget, or the other is too");
    for round in 0..rounds {
        if let Some(together) = together.filter(|_| round < 2) {
            together.wait();
        }
        let mut commands = Commands::new();
        if round > 0 {
            commands.check(surface.va(), 3 * MIB, pattern::seed(1, round - 1), report.va(), round);
        }
        commands.pattern(surface.va(), 3 * MIB, pattern::seed(1, round));
        let value = stream.submit(&gpu, &[], &commands).unwrap();
        stream.wait(&gpu, value).expect("its turn comes");
    }
    assert_eq!(report.lock().unwrap().read_word(0), 0, "content is as it was after each turn");
}

/// Two lists that do not fit beside each other: both go on, in turns, and no bytes are lost.
#[test]
fn devices_that_do_not_fit_together_take_turns() {
    // spec: memory §8.2, memory §8.6, memory §5.1
    // seed: R05, R11
    for (mode, rounds) in [(VIRTUAL, 4_000), (Mode::Real, 60)] {
        let (host, suspensions) = crowded(mode);
        let links: Vec<_> = (0..2).map(|_| ProcessLink::new(Arc::clone(&host))).collect();
        let conductor = Conductor::new(Arc::clone(&host), links.len());
        let together = &Barrier::new(links.len());
        std::thread::scope(|scope| {
            for (player, link) in links.into_iter().enumerate() {
                let conductor = Arc::clone(&conductor);
                scope.spawn(move || match mode {
                    // Each has had its turn before the second round, so the kernel has quiesced both.
                    Mode::Real => greedy(link as Arc<dyn Link>, rounds, Some(together)),
                    Mode::Virtual { .. } => {
                        let _seat = conductor.enter(player);
                        greedy(conductor.link(player, link), rounds, None);
                    }
                });
            }
        });
        assert!(suspensions.0.load(Ordering::Relaxed) >= 2, "{mode:?}: the kernel quiesced both at some time");
    }
}

/// Four processes crowd the memory and all of them go on: no cascade, no endless eviction.
#[test]
fn one_process_more_does_not_stop_the_others() {
    // spec: memory §8.2
    // seed: M19
    let (host, _) = crowded(VIRTUAL);
    let links: Vec<_> = (0..4).map(|_| ProcessLink::new(Arc::clone(&host))).collect();
    let conductor = Conductor::new(Arc::clone(&host), links.len());
    std::thread::scope(|scope| {
        for (player, link) in links.into_iter().enumerate() {
            let conductor = Arc::clone(&conductor);
            scope.spawn(move || {
                let _seat = conductor.enter(player);
                greedy(conductor.link(player, link), 500, None);
            });
        }
    });
    let turns = conductor.turns();
    assert!(turns.handed > 0 && turns.woken <= turns.handed, "a thread is woken for its turn only: {turns:?}");
}

/// MustSucceed that cannot: the device is lost, others are not.
#[test]
fn must_succeed_that_fails_costs_the_device() {
    // spec: memory §5.2, memory §9.3
    let host = host(VIRTUAL, 4 * MIB);
    let (first, second) = (client(&host), client(&host));
    let kept = second.pinned(SurfaceKind::Local, MIB);
    let surfaces: Vec<_> = (0..5).map(|_| first.gpu.create_surface(SurfaceKind::Local, MIB).unwrap()).collect();
    let all: Vec<_> = surfaces.iter().collect();
    let flags = CANT_TRIM | MakeResidentFlags::MUST_SUCCEED;
    assert_eq!(bring_in(&first.gpu, &all, flags).unwrap_err().status, NtStatus::NO_MEMORY);
    assert_eq!(first.gpu.device().state().unwrap(), d3dkmt::DeviceState::ErrorOutOfMemory);
    assert!(second.gpu.device().evict(list(&[&kept]), EvictFlags::empty()).is_ok());
}
