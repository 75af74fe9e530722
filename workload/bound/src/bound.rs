//! The bound as callers ask for it: judged arguments, whole bytes.

use replay::{Event, Workload};

use crate::program::Program;
use crate::search::{Effort, SearchError, least_cost};

/// Most operations of all steps together: the program keeps some hundred bytes for each.
pub const OPERATIONS_MAX: u64 = 1_000_000;

/// Most storages read and written by the operations of all steps together: between two of them may lie a stretch.
pub const USES_MAX: u64 = 50_000_000;

/// Most bytes of all stretches together: sums of them, and of what they cost, fit 64 bits.
const STRETCH_BYTES_MAX: u128 = 1 << 61;

/// The fewest bytes that move over all steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// In and out together.
    pub moved_bytes: u64,
    /// The fewest that come in, for memories that care for nothing else. A memory that moves `moved_bytes` may page in more.
    pub paged_in_bytes: u64,
    /// Those of `paged_in_bytes` that come in with any capacity: content that was there before.
    pub cold_bytes: u64,
    /// How large the program for `moved_bytes` was.
    pub effort: Effort,
}

/// Why there is no bound. The caller's numbers are to blame, but for [`BoundError::Solver`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    /// An operation needs more than the capacity at once.
    #[error("operation {op_index} of the step ({name}) needs {needed} bytes at once, and the memory has {capacity}")]
    TooSmall {
        /// The operation within its step, from 0: the first of those that need most.
        op_index: u32,
        /// Its name.
        name: String,
        /// Bytes that it needs: no capacity below it runs the workload.
        needed: u64,
        /// The capacity asked for.
        capacity: u64,
    },
    /// The steps have too many operations.
    #[error("{operations} operations in all steps together are more than {OPERATIONS_MAX}")]
    TooManyOperations {
        /// Operations of all steps.
        operations: u64,
    },
    /// The operations of the steps use too many storages.
    #[error("the operations of all steps together read and write {uses} storages, more than {USES_MAX}")]
    TooManyUses {
        /// Reads and writes of all steps.
        uses: u64,
        /// Those of one step.
        of_a_step: u64,
    },
    /// The bytes are too many for sums of 64 bits.
    #[error("{bytes} bytes would have to be counted, more than 2^61")]
    TooManyBytes {
        /// Those of all stretches, with what comes in cold.
        bytes: u128,
    },
    /// The solver was not done when its time was.
    #[error("{effort}, not solved in the time given; at least {at_least} bytes move")]
    OutOfTime {
        /// The size of the program.
        effort: Effort,
        /// What is known: the optimum of a program with fewer rows.
        at_least: u64,
    },
    /// The solver failed.
    #[error("the solver failed on {effort}: {problem}")]
    Solver {
        /// The size of the program.
        effort: Effort,
        /// Its own words.
        problem: String,
    },
}

/// The fewest bytes that `steps` joined steps of a workload move through a memory of `capacity` bytes. `seconds_left` is asked
/// before each program is solved how long that may take.
///
/// # Errors
/// [`BoundError`].
pub fn fewest_bytes(
    workload: &Workload,
    steps: u32,
    capacity: u64,
    seconds_left: &mut dyn FnMut() -> f64,
) -> Result<Bound, BoundError> {
    let operations = workload.ops() as u64 * u64::from(steps);
    if operations > OPERATIONS_MAX {
        return Err(BoundError::TooManyOperations { operations });
    }
    let of_a_step = uses(workload);
    let uses = of_a_step.saturating_mul(u64::from(steps));
    if uses > USES_MAX {
        return Err(BoundError::TooManyUses { uses, of_a_step });
    }
    judge_capacity(workload, capacity)?;
    let program = Program::of(workload, steps);
    let bytes = program.stretch_bytes() + program.cold_bytes;
    if bytes > STRETCH_BYTES_MAX {
        return Err(BoundError::TooManyBytes { bytes });
    }
    // CAST: no more than the maximum, just judged.
    let cold_bytes = program.cold_bytes as u64;
    let total = |cost: f64| cold_bytes + cost.round() as u64;
    let page_ins = crate::cover::least_page_ins(&program.page_ins(), capacity);
    let found = least_cost(&program, (capacity, page_ins), seconds_left).map_err(|error| match error {
        SearchError::OutOfTime { effort, at_least } => BoundError::OutOfTime { effort, at_least: total(at_least) },
        SearchError::Solver { effort, problem } => BoundError::Solver { effort, problem },
    })?;
    let paged_in_bytes = cold_bytes + page_ins;
    // Both are exact; the floating point of the first may lose the last bytes of what it never can be below.
    let moved_bytes = total(found.0).max(paged_in_bytes);
    Ok(Bound { moved_bytes, paged_in_bytes, cold_bytes, effort: found.1 })
}

/// The storages that the operations of a step read and write, each as often as it is named.
fn uses(workload: &Workload) -> u64 {
    let of = |event: &Event| match event {
        Event::Op { reads, writes, .. } => (reads.len() + writes.len()) as u64,
        Event::Death(_) => 0,
    };
    workload.events().iter().map(of).sum()
}

/// Refuses a capacity below the largest operation, with the first that does not fit of those that need most.
fn judge_capacity(workload: &Workload, capacity: u64) -> Result<(), BoundError> {
    let needed = workload.largest_op_bytes();
    if needed <= capacity {
        return Ok(());
    }
    let mut program = Program::of(workload, 1).needs.into_iter();
    let op_index = program.position(|need| need == needed).expect("one operation is the largest");
    let names = workload.events().iter().filter_map(|event| match event {
        Event::Op { name, .. } => Some(*name),
        Event::Death(_) => None,
    });
    let name = names.skip(op_index).map(|name| workload.op_names()[name as usize].clone()).next().unwrap_or_default();
    // CAST: a step has fewer operations than `OPERATIONS_MAX`, judged before.
    Err(BoundError::TooSmall { op_index: op_index as u32, name, needed, capacity })
}
