//! The instances of a renamed allocation that calls and lists name (memory §6.5, §7.2). `allocations` draws the states that an instance goes
//! through; here a retired one is offered to the memory manager as worthless, behind the GPU's last use of it. `rename` makes and
//! changes instances.

use kmt_calls::Refusal;
use vidmm::{AllocationId, OfferFlags, OfferPriority};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::AllocationNumber;
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
        let known = self.memory.allocations[number].instance_named(name);
        let gone = || invalid("an instance of a renamed allocation that a later one has taken the place of");
        Ok(Listed { number, instance: known.ok_or_else(gone)? })
    }

    /// A list was submitted: of each allocation that it names, the instances before the one that it names are retired, except
    /// those of which it says that they will be named again.
    // spec: memory §6.5, memory §7.2, DoNotRetireInstance
    pub(in crate::adapter) fn retire_instances(&mut self, cx: &Cx<'_>, list: &[ListEntry]) {
        let kept = |id: AllocationId| list.iter().any(|entry| entry.keeps && names(entry, id));
        for named in list.iter().filter_map(|entry| entry.allocation) {
            let former = self.memory.allocations[named.number].renaming.valid_before(named.instance);
            let over: Vec<AllocationId> = former.filter(|id| !kept(*id)).collect();
            over.into_iter().for_each(|id| self.retire(cx, named.number, id));
        }
    }

    /// Nothing that was not submitted names any instance.
    // spec: memory §6.5, NoExistingReference
    pub(super) fn retire_all(&mut self, cx: &Cx<'_>, number: AllocationNumber) {
        let over: Vec<AllocationId> = self.memory.allocations[number].renaming.valid().collect();
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
    pub(in crate::adapter) fn offer_if_retired(&mut self, cx: &Cx<'_>, listed: Listed) {
        let Some(allocation) = self.memory.allocations.get(listed.number) else { return };
        let retired = allocation.renaming.is_retired(listed.instance);
        if retired && self.vidmm.offered(listed.instance).is_none() {
            self.offer_instance(cx, listed.number, listed.instance);
        }
    }
}

fn names(entry: &ListEntry, id: AllocationId) -> bool {
    entry.allocation.is_some_and(|listed| listed.instance == id)
}
