//! The fewest bytes that any memory of a given size moves for a workload, whatever it evicts, keeps and fetches, and whatever it knows
//! of the future.
//!
//! A replacement policy is judged by its distance to this figure. [`fewest_bytes`] states a linear program and solves it, in whole
//! bytes where a greedy rule does, else to about one part in 10⁹.
//!
//! # The program
//! The joined steps of a workload are operations in a row. Between two uses of a storage, and between its last use and its death, lie
//! operations at which it need not be resident: a *stretch*. For each stretch `j` of a storage of `s` bytes the variable `z(j)`, from 0
//! to `s`, says how many of the bytes are out at some time in it. The stretches from one write of a storage to its next are an *epoch*:
//! in it the content differs from what lies outside, until it is written back, once. The variable `e` says how many of its bytes
//! are.
//!
//! ```text
//! least   cold + Σ z(j)  over stretches whose use behind reads       what left comes back
//!              + Σ e     over epochs                                 what left dirty was written back
//! where   z(j) ≤ e                          for each stretch j of an epoch
//!         Σ s − z(j) ≤ capacity − need(k)   for each operation k, over the stretches that cross it
//! ```
//! `cold` is the content that was there before its step and that an operation reads first. A storage that nothing has written and that
//! was not there before has no content: it is never in the sum.
//!
//! # Why nothing moves less
//! Take any run of any memory that keeps content and never holds more than its capacity. Let `z(j)` be the bytes that it had out at some
//! time in stretch `j`, and `e` those that it wrote back in the epoch. It obeys every line above, and it moved at least the sum on top.
//! So the least sum over all numbers that obey is no more than what it moved.
//!
//! # What is left out
//! Pages, fragments, alignment and page tables, all of which only take room; the room that a fetch takes ahead of its use. So a real
//! memory may be unable to reach the bound, and none is below it. Content counts until it dies: a memory may not lose
//! what a later operation overwrites unread, as it cannot know. Work that reads memory where it lies outside pages nothing in, and is no
//! subject of this bound.
//!
//! # How it is solved
//! Page-ins alone are an interval covering with equal prices, which a greedy rule solves exactly in whole bytes (module `cover`); so is
//! the whole program where all prices are equal, and where a choice without write-backs moves no more than the fewest page-ins, as with
//! mixtures of experts. With different prices, still without epochs, it would be a flow of least cost.
//! Epochs break that: a write-back is paid once for several stretches, and with unit sizes in whole
//! pages the problem is NP-complete (Beckmann, Gibbons, Haeupler, McGuffey: Writeback-Aware Caching, 2020), so no flow
//! with whole optima is equivalent to it. There the linear program is solved as it stands, by the simplex method in floating
//! point: the figure is exact to about one part in 10⁹. First it is made small (modules `rows` and `columns`: 3,513
//! operations of a training step are two rows), and rows join only when an answer breaks them (`search`).
//!
//! The crate has no clock, no thread and no file. Called by the command line.

mod bound;
mod columns;
mod cover;
mod program;
mod rows;
mod search;
mod solve;
mod time;

pub use bound::{Bound, BoundError, OPERATIONS_MAX, USES_MAX, fewest_bytes};
pub use search::Effort;
pub use time::{LeastTime, Link, least_time};
