//! The whole world: one host in virtual time, some processes, the checkers, and the one stream of chance that decides which process goes
//! next and how long the hardware runs in between.

mod end;
mod sleep;
mod waits;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use device_port::DevicePort;
use dxgk_host::{Host, HostConfig, Mode, Pending, Profile};
use kmt_calls::{Call, Refusal, Reply};
use softgpu_kmd::TableHome;
use wddm_types::ProcessId;

use crate::bystander::Bystander;
use crate::check::contract::ObjectCounts;
use crate::check::ledger::Listener;
use crate::check::{Shared, shared};
use crate::neighbours::Neighbours;
use crate::process::{Habits, Issue, Op, Phase, Point, Process};
use crate::random::Random;
use crate::renderers::Renderers;
use crate::report::{Report, Violation};
use crate::sabotage::{DeafPort, Sabotage};
use crate::shape::{
    Kind, Takers, build, eviction, has_bystanders, has_neighbours, hesitates, lends, lingers, page_table_bytes, sleeps,
};
use crate::watch::{Hesitant, Watched};
use sleep::Sleeps;

const MIB: u64 = 1 << 20;
/// Sets the neighbours' stream of chance apart.
const NEIGHBOURS: u64 = 0x6e65_6967_6862_6f75;
/// Steps of the neighbours in all.
const NEIGHBOURS_STEPS: u64 = 300;
/// From this seed on kernels plan their evictions: the worlds before have hashes that are pinned.
const PLANNED_FROM: u64 = 15_000;
/// Turns after which a world that has not come to its end never will.
const TURNS_MAX: u64 = 100_000;
/// Steps of the hardware within which it comes to rest behind a death, if no work in it goes on for ever.
const STEPS_BEHIND_DEATH: u32 = 10_000;
/// The bystander acts in one turn of so many.
const BYSTANDER_TURNS: u64 = 3;
/// Turns that a reached wait may stay unanswered: interrupts are carried to the kernel within one.
const LATE_TURNS: u64 = 200;

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first rule that was broken.
pub fn run(seed: u64, sabotage: Sabotage) -> Result<Report, Box<Violation>> {
    told(seed, |ledger| World::new(seed, sabotage, ledger).and_then(World::run))
}

/// Runs a world, and says what became of it. An assertion of the kernel, the driver or the device is a finding like any other: it needs
/// its seed.
pub fn told(seed: u64, world: impl FnOnce(&Shared) -> Result<Report, Broken>) -> Result<Report, Box<Violation>> {
    let ledger = Shared::default();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world(&ledger)))
        .unwrap_or_else(|_| Err(("assertion", "a panic, reported on standard error".into())));
    result.map_err(|(checker, place)| {
        let last_events = shared(&ledger).last_events();
        Box::new(Violation { seed, checker, place, last_events })
    })
}

