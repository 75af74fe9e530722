//! Worlds with two adapters. A few processes have work on both: content crosses in memory that both reach, handed from GPU to GPU under
//! a fence for each slot of it; and fences that all processes share on both adapters order the work of all of them; engines, kernel-fed
//! queues, packets and the CPU wait for and signal these (sync §3.12, §3.13, §3.18). Some die in the middle.
//!
//! A submission that promises the next value of a fence waits for the one before, so all waits lead back to something that can run, and the
//! outcome of the world is known:
//!
//! | rule | how it is seen |
//! |---|---|
//! | content | a reader of a slot compares every byte with the last writer's |
//! | no wait is over early | content would be wrong; a wait of the CPU says so at once |
//! | no waiter is forgotten | when the hardware rests, whatever is next on each lane waits for a value that has not come |
//! | values only rise | each adapter's ledger looks at every word |
//! | what the dead owe | comes from the CPU of process 0; the waiters go on |
//!
//! Each adapter has a driver that is watched, and a ledger of its own: numbers of objects are the adapter's.

mod party;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use device_port::DevicePort;
use dxgk_host::{AdapterSetup, Host, HostConfig, Mode, Pending, Profile};
use events::{Event, Tracer};
use kmt_calls::{AdapterCall, Call, DeviceCall, Reply, SyncCall, WaitFlags};
use softgpu_kmd::PeerMode;
use wddm_types::{AdapterIndex, RawHandle};

use crate::bystander::Bystander;
use crate::check::ledger::Listener;
use crate::check::{Shared, shared};
use crate::random::Random;
use crate::report::{Report, Violation};
use crate::sabotage::{DeafPort, Sabotage};
use crate::shape::has_bystanders;
use crate::watch::Watched;
use crate::world::{Broken, told};
use party::{Common, Party};

const MIB: u64 = 1 << 20;
/// Turns of a world.
const TURNS: u64 = 400;
/// Fences that all processes have.
const COMMON: usize = 3;
/// Steps in which the hardware comes to rest.
const STEPS_MAX: u64 = 1_000_000;
/// Pairs of adapters, and what they have of doorbells from one to the other.
const PAIRS: [([&str; 2], PeerMode); 6] = [
    (["discrete-4k", "discrete-4k"], PeerMode::None),
    (["integrated", "discrete-4k"], PeerMode::None),
    (["discrete-4k", "wddm2-packets"], PeerMode::None),
    (["peer-doorbells", "peer-doorbells"], PeerMode::Doorbells),
    (["peer-linear", "peer-linear"], PeerMode::LinearStorage),
    (["discrete-64k", "noncoherent"], PeerMode::None),
];

/// A world with two adapters.
struct World {
    host: Arc<Host>,
    ledgers: [Shared; 2],
    random: Random,
    parties: Vec<Option<Party>>,
    common: Vec<Common>,
    waits: Vec<Wait>,
    bystander: Option<Bystander>,
    calls: u64,
}

