//! Replays a recorded workload, the memory accesses of a real program, step after step, against any memory size.
//!
//! A *workload* is one recorded step of a real program (a training step, a forward pass): its storages with their
//! sizes, its operations in order with the storages that each needs together, and the deaths of storages. It enters
//! through [`Workload::open`], which knows two formats:
//!
//! | format | recognised by | module |
//! |---|---|---|
//! | residency reference string | `"format": "residency-reference-string/1"`, or `/2` | `rrs` |
//! | PyTorch execution trace (Chakra host trace) | `"schema"` and `"nodes"` | `chakra` |
//!
//! either plain or gzipped. A file is untrusted input: this crate parses and validates it once, and the result is a
//! [`Workload`] whose indices, lifetimes and sums hold, so that no module below checks them again. A refusal names the
//! file, the place in it and what to do about it ([`WorkloadError`]).
//!
//! [`Workload::steps`] joins the step with itself as often as asked and gives every storage its identity per step.
//! [`lru_bytes`] is an independent oracle: the bytes that a page-granular least-recently-used memory of a given size would
//! move for the joined steps. It shares no code with the kernel that it judges.
//!
//! [`drive`] replays a workload through a link to a kernel: storages become allocations, operations command buffers.
//!
//! Modules: `workload` (the value and its measures), `placement` (which adapter runs what), `fault` (refusals), `import` (what of
//! a recording is left out), `source` (files, recognition), `gzip`, `stranger` (files of other kinds), `rrs`,
//! `chakra` (the two formats), `steps` (joining), `reference` (the oracle), `drive`
//! (the replay).
//!
//! The crate has no clocks and no threads; importing touches one file and nothing else, driving only the link.

mod chakra;
mod drive;
mod fault;
mod gzip;
mod import;
mod placement;
mod reference;
mod rrs;
mod source;
mod steps;
mod stranger;
mod workload;

pub use drive::{
    ContentMode, DeviceState, DriveError, DriveOptions, Driven, DrivenOn, Mismatch, Observer, Renamed, ResidencyPolicy,
    Stage, Submission, Work, drive, round_trip_ns,
};
pub use fault::{Fault, WorkloadError};
pub use import::{Import, LeftOut, Reason};
pub use placement::Placement;
pub use reference::{Moved, ReferenceError, lru_bytes};
pub use source::EXPANDED_BYTES_MAX;
pub use steps::{StepEvent, Steps, StorageId};
pub use workload::{Event, Lifetime, SourceKind, Storage, Workload};
