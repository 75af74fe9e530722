//! The cost of a call beside 1,000, 10,000 and 100,000 objects of each kind, in process and over a socket. Called by the suite.
//!
//! A call may look at what it is about, and find it among what there is: its cost may grow with the logarithm, and with what a cache
//! misses. A call that looks at all objects of a kind costs ten times as much beside ten times as many. So each row gives the cost of
//! one call at each size, and the ratio is the largest of those of two neighbouring sizes: ten times the objects, so many times the cost.
//!
//! The objects of a kind are made one after the other, all alive. At each size the last of them are timed while they are made, then
//! calls on some of them that stand far apart, then the destruction of some. The bystander is another device of the same process that has one
//! object of each kind: what it pays for those of others is what each call pays, whatever it is about.
//!
//! | module | has |
//! |---|---|
//! | `crowd` | a kernel, a process and what it has made; the bystander |
//! | `instructions` | the hottest calls, for a counter of instructions |
//! | `kind` | the kinds: how one is made, what is called on it, how it is destroyed |
//!
//! The row of a kind that grows faster than the logarithm, or ends at a limit, says why (`Kind::reason`).

mod crowd;
pub(crate) mod instructions;
mod kind;

use std::time::{Duration, Instant};

use crate::machine::pin_here;
use crate::report::{BenchError, Goal, Row};
use crate::statistic::{Ratio, median};
use crowd::{Crowd, Way};
use kind::{Act, KINDS, Kind};

/// How many objects there are.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const SMOKE_SIZES: [usize; 2] = [100, 1_000];
/// Objects that are timed at each size, in batches: the median counts.
const BATCHES: usize = 9;
const BATCH: usize = 32;
const SMOKE_BATCH: usize = 8;
/// How often the cost may be multiplied where the number of objects is multiplied by ten. The logarithm of 10,000 is 1.33 times that of
/// 1,000; the rest is what caches miss.
const GROWTH_MAX: f64 = 2.0;
/// A cost below this counts as this much: an interrupt of the timer decides no ratio.
const NOTHING_NS: f64 = 300.0;
/// A kind whose objects take longer than this to make is measured at no larger size.
const PATIENCE: Duration = Duration::from_secs(20);

/// The calls of another device of the process.
const BYSTANDER: &str = "calls of a bystander";

/// The rows of all kinds, for each way to a kernel.
pub(crate) fn rows(pair: [usize; 2], smoke: bool) -> Result<Vec<Row>, BenchError> {
    pin_here(pair[0]);
    let (sizes, batch) = if smoke { (&SMOKE_SIZES[..], SMOKE_BATCH) } else { (&SIZES[..], BATCH) };
    let mut rows = Vec::new();
    for way in [Way::InProcess, Way::Socket] {
        for kind in &KINDS {
            rows.extend(rows_of(kind, way, &sizes_of(kind, sizes), batch)?);
        }
    }
    Ok(rows)
}

/// The sizes; of a kind that there are never so many of, what there may be.
fn sizes_of(kind: &Kind, sizes: &[usize]) -> Vec<usize> {
    match kind.most {
        None => sizes.to_vec(),
        Some(most) => vec![most / 10, most],
    }
}

/// The cost of one call at each size that was reached.
struct Costs {
    call: &'static str,
    ns: Vec<f64>,
}

fn rows_of(kind: &Kind, way: Way, sizes: &[usize], batch: usize) -> Result<Vec<Row>, BenchError> {
    let mut crowd = Crowd::start(way)?;
    let mut costs: Vec<Costs> = calls_of(kind).map(|call| Costs { call, ns: Vec::new() }).collect();
    let mut ended = None;
    for &size in sizes {
        match at_size(kind, &mut crowd, size, batch) {
            Ok(ns) => costs.iter_mut().zip(ns).for_each(|(costs, ns)| costs.ns.push(ns)),
            Err(reason) => {
                ended = Some(reason);
                break;
            }
        }
    }
    Ok(costs.into_iter().map(|costs| row(kind, way, sizes, &costs, ended.as_deref())).collect())
}

