//! Calls that the kernel refuses, each with its status and without any change; and drivers that break the contract of displays.

use d3dkmt::{DeviceState, EvictFlags};
use ddi::{DriverStatus, Interrupt, InterruptFlags};
use kmt_calls::{AdapterCall, Call, DisplayCall, Reply, SourceOwnerType};
use wddm_types::{NtStatus, VidPnTargetId};

use super::*;
use crate::stubborn::{Whims, wrapped};

fn status<T: std::fmt::Debug>(result: Result<T, Refusal>) -> NtStatus {
    result.unwrap_err().status
}

#[test]
fn a_display_has_one_owner_who_alone_changes_it() {
    let (host, _) = host_of(&profile(), VIRTUAL);
    let (game, other) = (Game::new(&host, 2), Game::without_display(&host, 2));
    let in_use = NtStatus::GRAPHICS_VIDPN_SOURCE_IN_USE;
    assert_eq!(status(other.gpu.device().own_sources(&[SOURCE])), in_use);
    assert_eq!(status(other.gpu.device().set_display_mode(other.primaries[0].allocation())), NtStatus::ACCESS_DENIED);
    assert_eq!(status(other.flip(1, 1)), NtStatus::ACCESS_DENIED);
    let no_source = NtStatus::GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE;
    assert_eq!(status(game.gpu.device().own_sources(&[SOURCE, VidPnSourceId(1)])), no_source);
    // Every process with a device of the adapter may wait for its blanks.
    other.blank();
    game.gpu.device().own_sources(&[]).unwrap();
    assert_eq!(status(game.flip(1, 1)), NtStatus::ACCESS_DENIED);
    assert_eq!(status(other.gpu.device().wait_for_vertical_blank(SOURCE)), NtStatus::INVALID_PARAMETER, "it is off");
    other.gpu.device().own_sources(&[SOURCE]).unwrap();
    assert_eq!(status(other.flip(1, 1)), NtStatus::INVALID_PARAMETER, "no mode");
    other.gpu.device().set_display_mode(other.primaries[0].allocation()).unwrap();
    other.flip(1, 1).unwrap();
}

/// A device owns a source exclusively, or takes itself for its owner; beside the desktop no device presents.
#[test]
fn a_source_has_owners_of_one_type_for_each_device() {
    let (host, _) = host_of(&profile(), VIRTUAL);
    let games = [Game::without_display(&host, 2), Game::without_display(&host, 2)];
    let [one, other] = games.each_ref().map(|game| game.gpu.device());
    let owns = |device: &d3dkmt::Device, list: &[SourceOwnerType]| {
        let sources = list.iter().map(|way| (SOURCE, *way)).collect();
        let call = DisplayCall::SetVidPnSourceOwner { device: device.handle(), sources };
        device.link().call(Call::Display(call)).map_or_else(|refusal| refusal.status, |_| NtStatus::SUCCESS)
    };
    let opened = one.link().call(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: host.luid() }));
    let Ok(Reply::Handle(adapter)) = opened else { panic!("the adapter opens: {opened:?}") };
    let occluded = || {
        let call = DisplayCall::CheckVidPnExclusiveOwnership { adapter, source: SOURCE };
        one.link().call(Call::Display(call)).is_err_and(|refusal| refusal.status == NtStatus::GRAPHICS_PRESENT_OCCLUDED)
    };
    use SourceOwnerType::{Emulated, Exclusive, ExclusiveGdi, Shared};
    let (invalid, in_use) = (NtStatus::INVALID_PARAMETER, NtStatus::GRAPHICS_VIDPN_SOURCE_IN_USE);
    for (device, list, answer, hidden) in [
        (one, &[Emulated][..], NtStatus::SUCCESS, false),
        (one, &[Exclusive], invalid, false),
        (other, &[Emulated], NtStatus::SUCCESS, false),
        (one, &[], NtStatus::SUCCESS, false),
        (one, &[Shared], in_use, false),
        (one, &[ExclusiveGdi], invalid, false),
        (one, &[Exclusive, Emulated], invalid, false),
        (one, &[Exclusive], NtStatus::SUCCESS, true),
        (one, &[Emulated], invalid, true),
        (one, &[Shared], invalid, true),
        (other, &[Exclusive], invalid, true),
        (other, &[], NtStatus::SUCCESS, true),
        (other, &[Exclusive], in_use, true),
        (other, &[Emulated], in_use, true),
        (one, &[], NtStatus::SUCCESS, false),
        (other, &[Exclusive], NtStatus::SUCCESS, true),
    ] {
        assert_eq!((owns(device, list), occluded()), (answer, hidden), "{list:?}");
    }
    host.check_invariants().expect("the kernel's invariants hold");
}

