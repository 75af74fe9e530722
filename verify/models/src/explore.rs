//! Runs a model to the end and counts what it met. It judges nothing: a lost wake-up is counted, not panicked about, so
//! that one run says how many executions there are and how many of them lose. Called by the models.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of a complete exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// Executions: interleavings times the values that loads may return.
    pub executions: u64,
    /// Executions in which a waiter sleeps for ever although its value has come.
    pub lost: u64,
    /// Executions in which the interrupt (or the wake) and the second look both saw it. Legal, and a sign that the model
    /// reaches the executions in the middle.
    pub twice: u64,
}

/// How one execution ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// The waiter sleeps although its value is there, and nothing is under way that wakes it.
    pub(crate) lost: bool,
    /// It was told twice.
    pub(crate) twice: bool,
}

/// Explores `model` completely. The environment cannot bound it: every limit is set here.
pub(crate) fn explore(model: impl Fn() -> Ending + Send + Sync + 'static) -> Explored {
    // The counters are the standard library's: they are outside of the modelled world and cause no executions.
    let counts: Arc<[AtomicU64; 3]> = Arc::default();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = None;
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.checkpoint_file = None;
    builder.max_branches = 10_000;
    let counted = Arc::clone(&counts);
    builder.check(move || {
        let ending = model();
        let add = |index: usize, seen: bool| counted[index].fetch_add(u64::from(seen), Ordering::Relaxed);
        add(0, true);
        add(1, ending.lost);
        add(2, ending.twice);
    });
    let [executions, lost, twice] = [0, 1, 2].map(|index| counts[index].load(Ordering::Relaxed));
    Explored { executions, lost, twice }
}
