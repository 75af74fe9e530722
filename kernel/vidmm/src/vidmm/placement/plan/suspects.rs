//! Devices that a plan may suspend for room: their order, the pages that each would free, and those that the plan can
//! spare in the end. Called by `plan`.

use wddm_types::SegmentId;

use crate::allocation::Placement;
use crate::budget::ProcessPriority;
use crate::budget::SegmentGroup;
use crate::rank::BANDS;
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::state::PlanState;
use crate::vidmm::placement::plan::{Planner, Takes};

/// A device that a plan suspends.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    pub device: DeviceId,
    /// Pages that come free, by segment and the protection of the content: what it shares may be better protected.
    pub freed: Vec<[u64; BANDS]>,
    /// The allocations whose pages come free.
    pub content: Vec<AllocationId>,
    /// Some of it comes free only together with devices suspended before.
    pub entangled: bool,
}

impl Suspect {
    /// Whether pages of a segment come free, of content up to a protection.
    fn frees(&self, segment: SegmentId, highest: ProcessPriority) -> bool {
        self.freed[usize::from(segment.0) - 1][..=highest as usize].iter().any(|pages| *pages > 0)
    }
}

/// Place of a device among those to be suspended: the least first (memory §8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    band: ProcessPriority,
    standing: DeviceStanding,
    /// How long it is idle, or how long it runs.
    since: u64,
    device: DeviceId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DeviceStanding {
    Idle,
    OverBudget,
    Within,
}

impl<F: Copy + Eq> VidMm<F> {
    /// The protection of a device's process.
    pub(crate) fn band_of(&self, device: DeviceId) -> ProcessPriority {
        self.processes.priority(self.devices[device].space())
    }
}

