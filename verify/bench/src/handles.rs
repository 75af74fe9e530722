//! Handles: the cost of a lookup against an index into a slice, and that no process's table accepts a name that it did not give out. Called
//! by the suite.
//!
//! Both look for the same objects in the same random order. The objects are the kernel's, and how many there are is not known when this is
//! compiled: as many as a small process has, which stay in the first cache, and many more. Names are tried by the thousand million: forged ones are any 32 bits, stale ones
//! were given once, foreign ones are those that another process has.

use std::hint::black_box;
use std::time::Instant;

use dxgkrnl::{HandleTable, Object};
use wddm_types::{AdapterIndex, RawHandle};

use crate::machine::pin_here;
use crate::report::{Goal, Row};
use crate::statistic::{median, median_ratio};

/// Most slice accesses that a lookup may cost.
const GOAL: f64 = 2.0;
/// Handles of the processes whose lookups are timed.
const SIZES: [u32; 3] = [256, 4096, 65_536];
/// Handles of the process that wrong names are tried on.
const HANDLES: u32 = 4096;
/// Lookups timed in one batch.
const ROUNDS: usize = 1_000_000;

/// The rows.
pub(crate) fn rows(pair: [usize; 2], batches: usize, smoke: bool) -> Vec<Row> {
    pin_here(pair[0]);
    let tries: u64 = if smoke { 1_000_000 } else { 1_000_000_000 };
    let mut rows: Vec<Row> = SIZES.into_iter().map(|handles| lookups(handles, batches)).collect();
    rows.extend([wrong_names(tries), names_that_come_again(if smoke { 1_000_000 } else { WRAP })]);
    rows
}

/// A generator that is cheaper than what it is measured with (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn lookups(count: u32, batches: usize) -> Row {
    let mut table = HandleTable::default();
    let slice: Vec<Object> = (0..black_box(count)).map(|number| Object::Adapter(AdapterIndex(number))).collect();
    let handles: Vec<RawHandle> = slice.iter().map(|object| table.insert(*object).expect("room")).collect();
    let mut random = Random(7);
    // Both orders are 32 bits wide, so that neither waits longer for memory to say what comes next.
    // CAST: fewer than there are.
    let order: Vec<u32> = (0..ROUNDS).map(|_| (random.next() % u64::from(count)) as u32).collect();
    let named: Vec<RawHandle> = order.iter().map(|index| handles[*index as usize]).collect();
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..batches.max(3) {
        ours.push(each_ns(|| named.iter().map(|handle| number(table.get(*handle).expect("it is there"))).sum()));
        peers.push(each_ns(|| order.iter().map(|index| number(&slice[*index as usize])).sum()));
    }
    Row {
        measure: format!("lookup of one of {count} handles"),
        ratio: Some(median_ratio(&ours, &peers)),
        ours: format!("{:.2} ns", median(ours)),
        peer: format!("slice index {:.2} ns", median(peers)),
        goal: Goal::AtMost(GOAL),
    }
}

fn number(object: &Object) -> u64 {
    if let Object::Adapter(index) = object { index.0.into() } else { 0 }
}

fn each_ns(all: impl Fn() -> u64) -> f64 {
    let started = Instant::now();
    black_box(all());
    started.elapsed().as_nanos() as f64 / ROUNDS as f64
}

/// A third each of forged, stale and foreign names.
// spec: memory §9.3
fn wrong_names(tries: u64) -> Row {
    let (mut mine, mut other) = (HandleTable::default(), HandleTable::default());
    let living: Vec<RawHandle> = (0..HANDLES).map(|number| mine.insert(number).expect("room")).collect();
    let (mut stale, mut foreign) = (Vec::new(), Vec::new());
    for number in 0..HANDLES {
        let handle = mine.insert(number).expect("room");
        mine.remove(handle);
        stale.push(handle);
    }
    // The other has had more objects, and names what comes behind the names of this one.
    for number in 0..4 * HANDLES {
        foreign.push(other.insert(number).expect("room"));
    }
    let foreign = &foreign[2 * HANDLES as usize..];
    let mut random = Random(11);
    let mut accepted = 0;
    for attempt in 0..tries {
        let drawn = random.next();
        let pick = |names: &[RawHandle]| names[drawn as usize % names.len()];
        let name = match attempt % 3 {
            // CAST: any 32 bits.
            0 => RawHandle(drawn as u32),
            1 => pick(&stale),
            _ => pick(foreign),
        };
        // A name drawn by chance may be that of a living object.
        if mine.get(name).is_some() && living.binary_search(&name).is_err() {
            accepted += 1;
        }
    }
    Row {
        measure: "forged, stale and foreign handles accepted".into(),
        ours: format!("{accepted}"),
        peer: format!("of {tries}"),
        ratio: None,
        goal: Goal::Zero { counted: accepted },
    }
}

/// Names before one may come again.
const WRAP: u64 = 3 << 24;

/// Objects come and go, one after the other.
fn names_that_come_again(names: u64) -> Row {
    let (mut table, mut last, mut again) = (HandleTable::default(), 0, 0);
    for _ in 0..names {
        let handle = table.insert(()).expect("room");
        again += u64::from(handle.0 <= last);
        last = handle.0;
        table.remove(handle);
    }
    Row {
        measure: "names that come again before all were given".into(),
        ours: format!("{again}"),
        peer: format!("of {names}"),
        ratio: None,
        goal: Goal::Zero { counted: again },
    }
}
