//! The invariants that hold after every call ([`VidMm::check_invariants`]), and a digest of the state
//! ([`VidMm::state_digest`]), so that a refused call can be seen to have changed nothing. A debug facility for fuzzers,
//! simulators and drivers' own tests: it reads everything and is slow, and nothing in the kernel calls it.
//!
//! | rule | what it says |
//! |---|---|
//! | frames | every page of a segment, of system memory, of the table reserves has one owner or is free |
//! | works | the ring has completed no work that was not returned, and nothing waits for such a work |
//! | lists | counts per device, their sums, holders and owners say the same; a running device has no postponed step |
//! | budgets | a process's need is the sum over its lists, each allocation once, where it lies |
//! | figures | segments, processes and budgets tell the same bytes |
//! | victims | the order of victims follows from the allocations alone |
//! | foreseen | the planner was told which pages each subject has, and how much room is left for subjects |
//! | addresses | each page of a space is free or taken once; an allocation knows its mappings, and they lie in it |
//! | tables | every table has a parent and counts what is below it; large pages name what is mapped there |
//! | locks | the CPU sees a locked allocation where it lies; windows and offers are counted once |
//!
//! Entries in memory are not looked at: VidMm never reads memory. The simulator's checkers do.

mod addresses;
mod digest;
mod figures;
mod foreseen;
mod lists;

pub use digest::StateDigest;

use wddm_types::{PageRun, Pages};

use crate::allocation::Placement;
use crate::segment::Segment;
use crate::slab::{AllocationId, DeviceId};
use crate::system_pages::pages_of;
use crate::vidmm::VidMm;

/// A rule that does not hold: a defect of ours, never of a caller or driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {place}")]
pub struct BrokenInvariant {
    /// Which rule: its name in the table at the head of the module.
    pub rule: &'static str,
    /// Where and how.
    pub place: String,
}

/// Gives a finding its rule.
pub(crate) fn broken<T: Into<String>>(rule: &'static str) -> impl FnOnce(T) -> BrokenInvariant {
    move |place| BrokenInvariant { rule, place: place.into() }
}

/// Refuses with a rule and a place, built only when it is needed.
pub(crate) fn ensure(holds: bool, rule: &'static str, place: impl FnOnce() -> String) -> Result<(), BrokenInvariant> {
    if holds { Ok(()) } else { Err(BrokenInvariant { rule, place: place() }) }
}

impl<F: Copy + Eq + std::fmt::Debug> VidMm<F> {
    /// Looks at everything; `lent`: the system pages that the caller has from [`VidMm::allocate_system`] and
    /// [`VidMm::allocate_scattered`].
    ///
    /// # Errors
    /// The first rule that does not hold.
    // spec: memory §9.3
    pub fn check_invariants(&self, lent: &[PageRun]) -> Result<(), BrokenInvariant> {
        for segment in self.segments.all() {
            self.check_segment(segment)
                .map_err(|place| broken("frames")(format!("segment {}: {place}", segment.id.0)))?;
        }
        self.segments.check().map_err(broken("frames"))?;
        self.check_system(lent).map_err(broken("frames"))?;
        self.works.check().map_err(broken("works"))?;
        self.check_last_works()?;
        self.spaces.check_frames().map_err(broken("frames"))?;
        self.spaces.check_tables().map_err(broken("tables"))?;
        self.check_lists()?;
        self.check_needs()?;
        self.check_figures()?;
        self.check_turns()?;
        self.check_offers()?;
        self.check_foreseen()?;
        self.check_addresses()?;
        self.check_locks()
    }

    /// All allocations, each with its owner, if it has one.
    pub fn allocations(&self) -> impl Iterator<Item = (AllocationId, Option<DeviceId>)> {
        self.allocations.iter().map(|(id, allocation)| (id, allocation.owner))
    }

    /// Whether an allocation is there: destroyed content is until the last work that uses it returns.
    pub fn has_allocation(&self, id: AllocationId) -> bool {
        self.allocations.get(id).is_some()
    }

    fn check_last_works(&self) -> Result<(), BrokenInvariant> {
        let returned = self.works.returned();
        for (id, allocation) in self.allocations.iter() {
            let last = allocation.last_work;
            ensure(last <= returned, "works", || {
                format!("{id:?} waits for work {last}, and {returned} were returned")
            })?;
        }
        self.system.check_retiring(returned).map_err(broken("works"))
    }

    /// The pages that content has in a segment.
    fn owned(&self, segment: &Segment) -> Vec<PageRun> {
        let runs = |id: AllocationId| -> Vec<PageRun> {
            let displayed = self.allocations[id].displayed.at;
            match &self.allocations[id].placement {
                Placement::System(None) => {
                    displayed.filter(|(place, _)| *place == segment.id).into_iter().map(|(_, run)| run).collect()
                }
                Placement::Memory(place, extents) if *place == segment.id => {
                    extents.iter().map(|extent| PageRun { first: extent.frame, count: Pages(extent.count) }).collect()
                }
                Placement::System(Some((place, run))) if *place == segment.id => vec![*run],
                _ => Vec::new(),
            }
        };
        self.allocations.iter().flat_map(|(id, _)| runs(id)).collect()
    }

    fn check_segment(&self, segment: &Segment) -> Result<(), String> {
        segment.check(&self.owned(segment))?;
        for (id, allocation) in self.allocations.iter() {
            let displayed = &allocation.displayed;
            let hidden = matches!(allocation.placement, Placement::System(None));
            if displayed.at.is_some() && !hidden || displayed.times > allocation.pins {
                return Err(format!("{id:?} is displayed by {displayed:?}, and has {} pins", allocation.pins));
            }
            let Placement::Memory(place, extents) = &allocation.placement else { continue };
            let missing: u64 = extents.missing().iter().map(|(_, count)| count).sum();
            if extents.pages() == 0 || missing + extents.pages() != allocation.pages_in(self.segment(*place)) {
                return Err(format!("{id:?} has {} pages there, {missing} elsewhere", extents.pages()));
            }
            // Pages written back ahead and dirty pages are two extents of one run.
            let in_a_row =
                extents.iter().zip(extents.iter().skip(1)).all(|(one, next)| one.frame + one.count == next.frame);
            if allocation.contiguous() && !in_a_row {
                return Err(format!("{id:?} is contiguous and in pieces"));
            }
        }
        Ok(())
    }

    fn check_system(&self, lent: &[PageRun]) -> Result<(), String> {
        let doomed = self.allocations.iter().filter(|(_, allocation)| allocation.returns);
        let doomed: u64 = doomed.map(|(_, allocation)| pages_of(&allocation.backing)).sum();
        let mut owned = lent.to_vec();
        owned.extend(self.spaces.system_pages());
        for (id, allocation) in self.allocations.iter() {
            let pages: u64 = allocation.backing.iter().map(|run| run.count.0).sum();
            let given_up =
                pages == 0 && allocation.offer().is_some_and(|offer| offer.discarded && offer.allow_decommit);
            if pages != allocation.pages && !given_up {
                return Err(format!("{id:?} has {} pages and {pages} behind them", allocation.pages));
            }
            if !allocation.foreign {
                owned.extend(&allocation.backing);
            }
        }
        self.system.check(&owned, doomed, self.works.completed())
    }
}