impl<F: Copy + Eq> Planner<'_, F> {
    /// Suspends devices until a segment can give `pages`; if it never can, none.
    pub(super) fn provide(&self, state: &mut PlanState, segment: SegmentId, pages: u64) -> bool {
        let before = state.suspended.len();
        let own = self.mm.band_of(self.claim.device);
        self.lower_first(state, segment, pages);
        while state.pages(segment) < pages {
            if !self.suspend_next(state, segment, own) {
                self.give_up(state, before);
                return false;
            }
        }
        true
    }

    /// Suspends devices of lower processes until what is planned and `more` pages reach no higher process's content, as far as there are any:
    /// listed content of lower processes goes before unlisted content of higher ones. A run takes free pages on which scattered content
    /// that was planned before it had counted.
    // spec: memory §8.2
    pub(super) fn lower_first(&self, state: &mut PlanState, segment: SegmentId, more: u64) {
        let own = self.mm.band_of(self.claim.device);
        for band in [ProcessPriority::Background, ProcessPriority::Normal].into_iter().filter(|band| *band < own) {
            while state.reaches_above(segment, band, more) && self.suspend_next(state, segment, band) {}
        }
    }

    /// Suspends the next device up to a protection that has something in a segment.
    pub(super) fn suspend_next(&self, state: &mut PlanState, segment: SegmentId, highest: ProcessPriority) -> bool {
        let victims = self.mm.segment(segment).victims();
        let any = [ProcessPriority::Background, ProcessPriority::Normal, ProcessPriority::Foreground];
        let some = any.into_iter().any(|band| band <= highest && victims.held(band) > 0);
        if self.alone || !some || !self.mm.policy.suspend_others || self.claim.takes == Takes::Victims {
            return false;
        }
        let mut left = state.suspects.take().unwrap_or_else(|| self.suspects());
        // The next one that frees something; if none does alone, the next one that would together with others.
        let candidates = || (0..left.len()).rev().filter(|&position| self.mm.band_of(left[position]) <= highest);
        let helps = |position: usize| {
            let suspect = self.suspect(state, left[position]);
            suspect.frees(segment, highest).then_some((position, suspect))
        };
        let shares = |position: usize| {
            let device = left[position];
            self.lists_some(device, segment, highest).then(|| (position, self.suspect(state, device)))
        };
        let found = candidates().find_map(helps).or_else(|| candidates().find_map(shares));
        let Some((position, suspect)) = found else {
            state.suspects = Some(left);
            return false;
        };
        left.remove(position);
        debug_assert!(!left.contains(&suspect.device), "{:?} may be suspended twice by one plan", suspect.device);
        state.suspects = Some(left);
        state.add_pages(&suspect);
        state.suspended.push(suspect);
        true
    }

    /// Suspends every device that the claim may suspend.
    pub(super) fn suspend_all(&self, state: &mut PlanState) {
        let segments: Vec<SegmentId> = self.mm.segments.ids().collect();
        for segment in segments {
            while self.suspend_next(state, segment, ProcessPriority::Foreground) {}
        }
    }

    /// Takes back the suspensions after the first `count`.
    pub(super) fn give_up(&self, state: &mut PlanState, count: usize) {
        let all = state.suspended.len();
        debug_assert!(count <= all, "{count} suspensions of a plan are to stay, of {all}");
        while state.suspended.len() > count {
            let suspect = state.suspended.pop().expect("just counted");
            state.remove_pages(&suspect);
            state.suspects.get_or_insert_default().push(suspect.device);
        }
    }

    /// Takes back the suspensions without which the plan stands, the highest ranked first.
    pub(super) fn spare_superfluous(&self, state: &mut PlanState) {
        for position in (0..state.suspended.len()).rev() {
            let suspect = state.suspended[position].clone();
            let later_need_it = state.suspended[position + 1..].iter().any(|later| later.entangled);
            if later_need_it || !state.can_spare(&suspect) {
                continue;
            }
            let removed = state.suspended.remove(position);
            let own = self.mm.band_of(self.claim.device);
            // Sparing it must not cost a higher one anything.
            let below = [ProcessPriority::Background, ProcessPriority::Normal].into_iter().filter(|band| *band < own);
            let protects = below.into_iter().any(|band| {
                let mut segments = self.mm.segments.ids();
                segments.any(|id| removed.frees(id, band) && state.reaches_above(id, band, 0))
            });
            if protects {
                state.suspended.insert(position, removed);
            } else {
                state.remove_pages(&removed);
            }
        }
    }

    /// The devices that the claim may suspend, the last one first.
    // spec: memory §8.2
    fn suspects(&self) -> Vec<DeviceId> {
        let more = self.list.iter().map(|id| self.growth(*id, SegmentGroup::Local)).sum();
        let more = Some((self.mm.devices[self.claim.device].space(), more));
        let mut orders: Vec<Order> = self
            .mm
            .devices
            .iter()
            .filter(|(device, known)| *device != self.claim.device && !known.is_suspended() && known.lists_any())
            .filter(|(device, _)| !self.claim.for_holders || !self.wants(*device))
            .filter_map(|(device, _)| self.order_of(device, more))
            .collect();
        orders.sort_unstable();
        orders.into_iter().rev().map(|order| order.device).collect()
    }

    /// Whether a device lists something of what is wanted.
    pub(super) fn wants(&self, device: DeviceId) -> bool {
        self.list.iter().any(|id| self.mm.allocations[*id].holders.contains(&device))
    }

    fn order_of(&self, device: DeviceId, more: Option<(crate::slab::SpaceId, u64)>) -> Option<Order> {
        let known = &self.mm.devices[device];
        let (band, own) = (self.mm.band_of(device), self.mm.band_of(self.claim.device));
        let over = || {
            [SegmentGroup::Local, SegmentGroup::NonLocal]
                .into_iter()
                .any(|group| self.mm.processes.is_over_budget(known.space(), group, more))
        };
        let (standing, since) = match known.idle_since() {
            Some(since) => (DeviceStanding::Idle, since),
            None if over() => (DeviceStanding::OverBudget, known.active_since_ns()),
            None => (DeviceStanding::Within, known.active_since_ns()),
        };
        let run_enough =
            self.mm.clock.now_ns() >= known.active_since_ns().saturating_add(self.mm.policy.residency_quantum_ns);
        let allowed = band < own
            || band == own
                && match self.claim.takes {
                    Takes::Victims | Takes::Lower => false,
                    Takes::Ranked => standing < DeviceStanding::Within,
                    Takes::Turn => standing == DeviceStanding::Idle || run_enough,
                    Takes::Any => true,
                };
        allowed.then_some(Order { band, standing, since, device })
    }

    /// Whether a device lists content of a segment that is no victim yet, up to a protection.
    fn lists_some(&self, device: DeviceId, segment: SegmentId, highest: ProcessPriority) -> bool {
        let own = self.mm.band_of(self.claim.device);
        self.mm.devices[device].list().any(|id| {
            let allocation = &self.mm.allocations[id];
            let here = allocation.standing.is_some_and(|s| s.segment == segment && s.rank.is_none());
            here && allocation.pins == 0 && allocation.band <= highest.min(own) && !self.wanted.contains(&id)
        })
    }

    /// The pages that suspending a device would free, beside those suspended already.
    pub(super) fn suspect(&self, state: &PlanState, device: DeviceId) -> Suspect {
        debug_assert_ne!(device, self.claim.device, "a device gives way to itself");
        debug_assert!(!self.mm.is_suspended(device), "{device:?} is suspended once more by a plan");
        let mut freed = vec![[0; BANDS]; self.mm.segments.all().len()];
        let own = self.mm.band_of(self.claim.device);
        let (mut content, mut entangled) = (Vec::new(), false);
        let stands = |holder: &DeviceId| {
            *holder == device
                || self.mm.devices[*holder].is_suspended()
                || state.suspended.iter().any(|suspect| suspect.device == *holder)
        };
        for id in self.mm.devices[device].list() {
            let allocation = &self.mm.allocations[id];
            let victim = allocation.standing.is_some_and(|standing| standing.rank.is_some());
            let Placement::Memory(segment, extents) = &allocation.placement else { continue };
            let takable = !victim && allocation.pins == 0 && allocation.band <= own;
            if !takable || self.wanted.contains(&id) || !allocation.holders.iter().all(stands) {
                continue;
            }
            entangled |= allocation.holders.len() > 1;
            freed[usize::from(segment.0) - 1][allocation.band as usize] += extents.pages();
            content.push(id);
        }
        Suspect { device, freed, content, entangled }
    }
}
