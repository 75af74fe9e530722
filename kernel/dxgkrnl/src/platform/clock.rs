//! The seam to a clock that goes on within a turn: a turn of the machine knows one time, and the kernel measures by this clock how long a
//! driver's call takes (sync §4.4). Nothing else of the kernel reads it.

/// The time as it goes on within a turn.
pub trait DriverClock: std::fmt::Debug + Send + Sync {
    /// Nanoseconds since some moment; never less than before.
    fn now_ns(&self) -> u64;
}
