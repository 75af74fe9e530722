//! Moves of memory: per allocation, per cause, and each eviction with the allocation that needed the room and the one that left.

use std::collections::BTreeMap;

use events::{Cause, Event, Move};
use serde::Serialize;

use crate::owners::Owners;

/// The moves, summed in three ways. Lists are cut; the counts beside them are not.
#[derive(Debug, Default, Serialize)]
pub struct Movers {
    /// The allocations that moved most.
    pub allocations: Vec<Allocation>,
    /// How many allocations moved.
    pub allocations_total: usize,
    /// The largest evictions, in order of time.
    pub evictions: Vec<Eviction>,
    /// How many evictions there were.
    pub evictions_total: usize,
    /// Bytes and times by how and why.
    pub causes: Vec<CauseSum>,
}

/// One allocation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Allocation {
    allocation: u64,
    size_bytes: u64,
    in_bytes: u64,
    out_bytes: u64,
    discarded_bytes: u64,
    times_in: u64,
    times_out: u64,
}

/// One allocation left video memory.
#[derive(Clone, Debug, Serialize)]
pub struct Eviction {
    at_ns: u64,
    /// From the decision until the hardware had done it; none if the recording ended before.
    took_ns: Option<u64>,
    victim: u64,
    victim_process: Option<u32>,
    bytes: u64,
    how: &'static str,
    why: &'static str,
    asker: Option<u64>,
    asker_process: Option<u32>,
}

/// The moves of one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CauseSum {
    how: &'static str,
    why: &'static str,
    bytes: u64,
    times: u64,
}

const ALLOCATIONS_MAX: usize = 100;
const EVICTIONS_MAX: usize = 500;

impl Movers {
    /// Reads it off the events; times count from `begin_ns`.
    pub fn of(events: &[(u64, Event)], begin_ns: u64) -> Movers {
        let mut reader = Reader::default();
        events.iter().for_each(|(at_ns, event)| reader.event(at_ns.saturating_sub(begin_ns), event));
        reader.finish()
    }
}

#[derive(Default)]
struct Reader {
    owners: Owners,
    sizes: BTreeMap<u64, u64>,
    allocations: BTreeMap<u64, Allocation>,
    evictions: Vec<Eviction>,
    /// Evictions of paging work that is not done, by its number.
    open: BTreeMap<u64, Vec<usize>>,
    causes: BTreeMap<(&'static str, &'static str), CauseSum>,
}

impl Reader {
    fn event(&mut self, at_ns: u64, event: &Event) {
        self.owners.event(event);
        match event {
            Event::AllocationCreated { allocation, size_bytes, .. } => {
                self.sizes.insert(*allocation, *size_bytes);
            }
            Event::Moved { work, allocation, bytes, how, why, .. } => {
                // A destruction is no move: it costs no copy, and the headline numbers leave it out as well.
                let destroyed = matches!(why, Cause::Destroy);
                if !destroyed {
                    self.sum(*allocation, *bytes, *how);
                }
                let key = (how.name(), why.name());
                let new = CauseSum { how: key.0, why: key.1, ..CauseSum::default() };
                let sum = self.causes.entry(key).or_insert(new);
                (sum.bytes, sum.times) = (sum.bytes.saturating_add(*bytes), sum.times + 1);
                if matches!(how, Move::PageOut | Move::Discard) && !destroyed && !why.stays() {
                    self.open.entry(*work).or_default().push(self.evictions.len());
                    self.evicted(at_ns, (*allocation, *bytes), *how, *why);
                }
            }
            Event::PagingCompleted { work } => {
                for at in self.open.remove(work).unwrap_or_default() {
                    let decided_ns = self.evictions[at].at_ns;
                    self.evictions[at].took_ns = Some(at_ns.saturating_sub(decided_ns));
                }
            }
            _ => {}
        }
    }

    fn sum(&mut self, allocation: u64, bytes: u64, how: Move) {
        let size_bytes = self.sizes.get(&allocation).copied().unwrap_or(0);
        let new = Allocation { allocation, size_bytes, ..Allocation::default() };
        let sums = self.allocations.entry(allocation).or_insert(new);
        let (sum, times) = match how {
            Move::PageIn => (&mut sums.in_bytes, &mut sums.times_in),
            Move::PageOut => (&mut sums.out_bytes, &mut sums.times_out),
            Move::Discard => (&mut sums.discarded_bytes, &mut sums.times_out),
            // The first commit copies nothing; a relocation stays in its segment; a mapping of system memory copies nothing.
            Move::Fill | Move::Relocate | Move::Map | Move::Unmap => return,
        };
        (*sum, *times) = (sum.saturating_add(bytes), *times + 1);
    }