/// A wait of a process's CPU.
struct Wait {
    who: usize,
    pending: Pending,
    fence: usize,
    value: u64,
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first rule that was broken.
pub fn run(seed: u64, sabotage: Sabotage) -> Result<Report, Box<Violation>> {
    told(seed, |ledger| {
        let mut world = World::new(seed, sabotage, ledger)?;
        (0..TURNS).try_for_each(|turn| world.turn(turn))?;
        world.finish(seed)
    })
}

impl World {
    fn new(seed: u64, sabotage: Sabotage, ledger: &Shared) -> Result<World, Broken> {
        let mut random = Random::new(seed);
        let (names, peers) = *random.pick(&PAIRS);
        let ledgers = [Arc::clone(ledger), Shared::default()];
        let mut setups = Vec::new();
        // The processes come to be while everything is heard: they wait for their first mappings.
        let deaf = Arc::new(AtomicBool::new(false));
        for (name, ledger) in names.into_iter().zip(&ledgers) {
            let mut profile = *Profile::named(name).ok_or(("start", format!("no profile {name}")))?;
            profile.driver.peers = peers;
            let (watched, has_packets) = (Arc::clone(ledger), name == "wddm2-packets");
            let mut setup = AdapterSetup::new(&profile, Mode::Virtual { stored: true });
            (setup.vram_bytes, setup.page_table_bytes) = ((1 + random.below(4)) * MIB, 16 * MIB);
            setup.system_bytes = (16 + random.below(16)) * MIB;
            setup.wrap_miniport = Some(Box::new(move |inner| Watched::before(inner, watched, sabotage, has_packets)));
            if sabotage == Sabotage::LostInterrupts {
                let deaf = Arc::clone(&deaf);
                setup.wrap_port = Some(Box::new(|inner| Arc::new(DeafPort::new(inner, deaf)) as Arc<dyn DevicePort>));
            }
            shared(ledger).frames.system_bytes(1024 * MIB);
            setups.push((profile, setup));
        }
        let (_, other) = setups.pop().expect("two");
        let (profile, first) = setups.pop().expect("two");
        let config = HostConfig {
            vram_bytes: first.vram_bytes,
            page_table_bytes: first.page_table_bytes,
            system_bytes: first.system_bytes,
            wrap_miniport: first.wrap_miniport,
            wrap_port: first.wrap_port,
            tracer: Box::new(Both(ledgers.clone())),
            others: vec![other],
            ..HostConfig::new(&profile, Mode::Virtual { stored: true })
        };
        let host = Host::start(config).map_err(|error| ("start", error.to_string()))?;
        let count = 2 + random.index(2);
        let mut parties = Vec::new();
        let mut common = Vec::new();
        for who in 0..count {
            let party = Party::new(&host, &mut common, COMMON, random.draw() << 16);
            parties.push(Some(party.map_err(|place| ("start", format!("process {who}: {place}")))?));
        }
        deaf.store(true, Ordering::Relaxed);
        let bystander = has_bystanders(seed).then(|| Bystander::new(&host, seed, &profile, false));
        Ok(World { host, ledgers, random, parties, common, waits: Vec::new(), bystander, calls: 0 })
    }

    fn turn(&mut self, turn: u64) -> Result<(), Broken> {
        if self.random.chance(55) {
            self.act()?;
        } else {
            for _ in 0..=self.random.below(12) {
                if !self.host.step() {
                    self.at_rest()?;
                    break;
                }
            }
        }
        if let Some(bystander) = self.bystander.as_mut().filter(|_| turn.is_multiple_of(2)) {
            bystander.turn(&self.host)?;
        }
        self.look(turn)
    }

