//! What an engine's copies are on in virtual time when its bus carries both directions at once ([`Timing::duplex`](crate::Timing)).
//!
//! The engine only *issues* copies and fills by bus address: what it issues goes on its lane (into local memory, out of it, within it),
//! behind what is there, and the engine takes its next command. A transfer that concerns memory of an earlier one stays a page behind
//! it there. A command that tells or asks for completion, or works on memory itself, begins when every lane is empty. So a paging
//! buffer that takes victims out and brings other content into their places takes as long as the longer direction, and a page:
//!
//! ```text
//! issued  out A, out B, in → A, in → B, signal
//! out     ├──── A ────┤├──── B ────┤
//! in       ├─── → A ───┤├─── → B ───┤
//! signal                            ├┤
//! ```
//!
//! Only time is here: the content moves when a transfer is issued; a waiter for the signal cannot tell. Copies by virtual address take
//! the whole engine, one after the other. A queue that is preempted, suspended or taken out leaves what it has issued under way: the
//! engine's next command that needs empty lanes waits for it, of whichever queue. A reset of the engine empties them. Called by
//! `ticking`; `registers` resets.

use softgpu_spec::bus::PAGE_BYTES;

/// The most transfers that an engine has issued and not ended; one more waits for the first of them to end.
const UNDER_WAY_MAX: usize = 4096;

/// Where a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// From system memory into local memory.
    In,
    /// From local memory into system memory.
    Out,
    /// Within local memory.
    Local,
}

/// Bytes at a bus address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) bus: u64,
    pub(crate) bytes: u64,
}

/// The lanes of one engine.
#[derive(Default)]
pub(crate) struct Wires {
    under_way: Vec<Transfer>,
    /// When each lane is empty.
    empty_at: [u64; 3],
}

struct Transfer {
    memory: [Range; 2],
    begin: u64,
    end: u64,
}

impl Wires {
    /// A transfer of `wire_ns` on a lane is wanted at `now`, and issuing it takes `issue_ns`. Returns when the engine goes on.
    pub(crate) fn issue(&mut self, now: u64, issue_ns: u64, lane: Lane, memory: [Range; 2], wire_ns: u64) -> u64 {
        self.under_way.retain(|transfer| transfer.end > now);
        let room_at = match self.under_way.len() {
            UNDER_WAY_MAX.. => self.under_way.iter().map(|transfer| transfer.end).min().unwrap_or(now),
            _ => now,
        };
        let issued = room_at.saturating_add(issue_ns);
        let behind = self.under_way.iter().map(|earlier| earlier.holds_until(&memory, wire_ns));
        let begin = behind.fold(issued.max(self.empty_at[lane as usize]), u64::max);
        let end = begin.saturating_add(wire_ns);
        self.empty_at[lane as usize] = end;
        self.under_way.push(Transfer { memory, begin, end });
        issued
    }

    /// A lane carries something of another engine until this time.
    pub(crate) fn hold(&mut self, lane: Lane, until: u64) {
        let empty_at = &mut self.empty_at[lane as usize];
        *empty_at = until.max(*empty_at);
    }

    /// When a lane is empty.
    pub(crate) fn lane_empty_at(&self, lane: Lane) -> u64 {
        self.empty_at[lane as usize]
    }

    /// When nothing that was issued is under way any more.
    pub(crate) fn empty_at(&self) -> u64 {
        self.empty_at.into_iter().fold(0, u64::max)
    }
}

impl Transfer {
    /// The earliest begin of a later transfer of this memory, which takes `wire_ns`: at both ends of what they share it is a page behind
    /// this one, and so between them, because both go on evenly.
    fn holds_until(&self, memory: &[Range; 2], wire_ns: u64) -> u64 {
        let pairs = self.memory.iter().flat_map(|here| memory.iter().map(move |there| (here, there)));
        let held = pairs.filter_map(|(here, there)| {
            let (first, last) = (here.bus.max(there.bus), here.end().min(there.end()));
            (first < last).then(|| {
                let after = |free: u64, reached: u64| {
                    let free_at = self.begin.saturating_add(here.part(free, self.end - self.begin));
                    free_at.saturating_sub(there.part(reached, wire_ns))
                };
                let (page, last_page) = (first.saturating_add(PAGE_BYTES).min(last), last.saturating_sub(PAGE_BYTES));
                after(page, first).max(after(last, last_page.max(first)))
            })
        });
        held.max().unwrap_or(0)
    }
}

