//! Whether memory was short since the last periodic trim (memory §5.4), and when that was.

/// Pressure on the memory of one adapter.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// Content was evicted for room, or a request was refused, since the last periodic trim.
    felt: bool,
    last_periodic_ns: u64,
}

impl Pressure {
    /// Content is evicted for room, or a request is refused.
    pub fn feel(&mut self) {
        self.felt = true;
    }

    /// Whether memory was short since the last periodic trim.
    pub fn is_felt(&self) -> bool {
        self.felt
    }

    /// Whether a periodic trim is due; then a new period begins, without pressure.
    #[must_use = "the trim is due now, and not a second time"]
    pub fn begins_period(&mut self, now_ns: u64, period_ns: u64) -> bool {
        let due = self.felt && now_ns >= self.last_periodic_ns.saturating_add(period_ns);
        if due {
            *self = Pressure { felt: false, last_periodic_ns: now_ns };
        }
        due
    }
}