    /// A process that chance picks acts.
    fn act(&mut self) -> Result<(), Broken> {
        let who = self.random.index(self.parties.len());
        let (what, adapter, fence) = (self.random.below(100), self.random.index(2), self.random.index(COMMON));
        if self.parties[who].is_none() {
            return Ok(());
        }
        self.calls += 1;
        match what {
            0..55 => self.submit(who, adapter),
            55..70 => self.wait(who, adapter, fence),
            70..85 => self.signal(who, adapter, fence),
            // Process 0 stays, to keep the promises of the dead.
            85 if who != 0 => {
                self.waits.retain(|wait| wait.who != who);
                self.parties[who].take().expect("it lives").die(&self.host);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Work on an adapter: a slot is read, or written anew, and perhaps a common fence gets its next value behind it.
    fn submit(&mut self, who: usize, adapter: usize) -> Result<(), Broken> {
        let (slot, writes) = (self.random.index(party::SLOTS), self.random.chance(45));
        let fence = self.random.chance(60).then(|| self.random.index(COMMON));
        let party = self.parties[who].as_mut().expect("it lives");
        party.submit(adapter, slot, writes, fence.map(|fence| (fence, &mut self.common[fence])), who);
        Ok(())
    }

    /// A CPU waits for a promised value, or for the one behind it.
    fn wait(&mut self, who: usize, adapter: usize, fence: usize) -> Result<(), Broken> {
        let promised = self.common[fence].promised();
        let value = (promised + 1).saturating_sub(self.random.below(4));
        let party = self.parties[who].as_ref().expect("it lives");
        let current = party.current(fence);
        let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
            device: party.device(adapter),
            points: vec![(party.handle(adapter, fence), value)],
            async_event: RawHandle::NONE,
            flags: WaitFlags::empty(),
        });
        match self.host.begin_call(party.id, call) {
            // The kernel may have carried out a packet's signal within the call.
            Ok(Ok(_)) if value <= party.current(fence) => Ok(()),
            Ok(answer) => Err(("fences", format!("a wait for {value} was answered at {current}: {answer:?}"))),
            Err(_) if value <= current => Err(("fences", format!("a wait for {value} blocks at {current}"))),
            Err(pending) => {
                self.waits.push(Wait { who, pending, fence, value });
                Ok(())
            }
        }
    }

    /// A CPU gives the next value, where no promised one is outstanding.
    fn signal(&mut self, who: usize, adapter: usize, fence: usize) -> Result<(), Broken> {
        let party = self.parties[who].as_ref().expect("it lives");
        if party.current(fence) < self.common[fence].promised() {
            return Ok(());
        }
        let value = self.common[fence].promise(None);
        party.signal(adapter, fence, value).map_err(|refusal| ("answers", format!("a signal was refused: {refusal}")))
    }

    fn current(&self, fence: usize) -> u64 {
        self.parties.iter().flatten().next().map_or(0, |party| party.current(fence))
    }

    /// The hardware is at rest: a waiter that could go on has been forgotten. Process 0 signals a value that the dead owe; returns whether
    /// they owed one.
    // spec: sync §3.12, sync §3.19
    fn at_rest(&mut self) -> Result<bool, Broken> {
        for (who, party) in self.parties.iter().enumerate() {
            let Some(party) = party else { continue };
            if let Some(place) = party.forgotten() {
                return Err(("fences", format!("process {who} was forgotten: {place}")));
            }
        }
        self.answers()?;
        if let Some(bystander) = &mut self.bystander {
            bystander.at_rest(&self.host)?;
        }
        if let Some(wait) = self.waits.iter().find(|wait| self.current(wait.fence) >= wait.value) {
            return Err(("fences", format!("a CPU's waiter of process {} was lost at {}", wait.who, wait.value)));
        }
        for fence in 0..COMMON {
            let next = self.current(fence) + 1;
            let owes = self.common[fence].owner(next);
            let dead = owes.is_some_and(|who| self.parties[who].is_none());
            if dead {
                let adapter = self.random.index(2);
                let keeper = self.parties[0].as_ref().expect("it never dies");
                let kept = keeper.signal(adapter, fence, next);
                return match kept {
                    Ok(()) => Ok(true),
                    Err(refusal) => Err(("answers", format!("what the dead owed was refused: {refusal}"))),
                };
            }
        }
        Ok(false)
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
            if result.is_err() || self.current(fence) < value {
                let current = self.current(fence);
                return Err(("fences", format!("a wait for {value} ended at {current}: {result:?}")));
            }
        }
        Ok(())
    }

    fn look(&mut self, turn: u64) -> Result<(), Broken> {
        for ledger in &self.ledgers {
            let mut ledger = shared(ledger);
            let outcome = ledger.fences.look(self.host.system_memory());
            ledger.check("fences", outcome);
            if let Some((process, reason)) = ledger.take_lost().first() {
                ledger.check("residency", Err(format!("process {process} lost its device: {reason}")));
            }
            if let Some(broken) = ledger.broken() {
                return Err(broken.clone());
            }
        }
        for (who, party) in self.parties.iter().enumerate() {
            let Some(party) = party else { continue };
            party.content().map_err(|place| ("content", format!("process {who}: {place}")))?;
            for (fence, common) in self.common.iter().enumerate() {
                let read = party.currents(fence);
                if read[0] != read[1] || read[0] > common.promised() {
                    return Err(("fences", format!("fence {fence} reads {read:?}, promised {}", common.promised())));
                }
            }
        }
        if turn.is_multiple_of(8) {
            self.host.check_invariants().map_err(|broken| ("invariants", broken.to_string()))?;
        }
        if let Some(bystander) = &mut self.bystander {
            bystander.look(&self.host)?;
        }
        self.answers()
    }

