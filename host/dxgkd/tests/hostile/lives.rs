//! Lives that end at every call of a script, in five manners: before the call's message, in the middle of it, behind it before its answer, behind
//! its answer, and with the process, which the operating system kills. The kernel's state afterwards is that of the start, and so are the
//! daemon's descriptors, memory files and threads. A client that lives on has what the others open.
//!
//! One run has each call once in two of the first four manners, and each seventh call once in the fifth; `OPENWDDM_LIVES=100000` repeats
//! rounds of each call in each of the four until there were so many lives.

mod bystander;
mod death;
mod script;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use dxgk_host::{AdapterSetup, HostConfig, Mode, Profile};
use dxgkd::{Limits, ProcessLimits};

use self::bystander::{Bystander, Offers};
use self::death::{Death, Life, Lived};
use self::script::{Ending, live};
use super::{MIB, Served};

/// Says to the child where the kernel is, which call it ends at, and the bystander's objects.
const LIFE: &str = "OPENWDDM_LIFE";
/// The number of the signal SIGKILL.
const KILLED: i32 = 9;

/// A kernel with an adapter of each generation, and a client that lives on.
struct World {
    // The client goes before the daemon.
    bystander: Bystander,
    served: Served,
    /// The calls of a whole life.
    calls: u64,
}

impl World {
    fn new() -> World {
        let adapter = |name| AdapterSetup {
            vram_bytes: 8 * MIB,
            page_table_bytes: 4 * MIB,
            system_bytes: 32 * MIB,
            ..AdapterSetup::new(Profile::named(name).expect("a built-in profile"), Mode::Real)
        };
        let mut config = HostConfig::of(adapter("discrete-4k"), Mode::Real);
        config.others = vec![adapter("wddm1-banks")];
        config.isolates_processes = true;
        // A client that comes at once behind one that left much would wait.
        let process = ProcessLimits { clearing_percent: 100, ..ProcessLimits::default() };
        let served = Served::of(config, Limits { process, ..Limits::default() });
        let mut world = World { bystander: Bystander::connect(&served.path), calls: 0, served };
        // The first lives make what stays: the kernel keeps fences for its own use, and this process two sockets for NT handles that are
        // descriptors.
        for ending in std::iter::once(Ending::InOrder).chain(Ending::WAITS) {
            world.lives(u64::MAX, Death::Unheard, ending);
        }
        world.served.begin_anew(1);
        let whole = world.lives(u64::MAX, Death::Before, Ending::InOrder);
        assert_eq!(whole.ended_at, None, "nothing ends it");
        world.calls = whole.calls;
        world.is_as_before("a whole life");
        world
    }

    fn lives(&self, ends_at: u64, death: Death, ending: Ending) -> Lived {
        let offers = self.bystander.offers();
        Life::begin(&self.served.path, ends_at, death).live(|life| live(life, offers, ending))
    }

    fn is_as_before(&self, what: &str) {
        self.served.until_as_before(what);
    }
}

#[test]
fn a_life_that_ends_at_any_call_leaves_the_state_of_the_start() {
    let wanted: Option<u64> =
        std::env::var("OPENWDDM_LIVES").ok().map(|lives| lives.parse().expect("OPENWDDM_LIVES is a number"));
    let world = World::new();
    let calls = world.calls;
    let (mut lives, mut ended, began) = (0, BTreeMap::new(), Instant::now());
    let mut one = |ends_at, death, ending| {
        let lived = world.lives(ends_at, death, ending);
        let at = lived.ended_at.unwrap_or("no call");
        world.is_as_before(&format!("a life that ended {death:?} call {ends_at} of {calls}, {at}, to end {ending:?}"));
        *ended.entry(at).or_insert(0_u64) += 1;
        lives += 1;
        if lives % 10_000 == 0 {
            println!("{lives} lives, {} s", began.elapsed().as_secs());
        }
        lives
    };
    loop {
        let mut so_far = 0;
        for ends_at in 1..=calls {
            for (nth, death) in (0..).zip(Death::HANGS_UP) {
                if wanted.is_some() || (ends_at + nth) % 2 == 0 {
                    one(ends_at, death, Ending::InOrder);
                }
            }
        }
        for ending in Ending::WAITS {
            for death in [Death::Unheard, Death::Answered] {
                so_far = one(u64::MAX, death, ending);
            }
        }
        if so_far >= wanted.unwrap_or(0) {
            break;
        }
    }
    println!(
        "{lives} lives ended at {calls} calls, {} s; the state is that of the start: {ended:?}",
        began.elapsed().as_secs()
    );
}

#[test]
fn a_life_whose_process_is_killed_leaves_the_state_of_the_start() {
    let world = World::new();
    for ends_at in (1..=world.calls).step_by(7) {
        let text = format!("{};{ends_at};{}", world.served.path.display(), world.bystander.offers().text());
        let mut program = Command::new(std::env::current_exe().expect("this program"));
        program.args(["--exact", "lives::the_child", "--test-threads=1"]).env(LIFE, text).stdout(Stdio::null());
        let status = program.status().expect("it starts");
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(signal, Some(KILLED), "a life that is to be killed at call {ends_at}: {status}");
        world.is_as_before(&format!("a life that was killed at call {ends_at} of {}", world.calls));
    }
}

#[test]
fn the_child() {
    let Ok(text) = std::env::var(LIFE) else { return };
    let [path, ends_at, offers] = text.split(';').collect::<Vec<_>>()[..] else { panic!("three parts: {text}") };
    let offers: Offers = offers.parse().expect("numbers");
    let life = Life::begin(Path::new(path), ends_at.parse().expect("a number"), Death::Killed);
    // A life in which fewer fences had to be waited for is shorter: it is killed in the call that it waits in.
    life.live(|life| live(life, offers, Ending::Fence));
}
