//! Paging work without progress. The kernel watches it as all work: after the delay it has the ring leave the engine, and a ring that does
//! not leave is hung; resetting its engine loses paging work, so the adapter is reset (sync §4.4).
//!
//! ```text
//!        stands for the delay            it leaves
//!  No ────────────────────────▶ Waits ──────────────▶ InVain
//!   ▲                             │ of packets, after another delay: hung
//!   │ it goes further             ▼
//!   └─────────────────────────── No, or Waits as long as it owes the answer; a process calls: InVain ─▶ No
//! ```
//! A ring never waits on the hardware: its waits are over before it is handed over. The kernel leaves a ring alone that has left the
//! engine and makes no progress all the same, until a process calls: its buffer is long, or its driver reports work that it does not do.

use super::{Passed, Timeouts};

/// What a look asks for the ring.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingStep {
    /// The ring is left alone.
    Nothing,
    /// The driver suspends its context. A ring that does not leave then is hung as any context is.
    TakeOff,
    /// The driver preempts its packets.
    Preempt,
    /// Its packets do not leave: its engine is hung.
    Hung,
}

/// The state of the watch over the ring. It stands only at a progress, and only where it stands was it asked in vain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RingWatch {
    /// The progress at which it stands, and how long it has.
    reached: Option<u64>,
    still_ns: u64,
    asked: Asked,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    No,
    /// It has not left the engine yet.
    Waits {
        /// For so long, as the looks count it; of a hardware queue the suspension itself is watched.
        ns: u64,
    },
    /// It has left the engine, and made no progress since.
    InVain,
}

impl RingWatch {
    /// A process has called: the kernel may repeat a request that was in vain.
    pub(super) fn begins_anew(&mut self) {
        if self.asked == Asked::InVain {
            *self = RingWatch::default();
        }
    }
}

impl<R: Copy + Ord, Q: Copy + Ord, C: Copy> Timeouts<R, Q, C> {
    /// Whether a ring that has the hardware to itself is to be looked at.
    pub fn watches_ring(&self) -> bool {
        self.ring.asked != Asked::InVain
    }

    /// Looks at the ring, unless its engine is about to be reset: then it is suspended, or asked to be. `reached`: its progress, if it has
    /// the hardware to itself; `owes_answer`: it was asked to leave and has not said that it has; `by_packets`: its buffers are packets.
    // spec: sync §4.4
    pub fn ring(&mut self, passed: Passed, reached: Option<u64>, owes_answer: bool, by_packets: bool) -> RingStep {
        let ring = &mut self.ring;
        debug_assert!(ring.reached.is_some() || ring.still_ns == 0, "it stood for {} ns nowhere", ring.still_ns);
        debug_assert!(
            ring.reached.is_some() || ring.asked != Asked::InVain,
            "it was asked in vain, and stands nowhere"
        );
        if reached.is_none() || reached != ring.reached {
            // The answer to what was asked still counts for the next one.
            let asked = if owes_answer && ring.asked != Asked::InVain { ring.asked } else { Asked::No };
            *ring = RingWatch { reached, still_ns: 0, asked };
            return RingStep::Nothing;
        }
        ring.still_ns += passed.passed_ns;
        match &mut ring.asked {
            Asked::No if ring.still_ns >= passed.delay_ns => {
                ring.asked = Asked::Waits { ns: 0 };
                if by_packets { RingStep::Preempt } else { RingStep::TakeOff }
            }
            Asked::Waits { ns } if owes_answer => {
                *ns += passed.passed_ns;
                if !by_packets || *ns < passed.delay_ns {
                    return RingStep::Nothing;
                }
                ring.asked = Asked::InVain;
                RingStep::Hung
            }
            Asked::Waits { .. } => {
                ring.asked = Asked::InVain;
                RingStep::Nothing
            }
            Asked::No | Asked::InVain => RingStep::Nothing,
        }
    }
}
