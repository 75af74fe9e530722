//! Worlds with displays. A few processes draw pictures and flip to them, one by one and in bursts, on one display or two, through
//! packets and through hardware queues; they take displays from each other, set modes, wait for blanks, give memory back, destroy what is
//! shown, and die at any step. In some worlds the computer sleeps now and then, in some the hardware is reset in the middle.
//!
//! | rule | how it is seen |
//! |---|---|
//! | no frame is torn, none has a picture that is not its turn | monitors tell what they see (`check::displays`) |
//! | each flip is shown, or dropped, once | the kernel's events |
//! | a blank is answered at the next one | no call waits for more than two periods |
//! | no process waits for ever | when all is quiet, or should be, nothing is queued and no call waits |
//! | what displays held is free | in the end nothing is resident, and the aperture shows what it showed at the beginning |
//!
//! Blanks are rare beside what else happens, or a world would be made of them.

mod calm;
mod player;

use std::sync::Arc;

use ddi::PowerState;
use device_port::{Frame, Monitor};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use kmt_calls::{Call, Reply};
use softgpu_umd::{Stage, UmdError};
use wddm_types::{NtStatus, VidPnSourceId};

use crate::bystander::Bystander;
use crate::check::ledger::Listener;
use crate::check::{Shared, shared};
use crate::random::Random;
use crate::report::{Report, Violation};
use crate::sabotage::Sabotage;
use crate::shape::has_bystanders;
use crate::watch::Watched;
use crate::world::{Broken, told};
use player::{Player, Scene, refusal};

const MIB: u64 = 1 << 20;
/// Turns of a world.
const TURNS: u64 = 400;
/// Nanoseconds from one blank to the next.
const PERIOD: u64 = 2_000_000;
/// In so much virtual time everything that was begun is over: flips behind each other, four blanks apart.
const CALM_NS: u64 = 400 * PERIOD;
/// Turns in which an adapter falls asleep.
const FALLING_TURNS_MAX: u64 = 200;
/// Adapters with displays, and how work reaches their engines.
const ADAPTERS: [(&str, Stage); 11] = [
    ("discrete-4k", Stage::Packet),
    ("discrete-4k", Stage::Hardware),
    ("flip-queue", Stage::Packet),
    ("flip-queue", Stage::Hardware),
    ("integrated", Stage::Packet),
    ("integrated", Stage::Hardware),
    ("maps-displayed", Stage::Packet),
    ("maps-displayed", Stage::Hardware),
    ("iommu", Stage::Hardware),
    ("wddm2-packets", Stage::Packet),
    ("wddm1-banks", Stage::Packet),
];

struct World {
    host: Arc<Host>,
    ledger: Shared,
    random: Random,
    players: Vec<Option<Player>>,
    scene: Scene,
    /// Flips at once would be seen as torn frames: that is what they are.
    watched: bool,
    /// Turns until the hardware does not understand its kernel.
    hang_in: Option<u64>,
    /// Whether the computer ever sleeps.
    sleeps: bool,
    /// Turns until it wakes.
    asleep: Option<u64>,
    falling: u64,
    pictures: u32,
    aperture: usize,
    bystander: Option<Bystander>,
    calls: u64,
}

/// Hands the frames of a display's monitor to the checkers.
struct Screen(Shared);

impl Monitor for Screen {
    fn frame(&self, frame: &Frame<'_>) {
        let mut ledger = shared(&self.0);
        let outcome = ledger.displays.frame(frame);
        ledger.check("displays", outcome);
    }
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first rule that was broken.
pub fn run(seed: u64, sabotage: Sabotage) -> Result<Report, Box<Violation>> {
    told(seed, |ledger| {
        let mut world = World::new(seed, sabotage, ledger)?;
        let lived = (0..TURNS).try_for_each(|turn| world.turn(turn)).and_then(|()| world.end(seed));
        lived.inspect_err(|_| shared(ledger).close_lines())
    })
}

impl World {
    fn new(seed: u64, sabotage: Sabotage, ledger: &Shared) -> Result<World, Broken> {
        let mut random = Random::new(seed);
        let (name, stage) = *random.pick(&ADAPTERS);
        let mut profile = *Profile::named(name).ok_or(("start", format!("no profile {name}")))?;
        profile.displays.period_ns = PERIOD;
        let watched = Arc::clone(ledger);
        let config = HostConfig {
            vram_bytes: MIB << (1 + random.below(2)),
            page_table_bytes: 16 * MIB,
            system_bytes: 48 * MIB,
            tracer: Box::new(Listener(Arc::clone(ledger))),
            wrap_miniport: Some(Box::new(move |inner| Watched::before(inner, watched, sabotage, true))),
            ..HostConfig::new(&profile, Mode::Virtual { stored: true })
        };
        shared(ledger).frames.system_bytes(1024 * MIB);
        let host = Host::start(config).map_err(|error| ("start", error.to_string()))?;
        let (width, height) = *random.pick(&[(64, 16), (128, 64), (200, 50)]);
        let scene = Scene {
            stage,
            listed: name == "wddm1-banks",
            sources: profile.displays.count,
            width,
            height,
            spare_bytes: 64 << 10 << random.below(3),
        };
        let watched = random.chance(75);
        if watched {
            for display in 0..scene.sources {
                host.adapter(0).connect_monitor(display, Arc::new(Screen(Arc::clone(ledger))));
            }
        }
        let aperture = shared(ledger).frames.aperture_pages();
        let mut world = World {
            host,
            ledger: Arc::clone(ledger),
            scene,
            watched,
            hang_in: random.chance(30).then(|| 50 + random.below(TURNS - 100)),
            sleeps: random.chance(40),
            asleep: None,
            falling: 0,
            players: Vec::new(),
            random,
            pictures: 0,
            aperture,
            bystander: None,
            calls: 0,
        };
        for who in 0..=1 + world.random.index(2) {
            let player =
                Player::new(&world.host, scene).map_err(|error| ("start", format!("process {who}: {error}")))?;
            world.players.push(Some(player));
        }
        world.bystander =
            has_bystanders(seed).then(|| Bystander::new(&world.host, seed, &profile, true).among_resets());
        Ok(world)
    }

