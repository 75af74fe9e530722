//! Looking at the kernel from outside, for tests, fuzzers and simulators: nothing here changes anything.

use dxgkrnl::{BrokenInvariant, StateDigest};

use super::{Host, lock};

impl Host {
    /// Whether what always holds in the kernel holds now: a debug facility that reads everything and is slow.
    ///
    /// # Errors
    /// The first rule that does not hold: a defect of the kernel, whatever was asked of it.
    pub fn check_invariants(&self) -> Result<(), BrokenInvariant> {
        lock(&self.state).machine.check_invariants()
    }

    /// A digest of the kernel's state. When nothing is under way ([`Host::step`] answers false) a refused call leaves it
    /// as it was.
    pub fn state_digest(&self) -> StateDigest {
        lock(&self.state).machine.state_digest()
    }
}
