//! The kernel's clock: the computer's, or a number that only moves when it is told to.

use std::time::Instant;

use dxgkrnl::DriverClock;

use crate::Mode;

/// A clock in nanoseconds since the host's start. It never runs backwards.
pub enum Clock {
    /// The computer's.
    Real(Instant),
    /// A number.
    Virtual(u64),
}

impl Clock {
    /// The clock of a host that begins.
    pub fn of(mode: Mode) -> Clock {
        match mode {
            Mode::Real => Clock::Real(Instant::now()),
            Mode::Virtual { .. } => Clock::Virtual(0),
        }
    }

    /// The present time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        match self {
            // CAST: 2^64 nanoseconds are 584 years.
            Clock::Real(start) => start.elapsed().as_nanos() as u64,
            Clock::Virtual(now) => *now,
        }
    }

    /// Moves a virtual clock forward; a real one moves by itself.
    ///
    /// # Panics
    /// When a virtual clock would run backwards.
    pub fn advance_to(&mut self, then_ns: u64) {
        if let Clock::Virtual(now) = self {
            assert!(then_ns >= *now, "virtual time runs forwards");
            *now = then_ns;
        }
    }
}

/// Measures how long a driver's calls take in real time.
#[derive(Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// One that runs.
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }
}

impl DriverClock for Stopwatch {
    fn now_ns(&self) -> u64 {
        // CAST: 2^64 nanoseconds are 584 years.
        self.0.elapsed().as_nanos() as u64
    }
}
