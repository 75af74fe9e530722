//! A computer that sleeps now and then. No process runs meanwhile, but for one in the middle of a ring: it finds its doorbell gone and
//! connects it, and that wakes the adapter (sync §3.17).

use ddi::PowerState;
use wddm_types::NtStatus;

use super::*;

/// So many turns pass from one sleep to the next, about.
const AWAKE_TURNS: u64 = 80;
/// And at most so many in one.
const ASLEEP_TURNS: u64 = 12;
/// Turns after which an adapter that is still falling asleep never will.
const FALLING_TURNS_MAX: u64 = 2_000;
/// Signals that a process can owe at once, and more.
const PROMISES_MAX: usize = 16;

/// When the computer sleeps.
#[derive(Debug, Default)]
pub struct Sleeps {
    /// Until it wakes; 0: it is awake.
    turns_left: u64,
    /// It has not fallen asleep yet: work is in the way.
    falling_turns: u64,
}

impl World {
    /// Whether the computer sleeps; if so, a turn of its sleep passes.
    pub(super) fn is_asleep(&mut self) -> Result<bool, Broken> {
        let Some(sleeps) = &self.sleeps else { return Ok(false) };
        if sleeps.turns_left > 0 {
            return self.sleep_on().map(|()| true);
        }
        if self.random.below(AWAKE_TURNS) > 0 {
            return Ok(false);
        }
        self.fall_asleep().map(|()| true)
    }

    // spec: sync §3.17, memory §8.4
    fn fall_asleep(&mut self) -> Result<(), Broken> {
        // Processes signal the values that the hardware waits for first: later none of them runs.
        for who in 0..self.processes.len() {
            for _ in 0..PROMISES_MAX {
                if !self.keep_promise(who)? {
                    break;
                }
            }
        }
        let state = if self.random.chance(50) { PowerState::Standby } else { PowerState::Hibernate };
        match self.host.power_transition(state) {
            Ok(()) => {}
            // It waits for work that a process has not rung yet.
            Err(refusal) if refusal.status == NtStatus::TIMEOUT => {}
            Err(refusal) => return Err(("power", refusal.to_string())),
        }
        let turns_left = 1 + self.random.below(ASLEEP_TURNS);
        self.sleeps = Some(Sleeps { turns_left, falling_turns: 0 });
        Ok(())
    }

    /// A process that was ringing goes on; at the end the computer wakes.
    fn sleep_on(&mut self) -> Result<(), Broken> {
        let ringing: Vec<usize> =
            (0..self.processes.len()).filter(|who| self.processes[*who].rings_or_dies()).collect();
        if !ringing.is_empty() && self.random.chance(50) {
            let who = *self.random.pick(&ringing);
            self.turn(who)?;
            return Ok(());
        }
        self.host.step();
        let sleeps = self.sleeps.as_mut().expect("only they sleep");
        sleeps.turns_left -= 1;
        if sleeps.turns_left == 0 { self.wake() } else { Ok(()) }
    }

    /// The computer wakes, unless a process that rang has woken it.
    pub(super) fn wake(&mut self) -> Result<(), Broken> {
        let Some(sleeps) = &mut self.sleeps else { return Ok(()) };
        match self.host.power_transition(PowerState::On) {
            Ok(()) => Ok(()),
            Err(refusal) if refusal.status == NtStatus::INVALID_PARAMETER => Ok(()),
            Err(refusal) if refusal.status == NtStatus::RETRY && sleeps.falling_turns < FALLING_TURNS_MAX => {
                (sleeps.turns_left, sleeps.falling_turns) = (1, sleeps.falling_turns + 1);
                Ok(())
            }
            Err(refusal) => Err(("power", refusal.to_string())),
        }
    }
}
