//! Synchronization objects: their waiters and values, MonitoredValue, and the waiters that a signal releases.
//!
//! A fence answers one question: which waiters does this CurrentValue satisfy, and from which value on must the GPU
//! interrupt? It is pure bookkeeping. It touches no shared word, no driver, no queue and no thread: `dxgkrnl`, its only
//! caller, samples CurrentValue and hands the sample in; it takes the [`MonitoredUpdate`]s out and publishes them
//! through the driver; it wakes the waiters in [`Sampled::released`]. The caller chooses the type of a waiter (a blocked thread, an event,
//! a held packet of a queue) as the type parameter `W`, which this crate stores and returns unread.
//!
//! # The law of the two-sided race (sync §3.9)
//! The signaller stores CurrentValue, then loads MonitoredValue, and interrupts iff the value is above it. So the
//! caller owes, for every operation here that returns updates:
//! 1. publish them, in the order in which the operations returned them;
//! 2. then sample CurrentValue of each updated fence again and hand the sample to [`Fences::sample`];
//! 3. repeat while that returns updates.
//!
//! A waiter may sleep only after step 2. Without it a signal that ran between the first sample and the publication is
//! lost; `fences/races.rs` enumerates the interleavings and shows the loss. An update is a change against the last
//! value returned: exactly one per fence whose MonitoredValue changed, so that a mirror which replays them is exact.
//!
//! # The waiter set
//! It holds CPU waits, and every wait that the kernel holds on behalf of a queue (sync §6 B5). Waits that the GPU performs
//! itself are not in it. A condition that holds already never enters (sync §6 B2), therefore no 0 is ever waited for and
//! `min − 1` cannot underflow.
//!
//! # Blame
//! Nothing here fails. A [`FenceId`] whose fence was destroyed is a bug of the kernel, not of a client (the handle table
//! resolved it), and panics with that message. A [`WaitId`] may be stale: a cancellation races with the release.

mod extension;
mod fences;
mod legacy;
mod slots;
mod wait;

pub use extension::{Extension, REACH};
pub use fences::{FenceKind, Fences};
pub use legacy::{LegacyError, LegacyId, LegacyKind, LegacyObjects, LegacyWait, LegacyWaitId};
pub use slots::FenceId;
pub use wait::{MonitoredUpdate, Party, Sampled, WaitId, WaitMode, WaitOutcome};
