//! The instances of renamed allocations (memory §6.5, §7.2): their names, how long lists may name them, and how they change. `adapter::lock`
//! decides when.
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

use vidmm::AllocationId;
use wddm_types::RawHandle;

use super::{Allocation, Allocations, Instance, InstanceName, Renaming};
use crate::number::AllocationNumber;

impl Allocation {
    /// The instance that a list means by a name. `None`: a list has named a later one since.
    // spec: memory §6.5: once A(k+1) appears in a list, A(k) becomes invalid
    pub fn instance_named(&self, name: u32) -> Option<AllocationId> {
        if self.renaming.current().is_none_or(|current| current.number == name) {
            return Some(self.vidmm);
        }
        let former = self.renaming.former().find(|instance| instance.name.number == name);
        former.filter(|instance| !instance.retired).map(|instance| instance.vidmm)
    }
}

impl Renaming {
    /// The former instances that lists may name still, oldest first.
    pub fn valid(&self) -> impl Iterator<Item = AllocationId> + '_ {
        self.former().filter(|instance| !instance.retired).map(|instance| instance.vidmm)
    }

    /// Those of them that are older than an instance.
    pub fn valid_before(&self, id: AllocationId) -> impl Iterator<Item = AllocationId> + '_ {
        let before = self.former().take_while(move |instance| instance.vidmm != id);
        before.filter(|instance| !instance.retired).map(|instance| instance.vidmm)
    }

    /// Whether it is a former instance that no list may name any more.
    pub fn is_retired(&self, id: AllocationId) -> bool {
        self.former().any(|instance| instance.vidmm == id && instance.retired)
    }
}

impl Allocations {
    /// Gives an allocation, whose own handle is `own`, a name for its next instance.
    pub fn give_name(&mut self, number: AllocationNumber, own: RawHandle, spare: InstanceName) {
        let renaming = &mut self.bindings[number].renaming;
        renaming.current.get_or_insert(InstanceName { handle: own, number: 0 });
        (renaming.spare, renaming.names) = (Some(spare), spare.number);
    }

    /// Takes the name back that was given last: the call that it was for is refused. False: an instance has it, for the rename stands although
    /// the lock behind it was refused.
    // spec: memory §6.5
    #[must_use = "a name that was taken back leaves its process"]
    pub fn take_name(&mut self, number: AllocationNumber) -> bool {
        let renaming = &mut self.bindings[number].renaming;
        let Some(spare) = renaming.spare else { return false };
        renaming.spare = None;
        debug_assert_eq!(spare.number, renaming.names, "the spare name was given last");
        renaming.names -= 1;
        if renaming.names == 0 {
            renaming.current = None;
        }
        true
    }

    /// No list may name a former instance any more.
    pub fn retire(&mut self, number: AllocationNumber, id: AllocationId) {
        let mut former = self.bindings[number].renaming.former.iter_mut();
        former.find(|instance| instance.vidmm == id).expect("it was found there").retired = true;
    }

    /// Whether an allocation has an instance, the current one or a former: one that was retired keeps its content for a buffer that waited.
    pub fn has_instance(&self, number: AllocationNumber, id: AllocationId) -> bool {
        let has = |known: &Allocation| known.vidmm == id || known.renaming.former().any(|former| former.vidmm == id);
        self.get(number).is_some_and(has)
    }

    /// The moves of an instance are told under its allocation's number from now on.
    pub fn tell_as(&mut self, id: AllocationId, number: AllocationNumber) {
        self.numbers.insert(id, number);
    }

    /// Nothing more is told of an instance.
    pub fn tell_no_more(&mut self, id: AllocationId) {
        self.numbers.remove(&id);
    }

    /// Makes an instance the current one: the body goes with it, and in its resource it is a member in the old one's place. `fresh`: it is
    /// new, and the spare name is its name. Returns how many there are now.
    pub fn switch(&mut self, number: AllocationNumber, (id, name): (AllocationId, InstanceName), fresh: bool) -> u32 {
        let Allocation { vidmm: old, resource, .. } = self.bindings[number];
        let mut body = self.bodies.remove(&old).expect("a binding has its body");
        self.numbers.insert(old, body.told_as);
        body.told_as = self.numbers.remove(&id).expect("an instance was told of before it is the current one");
        self.bodies.insert(id, body);
        if let Some(resource) = resource {
            let body = self.resources[resource].body;
            let members = &mut self.resource_bodies[body].members;
            members.iter_mut().filter(|member| **member == old).for_each(|member| *member = id);
        }
        self.living.remove(&(old, number));
        self.living.insert((id, number));
        let allocation = &mut self.bindings[number];
        allocation.vidmm = id;
        let renaming = &mut allocation.renaming;
        let name = renaming.current.replace(name).expect("what is renamed has names");
        renaming.spare = renaming.spare.filter(|_| !fresh);
        renaming.former.retain(|instance| instance.vidmm != id);
        renaming.former.push_back(Instance { vidmm: old, name, retired: false });
        // CAST: instances are counted in ones.
        renaming.former.len() as u32 + 1
    }
}
