//! Events that turn a display black, and end its waits: its owner gives it up, goes or is lost; the shown primary is destroyed; the adapter
//! sleeps or is reset.

use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt::{DestroyFlags, DeviceState};
use ddi::PowerState;
use kmt_calls::{AllocationCall, Call, DisplayCall};
use wddm_types::{NtStatus, RawHandle};

use super::*;
use crate::stubborn::{Whims, wrapped};

fn is_black(host: &Host) -> bool {
    host.device_register(display::DISPLAY_CONTROL) & display::control::ENABLE == 0
}

/// A call that waits, without a thread.
fn begin(host: &Arc<Host>, link: &ProcessLink, call: DisplayCall) -> dxgk_host::Pending {
    host.begin_call(link.process(), Call::Display(call)).expect_err("it waits")
}

/// A game whose process the test knows.
fn with_link(host: &Arc<Host>) -> (Game, Arc<ProcessLink>) {
    let link = ProcessLink::new(Arc::clone(host));
    let game = Game::on(&link, 2);
    game.gpu.device().own_sources(&[SOURCE]).unwrap();
    game.gpu.device().set_display_mode(game.primaries[0].allocation()).unwrap();
    (game, link)
}

#[test]
fn a_process_that_dies_leaves_a_black_display_and_nothing_that_waits() {
    for profile in [profile(), queued()] {
        let (host, heard) = host_of(&profile, VIRTUAL);
        let (mut game, link) = with_link(&host);
        let device = game.gpu.device().handle();
        game.gpu.device().set_queued_limit(1).unwrap();
        game.flip(1, 4).unwrap();
        // This flip waits for a picture that is never drawn, because the draw writes the shown primary.
        game.draw(0, 1, 1);
        let context = game.stream.context().unwrap().handle();
        let primary = game.primaries[0].allocation().handle();
        let present = begin(&host, &link, DisplayCall::Flip { context, primary, interval: 1 });
        let blank = begin(&host, &link, DisplayCall::WaitForVerticalBlankEvent { device, source: SOURCE });
        assert!(!is_black(&host));
        host.process_died(link.process());
        for pending in [present, blank] {
            let answer = host.take_answer(pending).expect("it is answered").unwrap_err();
            assert_eq!(answer.status, NtStatus::DEVICE_REMOVED, "{answer}");
        }
        assert!(is_black(&host) && heard.dropped() + heard.shown().len() == 2);
        while host.step() {}
        host.check_invariants().unwrap();
        // The display is the next one's.
        let other = Game::new(&host, 2);
        other.flip(1, 1).unwrap();
        other.blank();
        assert!(!is_black(&host));
        drop((other, game));
    }
}

#[test]
fn a_device_in_error_shows_nothing_any_more() {
    for profile in [profile(), queued()] {
        let (host, heard) = host_of(&profile, VIRTUAL);
        let mut game = Game::new(&host, 2);
        game.flip(1, 4).unwrap();
        // An address without memory.
        let mut commands = Commands::new();
        commands.fill(wddm_types::GpuVa(0x7000_0000), 4096, 1);
        game.stream.submit(&game.gpu, None, &commands).unwrap();
        while game.gpu.device().state().unwrap() == DeviceState::Active {}
        assert!(is_black(&host));
        assert_eq!((heard.shown().len(), heard.dropped()), (0, 1));
        assert_eq!(game.flip(0, 1).unwrap_err().status, NtStatus::DEVICE_REMOVED);
        host.check_invariants().unwrap();
    }
}

#[test]
fn what_is_shown_is_destroyed_in_the_dark() {
    let (host, heard) = host_of(&profile(), VIRTUAL);
    let mut game = Game::new(&host, 4);
    let device = RawHandle(game.gpu.device().handle().0);
    let destroy = |game: &Game, primary: usize| {
        let allocations = vec![game.primaries[primary].allocation().handle()];
        let target = kmt_calls::AllocationTarget { allocations, ..Default::default() };
        let call = Call::Allocation(AllocationCall::DestroyAllocation { device, target, flags: DestroyFlags::empty() });
        game.gpu.device().link().call(call).unwrap();
    };
    // One that waits behind a drawing; one that waits for its interval; one that the driver has.
    game.flip(1, 1).unwrap();
    game.flip(2, 2).unwrap();
    game.draw(0, 1, 1);
    game.flip(3, 1).unwrap();
    destroy(&game, 3);
    destroy(&game, 2);
    assert_eq!((heard.dropped(), is_black(&host)), (1, false), "the others are shown as if nothing was");
    (0..3).for_each(|_| game.blank());
    assert_eq!((heard.shown().len(), heard.dropped()), (1, 2), "the one behind the drawing, when it was done");
    destroy(&game, 1);
    assert!(is_black(&host), "it was shown");
    host.check_invariants().unwrap();
    game.gpu.device().set_display_mode(game.primaries[0].allocation()).unwrap();
    assert!(!is_black(&host));
    drop(game);
    assert!(is_black(&host));
    host.check_invariants().unwrap();
}

