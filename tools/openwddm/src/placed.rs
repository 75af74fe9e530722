//! The demotion log, replayed: the resident pages by its lines. A run that writes the log compares it
//! with the kernel's own state, so that a later reader of the log can rely on it.

use std::collections::BTreeMap;

use dxgk_host::Residence;
use wddm_types::PageRun;

use crate::outcome::Demotion;

/// The allocation on each resident page, by the lines replayed so far.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// By room and first page: how many pages, and the allocation. Neighbours of one allocation are one entry.
    pages: BTreeMap<(PageSpace, u64), (u64, u64)>,
}

/// Where a page has one owner: a segment, or an allocation's own pages of system memory, which several allocations may be
/// made of.
type PageSpace = (u8, u64);

fn room(segment: u8, allocation: u64) -> PageSpace {
    if segment == 0 { (0, allocation) } else { (segment, 0) }
}

impl Placed {
    /// Applies one line.
    ///
    /// # Errors
    /// The line contradicts those before: pages come that are taken, or go that are not there.
    // spec: memory §8.5
    pub fn replay(&mut self, line: &Demotion) -> Result<(), String> {
        let room = room(line.segment, line.allocation);
        let wrong = |what: &str| Err(format!("{what}: {line:?}"));
        if line.stays() {
            // Its content was copied, and stays.
            return Ok(());
        }
        for (nth, &(first, count)) in line.pages.iter().enumerate() {
            let comes = match line.how {
                "page in" | "fill" | "map" => true,
                "page out" | "discard" | "unmap" => false,
                "relocate" => nth % 2 == 1,
                _ => return wrong("the line has an unknown kind of move"),
            };
            if comes && !self.come(room, first, count, line.allocation) {
                return wrong("pages come to where another allocation is");
            }
            if !comes && !self.go(room, first, count, line.allocation) {
                return wrong("pages leave that the allocation does not have there");
            }
        }
        Ok(())
    }

    /// The first difference from the kernel's state, if there is one.
    pub fn differs(&self, kernel: &[Residence]) -> Option<String> {
        let mut there = Placed::default();
        for known in kernel {
            for PageRun { first, count } in &known.runs {
                if !there.come(room(known.segment.0, known.allocation), *first, count.0, known.allocation) {
                    return Some(format!("two allocations have page {first} of segment {}", known.segment.0));
                }
            }
        }
        let lacks = |one: &Placed, other: &Placed| {
            let (&((segment, _), first), &(count, allocation)) =
                one.pages.iter().find(|(at, what)| other.pages.get(at) != Some(what))?;
            Some(format!("allocation {allocation} in segment {segment}, {count} pages from {first}"))
        };
        let only_here = lacks(self, &there).map(|what| format!("the log says {what}; the kernel does not"));
        only_here.or_else(|| lacks(&there, self).map(|what| format!("the kernel says {what}; the log does not")))
    }

    /// Adds pages; false: one of them is taken.
    fn come(&mut self, room: PageSpace, mut first: u64, mut count: u64, allocation: u64) -> bool {
        if let Some((&(_, before), &(pages, owner))) = self.pages.range((room, 0)..(room, first)).next_back() {
            if before + pages > first {
                return false;
            }
            if before + pages == first && owner == allocation {
                self.pages.remove(&(room, before));
                (first, count) = (before, count + pages);
            }
        }
        if let Some((&(_, behind), &(pages, owner))) = self.pages.range((room, first)..=(room, u64::MAX)).next() {
            if behind < first + count {
                return false;
            }
            if behind == first + count && owner == allocation {
                self.pages.remove(&(room, behind));
                count += pages;
            }
        }
        self.pages.insert((room, first), (count, allocation));
        true
    }

