//! Worlds of holders, on every built-in adapter. A few processes do what is allowed, or costs them alone, and leave it undone: queues wait for
//! fences that they never signal, and what these queues use is evicted; buffers fault while more are submitted from several contexts; tiles
//! are copied; large allocations whose evictions the driver wants to hear of come and go; memory stays locked; lists have thousands of
//! entries; notices are never read; processes die in the middle. Drivers are late with their interrupts and refuse what they may refuse,
//! engines get less power. Beside all of them lives a bystander.
//!
//! | rule | how it is seen |
//! |---|---|
//! | a bystander is never held | [`crate::check::bystander`] |
//! | no device is lost but those of processes that gave the GPU what they may not | the kernel's events |
//! | a surface holds what was written last, seen at its own address and through tiles | the device compares each word |
//! | what holders leave undone goes with them | in the end nothing is resident, and no paging work is left |
//! | work ends when all that it waits for has come | in half of the worlds holders open their gates before they die |
//! | frames, packets, paging order, invariants, the driver's contract | as in every world |

mod holder;
mod ringer;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use device_port::DevicePort;
use dxgk_host::{Eviction, Host, HostConfig, Mode, PROFILES, Profile};

use crate::bystander::Bystander;
use crate::caller::Ground;
use crate::check::ledger::Listener;
use crate::check::{Shared, shared};
use crate::random::Random;
use crate::report::{Report, Violation};
use crate::sabotage::{DeafPort, Sabotage};
use crate::watch::{Reluctant, Watched};
use crate::world::{Broken, told};
use holder::Holder;
use ringer::Ringer;

const MIB: u64 = 1 << 20;
/// Turns of a world.
const TURNS: u64 = 500;
/// Turns of the bystander when it is alone again.
const TURNS_ALONE: u64 = 60;
/// Steps in which the hardware comes to rest.
const STEPS_MAX: u64 = 1_000_000;
/// Rounds in which holders end what they have planned.
const ROUNDS_MAX: u64 = 1_000;
/// Steps before the holders die.
const STEPS_HELD: u64 = 20_000;
/// The kernel looks after this time for work that makes no progress, and for interrupts that were lost.
const RECOVERY_NS: u64 = 5_000_000;
/// The driver hears interrupts after this time at the latest.
const LATE_NS_MAX: u64 = 200_000;
/// Page tables with leaf tables of a MiB need more room than others.
const LARGE_TABLES: &str = "levels-6";

