//! One world: a host in virtual time, a witness, some hostile processes. After every call the kernel's invariants are
//! checked; a refused call, made when nothing was under way, leaves the digest of the whole state as it was.

mod answers;
mod bystander;
mod ending;
mod power;
mod setup;
mod windows;

use std::sync::Arc;

use ddi::DriverModel;
use dxgk_host::{Host, StateDigest};
use kmt_calls::{Call, wire};
use sim::{Bystander, Random};
use wddm_types::{Blame, NtStatus, ProcessId};

use crate::dice::Dice;
use crate::generate::Generator;
use crate::hostile::Hostile;
use crate::liar::{Liar, Lies};
use crate::report::{Diary, Report};
use crate::slot::Slot;
use crate::witness::Witness;
use crate::world::answers::{is_of_buffers, may_change, note};
use crate::world::ending::Ending;
use crate::world::setup::config;
pub use crate::world::setup::{escapes, hangs, shows};
use crate::world::setup::{has_room, reports};

/// Steps of the hardware after which a world that has not come to rest never will.
const STEPS_MAX: u64 = 300_000;
/// Calls of one process that wait for their answers.
const PENDING_MAX: usize = 24;
/// A rule and where it was broken.
pub type Broken = (&'static str, String);

/// A world.
pub struct World {
    host: Arc<Host>,
    witness: Option<Witness>,
    hostile: Vec<Hostile>,
    /// A process that never calls.
    outsider: ProcessId,
    /// A process that only makes ordinary calls, in worlds from some seed on with an honest driver.
    bystander: Option<Bystander>,
    steps: u64,
    /// Pages of the largest allocations that are meant to succeed; 0: worlds do not draw what reports have drawn.
    reported_pages: u64,
    diary: Diary,
    /// Waits that no signal ends and wild buffers are allowed: then paging may hang, and the witness uses none.
    endless: bool,
    /// The adapter is of the first generation.
    old: bool,
    /// Its engines have hardware queues.
    queues: bool,
    /// Its processes know of its displays.
    shows: bool,
    /// Its processes make private calls.
    escapes: bool,
    ending: Ending,
    /// Pulls the device out.
    slot: Arc<Slot>,
    asleep: bool,
    /// The driver breaks its contract.
    lies: Option<Lies>,
    report: Report,
}

impl World {
    /// The world of a seed; `None`: its driver lied so that the adapter did not start.
    ///
    /// # Errors
    /// The part that did not start.
    pub fn new(seed: u64, diary: Diary, lies: Option<Lies>) -> Result<Option<World>, Broken> {
        let mut random = Random::new(seed.rotate_left(17));
        let mut config = config(seed);
        let old = config.profile.driver.driver_model == DriverModel::Wddm1;
        let queues = !old && config.profile.driver.hardware_queues;
        let profile = config.profile;
        let slot = Arc::new(Slot::default());
        config.wrap_port = Some(slot.wrap());
        if let Some(lies) = lies.clone() {
            config.wrap_miniport = Some(Box::new(|inner| Liar::before(inner, lies)));
        }
        let host = match Host::start(config) {
            Ok(host) => host,
            Err(error) if lies.is_some() => {
                diary.write(error.to_string());
                return Ok(None);
            }
            Err(error) => return Err(("start", error.to_string())),
        };
        let witness = match Witness::new(&host) {
            Ok(witness) => Some(witness),
            Err(_) if lies.is_some() => None,
            Err(error) => return Err(("witness", error.to_string())),
        };
        let endless = random.chance(40);
        let malice = *random.pick(&[2, 5, 10, 25]);
        let hostile = (0..2 + random.below(2)).map(|_| Hostile::new(&host, Dice::new(random.split(), malice), endless));
        let hostile = hostile.collect();
        let outsider = host.process_created();
        let has_bystander = reports(seed) && lies.is_none();
        let bystander = has_bystander.then(|| Bystander::new(&host, seed, &profile, true).among_resets());
        let reported_pages = match (reports(seed), has_room(seed)) {
            (false, _) => 0,
            (true, false) => 100,
            (true, true) => 8_000,
        };
        let ending = if lies.is_some() { Ending::Leave } else { Ending::draw(&mut random) };
        let (report, asleep) = (Report::default(), false);
        Ok(Some(World {
            host,
            witness,
            hostile,
            outsider,
            bystander,
            steps: 0,
            reported_pages,
            diary,
            endless,
            old,
            queues,
            shows: shows(seed),
            escapes: escapes(seed),
            ending,
            slot,
            asleep,
            lies,
            report,
        }))
    }

    /// One step: a call, a death, some time, a look at the witness. Everything about it comes from `seed`.
    ///
    /// # Errors
    /// The rule that was broken.
    pub fn step(&mut self, seed: u64) -> Result<(), Broken> {
        let mut random = Random::new(seed);
        match random.below(100) {
            0..2 if self.endless => self.store(&mut random),
            0..82 => self.call(&mut random)?,
            82..90 => self.run_hardware(random.below(12)),
            90..92 => self.drain()?,
            92 => self.death(&mut random)?,
            93 => self.notifications(),
            94 if self.asleep || random.chance(40) => self.power(&mut random)?,
            95 => self.window_system(&mut random),
            _ => self.testify(&mut random)?,
        }
        self.take_answers();
        self.stand_by()?;
        self.check()
    }

    fn check(&self) -> Result<(), Broken> {
        self.host.check_invariants().map_err(|broken| ("invariants", broken.to_string()))
    }

    fn call(&mut self, random: &mut Random) -> Result<(), Broken> {
        let before = if random.chance(50) { self.at_rest()? } else { None };
        let who = random.index(self.hostile.len());
        if random.chance(5) {
            let shares = self.hostile[random.index(self.hostile.len())].known.shares();
            shares.last().into_iter().for_each(|share| self.hostile[who].known.told_of(*share));
            let names = self.hostile[random.index(self.hostile.len())].known.nt_handles.last().copied();
            self.hostile[who].known.nt_handles.extend(names);
        }
        let (luid, endless, old) = (self.host.luid(), self.endless, self.old);
        let (queues, shows, escapes) = (self.queues, self.shows, self.escapes);
        let reported_pages = self.reported_pages;
        let hostile = &mut self.hostile[who];
        if hostile.pending.len() >= PENDING_MAX {
            return Ok(());
        }
        // The draws depend on this step and on the process's knowledge, not on earlier draws.
        let mut dice = hostile.dice.seeded(random.draw());
        hostile.known.choose_device(&mut dice);
        let mut generator = Generator {
            dice: &mut dice,
            known: &hostile.known,
            luid,
            endless,
            old,
            queues,
            shows,
            escapes,
            reported_pages,
        };
        let call = generator.call();
        let carried = wire::decode(&wire::encode(&call, Vec::new()));
        if carried.as_ref() != Ok(&call) {
            return Err(("carried", format!("{call:?} arrives as {carried:?}")));
        }
        self.diary.write(format!("process {}: {call:?}", hostile.id.0));
        let answer = self.host.begin_call(hostile.id, call.clone());
        self.report.calls += 1;
        match answer {
            Ok(result) => {
                let hostile = &mut self.hostile[who];
                let refusal = note(&self.diary, &mut self.report, hostile, &call, result);
                let Some((before, refusal)) = before.zip(refusal) else { return Ok(()) };
                // A call that a driver refuses in the middle may leave the kernel's own pools larger than before.
                let by_driver = self.lies.is_some() && refusal.blame != Blame::Caller;
                // That a device is gone is found out in the middle of a call, by the kernel or by its driver.
                let gone = refusal.status == NtStatus::DEVICE_REMOVED || refusal.blame == Blame::Driver;
                let by_absence = self.slot.is_empty() && gone;
                if may_change(&call, &refusal) || by_driver || by_absence || refusal.reason.contains("a lie") {
                    return Ok(());
                }
                self.report.compared += 1;
                let mut changed = before.differences(&self.host.state_digest());
                let had_turn = changed.iter().any(|part| part.starts_with("turns"));
                changed.retain(|part| !is_of_buffers(&call, part, had_turn));
                if changed.is_empty() {
                    return Ok(());
                }
                Err(("unchanged", format!("{} was refused ({refusal}), and changed {changed:?}", call.name())))
            }
            Err(pending) => {
                self.hostile[who].pending.push_back((call, pending));
                Ok(())
            }
        }
    }

    /// A process writes what it can reach without the kernel.
    fn store(&mut self, random: &mut Random) {
        let who = random.index(self.hostile.len());
        let written = self.hostile[who].store(random.draw());
        self.diary.write(format!("process {} stores: {written}", self.hostile[who].id.0));
    }

    /// A stopped adapter leaves no call waiting, except for events, which are the operating system's.
    fn look_for_forgotten(&mut self) -> Result<(), Broken> {
        let Some(reason) = self.host.stopped() else { return Ok(()) };
        self.drain()?;
        self.take_answers();
        let mut pending = self.hostile.iter().flat_map(|hostile| &hostile.pending);
        let forgotten = pending.find(|(call, _)| !matches!(call, Call::Event(_)));
        match forgotten {
            Some((call, _)) => Err(("forgotten", format!("the adapter was stopped ({reason}), {call:?} waits"))),
            None => Ok(()),
        }
    }

    fn take_answers(&mut self) {
        for hostile in &mut self.hostile {
            for _ in 0..hostile.pending.len() {
                let Some((call, pending)) = hostile.pending.pop_front() else { break };
                match self.host.take_answer(pending) {
                    Some(result) => drop(note(&self.diary, &mut self.report, hostile, &call, result)),
                    None => hostile.pending.push_back((call, pending)),
                }
            }
        }
    }

    fn run_hardware(&self, steps: u64) {
        for _ in 0..=steps {
            if !self.host.step() {
                break;
            }
        }
    }

    /// The state when nothing is under way and nothing is left that the kernel would do in passing; `None`: it goes on
    /// doing things, such as taking turns.
    fn at_rest(&mut self) -> Result<Option<StateDigest>, Broken> {
        self.drain()?;
        let mut before = self.host.state_digest();
        for _ in 0..6 {
            // A turn that says nothing new: whatever has become due is carried out with it.
            self.host.set_process_priority(self.outsider, 2);
            self.drain()?;
            let after = self.host.state_digest();
            if before == after {
                return Ok(Some(after));
            }
            before = after;
        }
        Ok(None)
    }

    /// Lets everything happen that will happen by itself. Packets that wait for ever take turns for ever where the kernel does not look for
    /// hangs: they end with their processes.
    fn drain(&mut self) -> Result<(), Broken> {
        if self.comes_to_rest() {
            return self.holds_no_bystander();
        }
        if self.endless {
            (0..self.hostile.len()).for_each(|who| self.kill(who));
            if self.comes_to_rest() {
                return self.holds_no_bystander();
            }
        }
        Err(("rest", format!("no rest after {STEPS_MAX} steps of the hardware")))
    }

    fn comes_to_rest(&self) -> bool {
        (0..STEPS_MAX).any(|_| !self.host.step())
    }

    /// A process dies, if it is so drawn. In half of the cases nothing comes between that and rest: then nothing of it is left.
    fn death(&mut self, random: &mut Random) -> Result<(), Broken> {
        if !random.chance(30) {
            return Ok(());
        }
        self.kill(random.index(self.hostile.len()));
        // A driver that lies may owe an interrupt, and a device that is asleep or was pulled out finishes nothing.
        if self.lies.is_some() || self.asleep || self.slot.is_empty() || random.chance(50) || !self.comes_to_rest() {
            return Ok(());
        }
        self.host.check_nothing_left().map_err(|broken| ("nothing left", broken.to_string()))
    }

    /// A process dies, another of its kind comes.
    fn kill(&mut self, who: usize) {
        self.diary.write(format!("process {} dies", self.hostile[who].id.0));
        let dice = self.hostile[who].dice.clone();
        self.hostile[who] = Hostile::new(&self.host, dice, self.endless);
    }

    fn notifications(&self) {
        for hostile in &self.hostile {
            while self.host.take_notification(hostile.id).is_some() {}
        }
    }

    fn testify(&mut self, random: &mut Random) -> Result<(), Broken> {
        if self.asleep {
            return Ok(());
        }
        let moves = !self.endless;
        let mut dice = Dice::new(random.split(), 0);
        let Some(witness) = &mut self.witness else { return Ok(()) };
        self.diary.write(format!("the witness, process {}, looks", witness.process().0));
        match witness.round(&mut dice, moves) {
            Ok(()) => self.report.rounds += 1,
            // Its adapter may be gone, or worse.
            Err(place) if self.lies.is_some() => self.diary.write(format!("    the witness: {place}")),
            Err(place) => return Err(("witness", place)),
        }
        Ok(())
    }
}
