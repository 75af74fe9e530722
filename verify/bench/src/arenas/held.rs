//! Memory that a kernel holds for each allocation: how much a process of its own grows by, while allocations without content are created in
//! it. Called by `arenas`; a part (`part_process`) has the kernel.
//!
//! Counted is `Anonymous` of `/proc/self/smaps_rollup`: what is on the heaps, with what the allocator of memory rounds up and keeps. Memory
//! files, in which content would lie, are not of it. In the first part the client is a thread that keeps nothing of what it creates. The
//! second part is a daemon, and its client is this program. So the second less the first is what serving costs.

use std::path::Path;
use std::sync::Arc;

use kmt_link::Link;
use kmt_link::socket::SocketLink;
use softgpu_umd::Gpu;
use wddm_types::PAGE_BYTES;

use super::{affordable, create_for_good};
use crate::part_process::{Measure, PartProcess, Program};
use crate::report::{BenchError, Goal, Row};
use crate::served::{Kernel, no_limits};
use crate::statistic::Ratio;

/// Most bytes that a kernel may hold for each allocation, and a daemon beyond that.
const KERNEL_BYTES_MAX: f64 = 600.0;
const DAEMON_BYTES_MAX: f64 = 100.0;
const COUNT: usize = 1_000_000;
const SMOKE_COUNT: usize = 20_000;
/// Allocations that are there before the memory is counted first: tables and arenas have been made.
const BEFORE: usize = 1_000;
const VRAM_BYTES: u64 = 64 << 20;

/// Both rows.
pub(super) fn rows(program: Program<'_>, smoke: bool) -> Result<Vec<Row>, BenchError> {
    let count = affordable(if smoke { SMOKE_COUNT } else { COUNT })?;
    let here = in_process_bytes(program, count)?;
    let extra = served_bytes(program, count)? - here;
    let of = |bytes: f64, most: f64| Some(Ratio { value: bytes / most, interval: None, rounds: 1 });
    Ok(vec![
        Row {
            measure: format!("kernel memory of each of {count} allocations, in process"),
            ours: format!("{here:.0} bytes"),
            peer: format!("limit {KERNEL_BYTES_MAX} bytes"),
            ratio: of(here, KERNEL_BYTES_MAX),
            goal: Goal::AtMost(1.0),
        },
        Row {
            measure: "what a daemon holds beyond that".into(),
            ours: format!("{extra:.0} bytes"),
            peer: format!("limit {DAEMON_BYTES_MAX} bytes"),
            ratio: of(extra, DAEMON_BYTES_MAX),
            goal: Goal::AtMost(1.0),
        },
    ])
}

fn in_process_bytes(program: Program<'_>, count: usize) -> Result<f64, BenchError> {
    let mut part = program.start(&["holder", "here", &count.to_string()])?;
    part.tell(&BEFORE.to_string())?;
    let before = number(&mut part)?;
    part.tell(&count.to_string())?;
    Ok((number(&mut part)? - before) / count as f64)
}

fn served_bytes(program: Program<'_>, count: usize) -> Result<f64, BenchError> {
    let mut part = program.start(&["holder", "served", &count.to_string()])?;
    let socket = part.hear()?;
    let link = SocketLink::connect(Path::new(&socket)).map_err(|error| BenchError::Device(error.to_string()))?;
    let link: Arc<dyn Link> = link;
    let gpu = Gpu::open(Arc::clone(&link))?;
    let mut after = |more: usize| {
        (0..more).try_for_each(|_| create_for_good(&link, &gpu))?;
        part.tell("0")?;
        number(&mut part)
    };
    let before = after(BEFORE)?;
    Ok((after(count)? - before) / count as f64)
}

fn number(part: &mut PartProcess) -> Result<f64, BenchError> {
    let line = part.hear()?;
    line.parse().map_err(|_| BenchError::Device(format!("a part that is to say a number says {line:?}")))
}

/// Plays a process with a kernel, served or with a client of its own. It creates as many allocations as each line says, and says the bytes
/// that it has then.
pub(crate) fn play(measure: &Measure, way: &str, most: &str) -> Result<(), BenchError> {
    let wrong = |error: std::num::ParseIntError| BenchError::Device(error.to_string());
    let most: u64 = most.parse().map_err(wrong)?;
    let system_bytes = (most + 2 * BEFORE as u64) * PAGE_BYTES;
    let kernel = Kernel::limited(VRAM_BYTES, system_bytes, way == "served", no_limits())?;
    measure.say("ready")?;
    let client = match kernel.path() {
        Some(path) => {
            measure.say(&path.to_string_lossy())?;
            None
        }
        None => {
            let link = kernel.connect()?;
            Some((Gpu::open(Arc::clone(&link))?, link))
        }
    };
    while let Some(line) = measure.next()? {
        let more: usize = line.parse().map_err(wrong)?;
        if let Some((gpu, link)) = &client {
            (0..more).try_for_each(|_| create_for_good(link, gpu))?;
        }
        measure.say(&anonymous_bytes()?.to_string())?;
    }
    Ok(())
}

fn anonymous_bytes() -> Result<u64, BenchError> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| BenchError::Device(format!("smaps_rollup has no Anonymous: {rollup}")))
}
