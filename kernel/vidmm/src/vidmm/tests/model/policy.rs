//! Steps beyond lists and locks: destruction in use, offers, pins, protection, budgets, turns, work ahead.

use foresight::Wanted;
use wddm_types::{FencePoint, PAGE_BYTES};

use super::{Model, Step};
use crate::foreseen::key_of;
use crate::vidmm::placement::fetch::Ahead;
use crate::vidmm::tests::world::{VRAM, point};
use crate::{
    AllocationId, Cause, NextResume, OfferError, OfferFlags, OfferPriority, PinError, ProcessPriority, Promotion,
    ReclaimError, ReclaimResult, SegmentGroup,
};

const PRIORITIES: [u32; 3] = [0x5000_0000, ddi::PRIORITY_NORMAL, 0xA000_0000];

impl Model {
    pub fn policy_step(&mut self, step: Step) {
        match step {
            Step::Doom { which } => self.doom(which),
            Step::Offer { device, which, priority, decommit } => self.offer(device, which, priority, decommit),
            Step::Reclaim { device, which } => self.reclaim(device, which),
            Step::Pin { which } => self.pin(which),
            Step::Unpin { which } => {
                let pinned = |&which: &usize| self.known[which].pins > 0;
                let Some(which) = (0..self.known.len()).map(|step| (which + step) % self.known.len()).find(pinned)
                else {
                    return;
                };
                self.known[which].pins -= 1;
                self.mm.unpin(self.known[which].id);
            }
            Step::Protect { process, priority } => {
                let all = [ProcessPriority::Background, ProcessPriority::Normal, ProcessPriority::Foreground];
                self.mm.set_process_priority(self.spaces[process], all[usize::from(priority)]);
            }
            Step::Cap { process, pages } => {
                let cap = (pages < 100).then_some(pages * PAGE_BYTES);
                self.mm.set_budget(self.spaces[process], SegmentGroup::Local, cap);
            }
            Step::Rank { which, priority } => {
                let Some(which) = self.pick(which) else { return };
                let to = PRIORITIES[usize::from(priority)];
                self.mm.set_allocation_priority(&[(self.known[which].id, to)]).expect("not 0");
            }
            Step::Idle { device, idle } => self.mm.set_device_idle(self.devices[device], idle),
            Step::Turn { quarters } => self.turn(quarters),
            Step::Ahead { pages } => {
                let work = self.mm.idle_work(pages, &|_| true);
                self.queue(work);
                self.come_and_go_ahead(pages);
                self.promote(pages);
            }
            Step::UsesEnd { devices } => self.uses_end(devices),
            other => unreachable!("{other:?} is done elsewhere"),
        }
    }

    /// Evictions that stood aside for the work of these devices alone are carried out, and the ring waits for no use by them.
    // spec: memory §5.3, memory §10.1
    fn uses_end(&mut self, devices: u8) {
        let is_over = |point: &FencePoint<u8>| devices >> point.fence & 1 == 1;
        for (_, work) in self.mm.evictions_over(&is_over) {
            assert!(work.after.is_empty(), "{:?} is waited for", work.after);
            assert!(work.moves.iter().all(|moved| moved.cause == Cause::Evict));
            self.evicted_late += work.moves.len() as u64;
            self.queue(Some(work));
        }
        let waits = |id: AllocationId| !self.mm.allocations[id].last_use.iter().all(is_over);
        let stays = self.mm.asides().filter(|(_, id)| !waits(*id)).map(|(_, id)| id).collect::<Vec<_>>();
        assert!(stays.is_empty(), "{stays:?} stand aside for nothing");
    }

    /// Content comes, leaves and is copied ahead of need, whatever is wanted: no device is stopped for it, and none loses what it lists.
    fn come_and_go_ahead(&mut self, pages: u64) {
        let count = self.known.len();
        let nth = |nth: usize| key_of(self.known[nth % count].id);
        if count == 0 {
            return;
        }
        // CAST: a few.
        let (one, other) = (nth(pages as usize), nth(7 * pages as usize + 3));
        let mut ahead = Ahead::new(VRAM, self.mm.works.begin(), &|_| true);
        let wanted = [
            Wanted::Fetch { key: one, pages, instead_of: Some(other) },
            Wanted::WriteBack { key: other, pages },
            Wanted::Clear { key: one, pages: 1 + pages / 2 },
            Wanted::Fetch { key: other, pages: 2 * pages, instead_of: None },
        ];
        for wanted in wanted {
            let done = self.mm.do_ahead(wanted, pages, &mut ahead);
            self.came_and_went += done;
        }
        let work = self.mm.finish(ahead.batch, false);
        let stops = |work: &crate::Work<u8>| work.suspends.len() + work.quiesced.len() + work.idle_spaces.len();
        assert_eq!(work.as_ref().map_or(0, stops), 0, "nothing stops for it");
        self.queue(work);
    }

