//! Physical copies, as paging makes them: system memory to local memory and back, queued many times on the copy engine,
//! against the best copy that the processor makes of the same warm buffers. Called by the suite.

use std::hint::black_box;
use std::time::Instant;

use shared_words::Word;
use softgpu_spec::bus::{LOCAL_BASE, SYSTEM_BASE};
use softgpu_spec::{Command, engine};

use crate::machine::pin_here;
use crate::report::{BenchError, Goal, Row};
use crate::rig::{FREE_LOCAL, Rig, word_va};
use crate::statistic::{median, median_ratio};

const QUEUE: u32 = 0;
const BEGUN: u64 = word_va(0);
const ENDED: u64 = word_va(1);
const MIB: u64 = 1 << 20;
const SIZES_MIB: [u64; 4] = [1, 4, 16, 64];
/// Bytes moved in one batch, at least: small copies are queued often.
const BATCH_MIB: u64 = 128;
/// Share of the memory copy's speed.
const GOAL: f64 = 0.80;

/// One row a size.
pub(crate) fn rows(pair: [usize; 2], batches: usize) -> Result<Vec<Row>, BenchError> {
    let largest = SIZES_MIB[SIZES_MIB.len() - 1] * MIB;
    let mut rig = Rig::start(largest, 0, pair)?;
    rig.enable(QUEUE, engine::COPY);
    let mut plain = [vec![1u8; largest as usize], vec![2u8; largest as usize]];
    SIZES_MIB.iter().map(|mib| row(&mut rig, &mut plain, pair[1], mib * MIB, batches)).collect()
}

fn row(
    rig: &mut Rig,
    plain: &mut [Vec<u8>; 2],
    processor: usize,
    bytes: u64,
    batches: usize,
) -> Result<Row, BenchError> {
    let rounds = (BATCH_MIB * MIB / bytes / 2).max(1);
    fill(rig, bytes, rounds);
    // The first round of each touches the memory.
    engine_ns(rig)?;
    device_memory_ns(rig, processor, bytes, rounds);
    slices_ns(plain, processor, bytes, rounds);
    let (mut engine, mut memory, mut slices) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..batches {
        engine.push(engine_ns(rig)?);
        memory.push(device_memory_ns(rig, processor, bytes, rounds));
        slices.push(slices_ns(plain, processor, bytes, rounds));
    }
    // The better peer is the one against which we look worse. Less time is more speed: peer's time over ours.
    let ratio = median_ratio(&memory, &engine).or_less(median_ratio(&slices, &engine));
    let rate = |ns: f64| format!("{:.1} GB/s", (2 * rounds * bytes) as f64 / ns);
    let peer = median(memory).min(median(slices));
    Ok(Row {
        measure: format!("physical copy of {} MiB, there and back", bytes / MIB),
        ours: rate(median(engine)),
        peer: format!("memory copy {}", rate(peer)),
        ratio: Some(ratio),
        goal: Goal::AtLeast(GOAL),
    })
}

fn fill(rig: &Rig, bytes: u64, rounds: u64) {
    let (system_bus, local_bus) = (SYSTEM_BASE, LOCAL_BASE + FREE_LOCAL);
    let mut commands = vec![Command::Timestamp { va: BEGUN }];
    for _ in 0..rounds {
        commands.push(Command::CopyPhysical { source_bus: system_bus, target_bus: local_bus, bytes });
        commands.push(Command::CopyPhysical { source_bus: local_bus, target_bus: system_bus, bytes });
    }
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
fn device_memory_ns(rig: &Rig, processor: usize, bytes: u64, rounds: u64) -> f64 {
    timed_on(processor, || {
        for _ in 0..rounds {
            rig.local().copy_from(FREE_LOCAL, rig.system(), 0, bytes);
            rig.system().copy_from(0, rig.local(), FREE_LOCAL, bytes);
        }
    })
}

/// As many copies of plain slices of the same size.
fn slices_ns(plain: &mut [Vec<u8>; 2], processor: usize, bytes: u64, rounds: u64) -> f64 {
    let [one, other] = plain;
    let (one, other) = (&mut one[..bytes as usize], &mut other[..bytes as usize]);
    timed_on(processor, || {
        for _ in 0..rounds {
            other.copy_from_slice(black_box(&*one));
            one.copy_from_slice(black_box(&*other));
        }
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
