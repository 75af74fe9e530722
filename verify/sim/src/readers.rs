//! Worlds of readers. A process or two go through the same step again and again, as programs do that compute: operations read weights that do
//! not all fit into video memory, and write what the next ones read. Their kernel plans its evictions, and may leave in system memory what
//! an operation only reads (`read_in_place`); the engines share a bus. The device compares every word that an operation reads with what was
//! written last.
//!
//! | rule | how it is seen |
//! |---|---|
//! | an operation reads what was written last, wherever it lies | the device compares each word |
//! | no operation that fits is refused, and no device is lost | the process comes to the end of its steps |
//! | frames, paging order, invariants, the driver's contract | as in every world |

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use dxgk_host::{Conductor, Eviction, Host, HostConfig, Mode, ProcessLink, Profile, page_table_bytes};
use replay::{
    ContentMode, DriveError, DriveOptions, Driven, Event, Observer, ResidencyPolicy, SourceKind, Storage, Workload,
    drive,
};

use crate::bystander::Bystander;
use crate::check::ledger::Listener;
use crate::check::{Shared, shared};
use crate::random::Random;
use crate::report::{Report, Violation};
use crate::sabotage::Sabotage;
use crate::shape::has_bystanders;
use crate::watch::Watched;
use crate::world::{Broken, told};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Operations between two looks at the invariants.
const LOOK_EVERY: u64 = 16;

/// Runs the world of a seed to its end.
///
/// # Errors
/// The first rule that was broken.
pub fn run(seed: u64) -> Result<Report, Box<Violation>> {
    told(seed, |ledger| {
        let mut random = Random::new(seed);
        let (host, profile) = start(&mut random, ledger)?;
        let bystander =
            Beside(Mutex::new((has_bystanders(seed).then(|| Bystander::new(&host, seed, &profile, false)), Ok(()))));
        let steps = 3 + random.below(4) as u32;
        let workloads: Vec<Workload> = (0..1 + random.index(2)).map(|_| step_of(&mut random)).collect();
        let calls = live(&host, &bystander, &workloads, steps, seed)?;
        bystander.ends(&host)?;
        look(&host, ledger)?;
        let in_place = host.adapter(0).plans().iter().map(|(_, plan)| plan.in_place.paged_in).sum();
        let (trace_hash, events) = shared(ledger).trace();
        let mut seen = shared(ledger).seen().clone();
        seen.insert("page read in place".into(), in_place);
        seen.extend(bystander.tally().into_iter().map(|(what, count)| (what.to_owned(), count)));
        let virtual_ns = host.now_ns();
        shared(ledger).close_lines();
        Ok(Report { seed, trace_hash, events, calls, turns: u64::from(steps), virtual_ns, seen })
    })
}

/// Of the weights of a step between a half and all fit.
fn start(random: &mut Random, ledger: &Shared) -> Result<(Arc<Host>, Profile), Broken> {
    let name = *random.pick(&["discrete-4k", "discrete-4k", "discrete-64k"]);
    let mut profile = *Profile::named(name).ok_or(("start", format!("no profile {name}")))?;
    profile.timing = profile.timing.with_shared_bus();
    if random.chance(50) {
        profile.timing = profile.timing.with_link(1_000 + random.below(60_000));
    }
    shared(ledger).frames.system_bytes(1024 * MIB);
    let watched = Arc::clone(ledger);
    let mut config = HostConfig {
        vram_bytes: MIB + random.below(16) * 65_536,
        page_table_bytes: page_table_bytes(64 * MIB),
        system_bytes: 64 * MIB,
        tracer: Box::new(Listener(Arc::clone(ledger))),
        wrap_miniport: Some(Box::new(move |inner| Watched::before(inner, watched, Sabotage::None, false))),
        ..HostConfig::new(&profile, Mode::Virtual { stored: true })
    };
    (config.memory_policy.eviction, config.memory_policy.read_in_place) = (Eviction::Planner, true);
    let host = Host::start(config).map_err(|error| ("start", error.to_string()))?;
    Ok((host, profile))
}

