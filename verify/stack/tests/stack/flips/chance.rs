//! Anything in any order: two processes, one display, calls by chance. The kernel's invariants hold after each, no submission that names the
//! allocations it writes writes into what is displayed, and in the end nothing is left.

use ddi::PowerState;
use kmt_calls::{Call, DisplayCall, EvictFlags, OfferFlags};

use super::*;

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit) as usize
    }
}

/// One call of a process; refusals are answers too.
fn act(host: &Arc<Host>, game: &mut Game, process: wddm_types::ProcessId, dice: &mut Dice) {
    let primary = dice.below(game.primaries.len() as u64);
    let handle = game.primaries[primary].allocation().handle();
    let device = game.gpu.device();
    match dice.below(16) {
        0 => drop(device.own_sources(&[SOURCE])),
        1 if dice.below(8) == 0 => drop(device.own_sources(&[])),
        2 if dice.below(2) == 0 => drop(device.set_display_mode(game.primaries[primary].allocation())),
        // A submission that draws into the shown primary holds the work behind it until the mode changes.
        3 if dice.below(4) == 0 => {
            let mut commands = Commands::new();
            commands.fill(game.primaries[primary].va(), game.primaries[primary].bytes(), dice.0 as u32);
            // A full stream would wait without a bound.
            if game.stream.last_value() < game.stream.progress().current().saturating_add(8) {
                drop(game.stream.submit_writing(&game.gpu, None, &commands, &[handle]));
            }
        }
        5..8 => {
            let context = game.stream.context().expect("it takes packets").handle();
            let interval = dice.below(6) as u32;
            let call = Call::Display(DisplayCall::Flip { context, primary: handle, interval });
            // It may wait, and be answered later or never.
            drop(host.begin_call(process, call));
        }
        8 => {
            let call = DisplayCall::WaitForVerticalBlankEvent { device: device.handle(), source: SOURCE };
            drop(host.begin_call(process, Call::Display(call)));
        }
        9 if dice.below(3) == 0 => {
            let fresh = game.gpu.create_primary(SOURCE, WIDTH, HEIGHT).expect("there is room");
            drop(game.gpu.pin(&fresh));
            drop(std::mem::replace(&mut game.primaries[primary], fresh));
        }
        10 if dice.below(8) == 0 => drop(device.evict(vec![handle], EvictFlags::empty())),
        11 if dice.below(8) == 0 => drop(device.offer(vec![handle], 2, OfferFlags::empty())),
        12 => drop(device.set_queued_limit(1 + dice.below(4) as u32)),
        13 if dice.below(6) == 0 && host.power_transition(PowerState::Standby).is_ok() => {
            host.power_transition(PowerState::On).expect("it wakes");
        }
        // Time passes, if the display is on.
        _ => drop(device.wait_for_vertical_blank(SOURCE)),
    }
}

#[test]
fn whatever_is_done_with_displays_the_kernel_stays_whole() {
    // spec: memory §8.2, memory §10.1
    let (profiles, mut shown) = ([profile(), queued(), mapped()], 0);
    for seed in 0..36 {
        let (host, heard) = host_of(&profiles[(seed / 2 % 3) as usize], VIRTUAL);
        let screen = Arc::new(Screen::default());
        if seed % 2 == 0 {
            host.adapter(0).connect_monitor(0, Arc::clone(&screen) as Arc<dyn Monitor>);
        }
        let mut dice = Dice(seed);
        let links = [0, 1].map(|_| ProcessLink::new(Arc::clone(&host)));
        let mut games = links.each_ref().map(|link| Game::on(link, 3));
        games[0].gpu.device().own_sources(&[SOURCE]).unwrap();
        games[0].gpu.device().set_display_mode(games[0].primaries[0].allocation()).unwrap();
        for step in 0..200 {
            let who = dice.below(2);
            // A device faults when it uses an allocation that has left its list.
            if games[who].gpu.device().state().is_ok_and(|state| state != d3dkmt::DeviceState::Active) {
                games[who] = Game::on(&links[who], 3);
            }
            act(&host, &mut games[who], links[who].process(), &mut dice);
            host.check_invariants().unwrap_or_else(|broken| panic!("seed {seed}, step {step}: {broken:?}"));
        }
        drop(games);
        for link in &links {
            host.process_died(link.process());
        }
        while host.step() {}
        host.check_invariants().unwrap();
        assert_eq!((host.stopped(), host.device_register(display::DISPLAY_CONTROL) & 1), (None, 0), "seed {seed}");
        let queued = heard.times(|event| matches!(event, Event::FlipQueued { .. })).len();
        assert_eq!(queued, heard.shown().len() + heard.dropped(), "seed {seed}: each flip comes to an end");
        shown += heard.shown().len();
    }
    assert!(shown > 60, "{shown} flips were shown");
}
