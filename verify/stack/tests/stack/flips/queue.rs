//! The flip queue of the hardware: flips ahead with their times, the log, the interrupts that waiters need, flips that the kernel takes back;
//! and drivers that break its contract.

use d3dkmt::{DestroyFlags, DeviceState};
use ddi::{DrainNeeded, DriverStatus, FeatureId, FlipRefusal, Interrupt, PlaneVsync};
use dxgk_host::HostError;
use dxgkrnl::{FeaturePolicy, RecoveryPolicy};
use kmt_calls::{AllocationCall, Call};
use wddm_types::NtStatus;

use super::*;
use crate::stubborn::{QueueWhims, Whims, wrapped};

/// When flips were shown, by the log; 0: never.
fn logged(heard: &Heard) -> Vec<u64> {
    let heard = heard.0.lock().unwrap();
    let time = |event: &Event| if let Event::FlipLogged { at_ticks, .. } = event { Some(*at_ticks) } else { None };
    heard.iter().filter_map(|(_, event)| time(event)).collect()
}

fn handed(heard: &Heard) -> usize {
    heard.times(|event| matches!(event, Event::FlipHandedOver { .. })).len()
}

#[test]
fn an_adapter_says_whether_flips_are_queued_on_the_hardware() {
    // spec: sync §2.1, sync §4.6
    let caps = |profile: &Profile, features| {
        let config = HostConfig { features, ..HostConfig::new(profile, VIRTUAL) };
        let host = Host::start(config).unwrap();
        let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).unwrap();
        gpu.adapter().wddm_3_0_caps().unwrap().bits()
    };
    let off = || FeaturePolicy::without([FeatureId::HWFLIPQUEUE]);
    assert_eq!(caps(&queued(), FeaturePolicy::default()), 0b110, "STABLE and enabled");
    assert_eq!(caps(&queued(), off()), 0b010, "the kernel keeps the queue");
    assert_eq!(caps(&profile(), FeaturePolicy::default()), 0);
}

fn blanks_at(host: &Host, blanks: &[u64]) -> Vec<u64> {
    blanks.iter().map(|blank| blank_at(host, *blank)).collect()
}

/// Time passes, until behind a blank.
fn run_to(host: &Host, blank: u64) {
    while host.step_until(blank_at(host, blank)) {}
}

/// A player: flips ahead, and then it sleeps.
fn play(profile: &Profile, features: FeaturePolicy, intervals: &[u32]) -> (Arc<Host>, Heard, Game) {
    let (host, heard) = host_with(profile, features);
    let game = Game::new(&host, intervals.len() + 1);
    game.gpu.device().set_queued_limit(16).unwrap();
    for (nth, interval) in intervals.iter().enumerate() {
        game.flip(nth + 1, *interval).unwrap();
    }
    (host, heard, game)
}

fn host_with(profile: &Profile, features: FeaturePolicy) -> (Arc<Host>, Heard) {
    let heard = Heard::default();
    let tracer = Box::new(heard.clone());
    let config = HostConfig { vram_bytes: 8 * MIB, features, tracer, ..HostConfig::new(profile, VIRTUAL) };
    (Host::start(config).unwrap(), heard)
}

#[test]
fn flips_are_handed_over_ahead_and_each_is_shown_in_its_time() {
    // spec: sync §4.6, interval mapping
    let intervals = [1, 2, 3, 1, 1, 4, 1, 1, 1, 1];
    let (host, heard, game) = play(&queued(), FeaturePolicy::default(), &intervals);
    assert_eq!(handed(&heard), 1, "the kernel does not know yet when the blanks are");
    run_to(&host, 1);
    assert_eq!((handed(&heard), heard.shown().len()), (10, 1));
    while host.step() {}
    let times = blanks_at(&host, &[1, 3, 6, 7, 8, 12, 13, 14, 15, 16]);
    assert_eq!((logged(&heard), heard.shown().len()), (times, 10));
    assert_eq!(heard.interrupts(), 2, "the first and the last");
    host.check_invariants().unwrap();
    // After a while an interval is over.
    (0..4).for_each(|_| game.blank());
    let before = blanks(&host);
    game.flip(1, 4).unwrap();
    while host.step() {}
    assert_eq!(logged(&heard).pop(), Some(blank_at(&host, before + 1)));
    // Where the kernel keeps the queue it counts the blanks itself.
    let (host, heard, _game) = play(&profile(), FeaturePolicy::default(), &intervals);
    while host.step() {}
    assert_eq!((heard.shown().len(), heard.interrupts()), (10, 20));
}

