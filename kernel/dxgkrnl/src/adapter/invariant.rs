//! The rules between the objects of one adapter (`crate::invariant` has the table), and its part of a digest of the state.

use std::collections::BTreeSet;

use vidmm::{AllocationId, BrokenInvariant, StateDigest};
use wddm_types::{PageRun, ProcessId, RawHandle, WordAddress};

use crate::adapter::Adapter;
use crate::invariant::{Checked, ensure};
use crate::number::{CrossFenceNumber, DeviceNumber, FenceNumber, ResourceBodyNumber, SectionNumber, SyncObjectNumber};
use crate::object::Object;
use crate::quota::Commitments;

impl Adapter {
    /// The process that a handle of this object may be in; `None` for an opened adapter, which every process may have.
    pub fn process_of(&self, object: &Object) -> Option<ProcessId> {
        let of = |device: DeviceNumber| self.owners.facts_of(device).map(|facts| facts.process);
        match *object {
            Object::Adapter(_) => None,
            Object::Device(_, number) => of(number),
            Object::PagingQueue(_, number) => {
                of(self.memory.paging_queues.is_named(number).then(|| self.memory.paging_queues.device_of(number))?)
            }
            Object::Allocation(_, number) => of(self.memory.allocations.get(number)?.device),
            Object::Instance(_, number, name) => {
                let binding = self.memory.allocations.get(number)?;
                (1..=binding.renaming.names()).contains(&name).then_some(())?;
                of(binding.device)
            }
            Object::Resource(_, number) => of(self.memory.allocations.get_resource(number)?.device),
            Object::Context(_, number) => of(self.queues.context(number)?.device),
            Object::PacketContext(_, number) => of(self.packets.get(number)?.device),
            Object::Queue(_, number) => of(self.queues.get(number)?.device),
            Object::Doorbell(_, number) => of(self.queues.get(self.doorbells.queue_of(number)?)?.device),
            Object::Fence(_, number) => {
                let open = self.sync.open_if_there(number)?;
                (!self.sync.fence_if_there(open.fence)?.doomed).then_some(open.process)
            }
            Object::Legacy(_, number) => self.sync.process_of_open(number),
            Object::Section(_) | Object::Event(_) | Object::KeyedMutex(_) => None,
            Object::Registration(_, number) => of(self.memory.registrations.get(number)?.device),
        }
    }