    /// A promotion costs no allocation a page, and the devices that list the content have nothing to run.
    fn promote(&mut self, pages: u64) {
        let before: Vec<u64> = self.known.iter().map(|known| self.mm.allocations[known.id].resident_pages()).collect();
        let Promotion::Work(work) = self.mm.promote(pages) else { return };
        assert!(work.quiesced.iter().all(|device| self.mm.devices[*device].is_idle()));
        assert!(work.moves.iter().all(|moved| moved.cause == Cause::Promote));
        let moved: Vec<_> = work.moves.iter().map(|moved| moved.allocation).collect();
        self.promoted += 1;
        self.queue(Some(*work));
        for (which, before) in before.into_iter().enumerate() {
            let after = self.mm.allocations[self.known[which].id].resident_pages();
            assert!(after == before || after > 0 && moved.contains(&self.known[which].id));
        }
    }

    fn doom(&mut self, which: usize) {
        let Some(which) = self.pick(which) else { return };
        let known = self.known.swap_remove(which);
        let owner = self.mm.allocations[known.id].owner.unwrap();
        let fence = self.devices.iter().position(|device| *device == owner).expect("its device lives");
        self.mm.doom_allocation(known.id, &[point(fence as u8, self.stamp)], &[]);
        self.doomed.push(known.id);
        if self.doomed.len() > 3 {
            let work = self.mm.destroy_allocation(self.doomed.remove(0), &[]);
            self.queue(work);
        }
    }

    // spec: memory §5.9
    fn offer(&mut self, device: usize, which: usize, priority: u8, allow_decommit: bool) {
        let Some(which) = self.pick(which) else { return };
        let (allocation, known) = (self.known[which].id, &self.known[which]);
        let priorities = [OfferPriority::Low, OfferPriority::Normal, OfferPriority::High, OfferPriority::Auto];
        let expected = if self.mm.offered(allocation).is_some() {
            Err(OfferError::Offered { allocation })
        } else if known.locks > 0 {
            Err(OfferError::Locked { allocation })
        } else if known.pins > 0 {
            Err(OfferError::Pinned { allocation })
        } else {
            Ok(())
        };
        let last_use = [point(device as u8, self.stamp)];
        let how = (priorities[usize::from(priority)], OfferFlags { allow_decommit });
        assert_eq!(self.mm.offer(self.devices[device], &[allocation], how.0, how.1, &last_use), expected);
    }

    // spec: memory §5.9
    fn reclaim(&mut self, device: usize, which: usize) {
        let count = self.known.len();
        let offered = |&which: &usize| self.mm.offered(self.known[which].id).is_some();
        let Some(which) = (0..count).map(|step| (which + step) % count).find(offered) else { return };
        let allocation = self.known[which].id;
        let lost = self.mm.offered(allocation) == Some(true);
        let before = self.placements();
        match self.mm.reclaim(self.devices[device], &[allocation]) {
            Ok(back) => {
                self.queue(back.work);
                let expected = if lost { ReclaimResult::Discarded } else { ReclaimResult::Ok };
                assert_eq!(back.results, [expected]);
                if lost {
                    self.known[which].content.fill(0);
                }
                self.look_at_both(which);
            }
            Err(error) => {
                assert!(matches!(error, ReclaimError::OutOfMemory { .. }), "{error}");
                assert_eq!(before, self.placements(), "a failure changes nothing");
                assert_eq!(self.mm.offered(allocation), Some(lost));
            }
        }
    }

    fn pin(&mut self, which: usize) {
        let Some(which) = self.pick(which) else { return };
        let known = &mut self.known[which];
        let offered = self.mm.offered(known.id).is_some();
        let resident = self.mm.is_resident(known.id);
        // Little is on screens; all pinned is nothing left to test.
        if known.content.len() > 8 {
            return;
        }
        match self.mm.pin(known.id) {
            Ok(()) => known.pins += 1,
            Err(PinError::Offered) => assert!(offered),
            Err(PinError::NotResident) => assert!(!resident),
        }
    }

    // spec: memory §8.6
    fn turn(&mut self, quarters: u64) {
        self.now_ns += quarters * self.mm.policy.residency_quantum_ns / 4;
        for _ in 0..4 {
            match self.mm.next_to_resume(self.now_ns) {
                NextResume::Withdraw(device) => {
                    let work = self.mm.withdraw_suspended(device);
                    self.queue(work);
                }
                NextResume::Resume(device) => {
                    let (list, order) = (self.mm.list_of(device), self.naive_order());
                    let work = self.mm.resume(device).expect("it was said so");
                    self.check_losers(&list, &order, work.as_ref());
                    self.queue(work);
                    if self.mm.withholds(device) {
                        // The turn ends the uses that the device's evicts wait for.
                        self.mm.settle_postponed(device, |_| true);
                        let work = self.mm.list_withheld(device);
                        self.queue(work);
                    }
                    self.check_turns();
                }
                NextResume::At(at) => {
                    assert!(at > self.now_ns, "the next turn is in the future");
                    assert!(at <= self.now_ns + self.mm.policy.residency_quantum_ns, "and within a quantum");
                    break;
                }
                NextResume::NoDevice => break,
            }
        }
        let asked = self.mm.trim_requests(self.now_ns);
        assert!(asked.iter().all(|request| request.flags.to_budget == (request.bytes > 0)));
        let _ = self.mm.budget_changes();
    }
}