/// A flip whose drawing is not over belongs to the mode in which it was made: a later mode does not show it, neither of the same size nor of
/// another one, and nothing waits for it.
#[test]
fn a_mode_ends_flips_that_wait_for_their_drawings() {
    // spec: memory §5.6, memory §5.7
    for (profile, size) in
        [profile(), queued()].into_iter().flat_map(|of| [(WIDTH, HEIGHT), (2 * WIDTH, HEIGHT)].map(|size| (of, size)))
    {
        let (host, heard) = host_of(&profile, VIRTUAL);
        let mut game = Game::new(&host, 2);
        let other = game.gpu.create_primary(SOURCE, size.0, size.1).unwrap();
        game.gpu.pin(&other).unwrap();
        let go = game.gpu.device().create_monitored_fence(d3dkmt::FenceFlags::empty(), 0).unwrap();
        game.stream.wait_on_gpu(&game.gpu, &go, 1).unwrap();
        game.draw(1, 1, 1);
        game.flip(1, 1).unwrap();
        game.gpu.device().set_display_mode(other.allocation()).unwrap();
        game.gpu.device().signal(&go, 1).unwrap();
        (0..3).for_each(|_| game.blank());
        let handed = heard.times(|event| matches!(event, Event::FlipHandedOver { .. }));
        assert_eq!((handed, heard.shown(), heard.dropped()), (vec![], vec![], 1), "{} {size:?}", profile.name);
        // No display shows the primary: its next drawing waits for none.
        game.draw(1, 2, 1);
        (0..2).for_each(|_| game.blank());
        assert_eq!(heard.times(|event| matches!(event, Event::PacketCompleted { .. })).len(), 2);
        game.flip_to(&other, 1).unwrap();
        (0..2).for_each(|_| game.blank());
        assert_eq!(heard.shown().len(), 1, "a flip of this mode");
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_sleep_is_dark_and_a_mode_brings_the_picture_back() {
    // spec: memory §1.10
    for profile in [profile(), queued(), mapped()] {
        let (host, heard) = host_of(&profile, VIRTUAL);
        let mut game = Game::new(&host, 2);
        game.draw(1, 0x77, 1);
        game.flip(1, 1).unwrap();
        game.blank();
        game.flip(0, 4).unwrap();
        host.power_transition(PowerState::Standby).unwrap();
        assert!(is_black(&host) && heard.dropped() == 1);
        assert_eq!(game.flip(0, 1).unwrap_err().status, NtStatus::RETRY);
        host.power_transition(PowerState::On).unwrap();
        let dark = game.flip(0, 1).unwrap_err();
        assert_eq!(dark.status, NtStatus::INVALID_PARAMETER, "{dark}");
        let screen = Arc::new(Screen::default());
        host.adapter(0).connect_monitor(0, Arc::clone(&screen) as Arc<dyn Monitor>);
        let mode = || game.gpu.device().set_display_mode(game.primaries[1].allocation());
        // A primary in system memory does not move for a sleep.
        if profile.name != "maps-displayed" {
            assert_eq!(mode().unwrap_err().status, NtStatus::RETRY, "it is on its way");
        }
        while host.step() {}
        mode().unwrap();
        (0..2).for_each(|_| game.blank());
        assert_eq!(screen.0.lock().unwrap().first().map(|(_, first, torn)| (*first, *torn)), Some((0x77, false)));
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_reset_is_dark_too_and_the_adapter_shows_again() {
    // spec: sync §4.4
    let breaks = Arc::new(AtomicBool::new(false));
    let armed = Arc::clone(&breaks);
    let build = Box::new(move |driver: &mut dyn ddi::Miniport, build: &mut ddi::BuildPagingBuffer<'_>| {
        driver.build_paging_buffer(build)?;
        if !build.immediate && build.written > 0 && armed.swap(false, Ordering::SeqCst) {
            // No such opcode: the engine stops.
            build.buffer[0] = 0x7f | 1 << 8;
        }
        Ok(())
    });
    let heard = Heard::default();
    let mut config = HostConfig { vram_bytes: 8 * MIB, ..HostConfig::new(&profile(), VIRTUAL) };
    config.tracer = Box::new(heard.clone());
    config.wrap_miniport = Some(wrapped(Whims { packets: true, build, ..Whims::default() }));
    let host = Host::start(config).unwrap();
    let (mut game, other) = (Game::new(&host, 3), Game::without_display(&host, 1));
    game.flip(1, 1).unwrap();
    game.draw(0, 1, 1);
    game.flip(2, 1).unwrap();
    breaks.store(true, Ordering::SeqCst);
    let surface = other.gpu.create_surface(softgpu_umd::SurfaceKind::Local, 65536).unwrap();
    let _ = other.gpu.pin(&surface);
    while host.step() {}
    assert_eq!(game.gpu.device().state().unwrap(), DeviceState::Reset);
    assert!(is_black(&host));
    assert_eq!((heard.shown().len(), heard.dropped()), (0, 2));
    host.check_invariants().unwrap();
    drop((game, other, surface));
    let game = Game::new(&host, 2);
    game.flip(1, 1).unwrap();
    game.blank();
    assert!(!is_black(&host) && heard.shown().len() == 1);
    host.check_invariants().unwrap();
}