fn calls_of(kind: &Kind) -> impl Iterator<Item = &'static str> {
    let acts = kind.calls.iter().map(|act| act.0);
    [kind.make.0].into_iter().chain(acts).chain([kind.destroy.0, BYSTANDER])
}

/// Nanoseconds of each call beside `size` objects, in the order of [`calls_of`]; or why there are not so many.
fn at_size(kind: &Kind, crowd: &mut Crowd, size: usize, batch: usize) -> Result<Vec<f64>, String> {
    let batch = batch.min(size / (2 * BATCHES)).max(1);
    let timed = BATCHES * batch;
    let (mut many, began) = ((kind.count)(crowd), Instant::now());
    let make = |crowd: &mut Crowd, many: usize| {
        (kind.make.1)(crowd, many).map_err(|error| format!("no more than {many}: {error}"))
    };
    while many + timed < size {
        make(crowd, many)?;
        many += 1;
        if began.elapsed() > PATIENCE {
            return Err(format!("no more than {many} in {} s", PATIENCE.as_secs()));
        }
    }
    let said = |error: BenchError| error.to_string();
    let mut ns = Vec::new();
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        let started = Instant::now();
        for nth in 0..batch {
            make(crowd, many + nth)?;
        }
        many += batch;
        batches.push(started.elapsed().as_nanos() as f64 / batch as f64);
    }
    ns.push(median(batches));
    for act in kind.calls {
        ns.push(each_ns(crowd, batch, act, |nth| strewn(nth, many)).map_err(said)?);
    }
    ns.push(each_ns(crowd, batch, &kind.destroy, |nth| strewn(nth, many - nth)).map_err(said)?);
    let bystander: Act = ("", |crowd, _| crowd.bystander_calls());
    ns.push(each_ns(crowd, batch, &bystander, |_| 0).map_err(said)?);
    Ok(ns)
}

/// Which of `many` the `nth` call is about: no neighbours follow each other.
fn strewn(nth: usize, many: usize) -> usize {
    nth.wrapping_mul(7_919) % many
}

fn each_ns(crowd: &mut Crowd, batch: usize, act: &Act, which: impl Fn(usize) -> usize) -> Result<f64, BenchError> {
    let mut batches = Vec::new();
    for nth in 0..BATCHES {
        let started = Instant::now();
        for at in nth * batch..(nth + 1) * batch {
            (act.1)(crowd, which(at))?;
        }
        batches.push(started.elapsed().as_nanos() as f64 / batch as f64);
    }
    Ok(median(batches))
}

fn row(kind: &Kind, way: Way, sizes: &[usize], costs: &Costs, ended: Option<&str>) -> Row {
    let measure = format!("{way}, {}: {}", kind.name, costs.call);
    if costs.ns.is_empty() {
        return Row::absent(&measure, ended.unwrap_or("no size"));
    }
    let each: Vec<String> = costs.ns.iter().map(|ns| format!("{:.1}", ns / 1000.0)).collect();
    let reached: Vec<String> = sizes.iter().take(costs.ns.len()).map(|size| format!("{size}")).collect();
    let mut beside = format!("beside {}", reached.join(" / "));
    let why = [ended, kind.reason.filter(|(call, _)| *call == costs.call).map(|(_, reason)| reason)];
    why.into_iter().flatten().for_each(|why| beside.push_str(&format!("; {why}")));
    // A call that costs next to nothing beside few objects has no ratio worth the name.
    let steps = costs.ns.windows(2).map(|pair| pair[1] / pair[0].max(NOTHING_NS));
    let ratio = steps.reduce(f64::max).map(|value| Ratio { value, interval: None, rounds: BATCHES });
    Row { measure, ours: format!("{} us", each.join(" / ")), peer: beside, ratio, goal: Goal::AtMost(GROWTH_MAX) }
}
