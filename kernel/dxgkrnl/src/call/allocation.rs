//! Calls about allocations and resources (memory §2.7, §2.8, §6.2, §6.7): handles become objects of the caller's,
//! lists are checked whole before anything changes.

use ddi::StandardAllocation;
use kmt_calls::{
    AllocationCall, AllocationRequest, AllocationTarget, Call, CreateAllocationFlags, CreatedAllocations, DestroyFlags,
    OpenedResource, Refusal, Reply, ResourceRequest, ShareName,
};
use wddm_types::{AdapterIndex, RawHandle};

use crate::allocation::Created;
use crate::call::keyed_mutex::Companions;
use crate::call::share::SharedResource;
use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::number::{DeviceNumber, SectionNumber};
use crate::object::Object;
use crate::quota::Kind;
use crate::refusal::invalid;
use crate::scarcity::{Lacking, NotCreated};

/// A standard allocation that was created for a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedSurface {
    /// A shared resource with one allocation, named in the table of the process.
    pub created: CreatedAllocations,
    /// Bytes from one row to the next; none of a surface that only the GPU reads.
    pub pitch_bytes: Option<u32>,
}

impl Turn<'_> {
    pub(super) fn on_allocation(&mut self, cx: &mut Cx<'_>, call: AllocationCall) -> Result<Answer, Refusal> {
        match call {
            AllocationCall::CreateAllocation { device: handle, allocations, resource } => {
                let (index, device) = self.live_device(handle)?;
                let created = self.create_allocations(cx, index, device, &allocations, &resource);
                let call = AllocationCall::CreateAllocation { device: handle, allocations, resource };
                created.map_err(|why| self.not_created(index, why, || Call::Allocation(call)))
            }
            AllocationCall::DestroyAllocation { device, target, flags } => {
                let (index, device) = self.device(device)?;
                self.about = Some(index);
                self.destroy_allocations(cx, index, device, &target, flags)
            }
            AllocationCall::OpenResource { device, share, keyed_mutex_data } => {
                let (index, device) = self.live_device(device)?;
                self.open_resource(cx, (index, device), share, keyed_mutex_data)
            }
            AllocationCall::QueryResourceInfo { device, share } => {
                let (index, _) = self.live_device(device)?;
                let SharedResource { body, .. } = self.resource_named(index, share)?;
                done(Reply::ResourceInfo(self.adapters[index].query_resource(body)?))
            }
            AllocationCall::DescribeAllocations { device, allocations, resource } => {
                let (index, device) = self.live_device(device)?;
                let known = match resource.resource {
                    RawHandle::NONE => None,
                    handle => Some(self.resource_of(index, device, handle)?),
                };
                let adapter = &mut self.adapters[index];
                done(Reply::AllocationSizes(adapter.allocation_sizes(cx, &allocations, &resource, known)?))
            }
        }
    }

    /// The refusal of a creation. Notes the lack: the machine has the call wait where memory is coming.
    pub(super) fn not_created(
        &mut self,
        adapter: AdapterIndex,
        why: NotCreated,
        call: impl FnOnce() -> Call,
    ) -> Refusal {
        match why {
            NotCreated::Refused(refusal) => refusal,
            NotCreated::Lacks(lack, refusal) => {
                self.lacking = Some(Box::new(Lacking { adapter, lack, call: call() }));
                refusal
            }
        }
    }

    fn create_allocations(
        &mut self,
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        device: DeviceNumber,
        requests: &[AllocationRequest],
        call: &ResourceRequest,
    ) -> Result<Answer, NotCreated> {
        let resource = match call.resource {
            RawHandle::NONE => None,
            handle => Some(self.resource_to_add_to(index, device, handle)?),
        };
        let across = call.flags.contains(CreateAllocationFlags::CROSS_ADAPTER);
        let mut existing = Vec::with_capacity(requests.len());
        for request in requests {
            existing.push(match request.existing {
                None => None,
                Some(range) => Some(self.sections.pages(self.section(range.section)?, range, index, across)?),
            });
        }
        let entered: Vec<SectionNumber> = existing.iter().flatten().map(|(_, section)| *section).collect();
        if call.flags.contains(CreateAllocationFlags::CREATE_SHARED) {
            self.room_for_global()?;
        }
        let adapter = &mut self.adapters[index];
        let created = adapter.create_allocations(cx, device, requests, call, resource, existing)?;
        entered.into_iter().for_each(|section| self.sections.enter(section));
        Ok(done(Reply::Allocations(self.name_created(cx, index, call.resource, created)?))?)
    }

    /// A surface that only the kernel asks for.
    // spec: memory §2.7
    pub(super) fn create_surface(
        &mut self,
        cx: &mut Cx<'_>,
        device: RawHandle,
        wanted: StandardAllocation,
    ) -> Result<CreatedSurface, Refusal> {
        let (index, device) = self.live_device(device)?;
        self.room_for_global()?;
        let adapter = &mut self.adapters[index];
        let (created, pitch_bytes) = adapter.create_surface(cx, device, wanted)?;
        Ok(CreatedSurface { created: self.name_created(cx, index, RawHandle::NONE, created)?, pitch_bytes })
    }

    /// Gives the caller handles of what was created, in a resource of its own or the one that it had: all, or nothing is left.
    fn name_created(
        &mut self,
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        given: RawHandle,
        created: Created,
    ) -> Result<CreatedAllocations, Refusal> {
        let fresh = created.resource.filter(|_| given == RawHandle::NONE);
        // spec: memory §2.7: a new resource has its handle before its allocations
        let mut objects: Vec<Object> = fresh.map(|number| Object::Resource(index, number)).into_iter().collect();
        objects.extend(created.allocations.iter().map(|(number, _)| Object::Allocation(index, *number)));
        match self.names(&objects) {
            Ok(mut handles) => {
                let named = fresh.map(|_| handles.remove(0));
                let global_share = fresh.map(|number| self.name_resource(index, number));
                Ok(CreatedAllocations {
                    resource: named.unwrap_or(given),
                    global_share: global_share.unwrap_or_default(),
                    flags: created.flags,
                    allocations: self.adapters[index].named(created.allocations, handles),
                })
            }
            Err(refusal) => {
                let adapter = &mut self.adapters[index];
                match fresh {
                    Some(resource) => adapter.destroy_resource(cx, resource, &[]),
                    None => created.allocations.iter().for_each(|(number, _)| {
                        adapter.destroy_allocation(cx, *number, &[]);
                    }),
                }
                Err(refusal)
            }
        }
    }

    fn open_resource(
        &mut self,
        cx: &mut Cx<'_>,
        (index, device): (AdapterIndex, DeviceNumber),
        share: ShareName,
        keyed_mutex_data: Vec<u8>,
    ) -> Result<Answer, Refusal> {
        let SharedResource { body, with } = self.resource_named(index, share)?;
        match with {
            Some((mutex, _)) => self.keyed_mutexes.check_data(mutex, &keyed_mutex_data)?,
            None if keyed_mutex_data.is_empty() => {}
            None => return Err(invalid("data for a keyed mutex: the resource was shared without one")),
        }
        // The keyed mutex and the synchronization object.
        self.room.take(Kind::SyncObjects, with.map_or(0, |_| 2))?;
        let opened = self.adapters[index].open_resource(cx, device, body)?;
        // spec: memory §2.7: the resource has its handle before its allocations
        let mut objects = vec![Object::Resource(index, opened.resource)];
        objects.extend(opened.allocations.iter().map(|(number, _)| Object::Allocation(index, *number)));
        let companions = self.open_companions(cx, (index, device), with, keyed_mutex_data);
        objects.extend(companions.into_iter().flat_map(Companions::objects));
        match self.names(&objects) {
            Ok(mut handles) => {
                let mut others = handles.split_off(1 + opened.allocations.len()).into_iter();
                let resource = handles.remove(0);
                let adapter = &mut self.adapters[index];
                let reply = Reply::OpenedResource(OpenedResource {
                    resource,
                    allocations: adapter.named(opened.allocations, handles),
                    private_data: opened.private_data,
                    runtime_data: opened.runtime_data,
                    keyed_mutex: others.next().unwrap_or(RawHandle::NONE),
                    sync_object: others.next().unwrap_or(RawHandle::NONE),
                });
                // Addresses of what is resident are good when the caller hears of them (memory §4.1).
                if opened.shown_later { Ok(adapter.after_ring(cx, self.token, reply)) } else { done(reply) }
            }
            Err(refusal) => {
                if let Some(companions) = companions {
                    self.close_companions(cx, companions);
                }
                self.adapters[index].destroy_resource(cx, opened.resource, &[]);
                Err(refusal)
            }
        }
    }

    fn destroy_allocations(
        &mut self,
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        device: DeviceNumber,
        target: &AllocationTarget,
        flags: DestroyFlags,
    ) -> Result<Answer, Refusal> {
        if *target == AllocationTarget::default() {
            // spec: memory §6.2: neither a resource nor a list is nothing to destroy
            return done(Reply::Done);
        }
        let targets = match target.resource != RawHandle::NONE && !target.allocations.is_empty() {
            true => self.resource_with_list(index, device, target)?,
            false => self.targets(index, device, target)?,
        };
        let adapter = &self.adapters[index];
        let mut once = targets.numbers.clone();
        once.sort_unstable();
        once.dedup();
        if once.len() != targets.numbers.len() {
            return Err(invalid("an allocation stands in the list twice"));
        }
        // spec: memory §6.2
        let mut resources = targets.numbers.iter().map(|number| adapter.resource_of(*number));
        let first = resources.next().flatten();
        if resources.any(|resource| resource != first) {
            return Err(invalid("a list with an allocation of a resource has only allocations of that resource"));
        }
        let names = targets.numbers.iter().flat_map(|number| adapter.instance_handles(*number));
        let names: Vec<RawHandle> = names.chain(target.allocations.iter().copied()).collect();
        let token = self.token;
        let answer =
            self.adapters[index].destroy_bindings(cx, token, device, &targets.numbers, targets.resource, flags)?;
        // Of a resource the caller names the resource alone.
        let dead = targets.numbers.iter().map(|number| Object::Allocation(index, *number));
        dead.for_each(|object| self.process.handles.remove_object(object));
        for handle in names {
            self.process.handles.remove(handle);
        }
        self.process.handles.remove(target.resource);
        Ok(answer)
    }

    /// Names all or nothing.
    fn names(&mut self, objects: &[Object]) -> Result<Vec<RawHandle>, Refusal> {
        let mut handles = Vec::with_capacity(objects.len());
        for object in objects {
            match self.name(*object) {
                Ok(handle) => handles.push(handle),
                Err(refusal) => {
                    for handle in handles {
                        self.process.handles.remove(handle);
                    }
                    return Err(refusal);
                }
            }
        }
        Ok(handles)
    }
}
