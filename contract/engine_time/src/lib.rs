//! Who gets an engine's time (sync §4.2). One rule, two parties that obey it: VidSch for nodes that take packets, a device's
//! own scheduler for hardware queues. Both say who wants the engine and who has it; [`EngineTime`] says who should.
//!
//! It knows no driver, no packet and no clock: the time is an argument, in nanoseconds of whoever asks. It starts and stops
//! nothing. A context is whatever the caller calls one.
//!
//! # The rule
//! ```text
//! bands       REALTIME, by level  >  what is owed to a band below  >  FOCUS  >  NORMAL  >  IDLE
//! in a band   processes take turns of a quantum; next is who has used least, by weight
//! in a process  the highest in-process priority; among equals turns of the context's quantum, next is who has used least
//! ```
//! - *A quantum ends nothing by itself.* Whoever has the engine keeps it until somebody of the same rank waits.
//! - *Whoever should have the engine and has not waits a grace period*, so that what runs may come to an end that costs
//!   nothing: of the band, of processes, or of the context that takes it, as [`Policy`] and [`Quanta`] say.
//! - *Nobody starves.* While a band below waits, a debt to it grows by its share of the time ([`Debt`]). When a slice has come
//!   together the band is owed: it goes before the others until the slice is used up. NORMAL has its target percentage of what
//!   FOCUS uses, IDLE a few per mille of what both use, contexts of lower in-process priority a few per mille of their process.
//!   REALTIME owes nothing: that is what its privilege is for.
//! - *Who was away has saved nothing.* A process that comes back stands beside the one that has used least of those present.
//!
//! | module | what |
//! |---|---|
//! | `policy` | bands and their terms; the numbers and their defaults |
//! | `rank` | what a context says of itself |
//! | `rota` | turns among equals |
//! | `debt` | shares of those who rank below |
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
