//! Scheduling: the two-client workloads of the quality tests of Linux's DRM scheduler, in virtual time, and how long a switch from one
//! queue to another takes. Called by the suite.
//!
//! A client has a priority and repeats a cycle: so many jobs of so long, then, if it is synchronous, it waits for the last one, then it
//! sleeps. Its ideal time is what its cycles would take if the engine were its own. Each client is a process that feeds a queue
//! itself, so it is the device that shares its engine out. Low, normal and high are the classes IDLE, NORMAL and HIGH.
//!
//! The goals: a client that ranks above the other and asks for no more than an ordinary process takes at most a hundredth longer than
//! ideal; equals that both want everything take at most a hundredth longer than half an engine would; and a client that ranks below has a
//! share. HIGH leaves NORMAL a tenth, as the specification's default wants it, so there the ideal is nine tenths of an engine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink};
use kmt_link::Link;
use shared_words::Word;
use softgpu_spec::Command;
use softgpu_spec::register::queue_rank;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::NodeId;

use crate::machine::pin_here;
use crate::report::{BenchError, Goal, Row};
use crate::rig::{Rig, word_va};
use crate::statistic::{Ratio, median};

/// A command of a job takes so long: 2,050 ns to begin, the rest over the bus at 25 bytes a nanosecond.
const COMMAND_NS: u64 = 25_000;
const COMMAND_BYTES: u64 = (COMMAND_NS - 2_050) * 25;
/// Jobs that a client has queued at most: more make no difference, because one is enough to keep an engine busy.
const QUEUED_MAX: usize = 8;
/// How long the clients of a case would take alone.
const DURATION_US: u64 = 1_000_000;
const DURATION_SMOKE_US: u64 = 250_000;
/// A switch is to take no longer.
const SWITCH_NS: f64 = 40_000.0;
/// A fill of the queue that is interrupted: a piece of some microseconds.
const PIECE_BYTES: u64 = 64 << 10;

/// A client's parameters.
#[derive(Clone, Copy)]
struct Wants {
    class: u32,
    jobs: u64,
    job_us: u64,
    sync: bool,
    wait_us: u64,
}

/// A pair of clients, and what their ideal times are multiplied by for each to be judged; 0: printed only.
struct Case {
    name: &'static str,
    clients: [Wants; 2],
    ideal: [f64; 2],
}

const LOW: u32 = 0;
const NORMAL: u32 = 2;
const HIGH: u32 = 4;

const fn hog(class: u32) -> Wants {
    Wants { class, jobs: 1, job_us: 8_000, sync: false, wait_us: 0 }
}

const fn half(class: u32, us: u64) -> Wants {
    Wants { class, jobs: 1, job_us: us, sync: true, wait_us: us }
}

const fn client(class: u32, jobs: u64, job_us: u64, sync: bool, wait_us: u64) -> Wants {
    Wants { class, jobs, job_us, sync, wait_us }
}

const CASES: [Case; 10] = [
    Case { name: "normal, normal", clients: [hog(NORMAL), hog(NORMAL)], ideal: [2.0, 2.0] },
    Case { name: "normal, low", clients: [hog(NORMAL), hog(LOW)], ideal: [1.0, 0.0] },
    Case { name: "high, normal", clients: [hog(HIGH), hog(NORMAL)], ideal: [1.0 / 0.9, 0.0] },
    Case { name: "high, low", clients: [hog(HIGH), hog(LOW)], ideal: [1.0, 0.0] },
    Case { name: "half, half", clients: [half(NORMAL, 1_500), half(NORMAL, 2_500)], ideal: [0.0, 0.0] },
    Case { name: "half, half low", clients: [half(NORMAL, 1_500), half(LOW, 2_500)], ideal: [1.0, 0.0] },
    Case { name: "half high, half", clients: [half(HIGH, 1_500), half(NORMAL, 2_500)], ideal: [0.0, 0.0] },
    Case {
        name: "low hog, interactive",
        clients: [client(LOW, 3, 2_500, false, 500), client(NORMAL, 1, 500, true, 10_000)],
        ideal: [0.0, 1.0],
    },
    Case {
        name: "heavy, interactive",
        clients: [client(NORMAL, 3, 2_500, true, 2_500), client(NORMAL, 1, 1_000, true, 9_000)],
        ideal: [0.0, 0.0],
    },
    Case {
        name: "very heavy, interactive",
        clients: [client(NORMAL, 4, 50_000, true, 1), client(NORMAL, 1, 1_000, true, 9_000)],
        ideal: [0.0, 0.0],
    },
];

/// All rows.
pub(crate) fn rows(pair: [usize; 2], smoke: bool) -> Result<Vec<Row>, BenchError> {
    let duration_us = if smoke { DURATION_SMOKE_US } else { DURATION_US };
    let mut rows = Vec::new();
    for case in &CASES {
        rows.extend(run(case, duration_us)?);
    }
    let switch_ns = virtual_switch_ns()?;
    rows.push(Row {
        measure: "switch to a higher queue, virtual time, exact".into(),
        ours: format!("{switch_ns} ns"),
        peer: "40 us".into(),
        ratio: Some(Ratio::exact(switch_ns as f64 / SWITCH_NS)),
        goal: Goal::AtMost(1.0),
    });
    rows.push(real_switch(pair, if smoke { 11 } else { 501 })?);
    Ok(rows)
}

