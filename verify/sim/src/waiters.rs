//! Worlds of waiters. A few processes with two devices each have fences on one device that queues of the other signal, and fences that all
//! share, which their signallers call by a wrong name now and then, or close behind a signal and open again; beside them go signals that
//! have no waiter, so many that logs run over while the driver keeps its interrupts; and the CPU waits for everything (sync §3.10, §3.14,
//! §3.15). Half of the adapters name queues in their interrupts, half name fences, and some drivers do not know.
//!
//! | rule | how it is seen |
//! |---|---|
//! | no waiter of the CPU sleeps when its CurrentValue has been reached and the interrupt is delivered | at rest, when the driver has told what it kept |
//! | no waiter is woken early | each answer is compared with the word |
//! | values only rise | the ledger looks at every word |
//!
//! One queue signals a fence, for engines do not wait for each other here: so its values come in their order.

mod process;

use std::sync::Arc;

use d3dkmt::{Fence, FenceFlags, NativeFenceRequest, NtHandle, SyncObjectAccess};
use dxgk_host::{Host, HostConfig, Mode, Pending, Profile};
use softgpu_umd::{Commands, FenceName};
use wddm_types::RawHandle;

use crate::bystander::Bystander;
use crate::check::ledger::Listener;
use crate::check::{Shared, shared};
use crate::random::Random;
use crate::report::{Report, Violation};
use crate::sabotage::Sabotage;
use crate::shape::has_bystanders;
use crate::watch::{Folds, Names, Watched};
use crate::world::{Broken, told};
use process::{Process, failed, refused};

const MIB: u64 = 1 << 20;
/// Turns of a world.
const TURNS: u64 = 300;
/// Devices of a process.
const DEVICES: usize = 2;
/// Fences of each device that its process alone has.
const OWN: usize = 2;
/// Fences that all processes share.
const COMMON: usize = 2;
/// More signals than a log has entries.
const OVERRUN: u64 = 100;
/// Steps in which the hardware comes to rest.
const STEPS_MAX: u64 = 1_000_000;

/// A fence with waiters.
struct Waited {
    /// Each process's open of it, and the device; the signaller's at its place.
    opens: Vec<Option<(usize, Fence)>>,
    name: Option<NtHandle>,
    /// Process and device whose queue signals it.
    signaller: (usize, usize),
    promised: u64,
}

impl Waited {
    fn signallers_open(&self) -> &Fence {
        &self.opens[self.signaller.0].as_ref().expect("its signaller has it").1
    }

    fn current(&self) -> u64 {
        self.signallers_open().current()
    }
}

struct Wait {
    pending: Pending,
    fence: usize,
    value: u64,
}

struct World {
    host: Arc<Host>,
    ledger: Shared,
    folds: Arc<Folds>,
    random: Random,
    // Fences go before the devices that have them.
    fences: Vec<Waited>,
    processes: Vec<Process>,
    waits: Vec<Wait>,
    bystander: Option<Bystander>,
    calls: u64,
    overruns: u64,
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first rule that was broken.
pub fn run(seed: u64, sabotage: Sabotage) -> Result<Report, Box<Violation>> {
    told(seed, |ledger| {
        let mut world = World::new(seed, sabotage, ledger)?;
        let lived = (0..TURNS).try_for_each(|turn| world.turn(turn)).and_then(|()| world.finish());
        // How the world is taken down is no part of the story.
        shared(ledger).close_lines();
        lived.map(|()| world.report(seed))
    })
}

impl World {
    fn new(seed: u64, sabotage: Sabotage, ledger: &Shared) -> Result<World, Broken> {
        let mut random = Random::new(seed);
        let name = *random.pick(&["optimized-fences", "optimized-fences", "discrete-4k"]);
        let names = if random.chance(70) { Names::Exact } else { Names::None };
        let folds = Arc::new(Folds::new(names, sabotage == Sabotage::DriverForgetsFolded));
        let profile = Profile::named(name).ok_or(("start", format!("no profile {name}")))?;
        let (watched, late) = (Arc::clone(ledger), Arc::clone(&folds));
        shared(ledger).frames.system_bytes(1024 * MIB);
        let config = HostConfig {
            vram_bytes: 4 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 32 * MIB,
            tracer: Box::new(Listener(Arc::clone(ledger))),
            wrap_miniport: Some(Box::new(move |inner| Watched::before_late(inner, watched, sabotage, late))),
            ..HostConfig::new(profile, Mode::Virtual { stored: true })
        };
        let profile = config.profile;
        let host = Host::start(config).map_err(|error| ("start", error.to_string()))?;
        // The driver keeps interrupts for long: the kernel finds what it has kept.
        let bystander =
            has_bystanders(seed).then(|| Bystander::new(&host, seed, &profile, false).with_usual_recovery());
        let count = 2 + random.index(2);
        let processes = (0..count).map(|_| Process::new(&host)).collect::<Result<Vec<_>, _>>()?;
        let mut world = World {
            host,
            ledger: Arc::clone(ledger),
            folds,
            random,
            fences: Vec::new(),
            processes,
            waits: Vec::new(),
            bystander,
            calls: 0,
            overruns: 0,
        };
        world.make_fences()?;
        Ok(world)
    }

