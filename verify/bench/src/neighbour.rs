//! An honest client of a daemon beside an attacker: what it gets of its share, and what is left of the attacker when it has gone. Called by
//! the suite.
//!
//! The **fair share** of a client beside another is what it gets beside an honest one of the same user and priority that takes as much as it can
//! with as many threads: one that makes the same rounds, and one that computes. The honest client's rounds in a second beside the attacker
//! are divided by those beside that, in turn, in one run, at one kernel: all of the one by all of the other, because beside an honest one there are
//! some periods in which it gets much, and a median would not count them. It is measured beside that one twice in each turn: how far the one
//! differs from the other is what the machine does, and is a row of its own. How many it makes alone is printed.
//!
//! That does not say what of an attacker's load is the attack. So there is a second neighbour to compare with, and a harder measure: one that has
//! the attacker's lives, each up to the same call, with as many queues, doorbells, fences, names, submissions and moves of memory; but it computes in
//! memory of its own meanwhile and not in what it shares, it says and names nothing that is wrong, and it gives back what it has and then
//! goes. Both begin with the same life. The suite measures twice how much an attacker takes beyond that one. A neighbour whose stores are
//! held sleeps, and a processor has nothing to do then, where one that computes keeps it busy. How long it takes until such a processor
//! does something again is for the machine to say, and on a virtual one it is long: a trace of the scheduler counted three times as much
//! waiting for a processor while another was idle. So the one row leaves processors as they are, and the other keeps them awake
//! ([`Awake`]), beside either, which costs both some rounds.
//!
//! A round of the honest client goes through everything that clients share: the doorbell and the engine, the kernel's lock, the paging ring
//! twice (its memory is moved out and back), and a lock of that memory, whose content is verified. `attacker` plays the attacker.
//!
//! Both are processes of their own. The daemon is this program, so that it can be counted what is left.

mod attacker;
mod resources;
mod worker;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kmt_link::socket::SocketLink;

use crate::awake::Awake;
use crate::neighbour::attacker::{Attacker, Manners};
use crate::neighbour::resources::HeldResources;
use crate::neighbour::worker::Worker;
use crate::part_process::{Measure, PartProcess, Program};
use crate::report::{BenchError, Goal, Row};
use crate::served::Kernel;
use crate::statistic::{mean, ratio_of_totals};

/// Least that the honest client keeps, of its fair share and of what the attacker's double leaves it.
const GOAL: f64 = 0.95;
/// Video memory: more than all of them use, so that evictions do not enter the comparison.
const VRAM_BYTES: u64 = 64 << 20;
/// How long what is left may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// Objects that the kernel makes for the first client and keeps: the fence of suspensions.
const MADE_ONCE: [&str; 3] = ["fence ", "open of a fence ", "packed words of process 0"];

/// The neighbour of the honest client.
#[derive(Clone, Copy)]
enum Beside {
    Alone,
    /// Another of its kind, and a thread that computes.
    Honest,
    /// One that lives as the attacker, and behaves.
    Behaved,
    Attacker,
}

/// The honest client and its neighbour, each a process.
struct Pair {
    honest: PartProcess,
    neighbour: PartProcess,
    lives: u64,
}

/// The rows.
pub(crate) fn rows(program: Program<'_>, smoke: bool) -> Result<Vec<Row>, BenchError> {
    let period = Duration::from_millis(if smoke { 100 } else { 300 });
    let (turns, awake_turns) = if smoke { (1, 1) } else { (121, 61) };
    let kernel = Kernel::start(VRAM_BYTES, true)?;
    let socket = kernel.path().expect("a kernel that is served").to_string_lossy().into_owned();
    let start = |part| program.start(&[part, &socket]);
    let mut pair = Pair { honest: start("worker")?, neighbour: start("neighbour")?, lives: 0 };
    // This program opens these files once, for the first client: from here on each that is left is a client's.
    let _ = shared_words::StoresElsewhere::ours();
    let before = HeldResources::settled(&kernel, GONE_WITHIN);
    pair.rate(Beside::Attacker, period)?;
    let mut left = before.left_within(&kernel, GONE_WITHIN, &MADE_ONCE)?;
    let before = HeldResources::now(&kernel);
    let as_they_are = pair.measure(period, turns, true)?;
    let measure = "the same beside its behaved double, awake";
    let awake = match Awake::keep() {
        Ok(_awake) => pair.measure(period, awake_turns, false)?.beside_its_double(measure),
        Err(reason) => Row::absent(measure, &format!("processors cannot be kept awake: {reason}")),
    };
    let double = as_they_are.beside_its_double("the same beside its behaved double");
    let rows = [as_they_are.of_its_share(), double, awake, as_they_are.of_itself()];
    left.extend(before.left_within(&kernel, GONE_WITHIN, &[])?);
    let lives = pair.lives;
    let nothing = Row {
        measure: "what is left of the attacker".into(),
        ours: format!("{} things of {lives} lives{}", left.len(), listed(&left)),
        peer: "descriptors, memory files, threads, the kernel's objects".into(),
        ratio: None,
        goal: Goal::Zero { counted: left.len() as u64 },
    };
    Ok(rows.into_iter().chain([nothing]).collect())
}

/// The honest client's rounds in a second beside each neighbour, in turn.
#[derive(Default)]
struct Rates {
    attacked: Vec<f64>,
    honest: Vec<f64>,
    honest_again: Vec<f64>,
    behaved: Vec<f64>,
    alone: Vec<f64>,
}

