//! Timeout detection (sync §4.4): which work makes no progress, how long it has not, and what is to be asked of it or reset for it. What
//! runs, how far it came and who answers the caller sees; it carries each answer out before it makes the next call, because a reset that
//! the first brings about changes what the next must see.
//!
//! ```text
//!            delay without progress               acknowledged
//! running ─────────────────────────▶ asked ────────────────────▶ running (it waits, or it is long)
//!                                      │ delay
//!                                      ▼
//!                                    hung ─▶ its engine is reset, or all that are reset with it (`group`)
//! ```
//! The kernel counts time by looks, eight in a delay, and no look counts for more than its share: when the computer itself stopped the
//! hardware did so, too. It does not look while there is nothing to look for, and repeats a request that was in vain, because the work
//! waits, only when a process has called meanwhile. For the same reason it looks at a queue that its process feeds by doorbell from the
//! next call of any process on: a thread that waits for the work has called.
//!
//! | one look, in this order | its answer |
//! |---|---|
//! | [`Timeouts::begin_look`] | how much time has passed; [`Suspensions::overdue`](crate::Suspensions::overdue) counts it for contexts that were asked to leave |
//! | [`Timeouts::standing`] | the devices whose work stood for the delay: they are suspended |
//! | [`Timeouts::ring`] | what becomes of the paging ring |
//!
//! `R` names a packet that a node runs, `Q` a hardware queue, `C` a context that may be hung.
//!
//! # Invariants
//! - A next look is due only where there is a delay, and at a look's share behind the last one.
//! - Looks for waits are to come only where there is a delay, and no more than one delay has.
//! - A queue was asked only after it stood for the delay.
//! - The node of a reset that is prepared stood in no other's group when it came: [`Timeouts::hung`] is asked only for such a node.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::NodeId;

mod group;
mod ring;
#[cfg(test)]
mod tests;

pub use group::{GroupEnd, Hung, HungStep};
pub use ring::RingStep;

/// Looks in a delay.
const LOOKS: u64 = 8;

/// The time that a look counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Since the look before, and no more than a look's share of the delay.
    pub passed_ns: u64,
    /// `TdrDelay`.
    pub delay_ns: u64,
}

/// A hardware queue that has work on the hardware, as a look finds it.
#[derive(Clone, Copy, Debug)]
pub struct SeenQueue<Q, D> {
    /// Its name.
    pub queue: Q,
    /// Its device.
    pub device: D,
    /// The progress value that it has reached.
    pub reached: u64,
    /// Its device is kept off the hardware for another reason.
    pub suspended: bool,
}

/// A packet that a node runs, as a look finds it.
#[derive(Clone, Copy, Debug)]
pub struct SeenPacket<R, D> {
    /// The node.
    pub node: NodeId,
    /// The packet: the same after a preemption.
    pub running: R,
    /// Its device.
    pub device: D,
    /// Its device is kept off the hardware for another reason: the kernel waits for it already.
    pub suspended: bool,
}

/// A queue that has work on the hardware.
#[derive(Clone, Copy, Debug)]
struct Watched {
    reached: u64,
    still_ns: u64,
    asked: bool,
}

/// The state of timeout detection of one adapter.
#[derive(Clone, Debug)]
pub struct Timeouts<R, Q, C> {
    /// `TdrDelay`; `None`: the kernel does not look.
    delay_ns: Option<u64>,
    /// How many nodes there are.
    nodes: usize,
    /// When to look again.
    look_ns: Option<u64>,
    /// The time of the last look, or of the begin.
    looked_ns: u64,
    queues: BTreeMap<Q, Watched>,
    /// The packet that each node runs, and how long it has.
    running: BTreeMap<NodeId, (R, u64)>,
    /// Packets that were asked since a process called last.
    asked: BTreeSet<R>,
    ring: ring::RingWatch,
    /// Resets that wait until the work of engines that depend on each other has left them.
    preparing: Vec<group::Preparation<C>>,
    /// Looks to come for waits whose interrupt may have been lost.
    waits: u64,
}

impl<R: Copy + Ord, Q: Copy + Ord, C: Copy> Timeouts<R, Q, C> {
    /// Of an adapter with so many nodes.
    pub fn new(delay_ns: Option<u64>, nodes: usize) -> Self {
        Timeouts {
            delay_ns,
            nodes,
            look_ns: None,
            looked_ns: 0,
            queues: BTreeMap::new(),
            running: BTreeMap::new(),
            asked: BTreeSet::new(),
            ring: ring::RingWatch::default(),
            preparing: Vec::new(),
            waits: 0,
        }
    }

    /// A process has called: the kernel may repeat requests that were in vain, and looks for waits again.
    // spec: sync §4.4
    pub fn called(&mut self) {
        if self.delay_ns.is_none() {
            return;
        }
        self.queues.retain(|_, watched| !watched.asked);
        let asked = std::mem::take(&mut self.asked);
        self.running.retain(|_, (running, _)| !asked.contains(running));
        self.ring.begins_anew();
        self.waits = LOOKS;
    }

