//! The time of one adapter's memory manager, in two measures: nanoseconds as callers say them, which only rise, and ticks, one for each
//! event whose order counts (evicts, offers, suspensions, destructions, devices that fall idle).

/// Both measures.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    tick: u64,
    now_ns: u64,
}

impl Clock {
    /// The tick of the event that happens now; no two events have one.
    pub fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// The tick of the last event.
    pub fn last_tick(&self) -> u64 {
        self.tick
    }

    /// A caller says the time. An earlier one than before changes nothing.
    pub fn pass_to(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// The time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }
}