struct World {
    host: Arc<Host>,
    ledger: Shared,
    reluctant: Arc<Reluctant>,
    random: Random,
    bystander: Bystander,
    ringer: Ringer,
    holders: Vec<Holder>,
    ground: Ground,
    vram_bytes: u64,
    /// Until when the driver hears no interrupt.
    deaf_until: Option<u64>,
    calls: u64,
    name: &'static str,
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first rule that was broken.
pub fn run(seed: u64, sabotage: Sabotage) -> Result<Report, Box<Violation>> {
    told(seed, |ledger| {
        let mut world = World::new(seed, sabotage, ledger)?;
        let name = world.name;
        let lived = (0..TURNS).try_for_each(|turn| world.turn(turn)).and_then(|()| world.finish());
        let lived = lived.map_err(|(checker, place)| (checker, format!("{name}: {place}; {}", world.who_waits())));
        // How the world is taken down is no part of the story.
        shared(ledger).close_lines();
        lived.map(|()| world.report(seed))
    })
}

impl World {
    fn new(seed: u64, sabotage: Sabotage, ledger: &Shared) -> Result<World, Broken> {
        let mut random = Random::new(seed);
        let mut profile: Profile = PROFILES[random.index(PROFILES.len())];
        let name = profile.name;
        if random.chance(35) && profile.driver.translates() {
            let power_saving = Profile::named("power-saving").ok_or(("start", "no profile power-saving".to_owned()))?;
            profile.driver.idle_ns = power_saving.driver.idle_ns;
        }
        let large = random.chance(20);
        let vram_bytes = if large { 64 * MIB } else { (512 << 10) << random.below(4) };
        let percent = *random.pick(&[0, 0, 3, 10]);
        let reluctant = Arc::new(Reluctant::new(random.split()));
        let (watched, late) = (Arc::clone(ledger), Arc::clone(&reluctant));
        shared(ledger).frames.system_bytes(1024 * MIB);
        let mut config = HostConfig {
            vram_bytes,
            page_table_bytes: if name == LARGE_TABLES { 64 * MIB } else { 16 * MIB },
            system_bytes: if large { 128 * MIB } else { (8 + random.below(8)) * MIB },
            tracer: Box::new(Listener(Arc::clone(ledger))),
            wrap_miniport: Some(Box::new(move |inner| Watched::before_reluctant(inner, watched, sabotage, late))),
            ..HostConfig::new(&profile, Mode::Virtual { stored: true })
        };
        config.isolates_processes =
            random.chance(25) && profile.driver.translates() && profile.io_coherent && !profile.plays_caches;
        config.recovery.delay_ns = Some(RECOVERY_NS);
        if random.chance(30) {
            config.memory_policy.eviction = Eviction::Planner;
        }
        if sabotage == Sabotage::LostInterrupts {
            // The kernel does not look for what was lost.
            config.recovery.delay_ns = None;
            let deaf = Arc::new(AtomicBool::new(true));
            config.wrap_port = Some(Box::new(|inner| Arc::new(DeafPort::new(inner, deaf)) as Arc<dyn DevicePort>));
        }
        let host = Host::start(config).map_err(|error| ("start", format!("{name}: {error}")))?;
        let bystander = Bystander::new(&host, seed, &profile, true);
        let ground = Ground::of(&profile, true);
        let ringer = Ringer::new(&host, &ground)?;
        reluctant.refuse(percent);
        let count = 1 + random.index(3);
        let holders =
            (0..count).map(|_| Holder::new(&host, random.split(), ground.clone(), vram_bytes)).collect::<Vec<_>>();
        Ok(World {
            host,
            ledger: Arc::clone(ledger),
            reluctant,
            random,
            bystander,
            ringer,
            holders,
            ground,
            vram_bytes,
            deaf_until: None,
            calls: 0,
            name,
        })
    }

    fn turn(&mut self, turn: u64) -> Result<(), Broken> {
        if self.random.chance(2) {
            self.deaf_until = Some(self.host.now_ns() + self.random.below(LATE_NS_MAX));
            self.reluctant.be_deaf(true);
        }
        match self.random.below(100) {
            0..45 => {
                let who = self.random.index(self.holders.len());
                if self.random.below(120) == 0 {
                    self.die(who);
                } else {
                    self.holders[who].turn(&self.host)?;
                }
            }
            45..65 => self.bystander.turn(&self.host)?,
            _ => {
                for _ in 0..=self.random.below(8) {
                    if !self.step()? {
                        break;
                    }
                }
            }
        }
        self.hear_in_time();
        self.look(turn)
    }

    /// One dies, and another comes in its place.
    fn die(&mut self, who: usize) {
        let gone = &mut self.holders[who];
        self.calls += gone.calls();
        gone.leave();
        self.holders[who] = Holder::new(&self.host, self.random.split(), self.ground.clone(), self.vram_bytes);
    }

    /// The next thing happens in the hardware. False: nothing will, before a process makes a call.
    fn step(&mut self) -> Result<bool, Broken> {
        if let Some(until) = self.deaf_until {
            if !self.host.step_until(until) {
                self.hear();
            }
            return Ok(true);
        }
        if self.host.step() {
            return Ok(true);
        }
        // A pin that is up stays up until the driver has looked: the next interrupt stands for it.
        if self.reluctant.is_behind() && self.ringer.ring(&self.host)? {
            return Ok(true);
        }
        self.bystander.at_rest(&self.host)?;
        Ok(false)
    }

    fn hear_in_time(&mut self) {
        if self.deaf_until.is_some_and(|until| self.host.now_ns() >= until) {
            self.hear();
        }
    }

    fn hear(&mut self) {
        self.deaf_until = None;
        self.reluctant.be_deaf(false);
    }

