//! A doorbell that may be taken away: after a ring the process looks at its status, connects it again when it is gone, and rings again
//! (sync §3.17). Others act between any two of these steps.

use kmt_calls::DoorbellAddress;
use kmt_link::{Doorbell, Link};
use wddm_types::{RawHandle, WordAddress};

use crate::process::Process;
use crate::process::issue::{Issue, Op};

/// `D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY` (sync §2.9).
const RETRY: u64 = 2;

/// A doorbell as its process knows it.
pub struct Bell {
    pub handle: RawHandle,
    rings: Doorbell,
    status: WordAddress,
}

impl Bell {
    /// The one that was made.
    pub fn new(link: &dyn Link, made: &kmt_calls::CreatedDoorbell) -> Result<Bell, String> {
        let DoorbellAddress(address) = made.address;
        let rings = Doorbell::new(link, made.address, made.last_queued);
        let rings = rings.ok_or_else(|| format!("there is no doorbell at {address:#x}"))?;
        Ok(Bell { handle: made.doorbell, rings, status: made.status })
    }
}

impl Process {
    /// Rings for everything that a queue has in its ring; where doorbells are taken away, looks at its own afterwards.
    // spec: sync §3.17
    pub(super) fn ring_bell(&mut self, queue: usize) {
        let known = &self.queues[queue];
        known.bell.as_ref().expect("a queue with a ring has one").rings.ring(known.last_value, known.written);
        if self.habits.looks {
            self.plan.push_front(Op::Look { queue });
        }
    }

    /// The steps behind a ring.
    // spec: sync §3.17, sync §6 D3
    pub(super) fn look(&mut self, queue: usize) -> Issue {
        let status = self.queues[queue].bell.as_ref().map(|bell| self.read(bell.status));
        if status == Some(RETRY) {
            self.plan.push_front(Op::Ring { queue });
            self.plan.push_front(Op::Connect { queue });
        }
        Issue::Done
    }
}