#[test]
fn without_the_feature_the_kernel_keeps_the_queue() {
    // spec: sync §3.1, sync §4.6
    let plays = |host: &Arc<Host>, heard: &Heard, enabled: bool| {
        let game = Game::new(host, 2);
        let state = game.gpu.adapter().is_feature_enabled(FeatureId::HWFLIPQUEUE.0).unwrap();
        assert!(state.known && state.enabled == enabled && state.supported_by_driver);
        game.flip(1, 1).unwrap();
        while host.step() {}
        assert_eq!((heard.shown().len(), logged(heard)), (1, vec![]));
    };
    let (host, heard) = host_with(&queued(), FeaturePolicy::without([FeatureId::HWFLIPQUEUE]));
    plays(&host, &heard, false);
    // Neither where a source takes one flip only.
    let mut shallow = queued();
    shallow.displays.queue_entries = 1;
    let (host, heard) = host_with(&shallow, FeaturePolicy::default());
    plays(&host, &heard, true);
}

#[test]
fn who_waits_hears_of_the_flip_that_matters_and_of_no_other() {
    // spec: sync §4.6, InterruptTargetPresentId
    let (host, heard, mut game) = play(&queued(), FeaturePolicy::default(), &[1; 8]);
    run_to(&host, 1);
    // A draw into the primary that is on the screen from the third blank to the fourth.
    game.draw(3, 9, 1);
    while host.step() {}
    let told = heard.times(|event| matches!(event, Event::DisplayInterrupted { .. }));
    assert_eq!(told, blanks_at(&host, &[1, 4, 8]), "the first, the one that frees the surface, the last");
    let started = heard.times(|event| matches!(event, Event::PacketStarted { .. }));
    assert_eq!(started, blanks_at(&host, &[4]));
    // The kernel finds a flip that completed without an interrupt when a call needs it.
    for primary in [1, 2, 3] {
        game.flip(primary, 1).unwrap();
    }
    let before = blanks(&host);
    while blanks(&host) < before + 2 {
        game.blank();
    }
    assert_eq!(game.flip(4, 1).unwrap(), 2, "two of the four are over");
}

#[test]
fn of_several_flips_whose_time_has_come_the_newest_is_shown_and_the_others_are_over() {
    // spec: sync §4.6
    let queue = Box::new(|driver: &mut dyn ddi::FlipQueue, flip: ddi::QueueFlip| {
        driver.queue_flip(ddi::QueueFlip { target_flip_time: 1, ..flip })
    });
    let (host, heard, game) = stubborn(QueueWhims { queue, ..QueueWhims::default() }, |_| ());
    let game = game(5);
    game.gpu.device().set_queued_limit(16).unwrap();
    for primary in 1..5 {
        game.flip(primary, 1).unwrap();
    }
    while host.step() {}
    assert_eq!(logged(&heard), [blank_at(&host, 1), 0, 0, blank_at(&host, 2)]);
    assert_eq!((heard.shown().len(), heard.dropped()), (2, 2));
    assert_eq!(game.flip(1, 1).unwrap(), 1, "none of them is queued");
    host.check_invariants().unwrap();
}

#[test]
fn what_a_queue_does_not_take_among_others_waits_until_it_is_empty() {
    // spec: sync §4.6, HwFlipQueueDrainNeeded
    let (host, heard, game) = play(&queued(), FeaturePolicy::default(), &[1, 1, 1]);
    game.blank();
    game.flip(1, 0).unwrap();
    game.flip(2, 1).unwrap();
    let drains = heard.times(|event| matches!(event, Event::FlipAwaitsDrain { .. }));
    assert_eq!((drains.len(), handed(&heard)), (1, 3));
    while host.step() {}
    let mut times = blanks_at(&host, &[1, 2, 3, 3, 4]);
    assert_eq!(logged(&heard), times, "at once when the third is shown, and the next at the blank behind it");
    times.dedup();
    let told = heard.times(|event| matches!(event, Event::DisplayInterrupted { immediate: false, .. }));
    assert_eq!(told, times[..1].iter().chain(&times[2..]).copied().collect::<Vec<_>>());
    // All sources, one of which has nothing: the same. None that is queued: the hardware is reset.
    for drain in [DrainNeeded::AllPlanes, DrainNeeded::AllSources] {
        let mut refused = false;
        let queue = Box::new(move |driver: &mut dyn ddi::FlipQueue, flip: ddi::QueueFlip| match flip.present_id {
            3 if !std::mem::replace(&mut refused, true) => Err(FlipRefusal::Retry(drain)),
            _ => driver.queue_flip(flip),
        });
        let (host, heard, game) = stubborn(QueueWhims { queue, ..QueueWhims::default() }, |_| ());
        let game = game(4);
        for primary in 1..4 {
            game.flip(primary, 1).unwrap();
        }
        while host.step() {}
        assert_eq!(logged(&heard), blanks_at(&host, &[1, 2, 3]), "{drain:?}");
    }
}

