//! The life of an adapter: whether it works, sleeps or has ended, and how often its hardware was reset on the way.
//!
//! This part only keeps where the adapter stands. The work of each step (devices that quiesce, content that is saved, a driver that
//! resets its device) needs several parts at once and stands in `adapter`: `power`, `waking`, `recovery`.
//!
//! ```text
//!      Sleep                  Quiesced              SwitchedOff
//! On ──────────▶ GoingDown ──────────────▶ Saving ───────────────▶ Asleep
//! ▲                                                                  │
//! └───────────────────────────── Woken ◄─────────────────────────────┘
//!
//!                       Stop, from anywhere, for good
//!                 ────────────────────────────────────▶ Stopped
//! ```
//! Relations between the fields:
//! - a call waits to connect a doorbell only while the adapter saves what the sleep would lose, until the adapter answers it;
//! - the position of the paging ring from which on devices quiesce for the sleep means something only while the adapter goes down;
//! - the first reason of a stop stays.

mod resets;

use kmt_calls::Refusal;
use wddm_types::{Blame, NtStatus};

use crate::effect::Token;
use crate::number::DoorbellNumber;
use crate::refusal::{invalid, refuse, removed};

use resets::Resets;
pub use resets::{OnTimeout, RecoveryPolicy};

/// Where an adapter is in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// It works.
    #[default]
    On,
    /// Its devices are about to be quiesced, for a sleep or because PnP stops it.
    GoingDown,
    /// Its devices are quiesced, and the paging ring saves what would be lost.
    Saving,
    /// Its device has no power.
    Asleep,
    /// It has ended.
    Stopped {
        /// The first reason.
        why: String,
        /// Its device had no power when it stopped.
        off: bool,
        /// PnP stopped it, and its driver stops when no process has anything on the adapter any more.
        by_pnp: bool,
    },
}

/// The events that change where an adapter stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Sleep,
    Quiesced,
    SwitchedOff,
    Woken,
    /// The driver or the hardware broke the contract, or PnP stops the adapter.
    Stop(String),
    /// PnP has stopped it.
    ByPnp,
    /// The driver has stopped, too.
    DriverStopped,
}

impl Stage {
    /// The next stage. `None`: this cannot happen here, the caller has a bug.
    fn after(self, event: Event) -> Option<Stage> {
        use Stage::*;
        Some(match (self, event) {
            (On, Event::Sleep) => GoingDown,
            (GoingDown, Event::Quiesced) => Saving,
            (Saving, Event::SwitchedOff) => Asleep,
            (Asleep, Event::Woken) => On,
            (On | GoingDown | Saving, Event::Stop(why)) => Stopped { why, off: false, by_pnp: false },
            (Asleep, Event::Stop(why)) => Stopped { why, off: true, by_pnp: false },
            // A driver may break the contract in the middle of a step: the step ends on an adapter that has stopped.
            (stopped @ Stopped { .. }, Event::Stop(_) | Event::Sleep) => stopped,
            (Stopped { why, by_pnp, .. }, Event::SwitchedOff) => Stopped { why, off: true, by_pnp },
            (Stopped { why, by_pnp, .. }, Event::Woken) => Stopped { why, off: false, by_pnp },
            (Stopped { why, off, .. }, Event::ByPnp) => Stopped { why, off, by_pnp: true },
            (Stopped { why, off, by_pnp: true }, Event::DriverStopped) => Stopped { why, off, by_pnp: false },
            (_, Event::Sleep | Event::Quiesced | Event::SwitchedOff | Event::Woken) => return None,
            (_, Event::ByPnp | Event::DriverStopped) => return None,
        })
    }
}

/// The life of one adapter.
#[derive(Debug, Default)]
pub struct Life {
    stage: Stage,
    /// From this position of the paging ring on devices that are suspended are so for the sleep.
    sleeps_from: u64,
    /// Calls that connect a doorbell, and wait until that can wake the adapter, oldest first.
    connects: Vec<(Token, DoorbellNumber)>,
    resets: Resets,
}

/// Whether it goes on.
impl Life {
    /// Whether it has ended.
    pub fn has_stopped(&self) -> bool {
        matches!(self.stage, Stage::Stopped { .. })
    }

