//! A process whose work ends with an interrupt: a driver that has not heard one hears it with the next.

use std::sync::Arc;

use dxgk_host::Host;

use crate::caller::{Caller, Deed, Ground, Job};
use crate::world::Broken;

/// The process.
pub struct Ringer {
    caller: Caller,
}

impl Ringer {
    /// With a device that has all that it needs, before other processes come.
    pub fn new(host: &Arc<Host>, ground: &Ground) -> Result<Ringer, Broken> {
        let mut caller = Caller::new(host, ground.clone());
        caller.plan_device(&ground.ways[..1]);
        while !caller.is_free() {
            caller.turn(host).map_err(|place| ("start", place))?;
            if caller.waits_in().is_some() && !host.step() {
                return Err(("start", "a call that nothing ends, before there are others".into()));
            }
            caller.take_answer(host).map_err(|place| ("start", place))?;
        }
        Ok(Ringer { caller })
    }

    /// Submits a buffer of nothing. False: it has done so before, and that has not been heard.
    pub fn ring(&mut self, host: &Host) -> Result<bool, Broken> {
        self.caller.take_answer(host).map_err(|place| ("answers", place))?;
        let may = self.caller.is_free() && self.caller.has_buffers();
        if may {
            self.caller.plan([Deed::Submit { lane: 0, job: Job::Nop }, Deed::Await { lane: 0 }]);
            self.caller.turn(host).map_err(|place| ("answers", place))?;
            while self.caller.waits_in().is_none() && !self.caller.is_free() {
                self.caller.turn(host).map_err(|place| ("answers", place))?;
            }
        }
        Ok(may)
    }

    /// Whether this is its number in the kernel.
    pub fn is(&self, id: u32) -> bool {
        self.caller.id.0 == id
    }

    /// It goes.
    pub fn leave(&mut self) {
        self.caller.die();
    }
}