    /// Takes pages away; false: not all of them are this allocation's.
    fn go(&mut self, room: PageSpace, first: u64, count: u64, allocation: u64) -> bool {
        let found = self.pages.range((room, 0)..=(room, first)).next_back();
        let Some((&(_, begin), &(pages, owner))) = found else { return false };
        let (end, all) = (first + count, begin + pages);
        if owner != allocation || all < end {
            return false;
        }
        self.pages.remove(&(room, begin));
        if begin < first {
            self.pages.insert((room, begin), (first - begin, owner));
        }
        if end < all {
            self.pages.insert((room, end), (all - end, owner));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use wddm_types::{Pages, SegmentId};

    use super::*;

    fn line(how: &'static str, allocation: u64, segment: u8, pages: &[(u64, u64)]) -> Demotion {
        Demotion {
            adapter: None,
            decided_ns: 0,
            completed_ns: None,
            work: 1,
            how,
            cause: "evict",
            for_allocation: None,
            requester: 1,
            owner: 1,
            allocation,
            segment,
            bytes: 4096 * pages.iter().map(|(_, count)| count).sum::<u64>(),
            pages: pages.to_vec(),
        }
    }

    fn replayed(lines: &[Demotion]) -> Result<Placed, String> {
        let mut placed = Placed::default();
        lines.iter().try_for_each(|line| placed.replay(line)).map(|()| placed)
    }

    fn kernel(all: &[(u64, u8, u64, u64)]) -> Vec<Residence> {
        let of = |&(allocation, segment, first, count): &(u64, u8, u64, u64)| Residence {
            allocation,
            segment: SegmentId(segment),
            runs: vec![PageRun { first, count: Pages(count) }],
        };
        all.iter().map(of).collect()
    }

    #[test]
    fn every_way_to_move_is_replayed() {
        let mut ahead = line("page out", 7, 1, &[(0, 4)]);
        ahead.cause = "ahead";
        let lines = [
            line("fill", 7, 1, &[(0, 4), (8, 2)]),
            line("page in", 8, 1, &[(4, 2)]),
            ahead,
            line("page out", 7, 1, &[(2, 2)]),
            line("discard", 7, 1, &[(9, 1)]),
            line("relocate", 8, 1, &[(4, 1), (2, 1), (5, 1), (3, 1)]),
            line("map", 9, 2, &[(0, 3)]),
            line("map", 9, 0, &[(50, 2)]),
            line("map", 10, 0, &[(50, 2)]),
            line("unmap", 9, 0, &[(50, 2)]),
        ];
        let placed = replayed(&lines).expect("it can be");
        let there = kernel(&[(7, 1, 0, 2), (8, 1, 2, 1), (8, 1, 3, 1), (7, 1, 8, 1), (9, 2, 0, 3), (10, 0, 50, 2)]);
        assert_eq!(placed.differs(&there), None);
    }

    #[test]
    fn a_line_too_few_or_too_many_is_found() {
        let all = [line("fill", 7, 1, &[(0, 4)]), line("map", 8, 2, &[(0, 1)])];
        let there = kernel(&[(7, 1, 0, 4), (8, 2, 0, 1)]);
        assert_eq!(replayed(&all).expect("it can be").differs(&there), None);
        assert!(
            replayed(&all[..1]).expect("it can be").differs(&there).is_some_and(|what| what.contains("the kernel"))
        );
        let part = replayed(&[line("fill", 7, 1, &[(0, 3)])]).expect("it can be");
        assert!(part.differs(&kernel(&[(7, 1, 0, 4)])).is_some());
        assert!(part.differs(&kernel(&[(8, 1, 0, 3)])).is_some(), "the kernel has another allocation there");
        for wrong in [
            line("fill", 8, 1, &[(3, 1)]),
            line("page out", 8, 1, &[(3, 1)]),
            line("page out", 7, 1, &[(3, 2)]),
            line("unmap", 8, 0, &[(0, 1)]),
            line("teleport", 7, 1, &[(0, 1)]),
        ] {
            assert!(replayed(&[all[0].clone(), wrong.clone()]).is_err(), "{wrong:?}");
        }
    }
}
