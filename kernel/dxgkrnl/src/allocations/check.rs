//! The relations between the lists of allocations, which the invariant checker asks for after each turn.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::StateDigest;

use super::{Allocations, OfDevice};
use crate::number::DeviceNumber;

/// What does not hold, and where.
type Checked = Result<(), String>;

impl Allocations {
    /// Bindings, bodies and resources count each other rightly, and devices that are there have them.
    ///
    /// # Errors
    /// The first relation that does not hold: a defect of the kernel.
    pub fn check(&self, is_there: impl Fn(DeviceNumber) -> bool) -> Checked {
        self.check_devices(is_there)?;
        for (number, binding) in self.bindings.iter() {
            let listed =
                |resource| self.resources.get(resource).is_some_and(|resource| resource.allocations.contains(&number));
            ensure(binding.resource.is_none_or(listed), || format!("{number:?} is of no resource"))?;
        }
        let all_of = count(self.with_dying().map(|binding| binding.vidmm));
        let living_of = count(self.bindings.iter().map(|(_, binding)| binding.vidmm));
        for (id, body) in &self.bodies {
            let [all, living] = [&all_of, &living_of].map(|counts| counts.get(id).copied().unwrap_or_default());
            let kept = all > 0 || self.is_kept(*id);
            let counted = (all, living) == (body.bindings as usize, body.living as usize) && kept;
            ensure(counted, || format!("{id:?}: {all} bindings, {living} alive, counted {body:?}"))?;
        }
        let stray = self.with_dying().find(|binding| !self.bodies.contains_key(&binding.vidmm));
        ensure(stray.is_none(), || format!("a binding without a body: {stray:?}"))?;
        let living: BTreeSet<_> = self.bindings.iter().map(|(number, binding)| (binding.vidmm, number)).collect();
        ensure(living == self.living, || format!("alive are {living:?}, found {:?}", self.living))?;
        self.check_resources()
    }

    fn check_devices(&self, is_there: impl Fn(DeviceNumber) -> bool) -> Checked {
        for (device, of) in &self.of_devices {
            let allocations = of
                .allocations
                .iter()
                .all(|number| self.bindings.get(*number).is_some_and(|known| known.device == *device));
            let resources = of
                .resources
                .iter()
                .all(|number| self.resources.get(*number).is_some_and(|known| known.device == *device));
            ensure(is_there(*device) && allocations && resources, || format!("{device:?} has not all of {of:?}"))?;
        }
        let listed = |of: fn(&OfDevice) -> usize| self.of_devices.values().map(of).sum::<usize>();
        let counts = (listed(|of| of.allocations.len()), listed(|of| of.resources.len()));
        let there = (self.bindings.iter().count(), self.resources.iter().count());
        ensure(counts == there, || format!("devices have {counts:?} allocations and resources, {there:?} are there"))
    }

    fn check_resources(&self) -> Checked {
        let living_of = count(self.resources.iter().map(|(_, resource)| resource.body));
        let dying_of = count(self.dying.iter().filter_map(|dying| dying.resource_body));
        for (number, body) in self.resource_bodies.iter() {
            let [living, dying] =
                [&living_of, &dying_of].map(|counts| counts.get(&number).copied().unwrap_or_default());
            let holds = body.holds as usize;
            let counted = living + dying == holds && living == body.living as usize && holds + body.names as usize > 0;
            ensure(counted, || format!("{number:?} has {living} holders, {dying} dying, and counts {body:?}"))?;
        }
        let bare = self.resources.iter().find(|(_, resource)| self.resource_bodies.get(resource.body).is_none());
        ensure(bare.is_none(), || format!("a resource without a body: {bare:?}"))
    }

    /// Adds all of it to a digest of the kernel's state.
    pub fn add_to(&self, digest: &mut StateDigest) {
        self.bodies.iter().for_each(|(id, value)| digest.add("body of", id, value));
        self.bindings.iter().for_each(|(id, value)| digest.add("allocation", &id, value));
        self.resources.iter().for_each(|(id, value)| digest.add("resource", &id, value));
        self.resource_bodies.iter().for_each(|(id, value)| digest.add("resource body", &id, value));
        self.of_devices.iter().for_each(|(device, of)| digest.add("allocations of device", device, of));
        // The groups alone: how many there have been is no state.
        digest.add("destroyed", &"", &self.dying.iter().collect::<Vec<_>>());
    }
}

/// How often each key comes: the checker counts once, for a fuzzer checks each turn of a kernel with hundreds of allocations.
fn count<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    keys.fold(BTreeMap::new(), |mut counts, key| {
        *counts.entry(key).or_default() += 1;
        counts
    })
}

fn ensure(holds: bool, place: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(place()) }
}
