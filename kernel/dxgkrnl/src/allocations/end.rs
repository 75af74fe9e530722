//! Allocations and resources go. Destroying ends a binding for its device at once; the binding is *buried* when the commands queued before
//! are done with it, and the body ends with its last binding, or with the last name that kept it.

use std::collections::BTreeSet;

use ddi::{KmdAllocation, KmdResource};
use gpu_fence::FenceId;
use vidmm::AllocationId;
use wddm_types::{FencePoint, RawHandle};

use super::{Allocation, Allocations, Body, DestructionNumber, Dying};
use crate::hold::Hold;
use crate::number::{AllocationNumber, DeviceNumber, ResourceBodyNumber, ResourceNumber, Token};

/// The objects that the driver destroys when no name is left.
#[derive(Default)]
pub struct Gone {
    pub allocations: Vec<KmdAllocation>,
    pub resource: KmdResource,
    pub with_resource: bool,
}

/// What a device's hold on a resource, or the last name of it, leaves behind.
#[must_use]
pub struct Ended {
    /// The driver's part.
    pub gone: Option<Gone>,
    /// The resource's global handle, which names nothing any more.
    pub global: Option<RawHandle>,
}

impl Allocations {
    /// A device has destroyed a binding: its number is dead.
    pub fn destroy(&mut self, number: AllocationNumber) -> Allocation {
        let binding = self.bindings.remove(number).expect("an allocation is destroyed once");
        let alive = self.living.remove(&(binding.vidmm, number));
        debug_assert!(alive, "what is destroyed was alive by its memory: {number:?}");
        let listed = self.change(binding.device, |of| of.allocations.remove(&number));
        debug_assert!(listed, "a device is listed with its bindings: {number:?}");
        if let Some(resource) = binding.resource {
            self.resources[resource].allocations.retain(|member| *member != number);
        }
        binding
    }

    /// A device has destroyed its resource: the body, which has the device on its lists until the resource is buried.
    pub fn destroy_resource(&mut self, number: ResourceNumber) -> ResourceBodyNumber {
        let gone = self.resources.remove(number).expect("a resource is destroyed once");
        let listed = self.change(gone.device, |of| of.resources.remove(&number));
        debug_assert!(listed, "a device is listed with its resources: {number:?}");
        debug_assert!(gone.allocations.is_empty(), "the bindings of a resource go first: {gone:?}");
        let body = &mut self.resource_bodies[gone.body];
        debug_assert!((1..=body.holds).contains(&body.living), "who has not destroyed it has it: {body:?}");
        body.living -= 1;
        gone.body
    }

    /// These bindings are destroyed, and `after` may still use them.
    pub fn lose(&mut self, bindings: &[Allocation], after: &[FencePoint<FenceId>]) {
        for binding in bindings {
            let body = self.bodies.get_mut(&binding.vidmm).expect("a binding has its body");
            debug_assert!((1..=body.bindings).contains(&body.living), "a living binding is a binding: {body:?}");
            body.living -= 1;
            if !after.is_empty() {
                body.rare.pending.extend(after.iter().copied());
            }
        }
    }

    /// The last uses of an allocation that every binding has destroyed and no name keeps, once: it stays only for these.
    pub fn take_last_uses(&mut self, id: AllocationId) -> Option<Vec<FencePoint<FenceId>>> {
        if self.is_kept(id) {
            return None;
        }
        let body = self.bodies.get_mut(&id).filter(|body| body.living == 0)?;
        Some(if body.rare.pending.is_empty() { Vec::new() } else { std::mem::take(&mut body.rare.pending) })
    }

    /// Destroyed bindings wait for their last use.
    pub fn wait(&mut self, dying: Dying) {
        self.dying.add(dying);
    }

