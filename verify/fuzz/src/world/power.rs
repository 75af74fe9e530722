//! The computer's sleep, between calls.

use ddi::PowerState;
use sim::Random;
use wddm_types::NtStatus;

use super::{Broken, World};

impl World {
    /// The computer falls asleep, or wakes.
    // spec: memory §1.10, memory §8.4
    pub(super) fn power(&mut self, random: &mut Random) -> Result<(), Broken> {
        if self.asleep {
            return self.wake();
        }
        let state = if random.chance(50) { PowerState::Standby } else { PowerState::Hibernate };
        self.diary.write(format!("the computer falls asleep: {state:?}"));
        match self.host.power_transition(state) {
            Ok(()) => self.asleep = true,
            Err(_) if self.lies.is_some() => return Ok(()),
            // Work that never ends is in the way; it ends with its process.
            Err(refusal) if self.endless && refusal.status == NtStatus::TIMEOUT => {
                (0..self.hostile.len()).for_each(|who| self.kill(who));
                self.drain()?;
                self.asleep = true;
            }
            Err(refusal) => return Err(("power", refusal.to_string())),
        }
        self.report.sleeps += 1;
        Ok(())
    }

    pub(super) fn wake(&mut self) -> Result<(), Broken> {
        self.diary.write("the computer wakes".into());
        self.asleep = false;
        match self.host.power_transition(PowerState::On) {
            // A process that connected a doorbell has woken it.
            Err(refusal) if refusal.status == NtStatus::INVALID_PARAMETER => Ok(()),
            // The adapter stops where the device was pulled out.
            Err(refusal) if self.slot.is_empty() && refusal.status == NtStatus::DEVICE_REMOVED => Ok(()),
            Err(refusal) if self.lies.is_none() => Err(("power", refusal.to_string())),
            _ => Ok(()),
        }
    }
}