/// A step: some of its operations use a weight again, a few write one.
fn step_of(random: &mut Random) -> Workload {
    let weights = 4 + random.index(12);
    let size = |random: &mut Random| PAGE * (1 + random.below(48));
    let mut storages: Vec<Storage> = (0..weights).map(|_| Storage { bytes: size(random), persistent: true }).collect();
    let mut events = Vec::new();
    // CAST: there are few storages.
    let mut handed_on = None;
    for _ in 0..weights + random.index(2 * weights) {
        let mut reads: Vec<u32> = (0..1 + random.index(2)).map(|_| random.index(weights) as u32).collect();
        let mut writes: Vec<u32> = if random.chance(8) { vec![reads[0]] } else { Vec::new() };
        reads.extend(handed_on);
        let dead = handed_on.take();
        if random.chance(60) {
            storages.push(Storage { bytes: size(random) / 4 + 8, persistent: false });
            handed_on = Some(storages.len() as u32 - 1);
            writes.extend(handed_on);
        }
        reads.sort_unstable();
        reads.dedup();
        events.push(Event::Op { adapter: None, name: 0, reads, writes });
        events.extend(dead.map(Event::Death));
    }
    let names = vec!["layer".to_owned()];
    Workload::new("readers".to_owned(), SourceKind::ReferenceString, storages, names, events)
        .expect("it keeps the rules")
}

/// The steps of all processes; how many operations they were.
fn live(host: &Arc<Host>, bystander: &Beside, workloads: &[Workload], steps: u32, seed: u64) -> Result<u64, Broken> {
    let conductor = Conductor::new(Arc::clone(host), workloads.len());
    let driven: Vec<Result<Driven, DriveError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = workloads
            .iter()
            .enumerate()
            .map(|(number, workload)| {
                let conductor = &conductor;
                scope.spawn(move || {
                    let options = DriveOptions {
                        steps,
                        content: ContentMode::Verified,
                        seed: seed.wrapping_add(number as u64),
                        residency: ResidencyPolicy::PerOperation,
                        hears_budget: false,
                        stage: None,
                        keeps_submissions: false,
                        ahead_bytes: None,
                        constant_bytes: None,
                        recorded_times: false,
                        in_place: true,
                    };
                    let _seat = conductor.enter(number);
                    let link = conductor.link(number, ProcessLink::new(Arc::clone(host)));
                    drive(workload, link, options, &mut Looks { host, bystander }, &AtomicBool::new(false))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a panic was reported")).collect()
    });
    let mut operations = 0;
    for driven in driven {
        let driven = driven.map_err(|error| ("answers", error.to_string()))?;
        if let Some(mismatch) = driven.mismatch {
            return Err(("content", mismatch.to_string()));
        }
        if let Some(state) = driven.lost {
            return Err(("residency", format!("a device was lost: {state:?}")));
        }
        operations += driven.ops;
    }
    Ok(operations)
}

/// The bystander, and the first rule that was broken for it. One process at a time runs, and it acts between two operations of that one.
struct Beside(Mutex<(Option<Bystander>, Result<(), Broken>)>);

impl Beside {
    fn with(&self, act: impl FnOnce(&mut Bystander) -> Result<(), Broken>) {
        let mut beside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(bystander), Ok(())) = &mut *beside else { return };
        let acted = act(bystander);
        beside.1 = acted;
    }

    /// All others have gone: it goes, too.
    fn ends(&self, host: &Host) -> Result<(), Broken> {
        while host.step() {}
        self.with(|bystander| bystander.at_rest(host));
        let mut beside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beside.0.iter_mut().for_each(|bystander| _ = bystander.leave());
        beside.1.clone()
    }

    fn tally(&self) -> Vec<(&'static str, u64)> {
        let beside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beside.0.iter().flat_map(Bystander::tally).collect()
    }
}

/// Looks at the invariants now and then, and has the bystander act.
struct Looks<'a> {
    host: &'a Host,
    bystander: &'a Beside,
}

impl Observer for Looks<'_> {
    fn progress(&mut self, done: u64, _total: u64) {
        self.bystander.with(|bystander| bystander.turn(self.host));
        if done.is_multiple_of(LOOK_EVERY) {
            self.host.check_invariants().expect("what always holds");
        }
    }

    fn step_done(&mut self, _step: u32, _now_ns: u64) {}
}

fn look(host: &Host, ledger: &Shared) -> Result<(), Broken> {
    host.check_invariants().map_err(|broken| ("invariants", broken.to_string()))?;
    let mut ledger = shared(ledger);
    if let Some((process, reason)) = ledger.take_lost().first() {
        ledger.check("residency", Err(format!("process {process} lost its device: {reason}")));
    }
    ledger.broken().map_or(Ok(()), |broken| Err(broken.clone()))
}
