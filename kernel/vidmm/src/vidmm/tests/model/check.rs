//! The checks after every step: the content that the GPU sees at each address, the owner of each frame, the devices
//! that may run.

use std::collections::BTreeMap;

use wddm_types::{GpuVa, PAGE_BYTES};

use super::{BITS, Known, Model};
use crate::allocation::Placement;
use crate::extent::Extent;

impl Model {
    /// The GPU reads a mapping: valid exactly where resident, and the content is right.
    pub fn look(&mut self, which: usize, va: GpuVa, offset: u64) {
        self.machine.run(&mut self.mm);
        let id = self.known[which].id;
        let space = self.mm.devices[self.mm.allocations[id].owner.unwrap()].space();
        let (root, translates) = (self.mm.root(space), self.mm.tables_resident(space));
        let lost = self.mm.offered(id) == Some(true);
        let runs = |(device, &count): (usize, &u64)| count > 0 && !self.mm.is_suspended(self.devices[device]);
        let held = self.mm.offered(id).is_none() && self.known[which].counts.iter().enumerate().any(runs);
        for (page, &content) in self.known[which].content.iter().enumerate().skip(offset as usize) {
            let entry = self.machine.walk(root, &BITS, va.offset((page as u64 - offset) * PAGE_BYTES));
            let resident = match &self.mm.allocations[id].placement {
                Placement::None => false,
                Placement::Memory(_, extents) => {
                    extents.iter().any(|e| (e.page..e.page + e.count).contains(&(page as u64)))
                }
                Placement::System(_) => true,
            };
            let valid = resident && translates;
            assert_eq!(entry.is_some(), valid, "an entry is valid exactly while its page and its table are resident");
            assert!(resident || !held, "what is on a list is resident");
            if let Some(entry) = entry {
                let seen = self.machine.read(entry.address.segment, entry.address.offset / PAGE_BYTES);
                assert!(lost || seen == content, "page {page} of {id:?}");
            }
        }
    }

    pub fn look_at_both(&mut self, which: usize) {
        let (va, (second, from)) = (self.known[which].va, self.known[which].second);
        self.look(which, va, 0);
        self.look(which, second, from);
    }

    /// The state that a failure must leave as it was.
    pub fn placements(&self) -> Vec<(Vec<Extent>, bool, u64, Option<u64>)> {
        let state = |known: &Known| {
            let allocation = &self.mm.allocations[known.id];
            let (extents, reachable) = match &allocation.placement {
                Placement::None => (Vec::new(), false),
                Placement::Memory(_, extents) => (extents.iter().collect(), true),
                Placement::System(_) => (Vec::new(), true),
            };
            (extents, reachable, allocation.count, allocation.lazy_since)
        };
        self.known.iter().map(state).collect()
    }

    /// Every frame has at most one owner; free and owned make the capacity; victims and counts are right.
    pub fn check(&self) {
        let mm = &self.mm;
        mm.check_invariants(&[]).expect("what always holds");
        for segment in mm.segments() {
            let (mut owned, mut lazy) = (BTreeMap::new(), 0);
            for id in self.known.iter().map(|known| known.id).chain(self.doomed.iter().copied()) {
                let allocation = &mm.allocations[id];
                let runs: Vec<(u64, u64)> = match &allocation.placement {
                    Placement::Memory(id, extents) if *id == segment.id => {
                        lazy += if allocation.standing.is_some_and(|s| s.rank.is_some()) { extents.pages() } else { 0 };
                        extents.iter().map(|e| (e.frame, e.count)).collect()
                    }
                    Placement::System(Some((aperture, run))) if *aperture == segment.id => {
                        lazy += if allocation.standing.is_some() { run.count.0 } else { 0 };
                        vec![(run.first, run.count.0)]
                    }
                    _ => Vec::new(),
                };
                for frame in runs.iter().flat_map(|&(first, count)| first..first + count) {
                    assert!(owned.insert(frame, id).is_none(), "a frame has one owner");
                    assert!(frame < segment.capacity_pages());
                }
            }
            assert_eq!(owned.len() as u64 + segment.free_pages(), segment.capacity_pages());
            assert_eq!(lazy, segment.victims().pages_up_to(crate::rank::TIERS - 1));
        }
        for (device, space) in self.devices.iter().map(|device| (device, mm.devices[*device].space())) {
            // spec: memory §4.6
            assert!(mm.tables_resident(space) || mm.is_suspended(*device), "who runs has its page tables");
        }
        self.check_turns();
        self.check_needs();
        for known in &self.known {
            for (device, &count) in known.counts.iter().enumerate() {
                assert_eq!(mm.count(self.devices[device], known.id), count);
            }
        }
    }
}
