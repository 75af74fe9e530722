//! A process that only makes ordinary calls: it creates, maps, makes resident, submits, waits, evicts and destroys, and needs a few pages.
//! It lives beside the processes of every world, and none of them may hold it ([`crate::check::bystander`]).
//!
//! It draws from a stream of its own.

use std::sync::Arc;

use dxgk_host::{Host, Profile, RecoveryPolicy};
use kmt_calls::Refusal;
use softgpu_spec::private_data::Kind;
use wddm_types::{Blame, ProcessId};

use crate::caller::{Caller, Deed, Ground, Job, Outcome, Wish};
use crate::check::bystander;
use crate::random::Random;

/// The name of its checker.
pub const BYSTANDER: &str = "bystander";
/// Sets its stream of chance apart.
const STREAM: u64 = 0x6279_7374_616e_6472;
/// Most pages of its surface: they fit beside everything, and a process's budget has room for them.
const PAGES_MAX: u64 = 3;
/// Buffers of one round at most.
const BUFFERS_MAX: u64 = 3;

/// The process, and the call that it waits in.
pub struct Bystander {
    caller: Caller,
    held: bystander::Bystander,
    random: Random,
    rounds: u64,
    refused: u64,
    /// Its device may be lost for what others did: an engine was reset by rule.
    may_lose: bool,
    /// Its process has ended.
    gone: bool,
}

