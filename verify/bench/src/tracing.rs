//! What a recording costs: a recorded training step in 60 % of the memory that it needs, with a listener to kernel and device that keeps every
//! record, as `openwddm run --trace` does, against the same without one, in turn. Called by the suite.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use device_port::{Observation, Probe};
use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink, page_table_bytes};
use events::{Event, Tracer};
use kmt_link::Link;
use replay::{ContentMode, Workload};

use crate::replayed::{recording, replayed};
use crate::report::{BenchError, Goal, Row};
use crate::statistic::{median, median_ratio};

/// Most of the time without it.
const GOAL: f64 = 1.02;
const STEPS: u32 = 2;
const MEMORY_PERCENT: u64 = 60;

/// The row.
pub(crate) fn rows(batches: usize) -> Result<Vec<Row>, BenchError> {
    let workload = recording()?;
    let (mut quiet, mut traced, mut records) = (Vec::new(), Vec::new(), 0);
    for round in 0..=batches {
        let without = taken_ns(&workload, None)?;
        let recorded = Arc::new(Records::default());
        let with = taken_ns(&workload, Some(&recorded))?;
        // The first of both touches the memory.
        if round > 0 {
            quiet.push(without);
            traced.push(with);
        }
        records = recorded.count();
    }
    let ratio = Some(median_ratio(&traced, &quiet));
    Ok(vec![Row {
        measure: format!("replay in {MEMORY_PERCENT} % of its memory, every record kept"),
        ours: format!("{:.1} ms, {records} records", median(traced) / 1e6),
        peer: format!("no listener {:.1} ms", median(quiet) / 1e6),
        ratio,
        goal: Goal::AtMost(GOAL),
    }])
}

fn taken_ns(workload: &Workload, records: Option<&Arc<Records>>) -> Result<f64, BenchError> {
    let vram_bytes = (workload.peak_bytes(STEPS) * MEMORY_PERCENT / 100).next_multiple_of(1 << 20);
    let mut config = HostConfig {
        vram_bytes,
        page_table_bytes: page_table_bytes(vram_bytes),
        system_bytes: 16 * vram_bytes,
        ..HostConfig::new(&PROFILES[0], Mode::Real)
    };
    if let Some(records) = records {
        config.tracer = Box::new(Listener(Arc::clone(records)));
        config.probe = Some(Arc::clone(records) as Arc<dyn Probe>);
    }
    let host = Host::start(config).map_err(|error| BenchError::Device(error.to_string()))?;
    let link = ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>;
    let started = Instant::now();
    replayed(workload, link, 0, STEPS, ContentMode::Timed)?;
    Ok(started.elapsed().as_nanos() as f64)
}

/// All that kernel and device have said.
#[derive(Default)]
struct Records {
    events: Mutex<Vec<(u64, Event)>>,
    observations: Mutex<Vec<(u64, Observation)>>,
}

impl Records {
    fn count(&self) -> usize {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).len();
        events + self.observations.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

struct Listener(Arc<Records>);

impl Tracer for Listener {
    fn event(&mut self, now_ns: u64, event: &Event) {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner).push((now_ns, event.clone()));
    }
}

impl Probe for Records {
    fn observe(&self, at_ns: u64, what: Observation) {
        self.observations.lock().unwrap_or_else(PoisonError::into_inner).push((at_ns, what));
    }
}