    /// Everything here that a process may have a handle of.
    pub fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        let index = self.index;
        let devices = self.owners.devices().map(move |(number, _)| Object::Device(index, number));
        devices
            .chain(self.memory.paging_queues.fences().map(move |(number, _)| Object::PagingQueue(index, number)))
            .chain(self.memory.allocations.iter().map(move |(number, _)| Object::Allocation(index, number)))
            .chain(self.memory.allocations.resources().map(move |(number, _)| Object::Resource(index, number)))
            .chain(self.queues.contexts().map(move |(number, _)| Object::Context(index, number)))
            .chain(self.packets.contexts().map(move |(number, _)| Object::PacketContext(index, number)))
            .chain(self.queues.iter().map(move |(number, _)| Object::Queue(index, number)))
            .chain(self.doorbells.numbers().map(move |number| Object::Doorbell(index, number)))
            .chain(self.sync.fence_opens().map(move |number| Object::Fence(index, number)))
            .chain(self.sync.object_opens().map(move |number| Object::Legacy(index, number)))
            .chain(self.memory.registrations.iter().map(move |(number, _)| Object::Registration(index, number)))
    }

    /// `lent`: the pages of sections that are of its share.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn check_invariants(&self, lent: &[PageRun]) -> Checked {
        self.check_devices()?;
        self.check_bindings()?;
        self.check_fences()?;
        self.check_displays()?;
        self.check_holds()?;
        self.check_engine_power()?;
        let contradiction = self.contradiction();
        ensure(contradiction.is_none(), "figures", || contradiction.unwrap_or_default())?;
        let paging = self.owners.space_of(ProcessId::SYSTEM);
        self.memory.ring.check(paging).map_err(|place| BrokenInvariant { rule: "paging ring", place })?;
        let heard = self.doorbells.connected().filter(|_| self.life.is_off());
        ensure(heard.is_none(), "doorbells", || format!("connected in a sleep: {heard:?}"))?;
        // A stopped adapter builds nothing any more: the last words of its memory manager are void.
        let elsewhere: Vec<PageRun> = lent.iter().copied().chain(self.driver.grown_pages()).collect();
        self.vidmm.check_invariants(&elsewhere)
    }

    fn check_displays(&self) -> Checked {
        let broken = self.displays.broken_rule();
        ensure(broken.is_none(), "displays", || format!("a source breaks a rule: {broken:?}"))?;
        let loose = self.displays.primaries().into_iter().find(|id| !self.vidmm.is_pinned(*id));
        ensure(loose.is_none(), "displays", || format!("{loose:?} is shown and may move"))
    }

    fn check_devices(&self) -> Checked {
        let is_there = |device| self.owners.facts_of(device).is_some();
        let processes = self.owners.processes().map(|(process, _)| process);
        let checked = self.queues.check(is_there, |process| self.owners.has_process(process));
        let checked = checked.and_then(|()| self.packets.check_contexts(is_there));
        let checked = checked.and_then(|()| self.memory.paging_queues.check(is_there));
        let checked = checked.and_then(|()| self.memory.ring.check_stillnesses(is_there));
        let checked = checked.and_then(|()| self.sync.check_owners(processes, is_there));
        let checked = checked.and_then(|()| self.owners.check());
        let fault = checked.err();
        ensure(fault.is_none(), "devices", || fault.unwrap_or_default())
    }

    fn check_bindings(&self) -> Checked {
        let is_there = |device| self.owners.facts_of(device).is_some();
        self.memory.allocations.check(is_there).map_err(|place| BrokenInvariant { rule: "allocations", place })?;
        for instance in self.memory.allocations.with_dying().flat_map(|binding| binding.renaming.former()) {
            let offered = self.vidmm.offered(instance.vidmm).is_some();
            let may_go = instance.retired && !self.is_waited_for_a_turn_with(instance.vidmm);
            ensure(offered == may_go, "allocations", || format!("{instance:?}, offered: {offered}"))?;
        }
        let contexts = self.queues.contexts().flat_map(|(_, context)| &context.allocations);
        let packets = self.packets.contexts().flat_map(|(number, _)| self.packets.allocations(number));
        let of_contexts = contexts.chain(packets).chain(self.memory.allocations.for_contexts()).map(|made| made.vidmm);
        let instances = self.memory.allocations.with_dying().flat_map(|binding| binding.renaming.former());
        let without_body: BTreeSet<_> = of_contexts.chain(instances.map(|instance| instance.vidmm)).collect();
        for (id, owner) in self.vidmm.allocations() {
            let known = self.memory.allocations.body(id).is_some() || without_body.contains(&id);
            ensure(known, "allocations", || {
                format!("VidMm has {id:?} of {owner:?}, and no body, instance or context has it")
            })?;
        }
        for id in self.memory.cpu_view.unused() {
            let unused = self.vidmm.has_allocation(id) && !self.vidmm.uses_backing(id);
            ensure(unused, "allocations", || format!("{id:?} has gone, or its system pages are used and not lent"))?;
        }
        self.check_commitments()?;
        let counted = self.vidmm.allocations().count();
        ensure(counted >= self.memory.allocations.bodies().count(), "allocations", || {
            "a body that VidMm does not know".into()
        })
    }

    fn check_commitments(&self) -> Checked {
        let mut sums = Commitments::default();
        for (id, body) in self.memory.allocations.bodies().filter(|(_, body)| body.rare.section.is_none()) {
            sums.charge(body.creator, self.vidmm.allocation_bytes(id));
        }
        for binding in self.memory.allocations.with_dying() {
            for instance in binding.renaming.former() {
                sums.charge(
                    self.memory.allocations.body_of(binding.vidmm).creator,
                    self.vidmm.allocation_bytes(instance.vidmm),
                );
            }
        }
        ensure(sums.iter().eq(self.memory.committing.committed().iter()), "quotas", || {
            format!("{sums:?}, counted {:?}", self.memory.committing.committed())
        })?;
        let mut locked = Commitments::default();
        let seen = |id: &AllocationId| self.memory.cpu_view.of(*id).is_some() && self.video_bytes(*id) > 0;
        for (id, body) in self.memory.allocations.bodies().filter(|(id, _)| seen(id)) {
            locked.charge(body.creator, self.video_bytes(id));
        }
        ensure(locked.iter().eq(self.memory.cpu_view.locked().iter()), "quotas", || {
            format!("{locked:?} is locked, counted {:?}", self.memory.cpu_view.locked())
        })
    }

    fn check_fences(&self) -> Checked {
        self.sync.check_fences().map_err(|place| BrokenInvariant { rule: "fences", place })?;
        let queues = self.queues.iter().map(|(_, queue)| queue.progress);
        let paging = self.memory.paging_queues.fences().map(|(_, fence)| fence);
        let gone = queues.chain(paging).find(|fence| self.sync.fence_if_there(*fence).is_none());
        ensure(gone.is_none(), "fences", || format!("a queue without its fence {gone:?}"))
    }

    /// Its objects and memory, for a digest.
    pub fn add_to(&self, digest: &mut StateDigest) {
        digest.add("adapter", &self.index, &(self.life.why_stopped(), self.memory.ring.queued()));
        digest.include(self.vidmm.state_digest());
        self.owners.processes().for_each(|(id, value)| digest.add("process", &id.0, value));
        self.owners.devices().for_each(|(id, value)| digest.add("device", &id, value));
        self.memory.allocations.add_to(digest);
        self.queues.add_to(digest);
        self.doorbells.add_to(digest);
        self.memory.paging_queues.add_to(digest);
        self.sync.add_to(digest);
        self.memory.registrations.iter().for_each(|(id, value)| digest.add("registration", &id, value));
        self.packets.add_to(digest);
        let suspended: Vec<_> = self.vidsch.suspensions.suspended().collect();
        digest.add("suspended", &"", &suspended);
        digest.add("ranks", &"", &self.vidsch.ranks);
        self.displays.add_to(digest);
        self.memory.ring.add_to(digest);
    }
}