    fn look(&mut self, turn: u64) -> Result<(), Broken> {
        {
            let mut ledger = shared(&self.ledger);
            let outcome = ledger.fences.look(self.host.system_memory());
            ledger.check("fences", outcome);
            let outcome = ledger.frames.doubts();
            ledger.check("frames", outcome);
            let innocent = |id: u32| {
                id == self.bystander.process().0
                    || self.ringer.is(id)
                    || self.holders.iter().any(|holder| holder.is_innocent(id))
            };
            let lost = ledger.take_lost();
            if let Some((process, reason)) = lost.iter().find(|(process, _)| innocent(*process)) {
                ledger.check("residency", Err(format!("process {process} lost its device without guilt: {reason}")));
            }
            if let Some(broken) = ledger.broken() {
                return Err(broken.clone());
            }
        }
        // It reads everything: now and then is often enough.
        if turn.is_multiple_of(4) {
            self.host.check_invariants().map_err(|broken| ("invariants", broken.to_string()))?;
        }
        self.bystander.look(&self.host)?;
        self.holders.iter_mut().try_for_each(|holder| holder.look(&self.host))
    }

    /// Steps on for a while: devices that hold work of theirs may take turns for as long as they hold it.
    fn step_on(&mut self) -> Result<(), Broken> {
        for _ in 0..STEPS_HELD {
            if !self.step()? {
                break;
            }
        }
        Ok(())
    }

    /// All holders open their gates and end their locks: their work ends.
    fn wind_up(&mut self) -> Result<(), Broken> {
        for round in 0..ROUNDS_MAX {
            let mut goes_on = false;
            for holder in &mut self.holders {
                goes_on |= holder.wind_up(&self.host)?;
            }
            self.drain()?;
            self.look(round)?;
            if !goes_on {
                break;
            }
        }
        let undone = self.holders.iter().find_map(Holder::undone);
        undone.map_or(Ok(()), |undone| Err(("liveness", format!("nothing holds it, and {undone}"))))
    }

    /// All holders die. What they left undone goes with them: the bystander goes on alone, and then nothing is left of anybody.
    fn finish(&mut self) -> Result<(), Broken> {
        self.hear();
        self.step_on()?;
        if self.random.chance(50) {
            self.wind_up()?;
        }
        for holder in &mut self.holders {
            self.calls += holder.calls();
            holder.leave();
        }
        self.holders.clear();
        for turn in 0..TURNS_ALONE {
            self.bystander.turn(&self.host)?;
            self.drain()?;
            self.look(turn)?;
        }
        self.calls += self.bystander.calls();
        self.bystander.leave();
        self.ringer.leave();
        while self.host.step() {}
        self.host.check_invariants().map_err(|broken| ("invariants", broken.to_string()))?;
        let ledger = shared(&self.ledger);
        if ledger.resident_bytes() != 0 {
            let bytes = ledger.resident_bytes();
            return Err(("frames", format!("{bytes} bytes stay resident although no process is left")));
        }
        if !ledger.paging.idle() {
            return Err(("liveness", "paging work was never completed".into()));
        }
        ledger.broken().map_or(Ok(()), |broken| Err(broken.clone()))
    }

    fn drain(&mut self) -> Result<(), Broken> {
        for _ in 0..STEPS_MAX {
            if !self.step()? {
                return Ok(());
            }
        }
        Err(("liveness", "the hardware never comes to rest".into()))
    }

    fn who_waits(&self) -> String {
        self.holders.iter().map(Holder::describe).collect::<Vec<_>>().join("; ")
    }

    fn report(self, seed: u64) -> Report {
        let ledger = shared(&self.ledger);
        let (trace_hash, events) = ledger.trace();
        let mut seen = ledger.seen().clone();
        drop(ledger);
        seen.extend(self.bystander.tally().map(|(what, count)| (what.to_owned(), count)));
        seen.insert("interrupt heard late".into(), self.reluctant.missed());
        let (virtual_ns, calls) = (self.host.now_ns(), self.calls);
        Report { seed, trace_hash, events, calls, turns: TURNS, virtual_ns, seen }
    }
}
