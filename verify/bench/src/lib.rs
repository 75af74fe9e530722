//! Ratios against peers and limits, each measured in the same run.
//!
//! A number of nanoseconds says something about a machine on a day. The bench prints a **ratio**: ours against the limit that the same two
//! processors have at the same moment, or against the best other way to do the same thing with the same warm memory. Goals are judged and
//! printed, never asserted; only counts that the protocols promise (no lost wake-up, no interrupt) make a run fail.
//!
//! | module | measures |
//! |---|---|
//! | `bytes` | bytes of a further step under each policy against the fewest that any memory moves, and against Belady's MIN; exact |
//! | `litmus` | lost wake-ups of the fence race, with the barriers and without |
//! | `pingpong` | the limit: how long a cache line takes from one processor to the other; and a futex wake of a sleeper |
//! | `hop` | from a signal on one engine to the wait on the other, and back |
//! | `fences` | from a signal to its waiter, path by path through the whole stack |
//! | `doorbell` | what a submission costs its process, and how long until the engine has begun |
//! | `signals` | signals without a waiter: their price, and the interrupts that they must not raise |
//! | `copies` | physical copies of the copy engine against the best memory copy, and against one past the caches (`streaming`) |
//! | `mapping` | a call that maps many pages, from the call to its fence, against plain stores |
//! | `page_tables` | page-table updates of contiguous ranges against plain stores |
//! | `frames` | frames of a segment, contiguous and scattered, against two general allocators |
//! | `sched` | clients of different priorities against what they would take alone, and a switch between queues |
//! | `calls` | a call over a socket against a bare message there and back |
//! | `handles` | a lookup of a handle against an index into a slice; forged, stale and reused names, of which there may be none |
//! | `daemon` | four clients of a daemon that have half of what they need, against the same four in one program |
//! | `arenas` | allocations of a client of a daemon: their life, a million of them, their memory, a lock of much, against those in process |
//! | `neighbour` | what a client of a daemon keeps of its share beside an attacker, and what is left of that |
//! | `vulkan` | hops and submissions against a chain of timeline semaphores and an empty submission of lavapipe, where it is installed |
//! | `waits` | waits that sleep, signalled by a thread and by an engine, against a futex wake |
//! | `tracing` | a replay that is recorded against the same without a listener |
//! | `simulated` | virtual time against real time |
//! | `growth` | every call beside ever more objects of each kind: cost by size |
//! | `processes` | several processes in virtual time against as many times one: what their turns cost |
//! | `residency` | MakeResident and Evict against a null system call, and how they grow |
//!
//! `part_process` starts this program once more for what is to be a process, `machine` knows the processors and the idle exit, `awake` keeps them from falling idle, `rig` programs the software GPU straight through its registers, with
//! no kernel and no driver, `replayed` has the recording that processes replay, `statistic` the medians and their intervals, `calibration` the
//! machine's own figures, `report` the table, `record` its JSON form, `compare` two of them side by side, `page` the picture.
//!
//! # Rules of measuring
//! Memory is touched before it is timed. The two sides of a comparison alternate, batch by batch, and each pair gives one ratio; the
//! median of the ratios counts. Tails are not judged: on a virtual machine the host takes a processor away whenever it likes. A whole run takes at least 31 rounds of what has noise, and prints the
//! interval that holds the median 95 times of 100. The
//! placement label ("together", "apart") says how far the two processors were from each other; compare only equal labels.
//!
//! It is no test of correctness and no profiler. Called by the command line.

mod arenas;
mod awake;
mod bytes;
mod calibration;
mod calls;
mod compare;
mod copies;
mod daemon;
mod doorbell;
mod fences;
mod frames;
mod growth;
mod handles;
mod hop;
mod litmus;
mod machine;
mod mapping;
mod neighbour;
mod page;
mod page_tables;
mod part_process;
mod pingpong;
mod planner;
mod processes;
mod record;
mod replayed;
mod report;
mod residency;
mod rig;
mod sched;
mod served;
mod signals;
mod simulated;
mod statistic;
mod streaming;
mod suite;
mod tracing;
mod vulkan;
mod waiters;
mod waits;

pub use calibration::Calibration;
pub use compare::{Change, comparison};
pub use fences::fence_paths;
pub use machine::{IdleExit, Machine, Placement};
pub use page::page;
pub use part_process::play;
pub use record::{SCHEMA, from_json, to_json};
pub use report::{BenchError, BenchReport, Goal, Row, Verdict};
pub use statistic::Ratio;
pub use suite::{BenchOptions, MEASURES, run};