#[test]
fn wrong_arguments_are_refused() {
    let (host, _) = host_of(&profile(), VIRTUAL);
    let game = Game::new(&host, 2);
    let device = game.gpu.device();
    assert_eq!(status(device.set_queued_limit(17)), NtStatus::INVALID_PARAMETER);
    let limit = || device.link().call(Call::Display(DisplayCall::GetQueuedLimit { device: device.handle() }));
    assert_eq!(limit(), Ok(Reply::QueuedLimit(3)), "of a new device");
    device.set_queued_limit(7).unwrap();
    assert_eq!(limit(), Ok(Reply::QueuedLimit(7)));
    device.set_queued_limit(0).unwrap();
    assert_eq!(limit(), Ok(Reply::QueuedLimit(3)), "0 restores it");
    assert_eq!(status(game.flip(1, 5)), NtStatus::INVALID_PARAMETER);
    let no_source = device.wait_for_vertical_blank(VidPnSourceId(3));
    assert_eq!(status(no_source), NtStatus::INVALID_PARAMETER);
    let smaller = game.gpu.create_primary(SOURCE, WIDTH, HEIGHT - 1).unwrap();
    game.gpu.pin(&smaller).unwrap();
    let plain = game.gpu.create_surface(softgpu_umd::SurfaceKind::Local, 4096).unwrap();
    game.gpu.pin(&plain).unwrap();
    for wrong in [&smaller, &plain] {
        assert_eq!(status(game.flip_to(wrong, 1)), NtStatus::INVALID_PARAMETER);
    }
    assert_eq!(status(device.set_display_mode(plain.allocation())), NtStatus::INVALID_PARAMETER, "no primary");
    let away = game.gpu.create_primary(SOURCE, WIDTH, HEIGHT).unwrap();
    assert_eq!(status(device.set_display_mode(away.allocation())), NtStatus::INVALID_PARAMETER, "not on the list");
    // spec: sync §3.17
    let hardware = device.create_context(NodeId(0)).unwrap();
    let primary = away.allocation().handle();
    let call = Call::Display(DisplayCall::Flip { context: hardware.handle(), primary, interval: 1 });
    assert_eq!(status(device.link().call(call)), NtStatus::INVALID_PARAMETER);
    let flags = kmt_calls::QueueFlags::USER_MODE_SUBMISSION;
    let own = kmt_calls::QueueCall::CreateHwQueue { context: hardware.handle(), flags, private_data: Vec::new() };
    let Ok(kmt_calls::Reply::HwQueue(own)) = device.link().call(Call::Queue(own)) else { panic!("a queue") };
    let listed = game.primaries[1].allocation().handle();
    let call = Call::Display(DisplayCall::FlipOnHwQueue { queue: own.queue, primary: listed, interval: 1 });
    assert_eq!(status(device.link().call(call)), NtStatus::INVALID_PARAMETER, "its process feeds it");
    // spec: memory §5.6, memory §9.3: a submission that names what is not listed costs the device its life
    assert_eq!(status(game.flip_to(&away, 1)), NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE);
    assert_eq!(device.state().unwrap(), DeviceState::ErrorDmaFault);
    host.check_invariants().unwrap();
}

#[test]
fn what_is_given_away_before_it_is_shown_is_not_shown() {
    let (host, heard) = host_of(&profile(), VIRTUAL);
    let game = Game::new(&host, 3);
    // A pinned primary stays whatever its list says.
    game.flip(1, 1).unwrap();
    let list = vec![game.primaries[1].allocation().handle()];
    game.gpu.device().evict(list, EvictFlags::empty()).unwrap();
    game.blank();
    assert_eq!((heard.shown().len(), heard.dropped()), (1, 0));
    host.check_invariants().unwrap();
    game.flip(2, 1).unwrap();
    (0..2).for_each(|_| game.blank());
    assert_eq!(heard.shown().len(), 2);
    host.check_invariants().unwrap();
}

#[test]
fn an_adapter_that_only_renders_has_no_displays() {
    let (host, _) = host_of(Profile::named("datacenter").unwrap(), VIRTUAL);
    let game = Game::without_display(&host, 1);
    assert!(game.gpu.adapter().info().unwrap().displays.is_empty());
    assert_eq!(status(game.gpu.device().own_sources(&[SOURCE])), NtStatus::NOT_SUPPORTED);
    assert_eq!(status(game.flip(0, 1)), NtStatus::NOT_SUPPORTED);
    assert_eq!(status(game.gpu.device().wait_for_vertical_blank(SOURCE)), NtStatus::NOT_SUPPORTED);
}

fn broken(whims: Whims) -> (Arc<Host>, Game) {
    let mut config = HostConfig { vram_bytes: 8 * MIB, ..HostConfig::new(&profile(), VIRTUAL) };
    config.wrap_miniport = Some(wrapped(Whims { packets: true, ..whims }));
    let host = Host::start(config).unwrap();
    let game = Game::new(&host, 2);
    (host, game)
}

#[test]
fn a_blank_of_no_target_and_an_address_that_is_refused_stop_the_adapter() {
    // spec: sync §5
    let say = Box::new(|interrupt: Interrupt<'_>, notify: &mut dyn ddi::Notify| {
        if let Interrupt::CrtcVsync { physical_address, .. } = interrupt {
            let flags = InterruptFlags::empty();
            notify.interrupt(Interrupt::CrtcVsync { target: VidPnTargetId(9), physical_address, flags });
        } else {
            notify.interrupt(interrupt);
        }
    });
    let (host, game) = broken(Whims { say, ..Whims::default() });
    game.flip(1, 1).unwrap();
    assert_eq!(status(game.gpu.device().wait_for_vertical_blank(SOURCE)), NtStatus::DEVICE_REMOVED);
    assert!(host.stopped().is_some_and(|reason| reason.contains("target 9")), "{:?}", host.stopped());
    let mut calls = 0;
    let screen = Box::new(move |_| {
        calls += 1;
        if calls == 1 { Ok(()) } else { Err(DriverStatus::Unsuccessful("no")) }
    });
    let (host, game) = broken(Whims { screen, ..Whims::default() });
    assert_eq!(status(game.flip(1, 0)), NtStatus::INVALID_PARAMETER, "its caps say that it has no immediate flips");
    let _ = game.flip(1, 1);
    assert!(host.stopped().is_some_and(|reason| reason.contains("SetVidPnSourceAddress")), "{:?}", host.stopped());
    assert_eq!(game.gpu.device().state().unwrap(), DeviceState::Stopped);
    drop(game);
    host.check_invariants().unwrap();
}
