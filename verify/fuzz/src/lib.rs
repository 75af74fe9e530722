//! Hostile clients and lying drivers against the kernel.
//!
//! [`run`] makes the worlds of many seeds. Each has a host in virtual time with little memory and one of many profiles, the
//! first generation among them; two or three processes that make any call there is with handles, flags, sizes, offsets and
//! addresses that are partly an attacker's, and give the GPU work that is in order or nearly so; and one process that
//! behaves. Between the calls processes die, write into their rings and doorbells what they like, and the computer sleeps and
//! wakes; at the end of some worlds the adapter is stopped under them, or the device pulled out. [`run_lies`] does the same
//! with a driver that breaks its contract, and [`run_messages`] sends a daemon what no client sends.
//!
//! # What is checked, after every call
//! | rule | what it says |
//! |---|---|
//! | invariants | `Host::check_invariants`: pages owned once, lists, sums, addresses, objects agree |
//! | nothing left | `Host::check_nothing_left`: what a process that died had is gone at rest, without another call |
//! | unchanged | a refused call leaves `Host::state_digest` as it was (looked at when nothing is under way) |
//! | witness | the work of the process that behaves is done, its bytes are right |
//! | bystander | each call of a process that only makes ordinary calls ends: within a bounded virtual time, and when the hardware rests |
//! | rest | the hardware comes to rest: nothing spins for ever |
//! | assertion | nothing panics |
//!
//! A failure is shrunk and printed with its seed and last calls; the same seed is the same world in every build.

mod dice;
mod generate;
mod hostile;
mod known;
mod liar;
mod messages;
mod report;
mod rings;
mod shrink;
mod slot;
mod witness;
mod world;

pub use messages::{Messages, run_messages};
pub use report::{Failure, Report};

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dice::Dice;
use liar::Lies;
use report::Diary;
use sim::Random;
use world::{Broken, World};

/// Steps of one world. More calls than this are made in more worlds: what is old in a world is mostly dead.
const STEPS: u64 = 400;

/// Makes so many calls, beginning with the world of `seed`.
///
/// # Errors
/// The first rule that was broken, shrunk.
pub fn run(seed: u64, calls: u64) -> Result<Report, Box<Failure>> {
    let mut report = Report::default();
    let mut world = seed;
    while report.calls < calls {
        report.add(run_world(world)?);
        world = world.wrapping_add(1);
    }
    Ok(report)
}

/// Makes so many worlds with drivers that lie, beginning with that of `seed`.
///
/// # Errors
/// The first rule that was broken, shrunk.
pub fn run_lies(seed: u64, worlds: u64) -> Result<Report, Box<Failure>> {
    let mut report = Report::default();
    for world in 0..worlds {
        report.add(run_one(seed.wrapping_add(world), true)?);
    }
    Ok(report)
}

/// One world with an honest driver.
///
/// # Errors
/// The rule that was broken, shrunk.
pub fn run_world(seed: u64) -> Result<Report, Box<Failure>> {
    run_one(seed, false)
}

fn run_one(seed: u64, lies: bool) -> Result<Report, Box<Failure>> {
    let mut random = Random::new(!seed);
    let steps: Vec<u64> = (0..STEPS).map(|_| random.draw()).collect();
    let (done, (rule, _), _) = match play(seed, lies, &steps) {
        Ok(report) => return Ok(report),
        Err(failed) => failed,
    };
    let steps = steps[..done].to_vec();
    let again = |steps: &[u64]| matches!(play(seed, lies, steps), Err((_, (found, _), _)) if found == rule);
    let short = shrink::shrink(steps, again);
    match play(seed, lies, &short) {
        Err((_, (rule, place), last)) => Err(Box::new(Failure { seed, rule, place, steps: short.len(), last })),
        Ok(_) => unreachable!("a seed is one world"),
    }
}

/// Rooms that are the driver's and the hardware's.
const OTHERS: [&str; 3] = [" kmd/", " hardware/", " contract/shared_words/"];

type Failed = (usize, Broken, Vec<String>);

/// Plays a world; on failure how far it got.
fn play(seed: u64, lies: bool, steps: &[u64]) -> Result<Report, Failed> {
    keep_panics();
    let worlds = liar::World { shows: world::shows(seed), hangs: world::hangs(seed), escapes: world::escapes(seed) };
    let lies = lies.then(|| Lies::new(Dice::new(Random::new(seed ^ 0x11E5), 90), worlds));
    let diary = Diary::default();
    let mut done = 0;
    let life = || -> Result<Report, Broken> {
        // A failed world is not dropped: its destructors would call a broken kernel.
        let Some(world) = World::new(seed, diary.clone(), lies.clone())? else {
            return Ok(Report { stopped: 1, ..Report::default() });
        };
        let mut world = ManuallyDrop::new(world);
        for step in steps {
            done += 1;
            world.step(*step)?;
        }
        ManuallyDrop::into_inner(world).end(seed)
    };
    PLAYING.set(true);
    let result = catch_unwind(AssertUnwindSafe(life));
    PLAYING.set(false);
    let mut result = result.unwrap_or_else(|_| match PANIC.take() {
        // A driver that lied to the kernel, or the device behind it, may fall over what it gets back.
        place if lies.is_some() && OTHERS.iter().any(|room| place.contains(room)) => Ok(Report::default()),
        place => Err(("assertion", place)),
    });
    if let (Ok(report), Some(lies)) = (&mut result, &lies) {
        report.lies = lies.told();
    }
    result.map_err(|broken| (done, broken, diary.read()))
}

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
    static PLAYING: Cell<bool> = const { Cell::new(false) };
}

/// Panics of worlds are findings: they are kept with their place instead of being printed a hundred times. Others, such as a
/// test's that says what was found, are printed as ever.
fn keep_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !PLAYING.get() {
                return others(info);
            }
            let before = PANIC.replace(info.to_string());
            // A second one while the first is taken down ends the program: then both are wanted.
            if !before.is_empty() {
                eprintln!("{before}\n{info}");
            }
        }));
    });
}