/// Its half of the rules about what several processes or adapters have: it says what it has of each, the machine compares.
impl Adapter {
    /// That each object without a word in memory counts its opens rightly, and its NT handles, of which it has so many.
    pub fn check_sync_objects(&self, names: impl Fn(SyncObjectNumber) -> usize) -> Checked {
        self.sync.check_objects(names).map_err(|place| BrokenInvariant { rule: "sync objects", place })
    }

    /// That each resource counts the NT handles that name it; `names` has so many.
    pub fn check_names_of_resources(&self, mut names: impl FnMut(ResourceBodyNumber) -> u32) -> Checked {
        for (number, body) in self.memory.allocations.resource_bodies() {
            let names = names(number);
            ensure(names == body.names(), "names", || format!("{number:?} has {names} names: {body:?}"))?;
        }
        Ok(())
    }

    /// That the adapter's own fence of one that several have, if it has one, is over its word.
    pub fn check_part_in(&self, cross: CrossFenceNumber, word: WordAddress) -> Checked {
        let Some(member) = self.sync.member(cross) else { return Ok(()) };
        let here = self.sync.fence_if_there(member);
        let sound = here.is_some_and(|here| here.cross() == Some(cross) && here.slot.current == word);
        let uses = self.sync.reaches_common_word(cross);
        ensure(sound && uses, "cross-adapter fences", || format!("{cross:?} on {}", self.index.0))
    }

    /// The fences of several adapters that it has, with its own of each.
    pub fn parts_in_common(&self) -> impl Iterator<Item = (CrossFenceNumber, FenceNumber)> + '_ {
        self.sync.members()
    }

    /// The global handle of a resource, if there is the resource.
    pub fn global_of_resource(&self, body: ResourceBodyNumber) -> Option<RawHandle> {
        self.memory.allocations.resource_body(body).map(|body| body.global())
    }

    /// The global handle of an object without a word in memory, if there is the object.
    pub fn global_of_sync_object(&self, object: SyncObjectNumber) -> Option<RawHandle> {
        self.sync.global_of(object)
    }

    /// The global handles of all that is here.
    pub fn globals(&self) -> impl Iterator<Item = RawHandle> + '_ {
        let bodies = self.memory.allocations.resource_bodies().map(|(_, body)| body.global());
        bodies.chain(self.sync.globals()).filter(|name| *name != RawHandle::NONE)
    }

    /// The sections in which allocations lie or that they are about to leave, one item for each use.
    pub fn uses_of_sections(&self) -> impl Iterator<Item = SectionNumber> + '_ {
        let lain = self.memory.allocations.bodies().filter_map(|(_, body)| body.rare.section);
        lain.chain(self.memory.ring.leaving_sections())
    }
}
