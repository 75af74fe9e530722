//! The bystander of a world: a process that only makes ordinary calls, each of which ends within a bounded virtual time, whatever hostile
//! processes do. When the hardware has come to rest, none of its calls waits.

use super::{Broken, World};

/// The bystander makes a call in one step of so many.
const BYSTANDER_STEPS: u64 = 3;

impl World {
    /// The bystander makes its next call in some steps.
    pub(super) fn stand_by(&mut self) -> Result<(), Broken> {
        self.steps += 1;
        let Some(bystander) = self.bystander.as_mut().filter(|_| self.host.stopped().is_none()) else { return Ok(()) };
        match self.asleep {
            true => bystander.sleeps(&self.host),
            false if self.steps.is_multiple_of(BYSTANDER_STEPS) => bystander.turn(&self.host)?,
            false => bystander.look(&self.host)?,
        }
        Ok(())
    }

    /// At rest no call of the bystander waits, unless the computer sleeps, or the adapter has gone.
    pub(super) fn holds_no_bystander(&mut self) -> Result<(), Broken> {
        let is_there = !self.asleep && !self.slot.is_empty() && self.host.stopped().is_none();
        match self.bystander.as_mut().filter(|_| is_there) {
            Some(bystander) => bystander.at_rest(&self.host),
            None => Ok(()),
        }
    }
}
