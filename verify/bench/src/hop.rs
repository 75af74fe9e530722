//! The hop: from the signal on one engine to the wait on the other. Two rings are filled beforehand, one with
//! signal-then-wait, the other with wait-then-signal; no kernel, no driver and no interrupt take part. The device itself takes the times.
//! Called by the suite, and by `vulkan`, which has a peer of it.

use softgpu_spec::register::counter;
use softgpu_spec::{Command, LogSlot, engine};

use crate::machine::NoHalt;
use crate::pingpong::{answered_one_way_ns, futex_wake_ns, word_one_way_ns};
use crate::report::{BenchError, Goal, Row};
use crate::rig::{Rig, log_slot, word_va};
use crate::statistic::{median, median_ratio};

/// Hops there and back that are timed in a batch.
const PAIRS: u64 = 4_000;
/// Pairs before them: both engines run, translations are in place.
const WARM_PAIRS: u64 = 100;
/// How often an engine looks before it parks or sleeps: longer than the other's start takes, short enough that both sleep
/// when it is the limit's turn.
const POLL_SPINS: u32 = 20_000;
/// Rounds of a comparison with wake-ups.
const WAKE_ROUNDS: u32 = 31;
/// At most this many times the limit.
const LINES_GOAL: f64 = 2.5;
/// At least this many times as fast as waking a sleeper whose processor has halted.
const HALTED_GOAL: f64 = 50.0;
/// The same when an idle processor polls.
const POLLING_GOAL: f64 = 15.0;

const COMPUTE_QUEUE: u32 = 0;
const COPY_QUEUE: u32 = 1;
const THERE: u64 = word_va(0);
const BACK: u64 = word_va(2);
const BEGUN: u64 = word_va(4);
const ENDED: u64 = word_va(5);

/// Two engines whose rings are filled with hops, without logs.
pub(crate) struct Hops(Rig);

impl Hops {
    /// Starts the device; both engines have run once.
    pub fn start(pair: [usize; 2]) -> Result<Hops, BenchError> {
        let mut rig = engines(pair)?;
        fill(&rig, false);
        batch(&mut rig)?;
        Ok(Hops(rig))
    }

    /// Nanoseconds of a hop: one batch of them.
    pub fn hop_ns(&mut self) -> Result<f64, BenchError> {
        batch(&mut self.0)
    }
}

fn engines(pair: [usize; 2]) -> Result<Rig, BenchError> {
    let rig = Rig::start(4096, POLL_SPINS, pair)?;
    rig.enable(COMPUTE_QUEUE, engine::COMPUTE);
    rig.enable(COPY_QUEUE, engine::COPY);
    Ok(rig)
}

/// Measures hops against cache lines and against the operating system's wake-up. Expects that the idle exit is not held
/// by the caller; holds it for its last row.
pub(crate) fn rows(pair: [usize; 2], batches: usize, wakes: u32) -> Result<Vec<Row>, BenchError> {
    let mut rig = engines(pair)?;
    let mut rows = Vec::new();
    for (logs, name) in [(false, "engine to engine hop, logs off"), (true, "engine to engine hop, logs on")] {
        fill(&rig, logs);
        batch(&mut rig)?;
        let (mut hops, mut lines, mut bare) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..batches {
            hops.push(batch(&mut rig)?);
            lines.push(word_one_way_ns(pair, 1, PAIRS, rig.word(THERE)));
            bare.push(answered_one_way_ns(pair, PAIRS, [rig.word(THERE), rig.word(BACK)], false));
        }
        let ratio = Some(median_ratio(&hops, &lines));
        let against_bare = Some(median_ratio(&hops, &bare));
        let (hop, line) = (median(hops), median(lines));
        let peer = format!("cache line {line:.1} ns");
        rows.push(Row {
            measure: name.into(),
            ours: format!("{hop:.1} ns"),
            peer,
            ratio,
            goal: Goal::AtMost(LINES_GOAL),
        });
        rows.push(Row {
            measure: format!("{name}, against bare threads"),
            ours: format!("{hop:.1} ns"),
            peer: format!("a line each {:.1} ns", median(bare)),
            ratio: against_bare,
            goal: Goal::None,
        });
    }
    let raised = rig.interrupts();
    rows.push(Row {
        measure: "interrupts of engines that wait for each other".into(),
        ours: format!("{raised} interrupts"),
        peer: format!("of {} signals", rig.counter(counter::SIGNALS)),
        ratio: None,
        goal: Goal::Zero { counted: raised },
    });
    fill(&rig, false);
    let mut woken = |name: &str, goal: f64| against_a_wake(&mut rig, pair, wakes, name, goal);
    rows.push(woken("hop, times faster than waking a halted sleeper", HALTED_GOAL)?);
    let polling = "hop, times faster than waking an idle one, idle exit held";
    rows.push(match NoHalt::hold() {
        Ok(_held) => woken(polling, POLLING_GOAL)?,
        Err(reason) => Row::absent(polling, &reason),
    });
    Ok(rows)
}