/// A case: a row for each client, and one for the share of the client that ranks below a hog.
fn run(case: &Case, duration_us: u64) -> Result<Vec<Row>, BenchError> {
    let host = start()?;
    let mut clients = Vec::new();
    for wants in case.clients {
        clients.push(Client::new(&host, wants, duration_us)?);
    }
    while clients.iter().any(|client| client.ended_ns.is_none()) {
        for client in &mut clients {
            while client.acts(host.now_ns())? {}
        }
        let wakes = clients.iter().filter_map(|client| client.sleeps_until).min();
        host.step_until(wakes.unwrap_or(u64::MAX));
    }
    let ms = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
    let mut rows = Vec::new();
    for ((client, wants), factor) in clients.iter().zip(case.clients).zip(case.ideal) {
        let judged = factor > 0.0;
        let ideal_ns = client.ideal_ns as f64 * if judged { factor } else { 1.0 };
        rows.push(Row {
            measure: format!("{}: {}", case.name, named(wants)),
            ours: ms(client.elapsed_ns()),
            peer: format!("ideal {:.1} ms", ideal_ns / 1e6),
            ratio: Some(Ratio::exact(client.elapsed_ns() as f64 / ideal_ns)),
            goal: if judged { Goal::AtMost(1.01) } else { Goal::None },
        });
    }
    let [above, below] = [&clients[0], &clients[1]];
    if case.clients.iter().all(|wants| !wants.sync && wants.wait_us == 0) && case.ideal[1] == 0.0 {
        // The engine never stood: what the one above did not have, the other had.
        let share = 1.0 - above.work_ns as f64 / above.elapsed_ns() as f64;
        rows.push(Row {
            measure: format!("{}: share of the one below, until the other is done", case.name),
            ours: format!("{:.2} %", 100.0 * share),
            peer: format!("of {}", ms(below.elapsed_ns().min(above.elapsed_ns()))),
            ratio: Some(Ratio::exact(100.0 * share)),
            goal: Goal::AtLeast(0.1),
        });
    }
    Ok(rows)
}

fn named(wants: Wants) -> String {
    let class = match wants.class {
        LOW => "low",
        NORMAL => "normal",
        _ => "high",
    };
    let wait = if wants.sync { ", waits" } else { "" };
    format!("{class}, {} x {} us{wait}, sleeps {} us", wants.jobs, wants.job_us, wants.wait_us)
}

fn start() -> Result<Arc<Host>, BenchError> {
    let config = HostConfig {
        vram_bytes: 16 << 20,
        page_table_bytes: 16 << 20,
        system_bytes: 64 << 20,
        ..HostConfig::new(&PROFILES[0], Mode::Virtual { stored: false })
    };
    Host::start(config).map_err(|error| BenchError::Device(error.to_string()))
}

/// A process that works as it was told.
struct Client {
    wants: Wants,
    gpu: Gpu,
    stream: Stream,
    surface: Surface,
    job: Commands,
    cycles_left: u64,
    /// Of this cycle.
    jobs_left: u64,
    outstanding: VecDeque<u64>,
    sleeps_until: Option<u64>,
    begun_ns: u64,
    ended_ns: Option<u64>,
    ideal_ns: u64,
    work_ns: u64,
    _link: Arc<ProcessLink>,
}

