//! Runs over the cores: each core takes the next run that no other has begun, and keeps its row before it takes another. Called by `sweep`.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::error::RunError;
use crate::progress::Progress;
use crate::sweep::attempt::{Ended, attempt};
use crate::sweep::kept::Kept;
use crate::sweep::limit::Limits;
use crate::sweep::plan::Plan;
use crate::sweep::row::Row;

/// What came of the runs, by number.
#[derive(Default)]
pub(super) struct Made {
    /// Rows of those that ended.
    pub(super) rows: Vec<(usize, Row)>,
    /// Those whose memory turned out too small, and why.
    pub(super) unfit: Vec<(usize, String)>,
    /// Rows that the folder did not take, and why it did not take the first.
    pub(super) unkept: Option<(usize, RunError)>,
}

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
    made: Mutex<Made>,
    /// The first failure: no further run begins.
    failure: Mutex<Option<RunError>>,
}

/// Makes the runs of these numbers, until their end or until `cancel` is set.
///
/// # Errors
/// The first failure of a run, when the runs beside it have ended; their rows are kept. A row that the folder does not take is no failure of
/// its run.
pub(super) fn run(
    plan: &Plan,
    open: &[usize],
    kept: Option<&Kept>,
    (jobs, progress): (Option<NonZero<usize>>, &Progress),
    cancel: &AtomicBool,
) -> Result<Made, RunError> {
    let pool = Pool {
        plan,
        open,
        kept,
        limits: Limits::default(),
        progress,
        cancel,
        begun: AtomicUsize::new(0),
        made: Mutex::default(),
        failure: Mutex::default(),
    };
    progress.begin("sweep", open.len() as u64);
    let cores = jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores.min(open.len()) {
            scope.spawn(|| pool.work());
        }
    });
    let Pool { made, failure, .. } = pool;
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(made.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

impl Pool<'_> {
    /// What one core does.
    fn work(&self) {
        while !self.is_over() {
            let Some(at) = self.open.get(self.begun.fetch_add(1, Ordering::Relaxed)) else { return };
            if let Err(error) = self.make(*at) {
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    }

    fn make(&self, at: usize) -> Result<(), RunError> {
        let ended = attempt(self.plan, &self.plan.points()[at], Some(&self.limits), self.cancel)?;
        let unkept = match (&ended, self.kept) {
            (Ended::Done(row), Some(kept)) => kept.keep(row).err(),
            _ => None,
        };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // The sweep has its row, and the runs that are left are worth as much.
        if let Some(error) = unkept {
            made.unkept.get_or_insert((0, error)).0 += 1;
        }
        match ended {
            Ended::Done(row) => made.rows.push((at, *row)),
            Ended::Unfit(problem) => made.unfit.push((at, problem)),
            // The loop sees the flag.
            Ended::Interrupted => return Ok(()),
        }
        self.progress.advance((made.rows.len() + made.unfit.len()) as u64);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}
