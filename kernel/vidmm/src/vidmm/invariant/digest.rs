//! A digest of the whole logical state: one number for each object in it.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};

use crate::vidmm::VidMm;

/// A digest of a state by parts, so that two states that differ say where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateDigest(BTreeMap<String, u64>);

impl StateDigest {
    /// Adds a part: a value as its `Debug` says it, so that every field that anybody adds is in it by itself.
    pub fn add(&mut self, name: &str, key: &dyn Debug, value: &dyn Debug) {
        let mut hash = Written(0);
        write!(hash, "{value:?}").expect("a number takes any text");
        self.0.insert(format!("{name} {key:?}"), hash.0);
    }

    /// The same parts, each named as one of this owner: another owner has parts of the same names.
    #[must_use]
    pub fn of(self, owner: &str) -> StateDigest {
        StateDigest(self.0.into_iter().map(|(name, hash)| (format!("{name} of {owner}"), hash)).collect())
    }

    /// All parts of another.
    pub fn include(&mut self, other: StateDigest) {
        self.0.extend(other.0);
    }

    /// The parts that are not the same in both.
    pub fn differences(&self, other: &StateDigest) -> Vec<String> {
        let names = self.0.keys().chain(other.0.keys());
        let mut differ: Vec<String> = names.filter(|name| self.0.get(*name) != other.0.get(*name)).cloned().collect();
        differ.sort_unstable();
        differ.dedup();
        differ
    }
}

/// A hash over what is written, eight bytes at a time: nothing is kept. A digest writes out the whole state, and a fuzzer takes some
/// digests for each call.
struct Written(u64);

impl Written {
    fn take(&mut self, word: [u8; 8]) {
        self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Write for Written {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let (words, rest) = text.as_bytes().as_chunks();
        words.iter().for_each(|word| self.take(*word));
        // `Debug` writes mostly a few bytes at once: no call copies them.
        let last = rest.iter().rev().fold(0, |last: u64, byte| last << 8 | u64::from(*byte));
        self.take(last.to_le_bytes());
        Ok(())
    }
}

impl<F: Copy + Eq + Debug> VidMm<F> {
    /// A digest of everything that a refused call must leave as it was: allocations, lists, addresses, tables, owners
    /// of pages, offers, suspensions, reservations, and how much work was returned. It leaves out clocks, and the
    /// requests and reports that the memory manager sent lately.
    pub fn state_digest(&self) -> StateDigest {
        let mut digest = StateDigest::default();
        self.allocations.iter().for_each(|(id, value)| digest.add("memory of", &id, value));
        let (devices, line) = self.devices.state();
        devices.for_each(|(id, value)| digest.add("lists of", &id, &value));
        digest.add("turns", &"", &line);
        self.spaces.iter().for_each(|(id, value)| digest.add("addresses of", &id, value));
        for segment in self.segments.all() {
            digest.add("segment", &segment.id, &segment.state());
            digest.add("foreseen of", &segment.id, &self.foreseen.state(segment.id));
        }
        digest.add("system pages", &"", &self.system.state());
        for (space, terms) in self.processes.state() {
            digest.add("terms of", &space, &terms);
        }
        digest.add("offers", &"", &self.allocations.state());
        digest.add("windows", &"", &self.windows);
        digest.add("works", &"", &(self.works.returned(), self.works.completed()));
        digest
    }
}