    /// Why it has ended.
    pub fn why_stopped(&self) -> Option<&str> {
        match &self.stage {
            Stage::Stopped { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Refuses everything on a stopped adapter.
    ///
    /// # Errors
    /// `DEVICE_REMOVED` with the reason of the stop.
    pub fn running(&self) -> Result<(), Refusal> {
        if self.has_stopped() { Err(self.refusal()) } else { Ok(()) }
    }

    /// The refusal of a call by an adapter that has stopped.
    pub fn refusal(&self) -> Refusal {
        removed(format!("the adapter was stopped: {}", self.why_stopped().expect("it has stopped")))
    }

    /// It ends, unless it has.
    pub fn stop(&mut self, why: String) {
        self.passes(Event::Stop(why));
    }

    /// PnP has stopped it: its driver stops behind the last object.
    pub fn stopped_by_pnp(&mut self) {
        self.passes(Event::ByPnp);
    }

    /// Whether its driver is still to stop.
    pub fn owes_driver_stop(&self) -> bool {
        matches!(self.stage, Stage::Stopped { by_pnp: true, .. })
    }

    /// The driver has stopped.
    pub fn driver_stopped(&mut self) {
        self.passes(Event::DriverStopped);
    }

    fn passes(&mut self, event: Event) {
        let here = std::mem::take(&mut self.stage);
        let what = format!("{event:?} in {here:?}");
        self.stage = here.after(event).unwrap_or_else(|| panic!("{what}"));
    }
}

/// Sleeping and waking.
impl Life {
    /// Whether the adapter works. Only then does anything move by itself.
    pub fn is_awake(&self) -> bool {
        self.stage == Stage::On
    }

    /// Whether the clock drives the adapter: it works, or the paging ring carries out what a sleep or a stop by PnP waits for. Hung work is
    /// found then, and devices give way.
    pub fn keeps_time(&self) -> bool {
        matches!(self.stage, Stage::On | Stage::GoingDown | Stage::Saving)
    }

    /// Whether the device has no power.
    pub fn is_off(&self) -> bool {
        matches!(self.stage, Stage::Asleep | Stage::Stopped { off: true, .. })
    }

    /// Refuses what a sleeping adapter cannot do.
    ///
    /// # Errors
    /// `RETRY`, or why the adapter has stopped.
    pub fn awake(&self) -> Result<(), Refusal> {
        self.running()?;
        if self.is_awake() {
            return Ok(());
        }
        Err(refuse(NtStatus::RETRY, Blame::Scarcity, "the adapter sleeps"))
    }

    /// Refuses to wake an adapter that is not asleep.
    ///
    /// # Errors
    /// It works, has stopped, or is still falling asleep, which is worth a retry.
    pub fn asleep(&self) -> Result<(), Refusal> {
        self.running()?;
        match self.stage {
            Stage::Asleep => Ok(()),
            Stage::On => Err(invalid("the adapter does not sleep")),
            _ => Err(refuse(NtStatus::RETRY, Blame::Scarcity, "the adapter is still falling asleep")),
        }
    }

    /// It goes down. Devices that work at this position of the paging ring or behind it suspends are so for the sleep.
    pub fn goes_down(&mut self, position: u64) {
        self.passes(Event::Sleep);
        self.sleeps_from = position;
    }

    /// Work at this position of the paging ring has suspended its devices. Whether that was for the sleep.
    pub fn sleeps_by(&self, position: u64) -> bool {
        position >= self.sleeps_from
    }

    /// All devices are quiesced. True: for the first time on the way down, so doorbells are to be taken away.
    pub fn quiesce(&mut self) -> bool {
        let goes_down = self.stage == Stage::GoingDown;
        if goes_down {
            self.passes(Event::Quiesced);
        }
        goes_down
    }

    /// The device has no power any more.
    pub fn switched_off(&mut self) {
        self.passes(Event::SwitchedOff);
    }

    /// The device has power again, and its page tables.
    pub fn woke(&mut self) {
        self.passes(Event::Woken);
    }

    /// A call to connect a doorbell waits until the adapter has fallen asleep, if it is about to. Whether the call waits.
    // spec: sync §3.17
    pub fn waits_to_connect(&mut self, token: Token, doorbell: DoorbellNumber) -> bool {
        let waits = self.stage == Stage::Saving;
        if waits {
            self.connects.push((token, doorbell));
        }
        waits
    }

    /// The calls that wait to connect a doorbell, when the adapter has fallen asleep, or stopped.
    pub fn take_connects(&mut self) -> Vec<(Token, DoorbellNumber)> {
        if self.stage == Stage::Saving { Vec::new() } else { std::mem::take(&mut self.connects) }
    }
}

#[cfg(test)]
mod tests {
    use super::Event::*;
    use super::Stage::*;
    use super::{Event, Stage};

    #[test]
    fn every_event_in_every_stage() {
        // spec: memory §1.10, memory §8.4
        let why = || String::from("why");
        let ended = |off, by_pnp| Stopped { why: why(), off, by_pnp };
        let events = || [Sleep, Quiesced, SwitchedOff, Woken, Stop(why()), ByPnp, DriverStopped];
        let never = || None::<Stage>;
        #[rustfmt::skip]
        let table = [
            //                    Sleep            Quiesced      SwitchedOff   Woken     Stop                       ByPnp                      DriverStopped
            (On,                 [Some(GoingDown), never(),      never(),      never(),  Some(ended(false, false)), never(),                   never()]),
            (GoingDown,          [never(),         Some(Saving), never(),      never(),  Some(ended(false, false)), never(),                   never()]),
            (Saving,             [never(),         never(),      Some(Asleep), never(),  Some(ended(false, false)), never(),                   never()]),
            (Asleep,             [never(),         never(),      never(),      Some(On), Some(ended(true, false)),  never(),                   never()]),
            (ended(false, false), [Some(ended(false, false)), never(), Some(ended(true, false)), Some(ended(false, false)), Some(ended(false, false)), Some(ended(false, true)), never()]),
            (ended(true, false), [Some(ended(true, false)),   never(), Some(ended(true, false)), Some(ended(false, false)), Some(ended(true, false)),  Some(ended(true, true)),  never()]),
            (ended(false, true), [Some(ended(false, true)),   never(), Some(ended(true, true)),  Some(ended(false, true)),  Some(ended(false, true)),  Some(ended(false, true)), Some(ended(false, false))]),
        ];
        for (stage, row) in table {
            for (event, next) in events().into_iter().zip(row) {
                assert_eq!(stage.clone().after(event.clone()), next, "{event:?} in {stage:?}");
            }
        }
    }

    #[test]
    fn the_first_reason_of_a_stop_stays() {
        let first = Stage::On.after(Event::Stop("first".into())).unwrap();
        assert_eq!(first.clone().after(Event::Stop("second".into())), Some(first));
    }
}
