//! What a call does with the memory of its program: what the library reads there, where it finds room, what it writes. A trace decodes
//! pointers by it, so that a trace follows no pointer that the call does not follow. A replay makes calls from a file, which vouches for
//! nothing: there each pointer must lead into memory that the replay has made.

use std::cell::RefCell;
use std::ops::Range;

use kmt_calls::Refusal;

use crate::refusal::invalid;

/// The memory that one call has looked at so far.
#[derive(Default)]
pub struct Watched {
    seen: RefCell<Vec<Seen>>,
    /// The memory that the call may look at; `None`: the program vouches for its pointers.
    within: Option<Vec<Range<usize>>>,
}

/// One deed at an address.
struct Seen {
    address: usize,
    deed: Deed,
}

enum Deed {
    Read(Vec<u8>),
    Room(usize),
    Wrote(Vec<u8>),
    Given(u64),
}

impl Watched {
    /// A call that may look at these ranges alone.
    pub fn within(ranges: Vec<Range<usize>>) -> Watched {
        Watched { within: Some(ranges), ..Watched::default() }
    }

    /// Whether the call may look at so many bytes there.
    pub fn check(&self, address: usize, bytes: usize) -> Result<(), Refusal> {
        let Some(ranges) = &self.within else { return Ok(()) };
        let end = address.saturating_add(bytes);
        if ranges.iter().any(|range| range.start <= address && end <= range.end) {
            return Ok(());
        }
        Err(invalid(format!("the recording does not have the {bytes} bytes that the call wants at {address:#x}")))
    }

    pub fn read(&self, address: usize, bytes: Vec<u8>) {
        self.push(address, Deed::Read(bytes));
    }

    pub fn room(&self, address: usize, bytes: usize) {
        self.push(address, Deed::Room(bytes));
    }

    pub fn wrote(&self, address: usize, bytes: Vec<u8>) {
        self.push(address, Deed::Wrote(bytes));
    }

    /// The program gives memory there that allocations lie over.
    pub fn given(&self, address: u64, bytes: u64) {
        // CAST: a pointer has 64 bits.
        self.push(address as usize, Deed::Given(bytes));
    }

    fn push(&self, address: usize, deed: Deed) {
        self.seen.borrow_mut().push(Seen { address, deed });
    }

    /// The bytes that were read at an address: of several readings the longest. Readings one behind the other are one where `joined`.
    pub fn bytes_read(&self, address: usize, joined: bool) -> Option<Vec<u8>> {
        self.bytes(address, joined, |deed| match deed {
            Deed::Read(bytes) => Some(bytes),
            _ => None,
        })
    }

    /// The bytes that were written at an address.
    pub fn bytes_written(&self, address: usize) -> Option<Vec<u8>> {
        self.bytes(address, false, |deed| match deed {
            Deed::Wrote(bytes) => Some(bytes),
            _ => None,
        })
    }

    /// How much room there was for results.
    pub fn room_at(&self, address: usize) -> Option<usize> {
        let seen = self.seen.borrow();
        let rooms = seen.iter().filter(|seen| seen.address == address).filter_map(|seen| match seen.deed {
            Deed::Room(bytes) => Some(bytes),
            _ => None,
        });
        rooms.max()
    }

    /// How much memory of the program was given.
    pub fn given_at(&self, address: usize) -> Option<u64> {
        let seen = self.seen.borrow();
        seen.iter().find_map(|seen| match seen.deed {
            Deed::Given(bytes) if seen.address == address => Some(bytes),
            _ => None,
        })
    }

    fn bytes(&self, address: usize, joined: bool, of: impl Fn(&Deed) -> Option<&Vec<u8>>) -> Option<Vec<u8>> {
        let seen = self.seen.borrow();
        let at = |address: usize| {
            let found = seen.iter().filter(|seen| seen.address == address).filter_map(|seen| of(&seen.deed));
            found.max_by_key(|bytes| bytes.len())
        };
        let mut all = at(address)?.clone();
        while joined && let Some(more) = at(address + all.len()).filter(|more| !more.is_empty()) {
            all.extend_from_slice(more);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_told_by_their_address_and_joined_on_demand() {
        let watched = Watched::default();
        watched.read(100, vec![1, 2]);
        watched.read(102, vec![3]);
        watched.read(100, vec![9]);
        watched.room(100, 8);
        watched.wrote(100, vec![7; 8]);
        assert_eq!(watched.bytes_read(100, false), Some(vec![1, 2]));
        assert_eq!(watched.bytes_read(100, true), Some(vec![1, 2, 3]));
        assert_eq!(watched.bytes_read(101, true), None);
        assert_eq!((watched.room_at(100), watched.room_at(102)), (Some(8), None));
        assert_eq!(watched.bytes_written(100), Some(vec![7; 8]));
    }

    #[test]
    fn a_replayed_call_looks_at_its_own_memory_alone() {
        let watched = Watched::within(vec![100..108, 200..208]);
        assert!(watched.check(100, 8).is_ok() && watched.check(204, 4).is_ok());
        for (address, bytes) in [(99, 2), (104, 8), (150, 1), (usize::MAX, 8), (204, usize::MAX)] {
            assert!(watched.check(address, bytes).is_err(), "{bytes} bytes at {address}");
        }
        assert!(Watched::default().check(1, 1).is_ok(), "a program vouches for its pointers");
    }
}