    fn evicted(&mut self, at_ns: u64, (victim, bytes): (u64, u64), how: Move, why: Cause) {
        let asker = match why {
            Cause::Pressure { for_allocation } => Some(for_allocation),
            _ => None,
        };
        let asker_process = asker.and_then(|asker| self.owners.of_allocation(asker));
        let victim_process = self.owners.of_allocation(victim);
        let (how, why) = (how.name(), why.name());
        let took_ns = None;
        self.evictions.push(Eviction { at_ns, took_ns, victim, victim_process, bytes, how, why, asker, asker_process });
    }

    fn finish(self) -> Movers {
        let moved = |a: &Allocation| a.in_bytes.saturating_add(a.out_bytes).saturating_add(a.discarded_bytes);
        let mut allocations: Vec<_> = self.allocations.into_values().filter(|a| moved(a) > 0).collect();
        allocations.sort_by_key(|a| (std::cmp::Reverse(moved(a)), a.allocation));
        let allocations_total = allocations.len();
        allocations.truncate(ALLOCATIONS_MAX);
        let mut evictions = self.evictions;
        let evictions_total = evictions.len();
        // The sorts are stable: equal sizes keep the earliest, equal times keep their order.
        evictions.sort_by_key(|eviction| std::cmp::Reverse(eviction.bytes));
        evictions.truncate(EVICTIONS_MAX);
        evictions.sort_by_key(|eviction| eviction.at_ns);
        let mut causes: Vec<_> = self.causes.into_values().collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.bytes));
        Movers { allocations, allocations_total, evictions, evictions_total, causes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(allocation: u64, how: Move, why: Cause) -> Event {
        Event::Moved { work: 1, process: 4, allocation, segment: 1, bytes: 100, how, why, runs: Vec::new() }
    }

    #[test]
    fn an_eviction_names_who_asked_and_who_gave() {
        let events = [
            (5, Event::DeviceCreated { process: 9, device: 70 }),
            (5, Event::DeviceCreated { process: 8, device: 60 }),
            (5, Event::AllocationCreated { device: 60, allocation: 1, size_bytes: 300 }),
            (5, Event::AllocationCreated { device: 70, allocation: 2, size_bytes: 300 }),
            (8, moved(1, Move::PageOut, Cause::Pressure { for_allocation: 2 })),
            (8, moved(2, Move::Fill, Cause::MakeResident)),
            (9, moved(2, Move::PageIn, Cause::MakeResident)),
            (9, moved(2, Move::Discard, Cause::Destroy)),
            (31, Event::PagingCompleted { work: 1 }),
        ];
        let movers = Movers::of(&events, 5);
        let [eviction] = &movers.evictions[..] else { panic!("{:?}", movers.evictions) };
        assert_eq!((eviction.at_ns, eviction.victim, eviction.victim_process), (3, 1, Some(8)));
        assert_eq!((eviction.asker, eviction.asker_process), (Some(2), Some(9)));
        assert_eq!(eviction.took_ns, Some(23), "from the decision to the end of the paging work");
        let asker = &movers.allocations[1];
        assert_eq!((asker.allocation, asker.size_bytes, asker.in_bytes, asker.times_in), (2, 300, 100, 1));
        assert_eq!((asker.discarded_bytes, asker.times_out), (0, 0), "destroying moves nothing");
        assert_eq!(movers.causes.len(), 4);
    }

    #[test]
    fn long_lists_are_cut_but_counted() {
        let events: Vec<_> = (0..2000).map(|n| (n, moved(n, Move::PageOut, Cause::Evict))).collect();
        let movers = Movers::of(&events, 0);
        assert_eq!((movers.evictions.len(), movers.evictions_total), (EVICTIONS_MAX, 2000));
        assert_eq!((movers.allocations.len(), movers.allocations_total), (ALLOCATIONS_MAX, 2000));
        assert_eq!(movers.causes[0].times, 2000);
    }
}