#[test]
fn a_queue_that_takes_nothing_though_it_is_empty_costs_a_reset() {
    // spec: sync §4.6, sync §5
    let refusals = [FlipRefusal::Retry(DrainNeeded::Plane), FlipRefusal::Failed(DriverStatus::InvalidParameter("no"))];
    for refusal in refusals {
        let queue = Box::new(move |_: &mut dyn ddi::FlipQueue, _: ddi::QueueFlip| Err(refusal));
        let (host, heard, game) = stubborn(QueueWhims { queue, ..QueueWhims::default() }, |_| ());
        let game = game(2);
        let _ = game.flip(1, 1);
        assert_eq!((host.stopped(), heard.dropped()), (None, 1));
        assert_eq!(game.gpu.device().state().unwrap(), DeviceState::Reset);
        host.check_invariants().unwrap();
    }
}

#[test]
fn what_is_destroyed_is_taken_back_and_the_others_are_shown() {
    // spec: sync §4.6, CancelFlips
    let (host, heard, game) = play(&queued(), FeaturePolicy::default(), &[1; 6]);
    game.blank();
    let destroy = |primary: usize| {
        let device = game.gpu.device().handle();
        let allocations = vec![game.primaries[primary].allocation().handle()];
        let target = kmt_calls::AllocationTarget { allocations, ..Default::default() };
        let call = Call::Allocation(AllocationCall::DestroyAllocation { device, target, flags: DestroyFlags::empty() });
        game.gpu.device().link().call(call).unwrap();
    };
    destroy(4);
    let taken = |event: &Event| matches!(event, Event::FlipsTakenBack { count: 3, .. });
    assert_eq!((heard.times(taken).len(), heard.dropped(), handed(&heard)), (1, 1, 8));
    host.check_invariants().unwrap();
    while host.step() {}
    assert_eq!(logged(&heard), blanks_at(&host, &[1, 2, 3, 4, 5]), "the others move up");
    host.check_invariants().unwrap();
    assert_eq!(host.device_register(display::DISPLAY_CONTROL) & 1, 1);
}

#[test]
fn a_monitor_sees_every_flip_of_the_queue_whole() {
    // spec: memory §5.6, memory §10.1, sync §4.6
    let (host, heard, mut game) = play(&queued(), FeaturePolicy::default(), &[]);
    let screen = Arc::new(Screen::default());
    host.adapter(0).connect_monitor(0, Arc::clone(&screen) as Arc<dyn Monitor>);
    for _ in 0..4 {
        let primary = game.gpu.create_primary(SOURCE, WIDTH, HEIGHT).unwrap();
        game.gpu.pin(&primary).unwrap();
        game.primaries.push(primary);
    }
    for frame in 1..=20u32 {
        game.draw(frame as usize % 5, frame, 200);
        game.flip(frame as usize % 5, 1 + frame % 3).unwrap();
    }
    while heard.shown().len() < 20 {
        game.blank();
    }
    game.blank();
    screen.has_seen_each(20);
}

/// A host whose driver breaks the contract of its flip queue, and a maker of games on it.
fn stubborn(flip_queue: QueueWhims, change: impl FnOnce(&mut Whims)) -> (Arc<Host>, Heard, impl Fn(usize) -> Game) {
    let heard = Heard::default();
    let mut whims = Whims { packets: true, flip_queue, ..Whims::default() };
    change(&mut whims);
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        tracer: Box::new(heard.clone()),
        wrap_miniport: Some(wrapped(whims)),
        recovery: RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() },
        ..HostConfig::new(&queued(), VIRTUAL)
    };
    let host = Host::start(config).unwrap();
    let on = Arc::clone(&host);
    (host, heard, move |primaries| Game::new(&on, primaries))
}