    fn make_fences(&mut self) -> Result<(), Broken> {
        let count = self.processes.len();
        for who in 0..count {
            for at in 0..DEVICES * OWN {
                let device = at % DEVICES;
                let request = NativeFenceRequest::default();
                let fence = self.processes[who].devices[device].gpu.device().create_native_fence(request);
                let mut opens: Vec<_> = (0..count).map(|_| None).collect();
                opens[who] = Some((device, fence.map_err(refused)?));
                let signaller = (who, self.random.index(DEVICES));
                self.fences.push(Waited { opens, name: None, signaller, promised: 0 });
            }
        }
        for _ in 0..COMMON {
            let signaller = (self.random.index(count), self.random.index(DEVICES));
            // Else each close would let all CPUs go on that wait (sync §2.3).
            let flags =
                FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING | FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY;
            let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
            let maker = &self.processes[signaller.0].devices[1 - signaller.1].gpu;
            let made = maker.device().create_native_fence(request).map_err(refused)?;
            let name = made.share(SyncObjectAccess::ALL_ACCESS).map_err(refused)?;
            let mut opens = Vec::new();
            for who in 0..count {
                let device = self.random.index(DEVICES);
                opens.push(Some((device, self.processes[who].open(device, &name)?)));
            }
            self.fences.push(Waited { opens, name: Some(name), signaller, promised: 0 });
        }
        Ok(())
    }

    fn turn(&mut self, turn: u64) -> Result<(), Broken> {
        match self.random.below(100) {
            0..35 => self.submit()?,
            35..60 => self.wait()?,
            60..65 => self.reopen()?,
            65..75 => self.folds.keep(self.random.chance(60)),
            75..95 => {
                for _ in 0..=self.random.below(12) {
                    self.host.step();
                }
            }
            _ => self.at_rest()?,
        }
        if let Some(bystander) = self.bystander.as_mut().filter(|_| turn.is_multiple_of(2)) {
            bystander.turn(&self.host)?;
        }
        self.look(turn)
    }

    /// A queue signals some of the fences that are its to signal, and perhaps many that have no waiter.
    fn submit(&mut self) -> Result<(), Broken> {
        let who = self.random.index(self.processes.len());
        let at = self.random.index(DEVICES);
        let its: Vec<usize> =
            (0..self.fences.len()).filter(|fence| self.fences[*fence].signaller == (who, at)).collect();
        let mut commands = Commands::new();
        for fence in its.into_iter().filter(|_| self.random.chance(60)).collect::<Vec<_>>() {
            let fence = &mut self.fences[fence];
            fence.promised += 1 + self.random.below(2);
            let open = fence.signallers_open();
            // The log is its process's word: of its own fences it tells the truth.
            let handle = match self.random.below(3) {
                0 if fence.name.is_some() => self.processes[who].devices[at].noise.handle(),
                1 if fence.name.is_some() => RawHandle::NONE,
                _ => open.handle(),
            };
            commands.signal(FenceName { handle, ..FenceName::from(open) }, fence.promised);
        }
        let device = &mut self.processes[who].devices[at];
        if self.random.chance(25) {
            self.overruns += 1;
            for _ in 0..OVERRUN {
                device.noise_value += 1;
                commands.signal(&device.noise, device.noise_value);
            }
        }
        self.calls += 1;
        device.stream.submit(&device.gpu, &[], &commands).map(drop).map_err(failed)
    }

    /// A CPU waits for a value that was promised, or for the next.
    fn wait(&mut self) -> Result<(), Broken> {
        let at = self.random.index(self.fences.len());
        let who: Vec<usize> = (0..self.processes.len()).filter(|who| self.fences[at].opens[*who].is_some()).collect();
        let who = *self.random.pick(&who);
        let value = (self.fences[at].promised + 2).saturating_sub(self.random.below(4));
        let fence = &self.fences[at];
        let (device, open) = fence.opens[who].as_ref().expect("it has it");
        self.calls += 1;
        match self.processes[who].begin_wait(&self.host, *device, open, value) {
            Ok(_) if value <= fence.current() => Ok(()),
            Ok(answer) => {
                Err(("fences", format!("a wait for {value} was answered at {}: {answer:?}", fence.current())))
            }
            Err(pending) => {
                self.waits.push(Wait { pending, fence: at, value });
                Ok(())
            }
        }
    }

