//! The instances of renamed allocations change (memory §6.5). `lock` decides when; the states that an instance goes through are drawn
//! at `lock::instance`.

use vidmm::AllocationId;
use wddm_types::RawHandle;

use super::{Allocation, AllocationNumber, Allocations, Instance, InstanceName};

impl Allocations {
    /// Gives an allocation, whose own handle is `own`, a name for its next instance.
    pub fn give_name(&mut self, number: AllocationNumber, own: RawHandle, spare: InstanceName) {
        let renaming = &mut self.bindings[number].renaming;
        renaming.current.get_or_insert(InstanceName { handle: own, number: 0 });
        (renaming.spare, renaming.names) = (Some(spare), spare.number);
    }

    /// Takes the name back that was given last: the call that it was for is refused.
    pub fn take_name(&mut self, number: AllocationNumber) {
        let renaming = &mut self.bindings[number].renaming;
        renaming.spare = None;
        renaming.names -= 1;
        if renaming.names == 0 {
            renaming.current = None;
        }
    }

    /// No list may name a former instance any more.
    pub fn retire(&mut self, number: AllocationNumber, id: AllocationId) {
        let mut former = self.bindings[number].renaming.former.iter_mut();
        former.find(|instance| instance.vidmm == id).expect("it was found there").retired = true;
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
        let body = self.bodies.remove(&old).expect("a binding has its body");
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
