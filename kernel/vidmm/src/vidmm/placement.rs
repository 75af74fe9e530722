//! Where content lies: planning it, bringing it in, taking it out, moving it about. Each file here borrows the segments and the allocations
//! together, with whatever else its rule reads; none has state of its own.
//!
//! `plan` decides without changing anything; `residency`, `offer`, `split`, `pin` carry a call out by it; `victim` takes out, `aside` does so when a use is over, `commit` brings in,
//! `compaction` moves within a segment, `standing` says in which order content loses its place, `promote`, `idle` and `fetch` work ahead, `in_place` leaves in system memory what work only reads, `never` and
//! `aperture` answer for the kernel; `foreseen` tells the planner.

pub(super) mod aperture;
pub(super) mod aside;
pub(super) mod commit;
pub(super) mod compaction;
pub(super) mod fetch;
pub(super) mod foreseen;
pub(super) mod idle;
pub(super) mod in_place;
pub(super) mod never;
pub(super) mod offer;
pub(super) mod pin;
pub(super) mod plan;
pub(super) mod promote;
pub(super) mod residency;
pub(super) mod split;
pub(super) mod standing;
pub(super) mod victim;