    /// Everything that was promised comes, then all die, and nothing is left of them.
    fn finish(mut self, seed: u64) -> Result<Report, Broken> {
        let mut steps = 0;
        let done = |world: &World| {
            let kept = (0..COMMON).all(|fence| world.current(fence) == world.common[fence].promised());
            kept && world.parties.iter().flatten().all(Party::done)
        };
        while !done(&self) {
            steps += 1;
            if steps > STEPS_MAX || !self.host.step() && !self.at_rest()? {
                return Err(("liveness", "what was promised never comes".into()));
            }
        }
        // A wait beyond the promised values ends with its process.
        while self.host.step() {}
        self.look(0)?;
        if let Some(bystander) = &mut self.bystander {
            bystander.at_rest(&self.host)?;
            bystander.leave();
        }
        for fence in 0..COMMON {
            let (current, promised) = (self.current(fence), self.common[fence].promised());
            if current != promised {
                return Err(("fences", format!("fence {fence} came to {current} of {promised}")));
            }
        }
        self.waits.clear();
        for party in std::mem::take(&mut self.parties).into_iter().flatten() {
            party.die(&self.host);
        }
        while self.host.step() {}
        // A newcomer's device is there when the ring has got past everything older, so that what was put off has been done.
        let newcomer = self.host.process_created();
        for adapter in 0..2 {
            let opened = self.host.call(
                newcomer,
                Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: self.host.adapter(adapter).luid() }),
            );
            let Ok(Reply::Handle(adapter)) = opened else {
                return Err(("answers", format!("a newcomer's open answered {opened:?}")));
            };
            let device = self.host.call(newcomer, Call::Device(DeviceCall::CreateDevice { adapter }));
            if !matches!(device, Ok(Reply::Handle(_))) {
                return Err(("liveness", format!("a newcomer's device answered {device:?}")));
            }
        }
        while self.host.step() {}
        self.host.check_invariants().map_err(|broken| ("invariants", broken.to_string()))?;
        for (adapter, ledger) in self.ledgers.iter().enumerate() {
            let ledger = shared(ledger);
            let held = ledger.contract.held();
            // The paging process and the newcomer.
            if (held.processes, held.devices, held.doorbells, held.allocations) != (2, 2, 0, 0) {
                return Err(("ddi contract", format!("at the end the driver of adapter {adapter} holds {held:?}")));
            }
            if ledger.resident_bytes() != 0 || !ledger.paging.idle() {
                return Err(("liveness", format!("adapter {adapter} has not come to an end")));
            }
        }
        let [first, second] = self.ledgers.each_ref().map(|ledger| shared(ledger).trace());
        let mut seen = shared(&self.ledgers[0]).seen().clone();
        for (kind, count) in shared(&self.ledgers[1]).seen() {
            *seen.entry(kind.clone()).or_insert(0) += count;
        }
        if let Some(bystander) = &self.bystander {
            seen.extend(bystander.tally().map(|(what, count)| (what.to_owned(), count)));
        }
        let (trace_hash, events) = (first.0 ^ second.0.rotate_left(32), first.1 + second.1);
        let virtual_ns = self.host.now_ns();
        Ok(Report { seed, trace_hash, events, calls: self.calls, turns: TURNS, virtual_ns, seen })
    }
}

/// Each adapter's events go to its own ledger; what is of none goes to the first.
struct Both([Shared; 2]);

impl Tracer for Both {
    fn event(&mut self, now_ns: u64, event: &Event) {
        Listener(Arc::clone(&self.0[0])).event(now_ns, event);
    }

    fn event_of(&mut self, adapter: AdapterIndex, now_ns: u64, event: &Event) {
        Listener(Arc::clone(&self.0[adapter.0 as usize])).event(now_ns, event);
    }
}
