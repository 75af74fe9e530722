//! Looking at the kernel from outside, for tests, fuzzers and simulators: nothing here changes anything.

use std::sync::atomic::Ordering;

use dxgkrnl::{BrokenInvariant, ObjectNumber, Residence, StateDigest};
use kmt_calls::Refusal;
use wddm_types::{Blame, NtStatus};

use super::{Host, HostAdapter};

impl Host {
    /// Checks the kernel's invariants: a debug facility that reads everything and is slow.
    ///
    /// # Errors
    /// The first invariant that does not hold: a defect of the kernel, whatever calls it got.
    pub fn check_invariants(&self) -> Result<(), BrokenInvariant> {
        self.hold().machine.check_invariants()
    }

    /// Checks that what no name names is gone, in virtual time, when no work is in flight ([`Host::step`] answers false) and the kernel's last
    /// input was the death of a process or the end of a name: a turn that brings nothing new finds nothing left to do. A kernel that does more
    /// with each turn, such as giving suspended devices their turns, is not at rest, and the check says nothing of it.
    ///
    /// # Errors
    /// The parts of the state that the turn changed.
    // spec: memory §6.2
    pub fn check_nothing_left(&self) -> Result<(), BrokenInvariant> {
        let mut state = self.hold();
        let before = state.machine.state_digest();
        let mut digest_after_turn = || {
            state.turn(|machine, cx| machine.timer(cx));
            while self.step_locked(&mut state) {}
            state.machine.state_digest()
        };
        let after = digest_after_turn();
        let changed = before.differences(&after);
        if changed.is_empty() || digest_after_turn() != after {
            return Ok(());
        }
        let place = format!("a turn that brings nothing carries something out: {changed:?}");
        Err(BrokenInvariant { rule: "nothing left", place })
    }

    /// Whether an assertion of the kernel, or a panic of its driver, has ended it: it takes no call any more, not even from destructors during
    /// the unwinding.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.state.is_poisoned()
    }

    /// Native fences of the first adapter whose driver owes news of them: see [`HostAdapter::unreported_fences`].
    pub fn unreported_fences(&self) -> Vec<(u64, u64, u64)> {
        self.adapter(0).unreported_fences()
    }

    /// A digest of the kernel's state. When no work is in flight ([`Host::step`] answers false) a refused call leaves it unchanged.
    pub fn state_digest(&self) -> StateDigest {
        self.hold().machine.state_digest()
    }
}

impl HostAdapter<'_> {
    /// Shows `look` the adapter's resident content, page by page, while nothing moves: the moves of all [`events::Event::Moved`] until now add
    /// up to it.
    pub fn see_residences<T>(&self, look: impl FnOnce(&[Residence]) -> T) -> T {
        let state = self.host.hold();
        look(&state.machine.residences(self.index))
    }

    /// Native fences of the adapter whose CurrentValue has passed MonitoredValue without a report of the driver, with both values. When no
    /// work is in flight ([`Host::step`] answers false), each is a defect of the driver.
    // spec: sync §3.10
    pub fn unreported_fences(&self) -> Vec<(u64, u64, u64)> {
        let told = self.host.hold().turn(|machine, cx| machine.unreported_fences(cx, self.index));
        told.iter().map(|one| (one.fence.raw(), one.current, one.monitored)).collect()
    }
}

/// The refusal of every call after the kernel has failed.
pub(crate) fn kernel_failed() -> Refusal {
    let reason = "the kernel failed an assertion, or its driver one".into();
    Refusal { status: NtStatus::DEVICE_REMOVED, blame: Blame::Driver, reason, bytes_to_trim: 0 }
}

/// The refusal of a call that waited when its process went.
pub(super) fn process_gone() -> Refusal {
    let reason = "the process has gone".into();
    Refusal { status: NtStatus::DEVICE_REMOVED, blame: Blame::Caller, reason, bytes_to_trim: 0 }
}