    /// What ends the wait of each destruction that a call waits for.
    pub fn holds(&self) -> impl Iterator<Item = Hold> + '_ {
        self.dying.holds()
    }

    /// Whether nothing waits for its last use.
    pub fn none_wait(&self) -> bool {
        self.dying.is_empty()
    }

    /// How many destructions wait for a last use.
    pub fn destructions(&self) -> usize {
        self.dying.len()
    }

    /// Whether the destruction that came last waits, and a call for it.
    pub fn last_waits_for(&self, token: Token) -> bool {
        self.dying.last().is_some_and(|dying| dying.answer == Some(token))
    }

    /// The points of the destructions that no wait of the kernel watches yet. The kernel watches them from now on: calls wait for what
    /// they give back.
    pub fn watch(&mut self) -> Vec<Vec<FencePoint<FenceId>>> {
        self.dying.watch()
    }

    /// Whether the kernel watches the points of a destruction for what it gives back.
    pub fn is_watched(&self, number: DestructionNumber) -> bool {
        self.dying.is_watched(number)
    }

    /// The destructions whose last use is over, in the order in which they came; each has to be taken.
    #[must_use]
    pub fn over(&mut self, is_past: impl Fn(&FencePoint<FenceId>) -> bool) -> Vec<DestructionNumber> {
        self.dying.over(is_past)
    }

    /// The calls that wait for destructions wait no more; the destructions stay.
    #[must_use = "the calls are answered"]
    pub fn take_answers(&mut self) -> Vec<Token> {
        self.dying.take_answers()
    }

    /// Takes a destruction out that waits no more.
    pub fn take(&mut self, number: DestructionNumber) -> Dying {
        self.dying.take(number)
    }

    /// The destructions of a device that wait, in the order in which they came.
    pub fn waiting_of(&self, device: DeviceNumber) -> Vec<DestructionNumber> {
        self.dying.of_device(device)
    }

    /// One binding is buried. `true`: it was the last one, and no name keeps the body, which ends.
    #[must_use]
    pub fn bury(&mut self, id: AllocationId) -> bool {
        let kept = self.is_kept(id);
        let body = self.bodies.get_mut(&id).expect("a binding has its body");
        debug_assert!(body.living < body.bindings, "what is buried was destroyed before: {body:?}");
        body.bindings -= 1;
        body.bindings == 0 && !kept
    }

    /// An allocation that nothing names, or uses, any more ends.
    pub fn end(&mut self, id: AllocationId) -> Body {
        let body = self.bodies.remove(&id).expect("an allocation ends once");
        debug_assert!((body.bindings, body.living) == (0, 0), "an allocation ends behind its last binding: {body:?}");
        // What moves until it is buried is told under the same number.
        self.numbers.insert(id, body.told_as);
        body
    }

    /// Whether a body has no bindings left, destroyed ones among them; `None`: the body has ended.
    pub fn is_unbound(&self, id: AllocationId) -> Option<bool> {
        self.bodies.get(&id).map(|body| body.bindings == 0)
    }

    /// The devices of the other bindings of a buried one's body: first of those that are not destroyed.
    pub fn others(&self, buried: &Allocation) -> impl Iterator<Item = DeviceNumber> {
        let body = self.body_of(buried.vidmm);
        let dying = (body.bindings > body.living).then(|| self.dying.bindings());
        let dying = dying.into_iter().flatten().filter(|other| other.vidmm == buried.vidmm);
        self.living_of(buried.vidmm).chain(dying).map(|other| other.device)
    }

    /// A device's hold on a resource ends; with the last, and the last name, the driver forgets the resource.
    pub fn leave_resource(&mut self, body: Option<ResourceBodyNumber>, allocations: Vec<KmdAllocation>) -> Ended {
        match body {
            Some(number) => {
                let body = &mut self.resource_bodies[number];
                debug_assert!(body.living < body.holds, "who leaves a resource has destroyed it before: {body:?}");
                body.holds -= 1;
                self.end_resource(number, allocations)
            }
            None => {
                let gone = (!allocations.is_empty()).then(|| Gone { allocations, ..Gone::default() });
                Ended { gone, global: None }
            }
        }
    }

    /// The driver's part of a destroyed resource: these allocations, and the resource itself if no device holds it and no name keeps it.
    pub fn end_resource(&mut self, number: ResourceBodyNumber, allocations: Vec<KmdAllocation>) -> Ended {
        let body = &self.resource_bodies[number];
        let mut gone = Gone { allocations, resource: body.kmd, with_resource: false };
        let mut global = None;
        if body.holds == 0 && body.names == 0 {
            let body = self.resource_bodies.remove(number).expect("just seen");
            debug_assert_eq!(body.living, 0, "no device has a resource that ends");
            global = Some(body.global).filter(|name| *name != RawHandle::NONE);
            gone.with_resource = body.kmd.0 != 0;
        }
        Ended { gone: (!gone.allocations.is_empty() || gone.with_resource).then_some(gone), global }
    }

    /// The destructions that wait for a last use, in the order in which they came.
    pub fn waiting(&self) -> impl Iterator<Item = (DestructionNumber, &Dying)> {
        self.dying.numbered()
    }

    /// The destroyed allocations that only queued work keeps, each once, without those for which a destruction waits that `stands`.
    pub fn ending(&self, stands: impl Fn(DestructionNumber) -> bool) -> impl Iterator<Item = &Allocation> {
        let mut passed: BTreeSet<AllocationId> = self.ids_of(stands).collect();
        let ends = |id| self.bodies[&id].living == 0 && !self.is_kept(id);
        self.dying.bindings().filter(move |binding| ends(binding.vidmm) && passed.insert(binding.vidmm))
    }

    /// The allocations for which a destruction waits that `stands`; one for each binding.
    pub fn ids_of(&self, stands: impl Fn(DestructionNumber) -> bool) -> impl Iterator<Item = AllocationId> {
        let of = self.dying.numbered().filter(move |(number, _)| stands(*number));
        of.flat_map(|(_, dying)| &dying.bindings).map(|binding| binding.vidmm)
    }
}
