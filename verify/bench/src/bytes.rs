//! Bytes of a further step: how many the whole kernel moves under each policy, against the fewest that any memory moves (`bound`) and against
//! Belady's MIN (`belady`). Called by the suite.
//!
//! Virtual time without content: the figures are counts, the same on every machine and in every run. The runs are those of
//! `openwddm run --virtual-time --steps 4 --vram SHARE%`; a further step is the dearer of steps 3 and 4, and the bound's further step what three
//! steps cost more than two.
//!
//! | workload | what it is |
//! |---|---|
//! | gpt | the training step in `examples` |
//! | drawn | a string drawn from a seed (`drawn`): no layers, some content used far more often than other |
//! | gpt2xl-infer | a pass of inference, which uses each weight once: the worst case of LRU |

mod belady;
mod drawn;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use bound::fewest_bytes;
use dxgk_host::{Conductor, Eviction, Host, HostConfig, MemoryPolicy, Mode, PROFILES, ProcessLink, page_table_bytes};
use events::{Cause, Event, Move, Tracer};
use replay::{ContentMode, DriveOptions, Moved, Observer, ResidencyPolicy, Stage, Workload, drive};
use wddm_types::PAGE_BYTES;

use crate::replayed::recording;
use crate::report::{BenchError, Goal, Row};
use crate::statistic::Ratio;

const STEPS: u32 = 4;
/// Most that a step may move under the planner, as a multiple of the fewest bytes.
const GOAL: f64 = 1.05;
/// How many times fewer bytes than under LRU the planner moves in a further pass of inference, at least.
const FEWER_GOAL: f64 = 9.0;
/// Shares of the peak, in percent.
const SHARES: [u64; 2] = [60, 90];
const INFERENCE: &[u8] = include_bytes!("../../../workload/replay/tests/data/gpt2xl-infer.meta.rrs.json.gz");
const INFERENCE_SHARE: u64 = 90;

/// The policies of `openwddm run --policy`: name, the kernel's choice of victims, the driver's list.
const POLICIES: [(&str, Eviction, ResidencyPolicy); 3] = [
    ("lru", Eviction::Lru, ResidencyPolicy::PerOperation),
    ("kept", Eviction::Lru, ResidencyPolicy::Kept),
    ("planner", Eviction::Planner, ResidencyPolicy::PerOperation),
];

/// The rows.
pub(crate) fn rows(smoke: bool) -> Result<Vec<Row>, BenchError> {
    let shares = if smoke { &SHARES[..1] } else { &SHARES[..] };
    let mut rows = Vec::new();
    for (name, workload) in [("gpt", recording()?), ("drawn", drawn::string(7))] {
        for share in shares {
            let room = Room::of(name, &workload, *share)?;
            rows.extend(judged(&room, moved(&room, &workload)?));
        }
    }
    if !smoke {
        let inference = Workload::from_bytes("gpt2xl-infer", INFERENCE).map_err(failed)?;
        let room = Room::of("gpt2xl-infer", &inference, INFERENCE_SHARE)?;
        let steps = moved(&room, &inference)?;
        rows.extend(judged(&room, steps));
        rows.push(fewer(&room, steps));
    }
    Ok(rows)
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Device(error.to_string())
}

/// A workload in a memory, and what a further step costs there at least.
struct Room {
    title: String,
    capacity: u64,
    fewest: u64,
    belady: Moved,
}

impl Room {
    fn of(name: &str, workload: &Workload, share: u64) -> Result<Room, BenchError> {
        let capacity = workload.peak_bytes(STEPS) * share / 100 / PAGE_BYTES * PAGE_BYTES;
        let fewest = |steps| fewest_bytes(workload, steps, capacity, &mut || f64::INFINITY).map_err(failed);
        let fewest = fewest(3)?.moved_bytes - fewest(2)?.moved_bytes;
        // One step more is run than is counted: in the last one nothing is used again.
        let steps = belady::belady_bytes(workload, STEPS + 1, capacity, PAGE_BYTES).map_err(failed)?;
        let belady = steps[STEPS as usize - 1];
        Ok(Room { title: format!("{name} in {share} % of its peak"), capacity, fewest, belady })
    }
}

/// A further step under each policy.
fn moved(room: &Room, workload: &Workload) -> Result<[Moved; POLICIES.len()], BenchError> {
    let mut steps = [Moved::default(); POLICIES.len()];
    for (step, policy) in steps.iter_mut().zip(POLICIES) {
        *step = further(workload, room.capacity, policy)?;
    }
    Ok(steps)
}

/// A row for each policy.
fn judged(room: &Room, steps: [Moved; POLICIES.len()]) -> Vec<Row> {
    let row = |((policy, ..), step): (&(&str, Eviction, ResidencyPolicy), Moved)| Row {
        measure: format!("bytes of a further step, {}, {policy}", room.title),
        ours: shown(step),
        peer: format!("bound {}, Belady's MIN {}", megabytes(room.fewest), shown(room.belady)),
        ratio: Some(Ratio::exact(total(step) as f64 / room.fewest.max(1) as f64)),
        goal: if *policy == "planner" { Goal::AtMost(GOAL) } else { Goal::None },
    };
    POLICIES.iter().zip(steps).map(row).collect()
}

