//! Division of an engine's time (sync §4.2). Two parties follow one rule: VidSch for nodes that take packets, a device's own scheduler
//! for hardware queues. Both tell which contexts want the engine and which has it; [`EngineTime`] tells which should.
//!
//! This crate knows no driver, no packet and no clock: the caller passes the time, in nanoseconds of its own clock. It starts and stops
//! nothing. A context is any name of the caller's.
//!
//! # The rule
//! ```text
//! bands       REALTIME, by level  >  what is owed to a band below  >  FOCUS  >  NORMAL  >  IDLE
//! in a band   processes take turns of a quantum; next is the one that has used least, by weight
//! in a process  the highest in-process priority; among equals turns of the context's quantum, next is the one that has used least
//! ```
//! - *A quantum ends nothing by itself.* The holder keeps the engine until a context of the same rank waits.
//! - *A context that should have the engine waits a grace period*, so that the running work may end by itself, which costs nothing: of
//!   the band, of processes, or of the context that takes it, as [`Policy`] and [`Quanta`] say.
//! - *No context starves.* While a band below waits, a debt to it grows by its share of the time ([`Debt`]). When the debt has grown to a
//!   slice the band is owed: it goes before the others until the slice is used up. NORMAL has its target percentage of what FOCUS uses,
//!   IDLE a few per mille of what both use, contexts of lower in-process priority a few per mille of their process. REALTIME owes
//!   nothing: its privilege is for that.
//! - *Absence saves nothing.* A process that comes back stands beside the one that has used least of those present.
//!
//! | module | what |
//! |---|---|
//! | `policy` | bands and their terms; the numbers and their defaults |
//! | `rank` | a context's rank, its quantum and grace periods |
//! | `rota` | turns among equals |
//! | `debt` | shares of contexts that rank below |
//! | `time` | all of it for one engine |

#![forbid(unsafe_code)]

mod debt;
mod policy;
mod rank;
mod rota;
mod row;
mod time;

pub use policy::{BANDS, Band, BandTerms, Policy};
pub use rank::{Contender, IN_PROCESS_MAX, Quanta, REALTIME_LEVEL_MAX, Rank, WEIGHT_NORMAL};
pub use time::{EngineTime, Verdict, Who};
