//! Physical copies, as paging makes them: system memory to local memory and back, at least 32 of them queued on the copy engine, each of
//! memory that no cache has any more, against the best copy that a processor makes of the same memory. Called by the suite.

use std::hint::black_box;
use std::time::Instant;

use shared_words::Word;
use softgpu_spec::bus::{LOCAL_BASE, SYSTEM_BASE};
use softgpu_spec::{Command, engine};

use crate::machine::pin_here;
use crate::report::{BenchError, Goal, Row};
use crate::rig::{FREE_LOCAL, Rig, word_va};
use crate::statistic::{median, median_ratio};
use crate::streaming::stream;

const QUEUE: u32 = 0;
const BEGUN: u64 = word_va(0);
const ENDED: u64 = word_va(1);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Bytes of one copy, and the share of the memory copy's speed that is asked.
const SIZES: [(u64, f64); 5] = [(64 * KIB, 0.85), (256 * KIB, 0.85), (MIB, 0.95), (4 * MIB, 0.95), (8 * MIB, 0.95)];
/// Each batch copies this much there and back: more than caches hold, and at least 16 copies each way.
const BATCH_BYTES: u64 = 128 * MIB;

/// Two rows a size.
pub(crate) fn rows(pair: [usize; 2], batches: usize) -> Result<Vec<Row>, BenchError> {
    let mut rig = Rig::start(BATCH_BYTES, 0, pair)?;
    rig.enable(QUEUE, engine::COPY);
    let mut plain = [vec![1u8; BATCH_BYTES as usize], vec![2u8; BATCH_BYTES as usize]];
    let mut rows = Vec::new();
    for (bytes, goal) in SIZES {
        rows.extend(row(&mut rig, &mut plain, pair[1], bytes, batches, goal)?);
    }
    Ok(rows)
}

fn row(
    rig: &mut Rig,
    plain: &mut [Vec<u8>; 2],
    processor: usize,
    bytes: u64,
    batches: usize,
    goal: f64,
) -> Result<[Row; 2], BenchError> {
    fill(rig, bytes);
    // The first round of each touches the memory.
    engine_ns(rig)?;
    device_memory_ns(rig, processor, bytes);
    slices_ns(plain, processor, bytes, <[u8]>::copy_from_slice);
    let (mut engine, mut memory, mut slices, mut streams) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..batches {
        engine.push(engine_ns(rig)?);
        memory.push(device_memory_ns(rig, processor, bytes));
        slices.push(slices_ns(plain, processor, bytes, <[u8]>::copy_from_slice));
        streams.push(slices_ns(plain, processor, bytes, stream));
    }
    // The better peer is the one against which we look worse. Less time is more speed: peer's time over ours.
    let ratio = median_ratio(&memory, &engine).or_less(median_ratio(&slices, &engine));
    let against_streams = median_ratio(&streams, &engine);
    let rate = |ns: f64| format!("{:.1} GB/s", (2 * BATCH_BYTES) as f64 / ns);
    let peer = median(memory).min(median(slices));
    let (measure, ours) = (format!("physical copies of {} KiB, cold", bytes / KIB), rate(median(engine)));
    let streamed = Row {
        measure: format!("{measure}, against stores past the caches"),
        ours: ours.clone(),
        peer: format!("streaming copy {}", rate(median(streams))),
        ratio: Some(against_streams),
        goal: Goal::None,
    };
    let peer = format!("memory copy {}", rate(peer));
    Ok([Row { measure, ours, peer, ratio: Some(ratio), goal: Goal::AtLeast(goal) }, streamed])
}

/// Where each copy of a batch begins.
fn places(bytes: u64) -> impl Iterator<Item = u64> {
    (0..BATCH_BYTES / bytes).map(move |nth| nth * bytes)
}

fn fill(rig: &Rig, bytes: u64) {
    let copy = |source_bus, target_bus| Command::CopyPhysical { source_bus, target_bus, bytes };
    let (system, local) = (SYSTEM_BASE, LOCAL_BASE + FREE_LOCAL);
    let mut commands = vec![Command::Timestamp { va: BEGUN }];
    commands.extend(places(bytes).map(|at| copy(system + at, local + at)));
    commands.extend(places(bytes).map(|at| copy(local + at, system + at)));
    commands.push(Command::Timestamp { va: ENDED });
    rig.fill(QUEUE, &commands);
}

/// One turn of the ring, by the device's own clock.
fn engine_ns(rig: &mut Rig) -> Result<f64, BenchError> {
    rig.turn(QUEUE);
    rig.wait_idle(QUEUE)?;
    Ok(Word::load(rig.word(ENDED)).saturating_sub(Word::load(rig.word(BEGUN))) as f64)
}

/// The same copies of the same memory by the processor that the engine runs on.
fn device_memory_ns(rig: &Rig, processor: usize, bytes: u64) -> f64 {
    timed_on(processor, || {
        places(bytes).for_each(|at| rig.local().copy_from(FREE_LOCAL + at, rig.system(), at, bytes));
        places(bytes).for_each(|at| rig.system().copy_from(at, rig.local(), FREE_LOCAL + at, bytes));
    })
}

/// As many copies of plain slices of the same size.
fn slices_ns(
    plain: &mut [Vec<u8>; 2],
    processor: usize,
    bytes: u64,
    copy: impl Fn(&mut [u8], &[u8]) + Sync + Send,
) -> f64 {
    let [one, other] = plain;
    let bytes = bytes as usize;
    timed_on(processor, || {
        other.chunks_exact_mut(bytes).zip(one.chunks_exact(bytes)).for_each(|(to, from)| copy(to, black_box(from)));
        one.chunks_exact_mut(bytes).zip(other.chunks_exact(bytes)).for_each(|(to, from)| copy(to, black_box(from)));
    })
}

fn timed_on(processor: usize, act: impl FnOnce() + Send) -> f64 {
    let timed = || {
        pin_here(processor);
        let started = Instant::now();
        act();
        started.elapsed().as_nanos() as f64
    };
    std::thread::scope(|scope| scope.spawn(timed).join().expect("the measuring thread does not panic"))
}