/// How many times fewer bytes the planner moves than LRU.
fn fewer(room: &Room, [lru, _, planner]: [Moved; POLICIES.len()]) -> Row {
    Row {
        measure: format!("bytes of a further step, {}, times fewer than LRU", room.title),
        ours: shown(planner),
        peer: format!("LRU {}", shown(lru)),
        ratio: Some(Ratio::exact(total(lru) as f64 / total(planner).max(1) as f64)),
        goal: Goal::AtLeast(FEWER_GOAL),
    }
}

fn total(moved: Moved) -> u64 {
    moved.paged_in + moved.paged_out
}

fn shown(moved: Moved) -> String {
    format!("{} (in {}, out {})", megabytes(total(moved)), megabytes(moved.paged_in), megabytes(moved.paged_out))
}

fn megabytes(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

/// The dearer of steps 3 and 4.
fn further(workload: &Workload, capacity: u64, policy: (&str, Eviction, ResidencyPolicy)) -> Result<Moved, BenchError> {
    let steps = steps(workload, capacity, policy)?;
    let dearer = steps[2..].iter().max_by_key(|step| total(**step));
    Ok(*dearer.expect("there are four steps"))
}

/// The bytes that the kernel moves in each step.
fn steps(
    workload: &Workload,
    vram_bytes: u64,
    (_, eviction, residency): (&str, Eviction, ResidencyPolicy),
) -> Result<Vec<Moved>, BenchError> {
    let peak_bytes = workload.peak_page_bytes(STEPS, PAGE_BYTES);
    let ahead_bytes = vram_bytes.min(peak_bytes);
    let moved = Arc::new(Mutex::new(Moved::default()));
    let config = HostConfig {
        vram_bytes,
        page_table_bytes: page_table_bytes(peak_bytes + ahead_bytes),
        memory_policy: MemoryPolicy { eviction, ..PROFILES[0].memory_policy },
        tracer: Box::new(Listener(Arc::clone(&moved))),
        ..HostConfig::new(&PROFILES[0], Mode::Virtual { stored: false })
    };
    let host = Host::start(config).map_err(failed)?;
    let options = DriveOptions {
        steps: STEPS,
        content: ContentMode::Timed,
        seed: 0,
        residency,
        hears_budget: false,
        stage: Some(Stage::User),
        keeps_submissions: false,
        ahead_bytes: Some(ahead_bytes),
        constant_bytes: None,
        recorded_times: true,
        in_place: false,
    };
    let mut observed = Steps { moved, ended: vec![Moved::default()] };
    let conductor = Conductor::new(Arc::clone(&host), 1);
    let _seat = conductor.enter(0);
    let link = conductor.link(0, ProcessLink::new(host));
    let driven = drive(workload, link, options, &mut observed, &AtomicBool::new(false));
    if let Some(state) = driven.map_err(failed)?.lost {
        return Err(BenchError::Device(format!("a device was lost: {state:?}")));
    }
    let between = |ends: &[Moved]| Moved {
        paged_in: ends[1].paged_in - ends[0].paged_in,
        paged_out: ends[1].paged_out - ends[0].paged_out,
    };
    Ok(observed.ended.windows(2).map(between).collect())
}

/// Adds up what moves between video memory and system memory.
struct Listener(Arc<Mutex<Moved>>);

impl Tracer for Listener {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        let Event::Moved { bytes, how, why, .. } = event else { return };
        // A destruction in video memory is no move out of it.
        if *why == Cause::Destroy {
            return;
        }
        let mut moved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match how {
            Move::PageIn => moved.paged_in += bytes,
            Move::PageOut => moved.paged_out += bytes,
            _ => {}
        }
    }
}

/// The sums at the end of each step, behind those at the begin.
struct Steps {
    moved: Arc<Mutex<Moved>>,
    ended: Vec<Moved>,
}

impl Observer for Steps {
    fn progress(&mut self, _done: u64, _total: u64) {}

    fn step_done(&mut self, _step: u32, _now_ns: u64) {
        self.ended.push(*self.moved.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures that `openwddm run --virtual-time --vram 60% --steps 4 --policy POLICY --json FILE` has in `per_step`.
    #[test]
    fn the_kernel_moves_here_what_it_moves_in_a_run() {
        let gpt = recording().unwrap();
        let room = Room::of("gpt", &gpt, 60).unwrap();
        // The bound of three steps less that of two, by another solver (`workload/bound/tests/recordings.rs`, for 3,261 bytes more).
        assert_eq!((room.capacity, room.fewest / 1000), (148_992_000, 198_650));
        let steps = |policy: usize| steps(&gpt, room.capacity, POLICIES[policy]).unwrap();
        let bytes = |paged_in, paged_out| Moved { paged_in, paged_out };
        let lru = [bytes(102_596_608, 102_580_224); 3];
        assert_eq!(steps(0), [&[bytes(127_643_648, 33_824_768)][..], &lru].concat());
        assert_eq!(steps(1), [&[bytes(127_643_648, 36_204_544)][..], &lru].concat());
        let planner = [
            (127_643_648, 33_824_768),
            (100_012_032, 106_405_888),
            (100_020_224, 102_989_824),
            (100_020_224, 100_798_464),
        ];
        assert_eq!(steps(2), planner.map(|(paged_in, paged_out)| bytes(paged_in, paged_out)));
        let rows = judged(&room, moved(&room, &gpt).unwrap());
        let ratio = rows[2].ratio.unwrap();
        assert_eq!((ratio.rounds, (ratio.value * 1000.0).round()), (0, 1022.0), "the dearer of steps 3 and 4");
    }
}
