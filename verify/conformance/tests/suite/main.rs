//! The promises to every client, however it reaches its kernel.

mod allocations;
mod budgets;
mod errors;
mod escapes;
mod fences;
mod handles;
mod lists;
mod locks;
mod notifications;
mod offers;
mod order;
mod queues;
mod several;
mod submissions;

use d3dkmt::Refusal;
use wddm_types::NtStatus;

/// Not a test: the daemon of those that have one (`conformance::World`).
#[test]
fn the_daemon() {
    conformance::daemon();
}

/// With what something is refused.
fn status<T>(result: Result<T, Refusal>) -> NtStatus {
    result.err().expect("it is refused").status
}