pub type Broken = (&'static str, String);

struct World {
    seed: u64,
    host: Arc<Host>,
    ledger: Shared,
    random: Random,
    processes: Vec<Process>,
    /// In some worlds.
    neighbours: Option<Neighbours>,
    /// In worlds of packets, which have no other processes.
    renderers: Option<Renderers>,
    /// In worlds from some seed on.
    bystander: Option<Bystander>,
    /// In some worlds the computer sleeps now and then.
    sleeps: Option<Sleeps>,
    waits: Vec<Wait>,
    turns: u64,
    calls: u64,
}

/// A wait that is under way.
struct Wait {
    process: usize,
    pending: Pending,
    points: Vec<Point>,
    any: bool,
    /// The process's own call; else in the background.
    main: bool,
    /// The device was given up while it waited.
    relaxed: bool,
    /// The turn in which it was first seen to be satisfied.
    reached_at: Option<u64>,
}

impl World {
    fn new(seed: u64, sabotage: Sabotage, ledger: &Shared) -> Result<World, Broken> {
        let mut random = Random::new(seed);
        let kind = Kind::of(seed);
        let name = *random.pick(kind.profiles());
        let profile = Profile::named(name).ok_or(("start", format!("no profile {name}")))?;
        let mut config = HostConfig::new(profile, Mode::Virtual { stored: true });
        build(&mut config.profile, seed, kind);
        let takers = Takers::of(seed, kind);
        takers.apply(&mut config.profile);
        let sleeps = sleeps(seed, kind);
        let habits = Habits { looks: takers.any() || sleeps, lingers: lingers(seed), ..kind.habits() };
        config.vram_bytes = (256 << 10) << random.below(4);
        if seed >= PLANNED_FROM {
            config.memory_policy.eviction = eviction(seed);
        }
        config.page_table_bytes = page_table_bytes(seed, kind, config.profile.shape);
        config.system_bytes = (4 + random.below(5)) * MIB;
        config.isolates_processes = lends(seed, kind);
        config.tracer = Box::new(Listener(Arc::clone(ledger)));
        let watched = Arc::clone(ledger);
        let hesitates = hesitates(seed, kind);
        if hesitates {
            // The kernel hears such a driver at the latest when it looks for hung work.
            config.recovery.delay_ns = Some(2_000_000_000);
        }
        config.wrap_miniport = Some(Box::new(move |inner| {
            let seen = Watched::before(inner, Arc::clone(&watched), sabotage, kind.has_packets());
            if hesitates { Hesitant::before(seen, watched) } else { seen }
        }));
        if sabotage == Sabotage::LostInterrupts {
            let deaf = Arc::new(AtomicBool::new(true));
            config.wrap_port = Some(Box::new(|inner| Arc::new(DeafPort::new(inner, deaf)) as Arc<dyn DevicePort>));
        }
        // Everything that entries may name lies below this: the kernel's own pages, the backing stores, tables kept there.
        let tables = config.profile.driver.table_homes().bytes_in(TableHome::System, 16 * MIB, 16 * MIB);
        shared(ledger).frames.system_bytes(config.system_bytes + tables + 64 * MIB);
        let profile = config.profile;
        let host = Host::start(config).map_err(|error| ("start", error.to_string()))?;
        let renderers = kind.has_packets().then(|| Renderers::new(&host, random.split(), kind));
        let count = if renderers.is_some() { 0 } else { 2 + random.index(3) };
        let processes = (0..count)
            .map(|_| {
                let (own, steps) = (random.split(), 60 + random.below(160));
                let hostile = random.chance(35);
                Process::new(&host, own, steps, hostile, habits)
            })
            .collect();
        // Whether there are some is the seed's and not chance's, so that the other worlds are the same without them.
        let own = Random::new(seed ^ NEIGHBOURS);
        let neighbours = has_neighbours(seed, kind).then(|| Neighbours::new(&host, own, NEIGHBOURS_STEPS)).transpose();
        let neighbours = neighbours.map_err(|place| ("neighbours", place))?;
        let bystander = has_bystanders(seed).then(|| Bystander::new(&host, seed, &profile, kind.has_packets()));
        let ledger = Arc::clone(ledger);
        Ok(World {
            seed,
            host,
            ledger,
            random,
            processes,
            neighbours,
            renderers,
            bystander,
            sleeps: sleeps.then(Sleeps::default),
            waits: Vec::new(),
            turns: 0,
            calls: 0,
        })
    }

    fn run(mut self) -> Result<Report, Broken> {
        self.live().inspect_err(|_| shared(&self.ledger).close_lines())?;
        let ledger = Arc::clone(&self.ledger);
        self.finish().inspect_err(|_| shared(&ledger).close_lines())
    }

    fn live(&mut self) -> Result<(), Broken> {
        let busy = |world: &World| {
            let dead = world.processes.iter().all(|process| process.phase == Phase::Dead);
            !dead
                || world.neighbours.as_ref().is_some_and(|neighbours| !neighbours.done())
                || world.renderers.as_ref().is_some_and(|renderers| !renderers.done())
        };
        while busy(self) {
            self.turns += 1;
            if self.turns > TURNS_MAX {
                return Err(("liveness", format!("no end after {TURNS_MAX} turns; {}", self.who_waits())));
            }
            if let Some(neighbours) = self.neighbours.as_mut().filter(|_| self.turns.is_multiple_of(3)) {
                neighbours.turn(&self.host).map_err(|place| ("neighbours", place))?;
            }
            if self.is_asleep()? {
                if let Some(bystander) = &mut self.bystander {
                    bystander.sleeps(&self.host);
                }
                self.look()?;
                continue;
            }
            if let Some(bystander) = self.bystander.as_mut().filter(|_| self.turns.is_multiple_of(BYSTANDER_TURNS)) {
                bystander.turn(&self.host)?;
            }
            if self.random.chance(60) {
                if let Some(renderers) = &mut self.renderers {
                    renderers.turn(&self.host)?;
                    self.look()?;
                    continue;
                }
                let who = self.random.index(self.processes.len());
                self.turn(who)?;
            } else {
                self.let_hardware_run()?;
            }
            self.look()?;
        }
        self.drain()?;
        self.wake()?;
        self.bystander_leaves()
    }

    /// Others have gone, and with them what they left undone.
    fn bystander_leaves(&mut self) -> Result<(), Broken> {
        self.drain()?;
        let Some(bystander) = &mut self.bystander else { return Ok(()) };
        bystander.at_rest(&self.host)?;
        bystander.leave();
        self.look()
    }

    /// One process does one thing, if it can.
    fn turn(&mut self, who: usize) -> Result<(), Broken> {
        let Some(op) = self.processes[who].next() else {
            // Blocked: another of its threads may keep a promise.
            return if self.random.chance(10) { self.keep_promise(who).map(drop) } else { Ok(()) };
        };
        let id = self.processes[who].id;
        let issue = self.processes[who].issue(&op).map_err(|place| ("content", place))?;
        match issue {
            Issue::Done => Ok(()),
            Issue::Die => {
                self.processes[who].die();
                self.waits.retain(|wait| wait.process != who);
                self.rests_behind_death()
            }
            Issue::Call(call) => {
                if matches!(op, Op::DestroyDevice) {
                    self.waits.iter_mut().filter(|wait| wait.process == who).for_each(|wait| wait.relaxed = true);
                }
                let answer = self.begin(id, call);
                let fence = shared(&self.ledger).fences.last_created();
                match answer {
                    Ok(result) => self.processes[who].answered(op, result, fence).map_err(|place| ("answers", place)),
                    Err(pending) => {
                        self.processes[who].block(pending, op, fence);
                        Ok(())
                    }
                }
            }
            Issue::Wait { call, points, any, background } => match self.begin(id, call) {
                Ok(result) => self.wait_over(who, &points, any, !background, self.processes[who].guilty, result),
                Err(pending) => {
                    let main = !background;
                    self.waits.push(Wait {
                        process: who,
                        pending,
                        points,
                        any,
                        main,
                        relaxed: false,
                        reached_at: None,
                    });
                    if main {
                        self.processes[who].block(pending, op, 0);
                    }
                    Ok(())
                }
            },
        }
    }

    /// Behind every other death nothing happens until the hardware is at rest: then nothing of the process is left.
    fn rests_behind_death(&mut self) -> Result<(), Broken> {
        if self.turns.is_multiple_of(2) || !(0..STEPS_BEHIND_DEATH).any(|_| !self.host.step()) {
            return Ok(());
        }
        self.look()?;
        self.host.check_nothing_left().map_err(|broken| ("nothing left", broken.to_string()))
    }

    fn begin(&mut self, process: ProcessId, call: Call) -> Result<Result<Reply, Refusal>, Pending> {
        self.calls += 1;
        self.host.begin_call(process, call)
    }

    fn keep_promise(&mut self, who: usize) -> Result<bool, Broken> {
        let Some(call) = self.processes[who].promise() else { return Ok(false) };
        match self.begin(self.processes[who].id, call) {
            Ok(Ok(Reply::Done)) => Ok(true),
            Ok(Err(_)) if self.processes[who].guilty => Ok(true),
            other => Err(("answers", format!("a signal from the CPU answered {other:?}"))),
        }
    }

    /// Lets some things happen in the hardware; when none is left, makes sure that a process can go on.
    fn let_hardware_run(&mut self) -> Result<(), Broken> {
        for _ in 0..=self.random.below(8) {
            if self.host.step() {
                continue;
            }
            self.look()?;
            if let Some(bystander) = &mut self.bystander {
                bystander.at_rest(&self.host)?;
            }
            if let Some(renderers) = &self.renderers {
                // A renderer of low protection has no turn while the bystander has room that it needs: it has one when the bystander goes.
                // spec: memory §8.2
                let rest = renderers.at_rest();
                let makes_room = rest.is_err() && self.bystander.as_mut().is_some_and(Bystander::leave);
                return if makes_room { Ok(()) } else { rest };
            }
            // spec: sync §3.10
            if let Some((fence, current, monitored)) = self.host.unreported_fences().first() {
                let said = "the driver has neither listed it nor said that it does not know";
                return Err(("fences", format!("fence {fence} has {current}, monitored {monitored}, and {said}")));
            }
            if let Some(wait) = self.waits.iter().find(|wait| self.satisfied(wait)) {
                return Err(("fences", format!("a waiter was lost: {}", self.describe(wait))));
            }
            let able = |process: &Process| process.phase != Phase::Dead && process.blocked.is_none();
            if self.processes.iter().any(able) {
                return Ok(());
            }
            for who in 0..self.processes.len() {
                if self.keep_promise(who)? {
                    return Ok(());
                }
            }
            if self.processes.iter().any(|process| process.phase != Phase::Dead) {
                return Err(("liveness", format!("nothing will ever happen; {}", self.who_waits())));
            }
        }
        Ok(())
    }

    /// Takes answers, then lets every checker look.
    fn look(&mut self) -> Result<(), Broken> {
        let broken = {
            let mut ledger = shared(&self.ledger);
            let outcome = ledger.fences.look(self.host.system_memory());
            ledger.check("fences", outcome);
            let outcome = ledger.frames.doubts();
            ledger.check("frames", outcome);
            let lost = ledger.take_lost();
            let innocent = |id: u32| {
                self.processes.iter().any(|process| process.id.0 == id && !process.guilty)
                    || self.renderers.as_ref().is_some_and(|renderers| renderers.owns(id))
                    || self.bystander.as_ref().is_some_and(|bystander| bystander.process().0 == id)
            };
            if let Some((process, reason)) = lost.iter().find(|(process, _)| innocent(*process)) {
                ledger.check("residency", Err(format!("process {process} lost its device without guilt: {reason}")));
            }
            ledger.broken().cloned()
        };
        if let Some(broken) = broken {
            return Err(broken);
        }
        // It reads everything: now and then is often enough.
        if self.turns.is_multiple_of(4) {
            self.host.check_invariants().map_err(|broken| ("invariants", broken.to_string()))?;
        }
        self.take_answers()?;
        if let Some(bystander) = &mut self.bystander {
            bystander.look(&self.host)?;
        }
        if let Some(renderers) = &mut self.renderers {
            renderers.look(&self.host)?;
        }
        for process in &mut self.processes {
            process.verify().map_err(|place| ("content", place))?;
        }
        self.look_at_waits()
    }

    fn who_waits(&self) -> String {
        let blocked = self.processes.iter().filter(|process| process.blocked.is_some());
        blocked
            .map(|process| format!("process {} in {}", process.id.0, process.blocked_in()))
            .collect::<Vec<_>>()
            .join("; ")
    }
}
