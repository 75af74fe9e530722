//! Doorbells: what a submission costs the process that feeds its queue, against a system call that does nothing; and how long it
//! takes from the ring until the engine has begun, against a cache line. Called by the suite.
//!
//! The first goes through the whole stack (the user-mode driver's stream, on a kernel that has nothing to do with it), the second is
//! the device alone: the processor writes a ring entry and the doorbell, the engine executes a store, the processor sees it. The way
//! back, as it is between two bare threads, is taken off; writing the entry and executing the store are not. Beside it stands what
//! bare threads need for all of it: entry, doorbell and answer.
//!
//! A process that comes to the kernel over a socket submits to the same engine, in turn with one of this program. It is a thread here,
//! which changes nothing for it: all that it has is a connection and the pages that came over it.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink};
use dxgkd::{Daemon, Limits};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use shared_words::Word;
use softgpu_spec::{Command, engine};
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, UmdError};
use wddm_types::NodeId;

use crate::machine::{all_processors, pin_here, pin_named};
use crate::pingpong::{answered_one_way_ns, word_one_way_ns};
use crate::report::{BenchError, Goal, Row};
use crate::rig::{Rig, word_va};
use crate::statistic::{median, median_ratio};

/// Most null system calls that a submission may cost.
const SYSTEM_CALLS_MAX: f64 = 0.5;
/// Most that one from elsewhere may cost of one in process.
const ELSEWHERE_MAX: f64 = 1.1;
/// Most lines until an engine has begun.
const LINES_MAX: f64 = 3.0;
/// Submissions in a batch, each when the one before is done: its stores are still under way when it is over, as in a program that
/// has other things to do than to submit.
const SUBMISSIONS: usize = 2_000;
/// Rings, one behind the answer to the other, in a batch.
const ROUNDS: u64 = 2_000;
/// How often the engine looks before it sleeps: it never does while the other thread answers.
const POLL_SPINS: u32 = 2_000_000;
const QUEUE: u32 = 0;
const ANSWER: u64 = word_va(0);
/// The word that bare threads use: not the answer, which counts on.
const LINE: u64 = word_va(2);
const BELL: u64 = word_va(4);

/// All rows.
pub(crate) fn rows(pair: [usize; 2], batches: usize) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::from(submission(pair, batches)?);
    rows.extend(start(pair, batches)?);
    Ok(rows)
}

/// A process with a queue that it feeds itself.
pub(crate) struct Submitter {
    stream: Stream,
    gpu: Gpu,
}

impl Submitter {
    /// One on a kernel of its own, whose engine has the second processor. This thread has the first from now on.
    pub fn start(pair: [usize; 2]) -> Result<Submitter, BenchError> {
        let host = host()?;
        pin(pair);
        Submitter::new(ProcessLink::new(host) as Arc<dyn Link>)
    }

    fn new(link: Arc<dyn Link>) -> Result<Submitter, BenchError> {
        let gpu = Gpu::open(link).map_err(failed)?;
        let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).map_err(failed)?;
        Ok(Submitter { stream, gpu })
    }

    /// The cost of a submission: the median of a batch.
    pub fn batch(&mut self) -> Result<f64, BenchError> {
        let nothing = Commands::new();
        let (mut times, mut nothings) = (Vec::with_capacity(SUBMISSIONS), Vec::with_capacity(SUBMISSIONS));
        for _ in 0..SUBMISSIONS {
            let [begun, still] = [Instant::now(), Instant::now()];
            let value = self.stream.submit(&self.gpu, &[], &nothing).map_err(failed)?;
            times.push(still.elapsed().as_nanos() as f64);
            nothings.push((still - begun).as_nanos() as f64);
            // The engine is awake: it has just had something to do.
            while self.stream.progress().current() < value {
                std::hint::spin_loop();
            }
        }
        // The cost of reading the clock does not count.
        Ok((median(times) - median(nothings)).max(0.0))
    }
}

fn failed(error: UmdError) -> BenchError {
    BenchError::Device(error.to_string())
}

/// A kernel.
fn host() -> Result<Arc<Host>, BenchError> {
    let config = HostConfig {
        vram_bytes: 16 << 20,
        page_table_bytes: 16 << 20,
        system_bytes: 64 << 20,
        // The client's memory has addresses, as in a process of its own: stores go there and pass no lock.
        memory_files: true,
        isolates_processes: true,
        processors: all_processors(),
        ..HostConfig::new(&PROFILES[0], Mode::Real)
    };
    Host::start(config).map_err(|error| BenchError::Device(error.to_string()))
}

