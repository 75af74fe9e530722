//! The trace hash: one number for a whole stream of events, equal for equal streams on every machine and in every build.
//!
//! It is no cryptographic hash. It is FNV-1a over the events' codes and fields in declared order, with lengths before texts.

use wddm_types::PageRun;

use crate::Tracer;
use crate::event::Event;
use crate::movement::{Cause, Move};
use crate::reason::{ContextSchedule, Conversion, DoorbellTaken, PreemptedFor, Stillness};

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

const fn step(state: u64, byte: u8) -> u64 {
    (state ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3)
}

/// The hash of a text.
pub(crate) const fn of_text(text: &str) -> u64 {
    let (bytes, mut state, mut at) = (text.as_bytes(), BASIS, 0);
    while at < bytes.len() {
        state = step(state, bytes[at]);
        at += 1;
    }
    state
}

/// Accumulates the hash of a stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash {
    state: u64,
    events: u64,
}

impl Default for TraceHash {
    fn default() -> Self {
        TraceHash { state: BASIS, events: 0 }
    }
}

impl TraceHash {
    /// The hash so far.
    pub fn value(&self) -> u64 {
        self.state
    }

    /// How many events went in.
    pub fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn number(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.state = step(self.state, byte);
        }
    }
}

impl Tracer for TraceHash {
    fn event(&mut self, now_ns: u64, event: &Event) {
        self.events += 1;
        self.number(now_ns);
        event.feed(self);
    }
}

/// A type that a field of an event can have.
pub(crate) trait Feed {
    fn feed(&self, hash: &mut TraceHash);
}

macro_rules! feed_numbers {
    ($($kind:ty),*) => { $(impl Feed for $kind { fn feed(&self, hash: &mut TraceHash) { hash.number(u64::from(*self)); } })* };
}
feed_numbers!(u8, u16, u32, u64, bool);

impl Feed for i32 {
    fn feed(&self, hash: &mut TraceHash) {
        hash.number(u64::from(self.cast_unsigned()));
    }
}

impl Feed for String {
    fn feed(&self, hash: &mut TraceHash) {
        hash.number(self.len() as u64);
        for byte in self.bytes() {
            hash.number(u64::from(byte));
        }
    }
}

impl Feed for Move {
    fn feed(&self, hash: &mut TraceHash) {
        hash.number(*self as u64);
    }
}

impl Feed for Conversion {
    fn feed(&self, hash: &mut TraceHash) {
        hash.number(*self as u64);
    }
}

impl Feed for PreemptedFor {
    fn feed(&self, hash: &mut TraceHash) {
        hash.number(*self as u64);
    }
}

impl Feed for ContextSchedule {
    fn feed(&self, hash: &mut TraceHash) {
        hash.number(*self as u64);
    }
}

impl Feed for Stillness {
    fn feed(&self, hash: &mut TraceHash) {
        hash.number(*self as u64);
    }
}

impl Feed for DoorbellTaken {
    fn feed(&self, hash: &mut TraceHash) {
        hash.number(*self as u64);
    }
}

impl Feed for Vec<PageRun> {
    fn feed(&self, hash: &mut TraceHash) {
        hash.number(self.len() as u64);
        for run in self {
            hash.number(run.first);
            hash.number(run.count.0);
        }
    }
}

impl Feed for Cause {
    fn feed(&self, hash: &mut TraceHash) {
        let (code, who) = match *self {
            Cause::MakeResident => (0, 0),
            Cause::Pressure { for_allocation } => (1, for_allocation),
            Cause::Evict => (2, 0),
            Cause::Lock => (3, 0),
            Cause::Destroy => (4, 0),
            Cause::Resume => (5, 0),
            Cause::Reclaim => (6, 0),
            Cause::Ahead => (7, 0),
            Cause::Reset => (8, 0),
            Cause::Power => (9, 0),
            Cause::Compaction { for_allocation } => (10, for_allocation),
            Cause::Promote => (11, 0),
            Cause::SystemCopy => (12, 0),
            Cause::Property => (13, 0),
            Cause::Foreseen => (14, 0),
        };
        hash.number(code);
        hash.number(who);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_and_the_time_count() {
        let hash = |now, fence, value| {
            let mut hash = TraceHash::default();
            hash.event(now, &Event::FenceSignaledFromCpu { fence, value });
            hash.value()
        };
        let first = hash(1, 2, 3);
        assert_eq!(first, hash(1, 2, 3));
        assert!([hash(2, 2, 3), hash(1, 3, 3), hash(1, 2, 4)].iter().all(|other| *other != first));
        // The constant pins the encoding: a change of it makes old recorded hashes worthless and must be meant.
        assert_eq!(first, 8_337_565_862_909_066_927);
    }
}
