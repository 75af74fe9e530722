//! The rules that hold after every call, of any process and whatever it asked. Each is checked where what it speaks of meets: those of
//! one adapter's objects in `adapter::invariant`, those of what processes and adapters share in `machine::invariant`; a part checks its own
//! state, and the memory manager's rules are its own.
//!
//! | rule | what it says |
//! |---|---|
//! | handles | a handle names a live object of its own process, and no object has two, opened adapters excepted |
//! | reachable | every object of a process that lives has a handle there: without one no process could destroy it |
//! | devices | what a device owns exists and knows it; nothing is kept for a device or a process that has gone |
//! | allocations | bindings, bodies and resources count each other rightly, and VidMm's with them |
//! | quotas | what a process has committed is the sum of the allocations that it created, and of its sections |
//! | sections | each has as many users as its handle and the allocations of all adapters that lie in it or are about to leave |
//! | keyed mutexes | each counts its opens and its NT handles, and has at least one; owner and waits are opens of it |
//! | names | each is found as long as an NT handle has it |
//! | sync objects | each counts its opens and its NT handles, and has at least one; a global handle names what knows it |
//! | cross-adapter fences | each is known to its adapters by its word, and is named or reached |
//! | fences | every fence has its waits, and an open or a name; paging queues and hardware queues have theirs |
//! | doorbells | no process rings at a device that has no power |
//! | paging ring | works keep their order, and what is deferred to them is counted |
//! | displays | what is shown, and what a driver has been given to show, is pinned, and its source has an owner |
//! | engine power | an engine with less power has no packets |
//! | holds | each thing that the kernel holds until something happens names what ends that, and that is queued (`crate::hold`) |
//! | figures | the figures that calls get of segments are the sums of those of processes |
//! | memory | whatever VidMm checks |

use vidmm::BrokenInvariant;

/// The answer of a check.
pub type Checked = Result<(), BrokenInvariant>;

/// Checks one rule; `place` says where it is broken.
///
/// # Errors
/// The rule, where it does not hold.
pub fn ensure(holds: bool, rule: &'static str, place: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(BrokenInvariant { rule, place: place() }) }
}
