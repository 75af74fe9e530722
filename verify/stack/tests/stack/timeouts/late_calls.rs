//! Drivers that take their time (sync §4.4, TdrDdiDelay). In virtual time a call takes none, unless it moves the hand of the clock by
//! which it is measured.

use std::sync::atomic::{AtomicBool, AtomicU64};

use d3dkmt::FenceFlags;
use dxgk_host::{AdapterSetup, DriverClock, Mode, ProcessLink};
use kmt_calls::{OpenSyncObjectRequest, SyncObjectAccess};
use softgpu_umd::{Stream, StreamConfig};

use super::groups::until_asked;
use super::*;
use crate::stubborn::{Whims, wrapped};
use stack::world::gpu_on;

/// `TdrDdiDelay`.
const MAY: u64 = 5_000 * MS;

/// A clock that goes on when a driver says so.
#[derive(Debug, Default)]
pub struct Hand(AtomicU64);

impl Hand {
    pub fn pass(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::SeqCst);
    }
}

impl DriverClock for Hand {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

fn kept(event: &Event) -> bool {
    matches!(
        event,
        Event::DriverCallLate { .. }
            | Event::AdapterReset { .. }
            | Event::AdapterStopped { .. }
            | Event::EngineReset { .. }
    )
}

/// Two adapters. The first one's driver takes its time, as this says.
fn two(recovery: RecoveryPolicy, hand: &Arc<Hand>, whims: Whims) -> (Arc<Host>, Heard, Arc<Fault>) {
    let heard = Heard::of(kept);
    let (host, _, fault) = host_with(recovery, |config| {
        let profile = Profile::named("discrete-4k").expect("a built-in profile");
        let sizes =
            AdapterSetup { vram_bytes: 8 * MIB, system_bytes: 64 * MIB, ..AdapterSetup::new(profile, Mode::Real) };
        config.others.push(AdapterSetup { page_table_bytes: 16 * MIB, ..sizes });
        config.wrap_miniport = Some(wrapped(whims));
        config.driver_clock = Some(Arc::clone(hand) as Arc<dyn DriverClock>);
        config.tracer = Box::new(heard.clone());
    });
    (host, heard, fault)
}

/// Work of a process does not end, and neither does it leave its engine.
fn hangs(host: &Arc<Host>, fault: &Fault, how: Hold) {
    let mut hung = client(host);
    fault.hold(how);
    let surface = hung.pinned(SurfaceKind::Local, MIB);
    let never = works(&mut hung, &surface, 1_000);
    let asleep = awaits(host, &hung, hung.stream.progress(), never);
    drain(host);
    host.take_answer(asleep).expect("it is over").expect_err("the device is lost");
}

fn goes_on(host: &Arc<Host>, adapter: usize) {
    let gpu = gpu_on(host, &ProcessLink::new(Arc::clone(host)), adapter);
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let value = stream.submit(&gpu, &[], &Commands::new()).expect("a submission");
    stream.wait(&gpu, value).expect("it runs");
}

/// A driver of which a call of the reset takes so long.
fn slow(call: &'static str, hand: &Arc<Hand>, ns: u64) -> Whims {
    let (resets, asked) = (Arc::clone(hand), Arc::clone(hand));
    let reset = Box::new(move |driver: &mut dyn ddi::Miniport, host: &mut dyn ddi::Host, down: bool| {
        if call == if down { "ResetFromTimeout" } else { "RestartFromTimeout" } {
            resets.pass(ns);
        }
        if down { driver.reset_from_timeout(host) } else { driver.restart_from_timeout(host) }
    });
    let group = Box::new(move |driver: &mut dyn ddi::Miniport, node| {
        if call == "QueryDependentEngineGroup" {
            asked.pass(ns);
        }
        driver.query_dependent_engine_group(node)
    });
    Whims { reset, group, ..Whims::default() }
}

#[test]
fn a_call_of_a_reset_that_comes_back_too_late_is_the_end_of_its_adapter_and_of_no_other() {
    // spec: sync §4.4, sync §5
    for call in ["QueryDependentEngineGroup", "ResetHwEngine", "ResetFromTimeout", "RestartFromTimeout"] {
        for late in [false, true] {
            let (hand, ns) = (Arc::new(Hand::default()), MAY + u64::from(late));
            let (host, heard, fault) = two(impatient(), &hand, slow(call, &hand, ns));
            if call == "ResetHwEngine" {
                let passes = Arc::clone(&hand);
                *fault.disabled.lock().unwrap() = Some(Box::new(move || passes.pass(ns)));
            }
            let adapter_reset = call.ends_with("FromTimeout");
            hangs(&host, &fault, if adapter_reset { Hold::Sticks } else { Hold::Runs });
            if late {
                let stopped = host.stopped().unwrap_or_else(|| panic!("{call} took its time"));
                assert!(stopped.contains(&format!("in {call} for 5000 ms")), "{stopped}");
                let told = heard.count(|event| {
                    matches!(event, Event::DriverCallLate { adapter: 0, call: named, took_ns } if named == call && *took_ns == ns)
                });
                assert_eq!(told, 1, "{call}: {:?}", heard.take());
                goes_on(&host, 1);
            } else {
                assert_eq!(
                    (host.stopped(), heard.count(|event| matches!(event, Event::DriverCallLate { .. }))),
                    (None, 0)
                );
                goes_on(&host, 0);
            }
            host.check_invariants().unwrap();
        }
    }
}

#[test]
fn a_call_that_comes_back_late_while_nothing_is_reset_is_told_and_no_more() {
    // spec: sync §4.4
    for (looks, told) in [(true, 1), (false, 0)] {
        let hand = Arc::new(Hand::default());
        let (passes, mut left) = (Arc::clone(&hand), 1);
        let build = Box::new(move |driver: &mut dyn ddi::Miniport, build: &mut ddi::BuildPagingBuffer<'_>| {
            if std::mem::take(&mut left) > 0 {
                passes.pass(2 * MAY);
            }
            driver.build_paging_buffer(build)
        });
        let delay_ns = impatient().delay_ns.filter(|_| looks);
        let policy = RecoveryPolicy { delay_ns, ..impatient() };
        let (host, heard, _) = two(policy, &hand, Whims { build, ..Whims::default() });
        goes_on(&host, 0);
        assert_eq!(heard.take().len(), told, "without timeout detection the kernel measures no calls");
        assert_eq!(host.stopped(), None);
    }
}