impl Rates {
    /// Beside an honest one, both times.
    fn share(&self) -> Vec<f64> {
        self.honest.iter().zip(&self.honest_again).map(|(once, again)| f64::midpoint(*once, *again)).collect()
    }

    fn of_itself(&self) -> Row {
        Row {
            measure: "honest client beside an honest one".into(),
            ours: each_second(&self.honest),
            peer: format!("beside the same again, in turn {}", each_second(&self.honest_again)),
            ratio: Some(ratio_of_totals(&self.honest, &self.honest_again)),
            goal: Goal::None,
        }
    }

    fn of_its_share(&self) -> Row {
        Row {
            measure: "honest client beside an attacker".into(),
            ours: each_second(&self.attacked),
            peer: format!(
                "beside an honest one with as many threads {}, alone {}",
                each_second(&self.share()),
                each_second(&self.alone)
            ),
            ratio: Some(ratio_of_totals(&self.attacked, &self.share())),
            goal: Goal::AtLeast(GOAL),
        }
    }

    fn beside_its_double(&self, measure: &str) -> Row {
        Row {
            measure: measure.into(),
            ours: each_second(&self.attacked),
            peer: format!("beside one with the same lives that behaves {}", each_second(&self.behaved)),
            ratio: Some(ratio_of_totals(&self.attacked, &self.behaved)),
            goal: Goal::AtLeast(GOAL),
        }
    }
}

fn each_second(rates: &[f64]) -> String {
    format!("{:.0}/s", mean(rates))
}

fn listed(left: &[String]) -> String {
    if left.is_empty() { String::new() } else { format!(": {}", left.join(", ")) }
}

impl Pair {
    /// So many turns beside each neighbour, or beside each but the honest one.
    fn measure(&mut self, period: Duration, turns: usize, honest: bool) -> Result<Rates, BenchError> {
        let mut rates = Rates::default();
        for nth in 0..turns {
            rates.behaved.push(self.rate(Beside::Behaved, period)?);
            if honest {
                rates.honest.push(self.rate(Beside::Honest, period)?);
            }
            rates.attacked.push(self.rate(Beside::Attacker, period)?);
            if honest {
                rates.honest_again.push(self.rate(Beside::Honest, period)?);
            }
            if honest && nth % 10 == 0 {
                rates.alone.push(self.rate(Beside::Alone, period)?);
            }
        }
        Ok(rates)
    }

    /// Rounds in a second of the honest client.
    fn rate(&mut self, beside: Beside, period: Duration) -> Result<f64, BenchError> {
        self.neighbour.tell(&match beside {
            Beside::Alone => "nobody".into(),
            Beside::Honest => "honest".into(),
            Beside::Behaved => format!("good {}", self.lives),
            Beside::Attacker => format!("bad {}", self.lives),
        })?;
        self.honest.tell(&period.as_millis().to_string())?;
        let rate = number(&self.honest.hear()?);
        self.neighbour.tell("stop")?;
        self.lives = number(&self.neighbour.hear()?)?;
        rate
    }
}

fn number<T: std::str::FromStr>(said: &str) -> Result<T, BenchError> {
    said.parse().map_err(|_| BenchError::Device(format!("a part says {said:?}, and a number was asked for")))
}

/// Plays the honest client: each line is for how many milliseconds, each answer its rounds in a second.
pub(crate) fn play_worker(measure: &Measure, socket: &Path) -> Result<(), BenchError> {
    measure.say("ready")?;
    while let Some(line) = measure.next()? {
        let rounds = connect(socket)?.rounds_in(Duration::from_millis(number(&line)?))?;
        measure.say(&rounds.to_string())?;
    }
    Ok(())
}

/// Plays the neighbours that the measure names, an attacker from a given life on, until "stop"; the answer is how many lives the attacker
/// has had.
pub(crate) fn play(measure: &Measure, socket: &Path) -> Result<(), BenchError> {
    let attacker = Attacker::new(socket);
    measure.say("ready")?;
    while let Some(who) = measure.next()? {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let neighbours = match who.split_once(' ').unwrap_or((&who, "")) {
                ("nobody", _) => Vec::new(),
                ("honest", _) => vec![
                    scope.spawn(|| connect(socket)?.work_until(&stop)),
                    scope.spawn(|| {
                        compute(&stop);
                        Ok(())
                    }),
                ],
                ("good", first) => attacker.begin(scope, &stop, Manners::Good, number(first)?),
                ("bad", first) => attacker.begin(scope, &stop, Manners::Bad, number(first)?),
                _ => return Err(BenchError::Device(format!("no neighbour is called {who:?}"))),
            };
            let told = measure.next();
            stop.store(true, Ordering::Release);
            for neighbour in neighbours {
                neighbour.join().expect("a neighbour does not panic")?;
            }
            told
        })?;
        measure.say(&attacker.lives().to_string())?;
    }
    Ok(())
}

fn connect(socket: &Path) -> Result<Worker, BenchError> {
    Worker::over(SocketLink::connect(socket).map_err(|error| BenchError::Device(error.to_string()))?)
}

/// Stores all over memory of its own, as the attacker does all over what it shares.
fn compute(stop: &AtomicBool) {
    let words: Vec<AtomicU64> = (0..worker::BYTES / 8).map(AtomicU64::new).collect();
    let mut value = 0;
    while !stop.load(Ordering::Acquire) {
        value += 1;
        words.iter().for_each(|word| word.store(value, Ordering::Relaxed));
    }
}

/// Waits for something that comes soon; false: it has not.
fn soon(within: Duration, mut is_there: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !is_there() {
        if began.elapsed() > within {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}
