//! Runs over the cores: each core takes the next run that no other has begun, and keeps its row before it takes another. Called by `sweep`.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::RunError;
use crate::progress::Progress;
use crate::sweep::attempt::attempt;
use crate::sweep::kept::Kept;
use crate::sweep::limit::Limits;
use crate::sweep::plan::Plan;
use crate::sweep::row::Row;

/// The state that the cores share.
struct Pool<'a> {
    plan: &'a Plan,
    /// Numbers of the runs to make.
    open: &'a [usize],
    kept: Option<&'a Kept>,
    limits: Limits,
    progress: &'a Progress,
    cancel: &'a AtomicBool,
    /// How many of `open` have been begun.
    begun: AtomicUsize,
    rows: Mutex<Vec<(usize, Row)>>,
    /// The first failure: no further run begins.
    failure: Mutex<Option<RunError>>,
}

/// Makes the runs of these numbers, until their end or until `cancel` is set, and gives their rows.
///
/// # Errors
/// The first failure, when the runs beside it have ended; their rows are kept.
pub(super) fn run(
    plan: &Plan,
    open: &[usize],
    kept: Option<&Kept>,
    (jobs, progress): (Option<NonZero<usize>>, &Progress),
    cancel: &AtomicBool,
) -> Result<Vec<(usize, Row)>, RunError> {
    let pool = Pool {
        plan,
        open,
        kept,
        limits: Limits::default(),
        progress,
        cancel,
        begun: AtomicUsize::new(0),
        rows: Mutex::default(),
        failure: Mutex::default(),
    };
    progress.begin("sweep", open.len() as u64);
    let cores = jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores.min(open.len()) {
            scope.spawn(|| pool.work());
        }
    });
    let Pool { rows, failure, .. } = pool;
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(rows.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

impl Pool<'_> {
    /// What one core does.
    fn work(&self) {
        while !self.is_over() {
            let Some(at) = self.open.get(self.begun.fetch_add(1, Ordering::Relaxed)) else { return };
            match self.make(*at) {
                Ok(None) => return,
                Ok(Some(row)) => {
                    let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
                    rows.push((*at, row));
                    self.progress.advance(rows.len() as u64);
                }
                Err(error) => {
                    self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        }
    }

    fn make(&self, at: usize) -> Result<Option<Row>, RunError> {
        let row = attempt(self.plan, &self.plan.points()[at], Some(&self.limits), self.cancel)?;
        if let (Some(row), Some(kept)) = (&row, self.kept) {
            kept.keep(row)?;
        }
        Ok(row)
    }

    fn is_over(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}
