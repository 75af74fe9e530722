//! Moves of memory by process, and which process displaced whose memory: the kernel's events with their owners, as sums and as a
//! list. Fed by `recorder`, which hears every event; it decides nothing.

use std::collections::BTreeMap;

use dxgk_host::Residence;
use events::{Cause, Event, Move};

use crate::outcome::{Demotion, Displaced, INCOMPLETE};
use crate::owners::Owners;
use crate::placed::Placed;

/// Most demotions that are listed; more are counted.
pub const DEMOTIONS_MAX: usize = 4_000_000;

/// Owners of memory, and its moves.
pub struct Displacements {
    owners: Owners,
    /// Bytes in and out by process: of its own memory.
    moved: BTreeMap<(u32, Move), u64>,
    /// Bytes that left for want of room, by their owner and the process that needed the room.
    displaced: BTreeMap<(u32, u32), u64>,
    list: Vec<Demotion>,
    /// The places of paging work's demotions in the list, until it has completed.
    open: BTreeMap<u64, Vec<usize>>,
    keeps_list: bool,
    /// The resident pages by the list, or why the list contradicts itself.
    placed: Result<Placed, String>,
    /// Demotions that the list has no room for.
    pub dropped: u64,
}

impl Displacements {
    /// Nothing has happened; with or without the list.
    pub fn new(keeps_list: bool) -> Displacements {
        Displacements {
            owners: Owners::default(),
            moved: BTreeMap::new(),
            displaced: BTreeMap::new(),
            list: Vec::new(),
            open: BTreeMap::new(),
            keeps_list,
            placed: Ok(Placed::default()),
            dropped: 0,
        }
    }

    /// Hears an event.
    pub fn event(&mut self, now_ns: u64, event: &Event) {
        self.owners.event(event);
        match event {
            Event::Moved { work, process, allocation, segment, bytes, how, why, runs } => {
                let owner = self.owners.of_allocation(*allocation).unwrap_or(0);
                // A destruction in video memory is no move out of it.
                if *why != Cause::Destroy {
                    *self.moved.entry((owner, *how)).or_default() += bytes;
                }
                let leaves = matches!(how, Move::PageOut | Move::Discard);
                if leaves && matches!(why, Cause::Pressure { .. }) {
                    *self.displaced.entry((owner, *process)).or_default() += bytes;
                }
                self.note(Demotion {
                    adapter: None,
                    decided_ns: now_ns,
                    completed_ns: (*work == 0).then_some(now_ns),
                    work: *work,
                    how: how.name(),
                    cause: why.name(),
                    for_allocation: match why {
                        Cause::Pressure { for_allocation } | Cause::Compaction { for_allocation } => {
                            Some(*for_allocation)
                        }
                        _ => None,
                    },
                    requester: *process,
                    owner,
                    allocation: *allocation,
                    segment: *segment,
                    bytes: *bytes,
                    pages: runs.iter().map(|run| (run.first, run.count.0)).collect(),
                });
            }
            Event::PagingCompleted { work } => {
                for at in self.open.remove(work).unwrap_or_default() {
                    self.list[at].completed_ns = Some(now_ns);
                }
            }
            _ => {}
        }
    }

    /// Bytes of a process's own memory that moved in this way.
    pub fn moved_bytes(&self, process: u32, how: Move) -> u64 {
        self.moved.get(&(process, how)).copied().unwrap_or(0)
    }

    /// Displaced bytes by victim and requester, largest first.
    pub fn displaced(&self) -> Vec<Displaced> {
        let mut all: Vec<Displaced> = self
            .displaced
            .iter()
            .map(|(&(victim, requester), &bytes)| Displaced { victim, requester, bytes })
            .collect();
        all.sort_by_key(|displaced| (std::cmp::Reverse(displaced.bytes), displaced.victim, displaced.requester));
        all
    }

    /// Compares what the list says with what the kernel has.
    pub fn compare(&mut self, kernel: &[Residence]) {
        if let Ok(placed) = &self.placed
            && let Some(wrong) = placed.differs(kernel)
        {
            self.placed = Err(wrong);
        }
    }

    /// Whether the list adds up to what the kernel had whenever they were compared: `ok`, `off`, or what did not match.
    pub fn verdict(&self) -> String {
        match &self.placed {
            _ if !self.keeps_list => "off".to_owned(),
            Ok(_) if self.dropped > 0 => format!("{INCOMPLETE}: {} moves left out", self.dropped),
            Ok(_) => "ok".to_owned(),
            Err(wrong) => wrong.clone(),
        }
    }

    /// The list; it is empty afterwards.
    pub fn take_list(&mut self) -> Vec<Demotion> {
        self.open.clear();
        std::mem::take(&mut self.list)
    }

    fn note(&mut self, demotion: Demotion) {
        if !self.keeps_list {
            return;
        }
        if let Ok(placed) = &mut self.placed
            && let Err(wrong) = placed.replay(&demotion)
        {
            self.placed = Err(wrong);
        }
        if self.list.len() == DEMOTIONS_MAX {
            self.dropped += 1;
            return;
        }
        self.open.entry(demotion.work).or_default().push(self.list.len());
        self.list.push(demotion);
    }
}

#[cfg(test)]
mod tests {
    use wddm_types::{PageRun, Pages};

    use super::*;

    fn moved(work: u64, process: u32, allocation: u64, how: Move, why: Cause) -> Event {
        Event::Moved {
            work,
            process,
            allocation,
            segment: 1,
            bytes: 4096,
            how,
            why,
            runs: vec![PageRun { first: 3, count: Pages(1) }],
        }
    }

    #[test]
    fn pressure_is_charged_to_the_process_that_needed_the_room() {
        let mut heard = Displacements::new(true);
        for (process, device, allocation) in [(1, 10, 100), (2, 20, 200)] {
            heard.event(0, &Event::DeviceCreated { process, device });
            heard.event(0, &Event::AllocationCreated { device, allocation, size_bytes: 4096 });
        }
        heard.event(5, &moved(7, 2, 100, Move::PageOut, Cause::Pressure { for_allocation: 200 }));
        heard.event(5, &moved(7, 2, 200, Move::PageIn, Cause::MakeResident));
        heard.event(6, &moved(8, 1, 100, Move::Discard, Cause::Evict));
        heard.event(9, &Event::PagingCompleted { work: 7 });
        assert_eq!(heard.displaced(), [Displaced { victim: 1, requester: 2, bytes: 4096 }]);
        assert_eq!([heard.moved_bytes(1, Move::PageOut), heard.moved_bytes(2, Move::PageIn)], [4096, 4096]);
        let list = heard.take_list();
        assert_eq!(list.iter().map(|demotion| demotion.completed_ns).collect::<Vec<_>>(), [Some(9), Some(9), None]);
        assert_eq!((list[0].owner, list[0].requester, list[0].for_allocation), (1, 2, Some(200)));
        assert_eq!(list[0].pages, [(3, 1)]);
    }
}