impl Range {
    fn end(&self) -> u64 {
        self.bus.saturating_add(self.bytes)
    }

    /// The part of a transfer's time that is over when it reaches an address inside this range, which is not empty.
    fn part(&self, address: u64, ns: u64) -> u64 {
        let part = u128::from(ns) * u128::from(address - self.bus) / u128::from(self.bytes);
        // PANIC: the address is at most the end, so the part is at most the whole.
        u64::try_from(part).expect("a part of 64 bits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: u64 = 1 << 40;
    /// A hundred pages.
    const BLOCK: u64 = 100 * PAGE_BYTES;

    fn memory(local: u64, system: u64) -> [Range; 2] {
        [Range { bus: local, bytes: BLOCK }, Range { bus: SYSTEM + system, bytes: BLOCK }]
    }

    /// The drawing at the head of this file, with transfers of 1,000 and 5 to issue each.
    #[test]
    fn places_that_become_free_page_by_page_are_filled_beside_what_still_leaves() {
        let mut wires = Wires::default();
        let mut now = 0;
        for at in [0, BLOCK] {
            now = wires.issue(now, 5, Lane::Out, memory(at, at), 1_000);
        }
        assert_eq!((now, wires.empty_at()), (10, 2_005), "the engine goes on while they leave, one behind the other");
        now = wires.issue(now, 5, Lane::In, memory(0, 10 * BLOCK), 1_000);
        assert_eq!(wires.empty_at[Lane::In as usize], 1_015, "a page behind the first, which began at 5");
        now = wires.issue(now, 5, Lane::In, memory(BLOCK, 11 * BLOCK), 1_000);
        assert_eq!((now, wires.empty_at()), (20, 2_015), "and the second behind the second");
    }

    #[test]
    fn a_faster_transfer_ends_a_page_behind_a_slower_one_and_a_slower_one_begins_so() {
        let mut wires = Wires::default();
        wires.issue(0, 0, Lane::Out, memory(0, 0), 1_000);
        wires.issue(0, 0, Lane::Local, memory(0, 5 * BLOCK), 100);
        assert_eq!(wires.empty_at[Lane::Local as usize], 1_001, "its last page takes 1 and begins at 1,000");
        let mut wires = Wires::default();
        wires.issue(0, 0, Lane::Out, memory(0, 0), 1_000);
        wires.issue(0, 0, Lane::In, memory(BLOCK / 2, 10 * BLOCK), 4_000);
        assert_eq!(wires.empty_at[Lane::In as usize], 4_510, "half of the block is shared: free from 510 on");
    }

    #[test]
    fn what_concerns_other_memory_does_not_wait() {
        let mut wires = Wires::default();
        wires.issue(0, 5, Lane::Out, memory(0, 0), 1_000);
        wires.issue(5, 5, Lane::In, memory(5 * BLOCK, 5 * BLOCK), 1_000);
        assert_eq!(wires.empty_at(), 1_010, "each way at once");
        wires.issue(2_000, 5, Lane::In, memory(0, 5 * BLOCK), 1_000);
        assert_eq!(wires.empty_at(), 3_005, "what has ended holds nothing up");
        let nothing = [Range { bus: 0, bytes: 0 }; 2];
        wires.issue(2_000, 5, Lane::Out, nothing, 0);
        assert_eq!(wires.empty_at[Lane::Out as usize], 2_005, "no bytes concern no memory");
    }

    #[test]
    fn an_engine_issues_no_more_than_it_can_hold() {
        let mut wires = Wires::default();
        for at in 0..UNDER_WAY_MAX as u64 {
            assert_eq!(wires.issue(0, 1, Lane::Out, memory(at * BLOCK, at * BLOCK), 10), 1);
        }
        assert_eq!(wires.issue(0, 1, Lane::In, memory(1 << 50, 1 << 50), 10), 12, "the first of them ends at 11");
    }
}