    /// The signaller of a shared fence sees that its engine is done, closes the fence and opens it again: under another name, at another
    /// address.
    fn reopen(&mut self) -> Result<(), Broken> {
        let common = self.fences.len() - COMMON + self.random.index(COMMON);
        let fence = &mut self.fences[common];
        if fence.current() < fence.promised {
            return Ok(());
        }
        let (who, _) = fence.signaller;
        let device = self.random.index(DEVICES);
        fence.opens[who] = None;
        self.calls += 2;
        let name = fence.name.as_ref().expect("those that all share have names");
        fence.opens[who] = Some((device, self.processes[who].open(device, name)?));
        Ok(())
    }

    /// The hardware comes to rest and the driver tells what it has kept: a waiter that has been forgotten sleeps on now.
    // spec: sync §3.10, sync §3.14, sync §3.15, sync §3.19
    fn at_rest(&mut self) -> Result<(), Broken> {
        self.settle()?;
        self.folds.keep(false);
        if self.folds.is_behind() {
            let who = self.random.index(self.processes.len());
            let process = &self.processes[who];
            let (mut commands, value) = (Commands::new(), process.bell.current() + 1);
            commands.signal(&process.bell, value);
            let wait = process.begin_wait(&self.host, 0, &process.bell, value);
            let pending = wait.err().ok_or(("fences", "a wait for what is to come was answered".to_string()))?;
            let device = &mut self.processes[who].devices[0];
            device.stream.submit(&device.gpu, &[], &commands).map_err(failed)?;
            self.settle()?;
            if self.host.take_answer(pending).is_none() {
                return Err(("fences", format!("process {who} does not hear its own bell")));
            }
        }
        self.answers()?;
        if let Some(bystander) = &mut self.bystander {
            bystander.at_rest(&self.host)?;
        }
        for wait in &self.waits {
            let fence = &self.fences[wait.fence];
            if fence.current() >= wait.value {
                let (current, (who, device), value) = (fence.current(), fence.signaller, wait.value);
                return Err((
                    "fences",
                    format!(
                        "a waiter for {value} sleeps although fence {} is at {current}: device {device} of process {who} signals it",
                        wait.fence
                    ),
                ));
            }
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Broken> {
        let rests = (0..STEPS_MAX).any(|_| !self.host.step());
        rests.then_some(()).ok_or(("liveness", "the hardware never comes to rest".into()))
    }

    /// Waits that are over, which they may be when their value has come.
    fn answers(&mut self) -> Result<(), Broken> {
        let mut at = 0;
        while at < self.waits.len() {
            let Some(result) = self.host.take_answer(self.waits[at].pending) else {
                at += 1;
                continue;
            };
            let Wait { fence, value, .. } = self.waits.swap_remove(at);
            let current = self.fences[fence].current();
            if result.is_err() || current < value {
                return Err(("fences", format!("a wait for {value} ended at {current}: {result:?}")));
            }
        }
        Ok(())
    }

    fn look(&mut self, turn: u64) -> Result<(), Broken> {
        let mut ledger = shared(&self.ledger);
        let outcome = ledger.fences.look(self.host.system_memory());
        ledger.check("fences", outcome);
        if let Some((process, reason)) = ledger.take_lost().first() {
            ledger.check("residency", Err(format!("process {process} lost its device: {reason}")));
        }
        if let Some(broken) = ledger.broken() {
            return Err(broken.clone());
        }
        drop(ledger);
        if turn.is_multiple_of(16) {
            self.host.check_invariants().map_err(|broken| ("invariants", broken.to_string()))?;
        }
        if let Some(bystander) = &mut self.bystander {
            bystander.look(&self.host)?;
        }
        self.answers()
    }

    /// Everything that was promised has come, and all waits that it satisfies are over.
    fn finish(&mut self) -> Result<(), Broken> {
        self.at_rest()?;
        self.look(0)?;
        match self.fences.iter().find(|fence| fence.current() != fence.promised) {
            Some(fence) => Err(("liveness", format!("a fence came to {} of {}", fence.current(), fence.promised))),
            None => Ok(()),
        }
    }

    fn report(self, seed: u64) -> Report {
        let ledger = shared(&self.ledger);
        let (virtual_ns, calls) = (self.host.now_ns(), self.calls);
        let (trace_hash, events) = ledger.trace();
        let mut seen = ledger.seen().clone();
        seen.insert("log run over".into(), self.overruns);
        seen.insert("interrupt for several".into(), self.folds.told_of_several());
        drop(ledger);
        if let Some(bystander) = &self.bystander {
            seen.extend(bystander.tally().map(|(what, count)| (what.to_owned(), count)));
        }
        Report { seed, trace_hash, events, calls, turns: TURNS, virtual_ns, seen }
    }
}
