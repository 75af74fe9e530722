//! An honest client of a daemon beside an attacker: what it gets of its share, and what is left of the attacker when it has gone. Called by
//! the suite.
//!
//! The **share** of a client beside another is what it gets beside one that behaves and has the same work: of the same user and priority, with
//! as many threads. Two clients on two processors are slower together than each alone, attacker or not, and a program may keep a processor
//! busy with its own memory; what an attacker is to be judged by is what it takes beyond that. So the neighbour that is compared with has the
//! attacker's lives, with as many queues, doorbells, fences, names, submissions and moves of memory; but it computes in memory of its own
//! meanwhile and not in what it shares, it says and names nothing that is wrong, and it gives back what it has and then goes. The honest
//! client's rounds in a second beside the one are divided by those beside the other, in turn, in one run, at one kernel. How many rounds it
//! gets beside another honest client, and alone, is printed.
//!
//! A round of the honest client goes through everything that clients share: the doorbell and the engine, the kernel's lock, the paging ring
//! twice (its memory is moved out and back), and a lock of that memory, whose content is verified. What the attacker does is `attacker`.
//!
//! All of them are threads of this program, each client with a connection of its own; to the daemon they are processes. They share descriptors
//! and address space with it, which processes do not, and which makes the attacker stronger and the count of what is left stricter: it is of
//! the attacker's own, too.

mod attacker;
mod held;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::neighbour::attacker::{Attacker, Manners};
use crate::neighbour::held::Held;
use crate::neighbour::worker::Worker;
use crate::report::{BenchError, Goal, Row};
use crate::served::Kernel;
use crate::statistic::{median, median_ratio};

/// Least of its share that the honest client keeps.
const GOAL: f64 = 0.95;
/// Video memory: more than all of them use, so that what is compared is not who is moved out for whom.
const VRAM_BYTES: u64 = 64 << 20;
/// How long what is left may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// What the first client makes the kernel and this program make for themselves, and keep: a fence for whoever is to stand still, what holds
/// stores while memory moves, what hears of descriptors that stand for NT handles.
const MADE_ONCE: [&str; 5] =
    ["fence ", "open of a fence ", "process 0", "open: anon_inode:[userfaultfd", "open: anon_inode:[eventfd"];

/// Who is beside the honest client.
#[derive(Clone, Copy)]
enum Beside {
    Nobody,
    /// Another of its kind, and a thread that computes.
    Honest,
    /// Who lives as the attacker, and behaves.
    Behaved,
    Attacker,
}

/// The rows.
pub(crate) fn rows(smoke: bool) -> Result<Vec<Row>, BenchError> {
    let (period, pairs) = if smoke { (Duration::from_millis(100), 1) } else { (Duration::from_millis(300), 61) };
    let kernel = Kernel::start(VRAM_BYTES, true)?;
    let attacker = Attacker::new(&kernel);
    let before = Held::now(&kernel);
    rate(&kernel, &attacker, Beside::Attacker, period)?;
    let mut left = before.left_within(&kernel, GONE_WITHIN, &MADE_ONCE)?;
    let before = Held::now(&kernel);
    let (mut behaved, mut attacked, mut honest, mut alone) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        behaved.push(rate(&kernel, &attacker, Beside::Behaved, period)?);
        attacked.push(rate(&kernel, &attacker, Beside::Attacker, period)?);
        if pair % 10 == 0 {
            honest.push(rate(&kernel, &attacker, Beside::Honest, period)?);
            alone.push(rate(&kernel, &attacker, Beside::Nobody, period)?);
        }
    }
    left.extend(before.left_within(&kernel, GONE_WITHIN, &[])?);
    let ratio = Some(median_ratio(&attacked, &behaved));
    let each_second = |rates: Vec<f64>| format!("{:.0}/s", median(rates));
    Ok(vec![
        Row {
            measure: "honest client beside an attacker, of its share".into(),
            ours: each_second(attacked),
            peer: format!(
                "beside one that behaves {}, that is honest {}, alone {}",
                each_second(behaved),
                each_second(honest),
                each_second(alone)
            ),
            ratio,
            goal: Goal::AtLeast(GOAL),
        },
        Row {
            measure: "what is left of the attacker".into(),
            ours: format!("{} things of {} lives{}", left.len(), attacker.lives(), listed(&left)),
            peer: "descriptors, memory files, threads, the kernel's objects".into(),
            ratio: None,
            goal: Goal::Zero { counted: left.len() as u64 },
        },
    ])
}

fn listed(left: &[String]) -> String {
    if left.is_empty() { String::new() } else { format!(": {}", left.join(", ")) }
}

/// Rounds in a second of the honest client.
fn rate(kernel: &Kernel, attacker: &Attacker, beside: Beside, period: Duration) -> Result<f64, BenchError> {
    let stop = AtomicBool::new(false);
    let mut honest = Worker::connect(kernel)?;
    std::thread::scope(|scope| {
        let neighbours = match beside {
            Beside::Nobody => Vec::new(),
            Beside::Honest => vec![
                scope.spawn(|| Worker::connect(kernel)?.work_until(&stop)),
                scope.spawn(|| {
                    compute(&stop);
                    Ok(())
                }),
            ],
            Beside::Behaved => attacker.begin(scope, &stop, Manners::Good),
            Beside::Attacker => attacker.begin(scope, &stop, Manners::Bad),
        };
        let rounds = honest.rounds_in(period);
        stop.store(true, Ordering::Release);
        for neighbour in neighbours {
            neighbour.join().expect("a neighbour does not panic")?;
        }
        rounds
    })
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