/// The reason why the adapter stopped when a process flipped.
fn stopped(flip_queue: QueueWhims, change: impl FnOnce(&mut Whims)) -> String {
    let (host, _, game) = stubborn(flip_queue, change);
    let game = game(3);
    let _ = game.flip(1, 1);
    let _ = game.gpu.device().wait_for_vertical_blank(SOURCE);
    let _ = game.flip(2, 2);
    let _ = game.flip(0, 4);
    drop(game);
    while host.step() {}
    host.check_invariants().unwrap();
    host.stopped().unwrap_or_default()
}

#[test]
fn a_driver_that_breaks_the_contract_of_the_queue_stops_its_adapter() {
    // spec: sync §4.6, sync §5
    let whims = QueueWhims::default;
    let reason = stopped(QueueWhims { log_end: Box::new(|_| 256), ..whims() }, |_| ());
    assert!(reason.contains("has no entry 256"), "{reason}");
    let reason = stopped(QueueWhims { log_end: Box::new(|end| end + 1), ..whims() }, |_| ());
    assert!(reason.contains("flip 0, which is not the next"), "{reason}");
    let reason = stopped(QueueWhims { cancelled: Box::new(|_| 77), ..whims() }, |_| ());
    assert!(reason.contains("took back 77"), "{reason}");
    let queue =
        |_: &mut dyn ddi::FlipQueue, _: ddi::QueueFlip| Err(FlipRefusal::Failed(DriverStatus::Unsuccessful("broken")));
    let reason = stopped(QueueWhims { queue: Box::new(queue), ..whims() }, |_| ());
    assert!(reason.contains("SetVidPnSourceAddressWithMultiPlaneOverlay3"), "{reason}");
    let keeps_log = |buffer: bool| if buffer { Ok(()) } else { Err(DriverStatus::NotSupported("no way back")) };
    let reason = stopped(QueueWhims { log_buffer: Box::new(keeps_log), ..whims() }, |_| ());
    assert!(reason.contains("SetFlipQueueLogBuffer of no buffer"), "{reason}");
    let say = |layer: u32| {
        Box::new(move |interrupt: Interrupt<'_>, notify: &mut dyn ddi::Notify| match interrupt {
            Interrupt::CrtcVsyncWithMultiPlaneOverlay3 { target, planes, flags } => {
                let planes = &[PlaneVsync { layer, ..planes[0] }];
                notify.interrupt(Interrupt::CrtcVsyncWithMultiPlaneOverlay3 { target, planes, flags });
            }
            other => notify.interrupt(other),
        })
    };
    let reason = stopped(whims(), |whims| whims.say = say(3));
    assert!(reason.contains("plane 3"), "{reason}");
    assert_eq!(stopped(whims(), |whims| whims.say = say(0)), "");
    // A log that the driver refuses costs the mode only.
    let refuses = |buffer: bool| if buffer { Err(DriverStatus::NoMemory("no room for a log")) } else { Ok(()) };
    let (host, ..) = stubborn(QueueWhims { log_buffer: Box::new(refuses), ..whims() }, |_| ());
    let game = Game::without_display(&host, 1);
    game.gpu.device().own_sources(&[SOURCE]).unwrap();
    let refusal = game.gpu.device().set_display_mode(game.primaries[0].allocation()).unwrap_err();
    assert_eq!((refusal.status, host.stopped()), (NtStatus::NO_MEMORY, None));
    host.check_invariants().unwrap();
}

#[test]
fn a_driver_that_promises_a_queue_has_it() {
    // spec: sync §2.11, sync §4.6
    let start = |whims: Whims| {
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            wrap_miniport: Some(wrapped(Whims { packets: true, ..whims })),
            ..HostConfig::new(&queued(), VIRTUAL)
        };
        match Host::start(config) {
            Err(HostError::Adapter(refused)) => refused.to_string(),
            Err(other) => panic!("{other}"),
            Ok(_) => String::new(),
        }
    };
    let absent = QueueWhims { absent: true, ..QueueWhims::default() };
    assert!(start(Whims { flip_queue: absent, ..Whims::default() }).contains("entry points of the flip queue"));
}