    fn turn(&mut self, turn: u64) -> Result<(), Broken> {
        if let Some(left) = &mut self.hang_in {
            *left = left.saturating_sub(1);
            if *left == 0 && self.asleep.is_none() {
                self.hang_in = None;
                shared(&self.ledger).hang();
            }
        }
        match self.random.below(100) {
            0..55 => self.act()?,
            // All that was begun comes to its end.
            55 if self.asleep.is_none() => self.calm()?,
            55..62 => {
                let until = self.host.now_ns() + self.random.below(3 * PERIOD);
                while self.host.step_until(until) {}
            }
            _ => {
                for _ in 0..=self.random.below(12) {
                    self.step(self.host.now_ns() + PERIOD / 8);
                }
            }
        }
        if let Some(bystander) = self.bystander.as_mut().filter(|_| turn.is_multiple_of(2)) {
            match self.asleep {
                Some(_) => bystander.sleeps(&self.host),
                None => bystander.turn(&self.host)?,
            }
        }
        if let Some(left) = &mut self.asleep {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.wake()?;
            }
        } else if self.sleeps && self.random.below(60) == 0 {
            self.fall_asleep()?;
        }
        self.look(turn)
    }

    /// The next thing happens, if it does so by then. Frames of monitors do not count: a step alone would go past all of them.
    fn step(&self, until_ns: u64) -> bool {
        self.host.step_until(until_ns)
    }

    /// A process that chance picks acts.
    fn act(&mut self) -> Result<(), Broken> {
        let who = self.random.index(self.players.len());
        if self.random.below(80) == 0 {
            return self.die(who);
        }
        let Some(mut player) = self.players[who].take() else { return Ok(()) };
        self.calls += 1;
        let done = self.act_of(who, &mut player);
        self.players[who] = Some(player);
        match done {
            Ok(()) => Ok(()),
            // A device that was lost is made anew.
            Err(UmdError::Lost(_)) => Ok(()),
            Err(error) => match refusal(&error) {
                // Displays that are others', off or asleep; memory that is short; devices that are lost.
                Some(
                    NtStatus::ACCESS_DENIED
                    | NtStatus::GRAPHICS_VIDPN_SOURCE_IN_USE
                    | NtStatus::INVALID_PARAMETER
                    | NtStatus::RETRY
                    | NtStatus::NO_MEMORY
                    | NtStatus::DEVICE_REMOVED,
                ) => Ok(()),
                _ => Err(("answers", format!("process {who}: {error}"))),
            },
        }
    }

    /// A process dies, or a new one comes in its place.
    fn die(&mut self, who: usize) -> Result<(), Broken> {
        match self.players[who].take() {
            Some(player) => player.die(&self.host),
            None if self.asleep.is_none() => {
                let fresh = Player::new(&self.host, self.scene);
                self.players[who] = match fresh {
                    Ok(player) => Some(player),
                    // There may be no memory for one more.
                    Err(error) if matches!(refusal(&error), Some(NtStatus::NO_MEMORY | NtStatus::DEVICE_REMOVED)) => {
                        None
                    }
                    Err(UmdError::Lost(_)) => None,
                    Err(error) => return Err(("answers", format!("a newcomer: {error}"))),
                };
            }
            None => {}
        }
        Ok(())
    }

