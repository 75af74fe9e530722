//! The instances of a renamed allocation (memory §6.5, §7.2): their names, and how long they may be named. `rename` makes
//! and changes them.
//!
//! ```text
//!            a rename                      a list names a later one, and keeps not this one;
//! current ─────────────▶ given up, valid ──────────────────────────────────────────────────▶ retired
//!    ▲                        │            or a lock says that nothing unsubmitted names any      │
//!    └────────────────────────┴───────── a rename, when the GPU is past it ──────────────────────┘
//! ```
//! An instance that is given up and valid may stand in a buffer that was not submitted: its content stays. A retired one is offered to
//! the memory manager as worthless: under pressure it is the first to go, out of its segment uncopied, then its backing store. So the
//! list is as long as memory allows, and no work ever reads what went.

use kmt_calls::Refusal;
use vidmm::{AllocationId, OfferFlags, OfferPriority};

use crate::adapter::Adapter;
use crate::allocations::AllocationNumber;
use crate::effect::Cx;
use crate::packet::{ListEntry, Listed};
use crate::refusal::invalid;

impl Adapter {
    /// The number of the name that a lock with Discard may need, if the allocation has none in hand.
    // spec: memory §6.5
    pub fn instance_name_wanted(&self, number: AllocationNumber) -> Option<u32> {
        let renaming = &self.memory.allocations[number].renaming;
        let first = self.driver.is_wddm_1();
        (first && renaming.spare().is_none() && self.is_renamed(number)).then_some(renaming.names() + 1)
    }

    /// The instance that a list means by a name of an allocation.
    ///
    /// # Errors
    /// A list has named a later instance since.
    // spec: memory §6.5: once A(k+1) appears in a list, A(k) becomes invalid
    pub fn listed_instance(&self, number: AllocationNumber, name: u32) -> Result<Listed, Refusal> {
        let allocation = &self.memory.allocations[number];
        let current = allocation.renaming.current().is_none_or(|current| current.number == name);
        if current {
            return Ok(Listed { number, instance: allocation.vidmm });
        }
        let former = allocation.renaming.former().find(|instance| instance.name.number == name);
        match former {
            Some(instance) if !instance.retired => Ok(Listed { number, instance: instance.vidmm }),
            _ => Err(invalid("an instance of a renamed allocation that a later one has taken the place of")),
        }
    }

    /// Whether what a buffer that waited names is there still: an instance that was retired meanwhile keeps its content for it.
    pub fn is_listable(&self, listed: Listed) -> bool {
        let Some(allocation) = self.memory.allocations.get(listed.number) else { return false };
        let mut former = allocation.renaming.former();
        allocation.vidmm == listed.instance || former.any(|instance| instance.vidmm == listed.instance)
    }

    /// A list was submitted: of each allocation that it names, the instances before the one that it names are retired, except
    /// those of which it says that they will be named again.
    // spec: memory §6.5, memory §7.2, DoNotRetireInstance
    pub fn retire_instances(&mut self, cx: &Cx<'_>, list: &[ListEntry]) {
        let kept = |id: AllocationId| list.iter().any(|entry| entry.keeps && names(entry, id));
        for named in list.iter().filter_map(|entry| entry.allocation) {
            let former = self.memory.allocations[named.number].renaming.former();
            let before = former.take_while(|instance| instance.vidmm != named.instance);
            let over: Vec<AllocationId> =
                before.filter(|instance| !instance.retired && !kept(instance.vidmm)).map(|i| i.vidmm).collect();
            over.into_iter().for_each(|id| self.retire(cx, named.number, id));
        }
    }

    /// Nothing that was not submitted names any instance.
    // spec: memory §6.5, NoExistingReference
    pub(super) fn retire_all(&mut self, cx: &Cx<'_>, number: AllocationNumber) {
        let former = self.memory.allocations[number].renaming.former();
        let over: Vec<AllocationId> = former.filter(|instance| !instance.retired).map(|i| i.vidmm).collect();
        over.into_iter().for_each(|id| self.retire(cx, number, id));
    }

    fn retire(&mut self, cx: &Cx<'_>, number: AllocationNumber, id: AllocationId) {
        self.memory.allocations.retire(number, id);
        self.offer_instance(cx, number, id);
    }

    /// Offers an instance: from now on its memory goes before other allocations', behind the GPU's last use of it.
    // spec: memory §6.5: trimmed under pressure
    pub(super) fn offer_instance(&mut self, cx: &Cx<'_>, number: AllocationNumber, id: AllocationId) {
        if self.is_waited_for_a_turn_with(id) {
            // It is offered when that has its turn: paging never waits for what waits for paging.
            return;
        }
        let owner = self.owners.vidmm_of(self.memory.allocations[number].device);
        let (uses, how) = (self.gpu_uses(cx, id, false), OfferFlags { allow_decommit: true });
        let offered = self.vidmm.offer(owner, &[id], OfferPriority::Low, how, &uses);
        offered.expect("it cannot be locked or pinned, and only this offers it");
    }

    /// A buffer that waited for its turn names it no longer: if it was retired meanwhile, its memory may go now.
    pub fn offer_if_retired(&mut self, cx: &Cx<'_>, listed: Listed) {
        let Some(allocation) = self.memory.allocations.get(listed.number) else { return };
        let mut former = allocation.renaming.former();
        let retired = former.any(|instance| instance.vidmm == listed.instance && instance.retired);
        if retired && self.vidmm.offered(listed.instance).is_none() {
            self.offer_instance(cx, listed.number, listed.instance);
        }
    }
}

fn names(entry: &ListEntry, id: AllocationId) -> bool {
    entry.allocation.is_some_and(|listed| listed.instance == id)
}
