//! Several processes in virtual time against one: what the turns cost that the processes take. Called by the suite.
//!
//! Each process is a thread, and one of them runs at a time (`dxgk_host::Conductor`). Each replays the same step, and the video memory
//! grows with the processes: so n of them have n times the work of one, and what they take beyond that is the turns. The thread whose
//! turn begins is the only one that wakes; the row says how many wake for a turn.

use std::sync::Arc;
use std::time::Instant;

use dxgk_host::{Conductor, Host, HostConfig, Mode, PROFILES, ProcessLink, page_table_bytes};
use replay::{ContentMode, Workload};

use crate::replayed::{recording, replayed};
use crate::report::{BenchError, Goal, Row};
use crate::statistic::{median, median_ratio};

/// Most of n times the time of one that n processes take.
const GOAL: f64 = 1.5;
const PROCESSES: [usize; 4] = [4, 8, 16, 64];
const SMOKE_PROCESSES: [usize; 1] = [4];
/// Of what the processes need together, the video memory has so many percent.
const MEMORY_PERCENT: u64 = 90;

/// A row for each number of processes.
pub(crate) fn rows(smoke: bool) -> Result<Vec<Row>, BenchError> {
    let (crowds, rounds) = if smoke { (&SMOKE_PROCESSES[..], 1) } else { (&PROCESSES[..], 31) };
    let workload = recording()?;
    crowds.iter().map(|processes| row(&workload, *processes, rounds)).collect()
}

fn row(workload: &Workload, processes: usize, rounds: usize) -> Result<Row, BenchError> {
    let (mut together, mut one_by_one, mut woken) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..rounds {
        one_by_one.push(taken_ns(workload, 1)?.0 * processes as f64);
        let (ns, each) = taken_ns(workload, processes)?;
        together.push(ns);
        woken = each;
    }
    let ratio = Some(median_ratio(&together, &one_by_one));
    Ok(Row {
        measure: format!("{processes} processes in virtual time"),
        ours: format!("{:.0} ms, {woken:.2} threads woken for a turn", median(together) / 1e6),
        peer: format!("{processes} times one process {:.0} ms", median(one_by_one) / 1e6),
        ratio,
        goal: Goal::AtMost(GOAL),
    })
}

/// Nanoseconds from the first call to the last answer, and how many threads woke for each turn that was handed over.
fn taken_ns(workload: &Workload, processes: usize) -> Result<(f64, f64), BenchError> {
    let vram_bytes = (processes as u64 * workload.peak_bytes(1) * MEMORY_PERCENT / 100).next_multiple_of(1 << 20);
    let config = HostConfig {
        vram_bytes,
        page_table_bytes: page_table_bytes(16 * vram_bytes),
        system_bytes: 16 * vram_bytes,
        ..HostConfig::new(&PROFILES[0], Mode::Virtual { stored: false })
    };
    let host = Host::start(config).map_err(|error| BenchError::Device(error.to_string()))?;
    let links: Vec<_> = (0..processes).map(|_| ProcessLink::new(Arc::clone(&host))).collect();
    let conductor = Conductor::new(Arc::clone(&host), processes);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let play = |(player, link): (usize, Arc<ProcessLink>)| {
            let conductor = Arc::clone(&conductor);
            scope.spawn(move || {
                let _seat = conductor.enter(player);
                replayed(workload, conductor.link(player, link), player as u64, 1, ContentMode::Timed)
            })
        };
        let players: Vec<_> = links.into_iter().enumerate().map(play).collect();
        players.into_iter().try_for_each(|player| player.join().expect("a player does not panic"))
    })?;
    let (ns, turns) = (started.elapsed().as_nanos() as f64, conductor.turns());
    Ok((ns, turns.woken as f64 / turns.handed.max(1) as f64))
}