    fn act_of(&mut self, who: usize, player: &mut Player) -> Result<(), UmdError> {
        if self.asleep.is_none() && player.is_lost() {
            return player.renew(&self.host);
        }
        let primary = self.random.index(player.primaries());
        let source = player.source(primary);
        match self.random.below(100) {
            _ if self.asleep.is_some() => {
                player.blank(source)?;
                self.flip(who, player, primary, 1)
            }
            0..40 => {
                let interval = self.interval();
                self.draw(player, primary)?;
                self.flip(who, player, primary, interval)
            }
            40..50 => self.burst(who, player),
            50..65 => Ok(player.blank(source)?),
            65..68 if player.is_settled() => self.own(player),
            68..80 => self.show(player, primary),
            80..84 => Ok(player.limit(1 + self.random.below(5) as u32)?),
            84..86 if player.done() => player.replace(primary),
            86..90 if !self.scene.listed && player.done() => player.take_away(primary),
            90..100 if !player.presents() => {
                let (spare, comes) = (self.random.index(8), self.random.chance(70));
                player.crowd(spare, comes)
            }
            _ => Ok(()),
        }
    }

    fn interval(&mut self) -> u32 {
        match self.random.below(8) {
            0 if !self.watched => 0,
            // CAST: small.
            0..3 => 1 + self.random.below(4) as u32,
            _ => 1,
        }
    }

    /// Draws the next picture.
    fn draw(&mut self, player: &mut Player, primary: usize) -> Result<bool, UmdError> {
        if player.presents() {
            return Ok(false);
        }
        self.pictures += 1;
        let long = [1, 400, 800][self.random.index(3)];
        let times = self.random.index(if self.scene.listed { 4 } else { long } + 1);
        player.draw(primary, self.pictures, times)
    }

    fn flip(&mut self, who: usize, player: &mut Player, primary: usize, interval: u32) -> Result<(), UmdError> {
        if player.presents() || player.is_away(primary) {
            return Ok(());
        }
        shared(&self.ledger).displays.flips_to(who, player.picture(primary));
        player.flip(primary, interval).map(drop)
    }

    /// Many flips one behind another, as many as may be queued.
    fn burst(&mut self, who: usize, player: &mut Player) -> Result<(), UmdError> {
        player.limit(16)?;
        for _ in 0..3 + self.random.below(12) {
            let primary = self.random.index(player.primaries());
            if self.random.chance(60) {
                self.draw(player, primary)?;
            }
            let interval = self.interval();
            self.flip(who, player, primary, interval)?;
        }
        Ok(())
    }

    /// It wants other displays than before; none, seldom.
    fn own(&mut self, player: &Player) -> Result<(), UmdError> {
        let least = u64::from(self.random.chance(80));
        let wanted = least + self.random.below(u64::from(self.scene.sources) + 1 - least);
        let first = self.random.below(u64::from(self.scene.sources) + 1 - wanted);
        // CAST: there are two.
        let wanted: Vec<_> = (first..first + wanted).map(|source| VidPnSourceId(source as u32)).collect();
        Ok(player.own(&wanted)?)
    }

    /// The player is to show a picture, and owns all displays that no other player has.
    fn show(&mut self, player: &mut Player, primary: usize) -> Result<(), UmdError> {
        let source = player.source(primary);
        if !player.done() || !player.is_settled() || player.is_away(primary) {
            return Ok(());
        }
        let is_on = shared(&self.ledger).displays.is_on(source);
        if !is_on {
            player.own(&[VidPnSourceId(source)])?;
        }
        shared(&self.ledger).displays.mode_of(player.id, source, player.picture(primary));
        Ok(player.mode(primary)?)
    }

    // spec: memory §1.10, memory §8.4
    fn fall_asleep(&mut self) -> Result<(), Broken> {
        let state = if self.random.chance(50) { PowerState::Standby } else { PowerState::Hibernate };
        match self.host.power_transition(state) {
            Ok(()) => {}
            // Work is in the way.
            Err(refusal) if refusal.status == NtStatus::TIMEOUT => {}
            Err(refusal) => return Err(("power", refusal.to_string())),
        }
        (self.asleep, self.falling) = (Some(1 + self.random.below(10)), 0);
        Ok(())
    }

    fn wake(&mut self) -> Result<(), Broken> {
        match self.host.power_transition(PowerState::On) {
            Ok(()) => {}
            // It never slept, or a process has woken it.
            Err(refusal) if refusal.status == NtStatus::INVALID_PARAMETER => {}
            Err(refusal) if refusal.status == NtStatus::RETRY && self.falling < FALLING_TURNS_MAX => {
                (self.asleep, self.falling) = (Some(1), self.falling + 1);
                self.host.step();
                return Ok(());
            }
            Err(refusal) => return Err(("power", refusal.to_string())),
        }
        self.asleep = None;
        Ok(())
    }
}
