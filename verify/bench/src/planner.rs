//! What planning costs: the replay of a training step whose memory fits, with evictions planned and with plain LRU, in virtual time without
//! content, so that the calls and the kernel's work for them are all there is. Called by the suite.
//!
//! Where everything fits both move the same bytes, none after the first step, and what the replays differ by is the planner: it hears each
//! list, follows the repetition, and keeps the books of its account. The two are measured in turns.

use std::time::Instant;

use dxgk_host::{Eviction, Host, HostConfig, MemoryPolicy, Mode, PROFILES, ProcessLink, page_table_bytes};
use replay::{ContentMode, Workload};

use crate::replayed::{recording, replayed};
use crate::report::{BenchError, Goal, Row};
use crate::statistic::{median, median_ratio};

/// Most that a replay may take with the planner, as a multiple of the same without.
const GOAL: f64 = 1.02;
/// Steps of each replay: in the first one nothing repeats yet.
const STEPS: u32 = 8;
/// Bytes that pages and pinned content need beside the storages.
const SPARE_BYTES: u64 = 64 << 20;

/// The row.
pub(crate) fn rows(smoke: bool) -> Result<Vec<Row>, BenchError> {
    let rounds = if smoke { 1 } else { 31 };
    let workload = recording()?;
    let (mut planned, mut lru) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        lru.push(taken_ns(&workload, Eviction::Lru)?);
        planned.push(taken_ns(&workload, Eviction::Planner)?);
    }
    let ops = f64::from(STEPS) * workload.ops() as f64;
    let ratio = Some(median_ratio(&planned, &lru));
    let each = |times: Vec<f64>| median(times) / ops;
    Ok(vec![Row {
        measure: "a replay that fits, with evictions planned".into(),
        ours: format!("{:.0} ns an operation", each(planned)),
        peer: format!("LRU {:.0} ns", each(lru)),
        ratio,
        goal: Goal::AtMost(GOAL),
    }])
}

/// Nanoseconds of a replay from its first call to its last answer.
fn taken_ns(workload: &Workload, eviction: Eviction) -> Result<f64, BenchError> {
    let vram_bytes = (workload.peak_bytes(2) + SPARE_BYTES).next_multiple_of(1 << 20);
    let config = HostConfig {
        vram_bytes,
        page_table_bytes: page_table_bytes(4 * vram_bytes),
        system_bytes: 4 * vram_bytes,
        memory_policy: MemoryPolicy { eviction, ..PROFILES[0].memory_policy },
        ..HostConfig::new(&PROFILES[0], Mode::Virtual { stored: false })
    };
    let host = Host::start(config).map_err(|error| BenchError::Device(error.to_string()))?;
    let link = ProcessLink::new(host);
    let started = Instant::now();
    replayed(workload, link, 0, STEPS, ContentMode::Timed)?;
    Ok(started.elapsed().as_nanos() as f64)
}