    /// A packet that was asked for goes on, and may be asked for again.
    pub fn ask_anew(&mut self, running: R) {
        self.asked.remove(&running);
        self.running.retain(|_, (known, _)| *known != running);
    }

    /// The adapter was reset: the requests to the old ring are dropped, and no engine is reset by itself any more.
    pub fn adapter_was_reset(&mut self) {
        self.preparing.clear();
        self.ring = ring::RingWatch::default();
    }

    /// Whether the kernel looks for hung work at all.
    pub fn is_on(&self) -> bool {
        self.delay_ns.is_some()
    }

    /// Whether a queue with work is to be looked at: it was not asked in vain.
    pub fn watches_queue(&self, queue: Q) -> bool {
        self.queues.get(&queue).is_none_or(|watched| !watched.asked)
    }

    /// Whether a packet that runs is to be looked at.
    pub fn watches_packet(&self, running: R) -> bool {
        !self.asked.contains(&running)
    }

    /// Whether fences with waiters are to be looked at.
    pub fn watches_waits(&self) -> bool {
        debug_assert!(self.waits <= LOOKS, "{} looks are to come, and a delay has {LOOKS}", self.waits);
        debug_assert!(self.waits == 0 || self.is_on(), "{} looks are to come without a delay", self.waits);
        self.waits > 0
    }

    /// Arranges for the next look, if there is something to look for.
    pub fn arm(&mut self, now_ns: u64, something_to_look_for: bool) {
        let Some(delay_ns) = self.delay_ns else { return };
        if !something_to_look_for {
            self.look_ns = None;
        } else if self.look_ns.is_none() {
            self.looked_ns = now_ns;
            self.look_ns = Some(now_ns + share(delay_ns));
        }
        let (looked, next) = (self.looked_ns, self.look_ns);
        debug_assert!(next.is_none_or(|next| looked < next), "a look at {next:?} ns behind one at {looked} ns");
    }

    /// When to look.
    pub fn deadline_ns(&self) -> Option<u64> {
        debug_assert!(self.look_ns.is_none() || self.is_on(), "a look is due at {:?} without a delay", self.look_ns);
        self.look_ns
    }

    /// In so many nanoseconds from now the kernel finds work that hangs: a delay without progress, a delay in which that work may leave, and
    /// the looks that round both up. `None`: no look is due.
    pub fn finds_within_ns(&self) -> Option<u64> {
        self.delay_ns.filter(|_| self.look_ns.is_some()).map(|delay_ns| delay_ns.saturating_mul(3))
    }

    /// Whether it is time to look: the caller hears the driver's interrupts before.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.look_ns.is_some_and(|at| now_ns >= at)
    }

    /// Begins a look; `None`: it is not time.
    // spec: sync §4.4
    pub fn begin_look(&mut self, now_ns: u64) -> Option<Passed> {
        let delay_ns = self.delay_ns.filter(|_| self.is_due(now_ns))?;
        debug_assert!(self.looked_ns < now_ns, "a look at {now_ns} ns behind one at {} ns", self.looked_ns);
        self.look_ns = None;
        self.waits = self.waits.saturating_sub(1);
        Some(Passed { passed_ns: now_ns.saturating_sub(self.looked_ns).min(share(delay_ns)), delay_ns })
    }

    /// The devices whose queues made no progress for the delay, or whose packets had a node for so long, and that were not asked for it:
    /// the caller suspends them. `queues` and `packets` are all that have work.
    // spec: sync §4.4
    #[must_use = "they are suspended"]
    pub fn standing<D: Copy + Ord>(
        &mut self,
        passed: Passed,
        queues: &[SeenQueue<Q, D>],
        packets: &[SeenPacket<R, D>],
    ) -> BTreeSet<D> {
        let mut devices = BTreeSet::new();
        let mut watched = BTreeMap::new();
        for seen in queues {
            let before = self.queues.get(&seen.queue).copied().filter(|before| before.reached == seen.reached);
            let mut now = before.unwrap_or(Watched { reached: seen.reached, still_ns: 0, asked: false });
            if before.is_some() && !seen.suspended {
                now.still_ns += passed.passed_ns;
            }
            debug_assert!(
                !now.asked || now.still_ns >= passed.delay_ns,
                "a queue was asked that stood for {} of {} ns",
                now.still_ns,
                passed.delay_ns
            );
            if now.still_ns >= passed.delay_ns && !now.asked {
                now.asked = true;
                devices.insert(seen.device);
            }
            watched.insert(seen.queue, now);
        }
        self.queues = watched;
        let before = std::mem::take(&mut self.running);
        for seen in packets {
            let known = before.get(&seen.node).filter(|(running, _)| *running == seen.running);
            let more_ns = if seen.suspended { 0 } else { passed.passed_ns };
            let still_ns = known.map_or(0, |(_, still_ns)| still_ns + more_ns);
            self.running.insert(seen.node, (seen.running, still_ns));
            if still_ns >= passed.delay_ns && self.asked.insert(seen.running) {
                devices.insert(seen.device);
            }
        }
        devices
    }
}

/// The time from one look to the next.
fn share(delay_ns: u64) -> u64 {
    (delay_ns / LOOKS).max(1)
}