/// The call is the last of its turn, and no other turn follows: adapters that have a fence of the stopped one hear of that in the turn itself.
#[test]
fn a_driver_that_is_late_while_an_engine_is_to_be_reset_ends_the_waits_on_other_adapters_at_once() {
    // spec: sync §4.4, sync §3.12
    let (hand, late) = (Arc::new(Hand::default()), Arc::new(AtomicBool::new(false)));
    let (host, heard, fault) = host_with(impatient(), |config| {
        config.profile.reset_group = Profile::named("paired-engines").expect("a built-in profile").reset_group;
        let profile = Profile::named("discrete-4k").expect("a built-in profile");
        let sizes =
            AdapterSetup { vram_bytes: 8 * MIB, system_bytes: 64 * MIB, ..AdapterSetup::new(profile, Mode::Real) };
        config.others.push(AdapterSetup { page_table_bytes: 16 * MIB, ..sizes });
        let (passes, is_late) = (Arc::clone(&hand), Arc::clone(&late));
        let process = Box::new(move |_: &mut dyn ddi::Host, _: &ddi::CreateProcess<'_>| {
            passes.pass(u64::from(is_late.load(Ordering::SeqCst)) * 2 * MAY);
            Ok(())
        });
        config.wrap_miniport = Some(wrapped(Whims { process, ..Whims::default() }));
        config.driver_clock = Some(Arc::clone(&hand) as Arc<dyn DriverClock>);
    });
    let mut hung = client(&host);
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING | FenceFlags::CROSS_ADAPTER;
    let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
    let fence = hung.gpu.device().create_native_fence(request).expect("a fence");
    let name = fence.share(SyncObjectAccess::ALL_ACCESS).expect("a name");
    let elsewhere = gpu_on(&host, &ProcessLink::new(Arc::clone(&host)), 1);
    let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
    let theirs = elsewhere.device().open_sync_object(request).expect("it has a name");
    let event = d3dkmt::Event::create(elsewhere.device().link(), false).expect("an event");
    elsewhere.device().wait_async(&[(&theirs, 1)], &event, WaitFlags::empty()).expect("it waits");
    fault.hold(Hold::Runs);
    fault.hold_queue(0, Hold::Runs);
    let surface = hung.pinned(SurfaceKind::Local, MIB);
    drain(&host);
    heard.take();
    let never = works(&mut hung, &surface, 1_000);
    let _asleep = awaits(&host, &hung, hung.stream.progress(), never);
    until_asked(&host, &heard);
    assert!(!event.take().expect("it is there") && host.stopped().is_none());
    let link = ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>;
    let adapter = d3dkmt::Adapter::open_first(link).expect("it is enumerated");
    late.store(true, Ordering::SeqCst);
    let opened = d3dkmt::Device::create(&adapter);
    host.check_invariants().expect("in order");
    let stopped = host.stopped().expect("the driver was late");
    assert!(stopped.contains("for 10000 ms"), "{stopped}");
    assert_eq!((event.take().expect("it is there"), theirs.current()), (true, u64::MAX));
    assert!(opened.is_err(), "the adapter has stopped");
}

/// Nothing that a computer does takes no time.
#[test]
fn in_real_time_the_computers_clock_measures() {
    // spec: sync §4.4
    let heard = Heard::of(kept);
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let patient = RecoveryPolicy { delay_ns: Some(900_000 * MS), ..RecoveryPolicy::default() };
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(heard.clone()),
        recovery: RecoveryPolicy { ddi_delay_ns: 0, ..patient },
        ..HostConfig::new(profile, Mode::Real)
    };
    let host = Host::start(config).expect("the host starts");
    goes_on(&host, 0);
    assert!(heard.count(|event| matches!(event, Event::DriverCallLate { .. })) > 0);
    assert_eq!((host.stopped(), heard.count(|event| matches!(event, Event::AdapterStopped { .. }))), (None, 0));
}
