//! The bound beside the runs: solved once for each workload and memory size, whatever the policy. Called by `attempt`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use bound::{Bound, Link, fewest_bytes, least_time};

use crate::sweep::row::Row;

/// The bound of a workload in a memory, for the steps of the sweep and for one step more.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    all: Bound,
    further: Option<Bound>,
}

/// Bounds that were solved, by the workload's place in the plan and the memory.
#[derive(Default)]
pub(super) struct Limits {
    known: Mutex<BTreeMap<(usize, u64), Arc<Solved>>>,
}

/// The bound of one memory: the first core that asks solves it, and others wait for it.
#[derive(Default)]
struct Solved(OnceLock<Result<Option<Limit>, Cut>>);

/// The interruption of the program left a bound unsolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut;

impl Limits {
    /// The bound; `None` where it was not solved in time.
    ///
    /// # Errors
    /// [`Cut`]: `cancel` was set before all of it was solved.
    pub(super) fn of(
        &self,
        (subject, workload): (usize, &replay::Workload),
        (steps, capacity, seconds): (u32, u64, u32),
        cancel: &AtomicBool,
    ) -> Result<Option<Limit>, Cut> {
        if seconds == 0 {
            return Ok(None);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let solved = Arc::clone(known.entry((subject, capacity)).or_default());
        drop(known);
        *solved.0.get_or_init(|| {
            let began = Instant::now();
            let mut cut = false;
            let mut left = || match cancel.load(Ordering::Relaxed) {
                true => {
                    cut = true;
                    0.0
                }
                false => f64::from(seconds) - began.elapsed().as_secs_f64(),
            };
            let all = fewest_bytes(workload, steps, capacity, &mut left).ok();
            let further = all.and_then(|_| fewest_bytes(workload, steps + 1, capacity, &mut left).ok());
            match all {
                _ if cut && further.is_none() => Err(Cut),
                all => Ok(all.map(|all| Limit { all, further })),
            }
        })
    }
}

impl Limit {
    /// Writes the bound into a row that has its figures. Several processes cannot do better than each alone in all of the memory.
    pub(super) fn note(&self, row: &mut Row, link: Link) {
        let of = |moved: u64, paged_in: u64| Bound {
            moved_bytes: moved.saturating_mul(row.processes),
            paged_in_bytes: paged_in.saturating_mul(row.processes),
            ..self.all
        };
        let all = of(self.all.moved_bytes, self.all.paged_in_bytes);
        let least = least_time(&all, link, Some(row.ideal_ns));
        let further = self.further.map(|more| {
            let moved = more.moved_bytes.saturating_sub(self.all.moved_bytes);
            of(moved, more.paged_in_bytes.saturating_sub(self.all.paged_in_bytes))
        });
        let step_ideal_ns = row.last_step_ideal_ns;
        row.fewest_bytes = Some(all.moved_bytes);
        row.fewest_paged_in_bytes = Some(all.paged_in_bytes);
        row.least_ns = Some(least.total_ns);
        row.further_step_fewest_bytes = further.map(|further| further.moved_bytes);
        row.further_step_least_ns = further.map(|further| least_time(&further, link, step_ideal_ns).total_ns);
        row.share_at_best_millionths = match (step_ideal_ns, row.further_step_least_ns) {
            (Some(ideal_ns), Some(least_ns)) => Some(share(ideal_ns, least_ns)),
            (Some(_), None) => None,
            (None, _) => Some(share(row.ideal_ns, least.total_ns)),
        };
    }
}

/// `ideal` as a share of `time`, in millionths, rounded down; the whole where nothing takes time.
pub(super) fn share(ideal_ns: u64, time_ns: u64) -> u64 {
    if time_ns == 0 {
        return 1_000_000;
    }
    let millionths = u128::from(ideal_ns) * 1_000_000 / u128::from(time_ns);
    u64::try_from(millionths).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::run::{self, Workload};

    use super::*;

    #[test]
    fn an_interruption_is_told_apart_from_a_bound_that_no_row_was_to_have() {
        let workload = run::open(&Workload::Bundled).unwrap();
        let (limits, cut) = (Limits::default(), AtomicBool::new(true));
        let of = |seconds, capacity| limits.of((0, &workload), (1, capacity, seconds), &cut);
        // Less than the peak, so that there is something to solve.
        let [capacity, another] = [200, 201].map(|mebibytes| mebibytes << 20);
        assert!(matches!(of(0, capacity), Ok(None)), "no row was to have it");
        assert!(matches!(of(60, capacity), Err(Cut)));
        cut.store(false, Ordering::Relaxed);
        assert!(matches!(of(60, another), Ok(Some(Limit { further: Some(_), .. }))));
        cut.store(true, Ordering::Relaxed);
        assert!(matches!(of(60, another), Ok(Some(_))), "it is known");
    }
}
