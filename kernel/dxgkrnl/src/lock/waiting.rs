//! Locks that wait for the GPU, each from the call until the wait for it ends. Here they only wait: this part asks no other, and
//! looks into none of them. `adapter::lock` begins the waits and carries a lock out when its wait is over.

use super::LockRequest;
use crate::due::Waiter;
use crate::hold::{Hold, Until};
use crate::number::WaitingLockNumber;
use crate::store::{ObjectNumber, Store};

/// The locks that wait.
#[derive(Default)]
pub struct WaitingLocks {
    known: Store<WaitingLockNumber, LockRequest>,
}

impl WaitingLocks {
    /// A lock waits from now on. Its number goes into the wait.
    #[must_use = "the lock waits until its number comes back"]
    pub fn begin(&mut self, request: LockRequest) -> WaitingLockNumber {
        self.known.insert(request)
    }

    /// Those that wait.
    pub fn iter(&self) -> impl Iterator<Item = &LockRequest> {
        self.known.iter().map(|(_, request)| request)
    }

    /// What ends the wait of each.
    pub fn holds(&self) -> impl Iterator<Item = Hold> + '_ {
        let hold =
            |number: WaitingLockNumber| Hold::new("lock", number.raw(), Until::Wait(Waiter::Lock { waiting: number }));
        self.known.iter().map(move |(number, _)| hold(number))
    }

    /// The wait of a lock is over, as it is once.
    #[must_use = "the call that asked for the lock waits for its answer"]
    pub fn end(&mut self, number: WaitingLockNumber) -> LockRequest {
        self.known.remove(number).expect("a lock waits once")
    }
}