/// The engine has the second processor, and this thread the first.
fn pin(pair: [usize; 2]) {
    pin_named(&[("gpu compute", pair[1])]);
    pin_here(pair[0]);
}

// spec: sync §3.17
fn submission(pair: [usize; 2], batches: usize) -> Result<[Row; 2], BenchError> {
    let host = host()?;
    let folder = tempfile::tempdir().map_err(|error| BenchError::Device(error.to_string()))?;
    let path = folder.path().join("kernel");
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default());
    let _daemon = daemon.map_err(|error| BenchError::Device(error.to_string()))?;
    pin(pair);
    let there = SocketLink::connect(&path).map_err(|error| BenchError::Device(error.to_string()))?;
    let mut here = Submitter::new(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>)?;
    let mut there = Submitter::new(there as Arc<dyn Link>)?;
    let (mut ours, mut theirs, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..batches.max(3) {
        ours.push(here.batch()?);
        theirs.push(there.batch()?);
        calls.push(null_call_ns());
    }
    let ratio = Some(median_ratio(&ours, &calls));
    let of_this_program = Row {
        measure: "submission by doorbell, on the client".into(),
        ours: format!("{:.0} ns", median(ours.clone())),
        peer: format!("null system call {:.0} ns", median(calls)),
        ratio,
        goal: Goal::AtMost(SYSTEM_CALLS_MAX),
    };
    let ratio = Some(median_ratio(&theirs, &ours));
    let elsewhere = Row {
        measure: "the same from a process elsewhere".into(),
        ours: format!("{:.0} ns", median(theirs)),
        peer: format!("in process {:.0} ns", median(ours)),
        ratio,
        goal: Goal::AtMost(ELSEWHERE_MAX),
    };
    Ok([of_this_program, elsewhere])
}

fn null_call_ns() -> f64 {
    let started = Instant::now();
    for _ in 0..ROUNDS {
        black_box(rustix::thread::gettid());
    }
    started.elapsed().as_nanos() as f64 / ROUNDS as f64
}

// spec: sync §3.17
fn start(pair: [usize; 2], batches: usize) -> Result<[Row; 2], BenchError> {
    let mut rig = Rig::start(4096, POLL_SPINS, pair)?;
    rig.enable(QUEUE, engine::COMPUTE);
    let mut round = 0;
    let mut batch = |rig: &mut Rig| {
        let started = Instant::now();
        for _ in 0..ROUNDS {
            round += 1;
            rig.push(QUEUE, &[Command::Store { va: ANSWER, words: &[round] }]);
            while Word::load(rig.word(ANSWER)) != round {}
        }
        started.elapsed().as_nanos() as f64 / ROUNDS as f64
    };
    let (mut starts, mut lines, mut answers, mut bare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // The engine's thread runs on the first of the pair.
    pin_here(pair[1]);
    batch(&mut rig);
    rig.wait_idle(QUEUE)?;
    for _ in 0..batches.max(3) {
        let there_and_back = batch(&mut rig);
        rig.wait_idle(QUEUE)?;
        let line = word_one_way_ns(pair, 1, ROUNDS, rig.word(LINE));
        let bare_lines = [rig.word(BELL), rig.word(LINE)];
        let back = answered_one_way_ns(pair, ROUNDS, bare_lines, false);
        starts.push((there_and_back - back).max(0.0));
        lines.push(line);
        answers.push(there_and_back);
        bare.push(2.0 * answered_one_way_ns(pair, ROUNDS, bare_lines, true));
    }
    let ratio = Some(median_ratio(&answers, &bare));
    let against = Row {
        measure: "doorbell and answer, against bare threads".into(),
        ours: format!("{:.0} ns", median(answers)),
        peer: format!("entry, bell, answer {:.0} ns", median(bare)),
        ratio,
        goal: Goal::None,
    };
    let ratio = Some(median_ratio(&starts, &lines));
    let begun = Row {
        measure: "from the doorbell until the engine has begun".into(),
        ours: format!("{:.0} ns", median(starts)),
        peer: format!("cache line {:.1} ns", median(lines)),
        ratio,
        goal: Goal::AtMost(LINES_MAX),
    };
    Ok([begun, against])
}
