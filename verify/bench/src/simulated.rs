//! How much faster than real time a light world runs in virtual time: one process that has an engine work for 0.5 ms in every 10 ms, through the
//! whole stack. Called by the suite.

use std::sync::Arc;
use std::time::Instant;

use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, SurfaceKind};
use wddm_types::NodeId;

use crate::report::{BenchError, Goal, Row};
use crate::statistic::{Ratio, median};

/// At least this many times real time.
const GOAL: f64 = 1_000.0;
const PERIOD_NS: u64 = 10_000_000;
const WORK_NS: u64 = 500_000;
/// Periods of one round.
const PERIODS: u64 = 200;

/// The row.
pub(crate) fn rows(batches: usize) -> Result<Vec<Row>, BenchError> {
    let config = HostConfig {
        vram_bytes: 16 << 20,
        page_table_bytes: 16 << 20,
        system_bytes: 64 << 20,
        ..HostConfig::new(&PROFILES[0], Mode::Virtual { stored: false })
    };
    let host = Host::start(config).map_err(|error| BenchError::Device(error.to_string()))?;
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>)?;
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default())?;
    let surface = gpu.create_surface(SurfaceKind::System, 65536)?;
    gpu.pin(&surface)?;
    let mut work = Commands::new();
    work.work(WORK_NS);
    let (mut ratios, mut times) = (Vec::new(), Vec::new());
    for _ in 0..=batches {
        let (began_ns, started) = (host.now_ns(), Instant::now());
        for period in 1..=PERIODS {
            let value = stream.submit(&gpu, &[], &work)?;
            stream.wait(&gpu, value)?;
            while host.step_until(began_ns + period * PERIOD_NS) {}
        }
        let taken_ns = started.elapsed().as_nanos().max(1) as f64;
        ratios.push((host.now_ns() - began_ns) as f64 / taken_ns);
        times.push(taken_ns);
    }
    let virtual_ms = PERIODS * PERIOD_NS / 1_000_000;
    Ok(vec![Row {
        measure: "a light world in virtual time, times faster than real time".into(),
        ours: format!("{:.2} ms", median(times.split_off(1)) / 1e6),
        peer: format!("{virtual_ms} ms of virtual time"),
        ratio: Some(Ratio::of_rounds(ratios.split_off(1))),
        goal: Goal::AtLeast(GOAL),
    }])
}