impl Client {
    fn new(host: &Arc<Host>, wants: Wants, duration_us: u64) -> Result<Client, BenchError> {
        let link = ProcessLink::new(Arc::clone(host));
        host.set_process_priority(link.process(), wants.class);
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>)?;
        let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default())?;
        let surface = gpu.create_surface(SurfaceKind::System, COMMAND_BYTES.next_multiple_of(65536))?;
        gpu.pin(&surface)?;
        let mut job = Commands::new();
        for _ in 0..wants.job_us * 1000 / COMMAND_NS {
            job.touch(surface.va(), COMMAND_BYTES, true);
        }
        let period_us = wants.jobs * wants.job_us + wants.wait_us;
        let cycles = duration_us.div_ceil(period_us);
        let mut client = Client {
            wants,
            gpu,
            stream,
            surface,
            job,
            cycles_left: cycles,
            jobs_left: wants.jobs,
            outstanding: VecDeque::new(),
            sleeps_until: None,
            begun_ns: 0,
            ended_ns: None,
            ideal_ns: cycles * period_us * 1000,
            work_ns: cycles * wants.jobs * wants.job_us * 1000,
            _link: link,
        };
        // Its memory is where it is to be before the clock begins.
        let mut first = Commands::new();
        first.touch(client.surface.va(), 8, true);
        let value = client.stream.submit(&client.gpu, &[], &first)?;
        client.stream.wait(&client.gpu, value)?;
        client.begun_ns = host.now_ns();
        Ok(client)
    }

    fn elapsed_ns(&self) -> u64 {
        self.ended_ns.unwrap_or(u64::MAX) - self.begun_ns
    }

    /// Does the next thing, if it can. Answers whether it did.
    fn acts(&mut self, now_ns: u64) -> Result<bool, BenchError> {
        let done = self.stream.progress().current();
        while self.outstanding.front().is_some_and(|value| *value <= done) {
            self.outstanding.pop_front();
        }
        if self.ended_ns.is_some() || self.sleeps_until.is_some_and(|until| now_ns < until) {
            return Ok(false);
        }
        self.sleeps_until = None;
        if self.cycles_left == 0 {
            if self.outstanding.is_empty() {
                self.ended_ns = Some(now_ns);
            }
            return Ok(false);
        }
        if self.jobs_left > 0 {
            if self.outstanding.len() >= QUEUED_MAX {
                return Ok(false);
            }
            self.outstanding.push_back(self.stream.submit(&self.gpu, &[], &self.job)?);
            self.jobs_left -= 1;
            return Ok(true);
        }
        if self.wants.sync && !self.outstanding.is_empty() {
            return Ok(false);
        }
        (self.cycles_left, self.jobs_left) = (self.cycles_left - 1, self.wants.jobs);
        self.sleeps_until = (self.wants.wait_us > 0).then(|| now_ns + self.wants.wait_us * 1000);
        Ok(true)
    }
}

/// From the doorbell of a high queue to the end of its command, while a low queue executes commands of 25 us: the longest of all phases, less
/// what the command takes by itself.
fn virtual_switch_ns() -> Result<u64, BenchError> {
    let host = start()?;
    let mut low = Client::new(&host, client(LOW, 1, 50_000, false, 0), 50_000)?;
    let mut high = Client::new(&host, client(HIGH, 1, 25, true, 0), 25)?;
    let mut alone_ns = 0;
    let mut longest_ns = 0;
    for phase in 0..26 {
        // The first time alone.
        let at_ns = host.now_ns() + 137_000 + phase * 1_000;
        if phase == 1 {
            low.stream.submit(&low.gpu, &[], &low.job)?;
        }
        while host.step_until(at_ns) {}
        let value = high.stream.submit(&high.gpu, &[], &high.job)?;
        high.stream.wait(&high.gpu, value)?;
        let taken_ns = host.now_ns() - at_ns;
        match phase {
            0 => alone_ns = taken_ns,
            _ => longest_ns = longest_ns.max(taken_ns - alone_ns),
        }
    }
    Ok(longest_ns)
}

/// The same on threads: an engine that executes fills of some microseconds is given a command of a higher queue.
fn real_switch(pair: [usize; 2], samples: u32) -> Result<Row, BenchError> {
    let mut rig = Rig::start(4096, 0, pair)?;
    pin_here(pair[1]);
    let (low, high) = (0, 1);
    for (queue, band) in [(low, 1), (high, 2)] {
        rig.enable(queue, softgpu_spec::engine::COMPUTE);
        // A group each, and quanta that no queue uses up.
        rig.rank(queue, queue_rank::encode(band, 0, 7, queue), 1_000_000_000);
    }
    let fill = Command::Fill { va: 6 << 20, bytes: PIECE_BYTES, pattern: 7 };
    rig.fill(low, &vec![fill; 30_000]);
    let word = word_va(0);
    let mut taken_ns = Vec::new();
    for sample in 1..=u64::from(samples) {
        if rig.is_done(low) {
            rig.turn(low);
        }
        // Long enough that the engine is in its fills again.
        std::thread::sleep(Duration::from_micros(100));
        let started = Instant::now();
        rig.push(high, &[Command::Store { va: word, words: &[sample] }]);
        while Word::load(rig.word(word)) != sample {
            if started.elapsed() > Duration::from_secs(10) {
                return Err(BenchError::Device("a queue that ranks higher is not executed".into()));
            }
            std::hint::spin_loop();
        }
        taken_ns.push(started.elapsed().as_nanos() as f64);
    }
    let ratio = Ratio::of_rounds(taken_ns.iter().map(|ns| ns / SWITCH_NS).collect());
    let ns = median(taken_ns);
    Ok(Row {
        measure: "switch to a higher queue, from its doorbell to its store, median".into(),
        ours: format!("{:.1} us", ns / 1000.0),
        peer: "40 us".into(),
        ratio: Some(ratio),
        goal: Goal::AtMost(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn clients_get_what_their_priorities_are_worth_in_virtual_time() {
        // spec: sync §4.2
        for case in &CASES {
            for row in run(case, DURATION_SMOKE_US).expect("it runs") {
                assert_ne!(row.verdict(), Verdict::Missed, "{}: {} against {}", row.measure, row.ours, row.peer);
            }
        }
        // As long as what is left of the command under way, in the phase in which it has just begun.
        assert_eq!(virtual_switch_ns().expect("it runs"), 24_007);
    }
}