/// How many times faster a hop is than a futex wake of a sleeper, in turn.
fn against_a_wake(rig: &mut Rig, pair: [usize; 2], wakes: u32, name: &str, goal: f64) -> Result<Row, BenchError> {
    batch(rig)?;
    let (mut hops, mut futexes) = (Vec::new(), Vec::new());
    for _ in 0..WAKE_ROUNDS.min(wakes) {
        hops.push(batch(rig)?);
        futexes.push(futex_wake_ns(pair, wakes.div_ceil(WAKE_ROUNDS)));
    }
    Ok(Row {
        measure: name.into(),
        ours: format!("{:.1} ns", median(hops.clone())),
        peer: format!("futex wake {:.0} ns", median(futexes.clone())),
        ratio: Some(median_ratio(&futexes, &hops)),
        goal: Goal::AtLeast(goal),
    })
}

/// One turn of both rings: nanoseconds a hop.
fn batch(rig: &mut Rig) -> Result<f64, BenchError> {
    rig.clear_fence(THERE);
    rig.clear_fence(BACK);
    rig.turn(COPY_QUEUE);
    rig.turn(COMPUTE_QUEUE);
    rig.wait_idle(COMPUTE_QUEUE)?;
    rig.wait_idle(COPY_QUEUE)?;
    let at = |va: u64| shared_words::Word::load(rig.word(va));
    Ok(at(ENDED).saturating_sub(at(BEGUN)) as f64 / (2 * PAIRS) as f64)
}

/// Fills the rings. The content is the same for every batch: the fences start from 0 each time.
fn fill(rig: &Rig, logs: bool) {
    let slot = |queue: u32, index: u64| -> Option<LogSlot> { logs.then(|| log_slot(queue, index)) };
    let signal = |va: u64, value: u64, log| Command::Signal { current_va: va, monitored_va: va + 128, value, log };
    let wait = |va: u64, value: u64, log| Command::Wait { va, value, log };
    let (mut compute, mut copy) = (Vec::new(), Vec::new());
    for value in 1..=WARM_PAIRS + PAIRS {
        compute.push(signal(THERE, value, slot(COMPUTE_QUEUE, 2 * value)));
        compute.push(wait(BACK, value, slot(COMPUTE_QUEUE, 2 * value + 1)));
        if value == WARM_PAIRS {
            compute.push(Command::Timestamp { va: BEGUN });
        }
        copy.push(wait(THERE, value, slot(COPY_QUEUE, 2 * value)));
        copy.push(signal(BACK, value, slot(COPY_QUEUE, 2 * value + 1)));
    }
    compute.push(Command::Timestamp { va: ENDED });
    rig.fill(COMPUTE_QUEUE, &compute);
    rig.fill(COPY_QUEUE, &copy);
}
