//! One number for the whole logical state.

use std::fmt::{Debug, Write};

use crate::vidmm::VidMm;

/// FNV-1a over what is written: nothing is kept.
#[derive(Debug)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest::new()
    }
}

impl Digest {
    /// Of nothing.
    pub fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    /// With a value as its `Debug` says it: every field that anybody adds is in it by itself.
    pub fn add(&mut self, value: &dyn Debug) {
        write!(self, "{value:?}").expect("a number takes any text");
    }

    /// The number.
    pub fn value(&self) -> u64 {
        self.0
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

impl<F: Copy + Eq + Debug> VidMm<F> {
    /// A digest of everything that a refused call must leave as it was: allocations, lists, addresses, tables, who has
    /// which page, what is offered, suspended, reserved, and how much work was returned. Clocks are not in it.
    pub fn state_digest(&self) -> u64 {
        let mut digest = Digest::new();
        self.allocations.iter().for_each(|entry| digest.add(&entry));
        self.devices.iter().for_each(|entry| digest.add(&entry));
        self.spaces.iter().for_each(|entry| digest.add(&entry));
        for segment in &self.segments {
            digest.add(&(segment.id, segment.pool.free_runs(), &segment.victims));
        }
        digest.add(&self.system.free_runs());
        digest.add(&(&self.processes, &self.waiting, &self.decommittable, &self.host_apertures, &self.retiring));
        digest.add(&(self.serial, self.completed));
        digest.0
    }
}