type Checked = Result<(), (&'static str, String)>;

impl Bystander {
    /// One on the first adapter of a host, which has this profile; `packets`: its driver shows that it takes them.
    pub fn new(host: &Arc<Host>, seed: u64, profile: &Profile, packets: bool) -> Bystander {
        Bystander {
            caller: Caller::new(host, Ground::of(profile, packets)),
            held: bystander::Bystander::new(bystander::BOUND_NS),
            random: Random::new(seed ^ STREAM),
            rounds: 0,
            refused: 0,
            may_lose: false,
            gone: false,
        }
    }

    /// Its number in the kernel.
    pub fn process(&self) -> ProcessId {
        self.caller.id
    }

    /// The same in a world in which the kernel finds work that stands still, or an interrupt that was lost, after its usual delay.
    #[must_use]
    pub fn with_usual_recovery(mut self) -> Bystander {
        self.held =
            bystander::Bystander::new(bystander::BOUND_NS + RecoveryPolicy::default().delay_ns.unwrap_or(0) * 5);
        self
    }

    /// The same, and its device may be lost, as the adapter is reset by rule: then it makes another.
    #[must_use]
    pub fn among_resets(mut self) -> Bystander {
        self.may_lose = true;
        self.with_usual_recovery()
    }

    /// Makes its next call, if it waits in none.
    ///
    /// # Errors
    /// A call was refused that may not be, or waits for too long.
    pub fn turn(&mut self, host: &Host) -> Checked {
        self.look(host)?;
        if self.gone {
            return Ok(());
        }
        if self.caller.is_free() {
            self.plan_round();
        }
        let was_waiting = self.caller.waits_in().is_some();
        let outcome = self.caller.turn(host).map_err(|place| ("answers", place))?;
        if let (false, Some(deed)) = (was_waiting, self.caller.waits_in()) {
            self.held.begun(host.now_ns(), format!("{deed:?} of bystander {}", self.caller.id.0));
        }
        self.take(outcome)
    }

    /// Takes its answer, if that has come.
    ///
    /// # Errors
    /// As of [`Bystander::turn`].
    pub fn look(&mut self, host: &Host) -> Checked {
        let was_waiting = self.caller.waits_in().is_some();
        let outcome = self.caller.take_answer(host).map_err(|place| ("answers", place))?;
        if was_waiting && self.caller.waits_in().is_none() {
            self.held.ended(host.now_ns());
        }
        self.take(outcome)?;
        self.caller.look().map_err(|place| ("content", place))?;
        self.held.look(host.now_ns()).map_err(|place| (BYSTANDER, place))
    }

    /// The hardware has come to rest, and no call of others is under way that would change that.
    ///
    /// # Errors
    /// A call of the bystander waits.
    pub fn at_rest(&mut self, host: &Host) -> Checked {
        self.look(host)?;
        self.held.at_rest().map_err(|place| (BYSTANDER, place))
    }

    /// The computer is asleep: time does not count.
    pub fn sleeps(&mut self, host: &Host) {
        self.held.slept(host.now_ns());
    }

    /// Whether it waits for an answer.
    pub fn waits(&self) -> bool {
        self.caller.waits_in().is_some()
    }

    /// Whole rounds, refused calls, and the longest that a call has waited, in nanoseconds.
    pub fn tally(&self) -> [(&'static str, u64); 3] {
        let (longest_ns, _) = self.held.longest();
        [
            ("bystander: rounds", self.rounds),
            ("bystander: calls refused for scarcity", self.refused),
            ("bystander: longest wait in ns", longest_ns),
        ]
    }

    /// Its calls.
    pub fn calls(&self) -> u64 {
        self.caller.calls
    }

    /// It goes, in the middle of everything. Whether it was there.
    pub fn leave(&mut self) -> bool {
        let was_there = !std::mem::replace(&mut self.gone, true);
        if was_there {
            self.caller.die();
        }
        was_there
    }

    fn take(&mut self, outcome: Outcome) -> Checked {
        match outcome {
            Outcome::Fine => Ok(()),
            Outcome::Refused(deed, refusal) => {
                if !self.may_be_refused(&refusal) {
                    let place = format!("a bystander's call was refused: {deed:?}: {refusal}");
                    return Err(("answers", place));
                }
                self.refused += 1;
                Ok(())
            }
        }
    }

    /// Others may have taken all memory; it tries again another time.
    fn may_be_refused(&self, refusal: &Refusal) -> bool {
        refusal.blame == Blame::Scarcity || self.may_lose
    }

    fn plan_round(&mut self) {
        self.rounds += 1;
        let caller = &mut self.caller;
        let spent = !caller.is_set_up() || !caller.has_buffers() || self.random.chance(40);
        if spent {
            if caller.has_device() {
                caller.plan([Deed::DestroyDevice]);
            }
            let lane = *self.random.pick(&caller.ground().ways);
            return caller.plan_device(&[lane]);
        }
        let bytes = 4096 * (1 + self.random.below(PAGES_MAX));
        let physical = caller.ground().first_generation || caller.has_lists() || self.random.chance(30);
        // An adapter without an aperture has no bus addresses for system memory.
        let kind = match self.random.below(3) {
            0 if !physical => Kind::System,
            1 => Kind::Local,
            _ => Kind::LocalThenSystem,
        };
        let visible = self.random.chance(50) && (kind != Kind::Local || caller.ground().visible);
        let wish = Wish { kind, bytes, visible, physical, notify: false };
        let Some(slot) = caller.free_slots().next() else { return caller.plan([Deed::DestroyDevice]) };
        let slots = vec![slot];
        caller.plan([Deed::Create { slot, wish }, Deed::Map { slot }]);
        caller.plan([Deed::Resident { slots: slots.clone() }, Deed::AwaitPaging]);
        for _ in 0..1 + self.random.below(BUFFERS_MAX) {
            let job = if self.random.chance(70) { Job::Write { slot, seed: self.random.draw() } } else { Job::Nop };
            caller.plan([Deed::Submit { lane: 0, job }]);
        }
        if self.random.chance(70) {
            caller.plan([Deed::Await { lane: 0 }]);
        }
        if self.random.chance(20) {
            caller.plan([Deed::QueryMemory, Deed::State]);
        }
        if self.random.chance(50) {
            caller.plan([Deed::Evict { slots, lazily: self.random.chance(50) }]);
        }
        caller.plan([Deed::Destroy { slot }]);
    }
}
