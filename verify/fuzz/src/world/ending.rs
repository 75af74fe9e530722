//! How a world ends: all processes go, or the adapter does before, stopped by PnP or pulled out.

use sim::Random;
use softgpu_spec::register;
use wddm_types::NtStatus;

use super::{Broken, World};
use crate::dice::Dice;
use crate::report::Report;

/// Steps that processes make on an adapter that has gone.
const STEPS_AFTER: u64 = 60;

/// The event that ends a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Processes go, one by one.
    Leave,
    /// PnP stops the adapter under them.
    Stop,
    /// The device is pulled out under them.
    Pull,
}

impl Ending {
    /// Mostly in order.
    pub fn draw(random: &mut Random) -> Ending {
        match random.below(10) {
            0 | 1 => Ending::Stop,
            2 => Ending::Pull,
            _ => Ending::Leave,
        }
    }
}

impl World {
    /// All processes go, the witness last; the kernel comes to rest.
    ///
    /// # Errors
    /// The rule that was broken.
    pub fn end(mut self, seed: u64) -> Result<Report, Broken> {
        match self.ending {
            Ending::Leave => {}
            Ending::Stop => self.stop(seed)?,
            Ending::Pull => self.pull(seed)?,
        }
        self.look_for_forgotten()?;
        self.report.stopped += u64::from(self.host.stopped().is_some());
        for hostile in std::mem::take(&mut self.hostile) {
            drop(hostile);
            self.check()?;
        }
        self.drain()?;
        if self.asleep {
            self.wake()?;
        }
        self.drain()?;
        drop(self.bystander.take());
        if self.lies.is_none() && self.ending == Ending::Leave {
            let mut dice = Dice::new(Random::new(1), 0);
            for _ in 0..4 {
                if let Some(witness) = &mut self.witness {
                    witness.round(&mut dice, true).map_err(|place| ("witness", format!("at the end: {place}")))?;
                }
                self.check()?;
            }
            self.report.rounds += 4;
        }
        drop(self.witness.take());
        self.drain()?;
        self.check()?;
        if self.ending == Ending::Stop && self.host.device_register(register::ENGINE_ENABLE) != 0 {
            return Err(("stop", "the last process has gone, and the driver still runs its device".into()));
        }
        Ok(std::mem::take(&mut self.report))
    }

    /// PnP stops the adapter; processes with objects there still make calls.
    // spec: memory §8.4, memory §8.6
    fn stop(&mut self, seed: u64) -> Result<(), Broken> {
        if self.asleep {
            self.wake()?;
        }
        self.diary.write("the adapter is stopped".into());
        match self.host.stop_adapter() {
            Ok(()) => {}
            // Work that never ends is in the way; it ends with its process.
            Err(refusal) if self.endless && refusal.status == NtStatus::TIMEOUT => {
                (0..self.hostile.len()).for_each(|who| self.kill(who));
                self.drain()?;
            }
            Err(refusal) => return Err(("stop", refusal.to_string())),
        }
        if self.host.stopped().is_none() {
            return Err(("stop", "no process has objects on the adapter any more, and it has not stopped".into()));
        }
        self.go_on(seed)
    }

    /// The device is gone, and says nothing of it.
    fn pull(&mut self, seed: u64) -> Result<(), Broken> {
        self.diary.write("the device is pulled out".into());
        self.slot.pull();
        self.go_on(seed)
    }

    fn go_on(&mut self, seed: u64) -> Result<(), Broken> {
        let mut random = Random::new(seed);
        for _ in 0..STEPS_AFTER {
            match random.below(20) {
                0 => self.death(&mut random)?,
                1 => self.drain()?,
                2 => self.notifications(),
                _ => self.call(&mut random)?,
            }
            self.take_answers();
            self.check()?;
        }
        Ok(())
    }
}
