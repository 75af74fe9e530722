//! Page-table updates of contiguous ranges on the copy engine, as the kernel's paging makes them, against plain stores of as
//! many words into the same memory. Called by the suite.

use std::time::Instant;

use shared_words::Word;
use softgpu_spec::page_table::{Shape, VALID};
use softgpu_spec::{Command, engine};

use crate::machine::pin_here;
use crate::report::{BenchError, Goal, Row};
use crate::rig::{FREE_LOCAL, Rig, word_va};
use crate::statistic::{median, median_ratio};

const QUEUE: u32 = 0;
const BEGUN: u64 = word_va(0);
const ENDED: u64 = word_va(1);
/// Tables written in one turn of the ring: as many as it holds.
const TABLES: u64 = 16_384;
const ENTRIES: u32 = Shape::FOUR_LEVELS.entries(0);
const TABLE_BYTES: u64 = ENTRIES as u64 * 8;
/// Share of the rate of plain stores.
const GOAL: f64 = 0.5;

/// The row.
pub(crate) fn rows(pair: [usize; 2], batches: usize) -> Result<Vec<Row>, BenchError> {
    let mut rig = Rig::start(TABLES * TABLE_BYTES, 0, pair)?;
    rig.enable(QUEUE, engine::COPY);
    let mut commands = vec![Command::Timestamp { va: BEGUN }];
    commands.extend((0..TABLES).map(|table| Command::WriteEntryRun {
        table: FREE_LOCAL + table * TABLE_BYTES,
        first: 0,
        count: ENTRIES,
        entry: (table * TABLE_BYTES) | VALID,
        step: 4096,
    }));
    commands.push(Command::Timestamp { va: ENDED });
    rig.fill(QUEUE, &commands);
    engine_ns(&mut rig)?;
    let (mut engine, mut stores) = (Vec::new(), Vec::new());
    for _ in 0..batches {
        engine.push(engine_ns(&mut rig)?);
        stores.push(stores_ns(&rig, pair[1]));
    }
    let ratio = median_ratio(&stores, &engine);
    let rate = |ns: f64| format!("{:.2} entries/ns", (TABLES * u64::from(ENTRIES)) as f64 / ns);
    Ok(vec![Row {
        measure: format!("page-table update of {} contiguous pages", TABLES * u64::from(ENTRIES)),
        ours: rate(median(engine)),
        peer: format!("plain stores {}", rate(median(stores))),
        ratio: Some(ratio),
        goal: Goal::AtLeast(GOAL),
    }])
}

fn engine_ns(rig: &mut Rig) -> Result<f64, BenchError> {
    rig.turn(QUEUE);
    rig.wait_idle(QUEUE)?;
    Ok(Word::load(rig.word(ENDED)).saturating_sub(Word::load(rig.word(BEGUN))) as f64)
}

/// The same words by the processor that the engine runs on.
fn stores_ns(rig: &Rig, processor: usize) -> f64 {
    let timed = || {
        pin_here(processor);
        let started = Instant::now();
        rig.local().store_words(FREE_LOCAL, TABLES * u64::from(ENTRIES), |index| (index * 4096) | VALID);
        started.elapsed().as_nanos() as f64
    };
    std::thread::scope(|scope| scope.spawn(timed).join().expect("the measuring thread does not panic"))
}
