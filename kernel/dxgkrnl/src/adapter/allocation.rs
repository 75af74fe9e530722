//! Creation of allocations: the kernel checks each bit of the request, the driver describes it, the memory manager places it, the driver opens
//! it for the device, and it enters the lists that name it (memory §2.7). All or nothing. `allocation` has the rules of what may be asked,
//! `destroy` is the way back, `resource` shares what was created.

mod driver;
mod place;

use ddi::{KmdAllocation, KmdResource, StandardAllocation};
use events::Event;
use kmt_calls::{AllocationInfoFlags, AllocationRequest, CreateAllocationFlags, Refusal, ResourceRequest};
use vidmm::{AllocationId, Seldom};
use wddm_types::{ProcessId, VidPnSourceId};

use crate::adapter::Adapter;
use crate::allocation::{Created, Existing, Rows, check, check_lengths, rows};
use crate::allocations::{Allocation, Body, BodyRare, ResourceBody};
use crate::effect::Cx;
use crate::number::{AllocationNumber, DeviceNumber, ResourceNumber};
use crate::refusal::invalid;
use crate::scarcity::NotCreated;
use crate::store::ObjectNumber;
use driver::StandardData;

/// A creation whose private data are known.
struct Creation<'a> {
    requests: &'a [AllocationRequest],
    call: &'a ResourceRequest,
    /// The driver's private data of each allocation.
    blobs: Vec<Vec<u8>>,
    /// The driver wrote them: the caller has not seen them.
    is_standard: bool,
    /// The rows that its one allocation must have room for.
    rows: Option<Rows>,
}

impl Adapter {
    /// `D3DKMTCreateAllocation2`. `existing` stands beside the requests; the caller lets what is made enter its sections.
    // spec: memory §2.7
    pub fn create_allocations(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        requests: &[AllocationRequest],
        call: &ResourceRequest,
        resource: Option<ResourceNumber>,
        existing: Vec<Existing>,
    ) -> Result<Created, NotCreated> {
        self.check_create(requests, call, resource)?;
        let standard = self.staging_data(cx, requests, call)?;
        let is_standard = standard.is_some();
        let described;
        let (blobs, call): (Vec<Vec<u8>>, _) = match standard {
            Some(StandardData { allocation, resource: private_data, .. }) => {
                described = ResourceRequest { private_data, ..call.clone() };
                (vec![allocation], &described)
            }
            None => (requests.iter().map(|request| request.private_data.clone()).collect(), call),
        };
        let creation = Creation { requests, call, blobs, is_standard, rows: None };
        self.create_described(cx, device, creation, resource, existing)
    }

    /// A surface that only the kernel asks for: the one allocation of a new shared resource. With it its pitch, if it has one.
    // spec: memory §2.7
    pub fn create_surface(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        wanted: StandardAllocation,
    ) -> Result<(Created, Option<u32>), Refusal> {
        let rows = rows(wanted)?;
        let mut request = AllocationRequest::default();
        if let StandardAllocation::SharedPrimary { video_source, .. } = wanted {
            (request.flags, request.video_source) = (AllocationInfoFlags::PRIMARY, video_source);
        }
        let flags = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED;
        let mut call = ResourceRequest { flags, ..ResourceRequest::default() };
        self.check_create(std::slice::from_ref(&request), &call, None)?;
        let data = self.driver_data(cx, wanted)?;
        let rows = rows.with_pitch(data.pitch_bytes)?;
        let pitch = rows.are_seen().then_some(data.pitch_bytes);
        call.private_data = data.resource;
        let creation = Creation {
            requests: &[request],
            call: &call,
            blobs: vec![data.allocation],
            is_standard: true,
            rows: Some(rows),
        };
        let created = self.create_described(cx, device, creation, None, vec![None]);
        // No call asks for it that could be answered later.
        let created = created.map_err(NotCreated::into_refusal)?;
        if let (StandardAllocation::SharedPrimary { video_source, .. }, Some(resource)) = (wanted, created.resource) {
            let (body, allocations) = (self.body_of_resource(resource), &self.memory.allocations);
            let is_there = |body| allocations.resource_body(body).is_some();
            self.displays.shared_primary_made(VidPnSourceId(video_source), body, is_there);
        }
        Ok((created, pitch))
    }

    /// The rest of a creation, once the driver's private data are known.
    fn create_described(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        creation: Creation<'_>,
        resource: Option<ResourceNumber>,
        existing: Vec<Existing>,
    ) -> Result<Created, NotCreated> {
        let Creation { requests, call, mut blobs, is_standard, rows } = creation;
        let (infos, kmd_resource) = self.create_in_driver(cx, &blobs, call, resource)?;
        let undo = |adapter: &mut Adapter, cx: &Cx<'_>, why: NotCreated| {
            let made: Vec<KmdAllocation> = infos.iter().map(|info| info.allocation).collect();
            adapter.destroy_in_driver(cx, &made, kmd_resource, resource.is_none());
            why
        };
        if let Some(Err(refusal)) = rows.map(|rows| rows.check(&infos)) {
            return Err(undo(self, cx, refusal.into()));
        }
        let mut placed = match self.place(cx, device, requests, call, &infos, existing) {
            Ok(placed) => placed,
            Err(why) => return Err(undo(self, cx, why)),
        };
        let process = self.owners.process_of(device);
        let ids: Vec<AllocationId> = placed.iter().map(|(id, _)| *id).collect();
        let given = self.give_addresses(cx, process, &ids, true);
        if let Err(refusal) = given.and_then(|_| self.share_backing(cx, &ids)) {
            self.unplace(&mut placed);
            return Err(undo(self, cx, refusal.into()));
        }
        let before = blobs.clone();
        let opens = match self.open_in_driver(cx, device, &infos, &mut blobs, call) {
            Ok(opens) => opens,
            Err(refusal) => {
                self.unplace(&mut placed);
                return Err(undo(self, cx, refusal.into()));
            }
        };
        debug_assert!(opens.len() == placed.len() && blobs.len() == placed.len(), "all are opened, or none");
        let resource = self.enter_resource(device, resource, call, kmd_resource);
        let shared = call.flags.contains(CreateAllocationFlags::CREATE_SHARED);
        let mut allocations = Vec::with_capacity(placed.len());
        let placed = placed.into_iter().zip(requests);
        for ((((id, section), request), open), (blob, before)) in placed.zip(opens).zip(blobs.into_iter().zip(before)) {
            // The caller's data of a standard allocation are not the driver's: openers see the caller's.
            let own = is_standard && !request.private_data.is_empty();
            let changed = (blob != before || is_standard && !own).then(|| blob.clone());
            let resource_body = resource.map(|resource| self.memory.allocations.resource(resource).body);
            let primary = request.flags.contains(AllocationInfoFlags::PRIMARY);
            let rare = BodyRare {
                private_data: if shared { blob } else { Vec::new() },
                callers_data: (shared && own).then(|| request.private_data.clone()),
                section,
                primary: primary.then_some(VidPnSourceId(request.video_source)),
                pending: Vec::new(),
            };
            let body = Body::new(process, resource_body, rare);
            let (kmd, renaming) = (self.vidmm.kmd_handle(id), Seldom::default());
            let number = self.enter(cx, Allocation { device, vidmm: id, renaming, kmd, open, resource }, body);
            self.announce_address(cx, process, id, number);
            allocations.push((number, changed));
        }
        // The kernel clears all memory before a process sees it, whether or not the caller asks for that.
        let existing = requests.iter().any(|request| request.existing.is_some());
        let zeroed = if existing { CreateAllocationFlags::empty() } else { CreateAllocationFlags::ZEROED };
        Ok(Created { allocations, resource, flags: call.flags | zeroed })
    }

    /// Enters an allocation that the driver has opened, and its body, in all lists that name it; its number.
    fn enter(&mut self, cx: &mut Cx<'_>, allocation: Allocation, body: Body) -> AllocationNumber {
        let Allocation { device, vidmm: id, .. } = allocation;
        if body.rare.section.is_none() {
            self.memory.committing.charge(body.creator, self.vidmm.allocation_bytes(id));
        }
        let number = self.memory.allocations.enter(allocation, body);
        let size_bytes = self.vidmm.allocation_bytes(id);
        cx.emit(self.index, Event::AllocationCreated { device: device.raw(), allocation: number.raw(), size_bytes });
        number
    }

    fn check_create(
        &self,
        requests: &[AllocationRequest],
        call: &ResourceRequest,
        resource: Option<ResourceNumber>,
    ) -> Result<(), Refusal> {
        check(requests, call)?;
        // spec: memory §1.14, bit 4
        let across = call.flags.contains(CreateAllocationFlags::CROSS_ADAPTER);
        if across && !self.driver.has_cross_adapter_resources() {
            return Err(invalid("CrossAdapter needs a driver with CrossAdapterResource"));
        }
        check_lengths(requests, call)?;
        if let Some(resource) = resource {
            // spec: memory §2.7: never to a shared one
            if self.memory.allocations.body_of_resource(resource).shared {
                return Err(invalid("nothing can be added to a shared resource"));
            }
        }
        Ok(())
    }

    fn enter_resource(
        &mut self,
        device: DeviceNumber,
        resource: Option<ResourceNumber>,
        call: &ResourceRequest,
        kmd: KmdResource,
    ) -> Option<ResourceNumber> {
        if let Some(resource) = resource {
            // spec: memory §2.7: the driver may change it; of a creation that failed nothing is kept
            self.memory.allocations.renamed_by_driver(resource, kmd);
        }
        if resource.is_some() || !call.flags.contains(CreateAllocationFlags::CREATE_RESOURCE) {
            return resource;
        }
        let body = ResourceBody::new(self.owners.process_of(device), call, kmd);
        Some(self.memory.allocations.enter_resource(device, body))
    }

    /// Only the creating process may lock a shared allocation, and a process only so much that may lie in video memory. Further locks of
    /// what is locked, or what one waits for, cost nothing more.
    // spec: memory §6.3
    pub(super) fn may_lock(&self, number: AllocationNumber) -> Result<(), Refusal> {
        let process = self.process_of_binding(number);
        self.memory.allocations.may_lock(number, process)?;
        let id = self.memory.allocations[number].vidmm;
        let counts = self.memory.cpu_view.of(id).is_some() || self.awaited_locks(process).any(|awaited| awaited == id);
        match counts {
            true => Ok(()),
            false => self.memory.committing.may_lock(self.video_bytes(id)),
        }
    }

    /// The bytes of an allocation that may lie in video memory; 0 of one that never does.
    pub(super) fn video_bytes(&self, id: AllocationId) -> u64 {
        if self.vidmm.may_lie_in_memory(id) { self.vidmm.allocation_bytes(id) } else { 0 }
    }

    /// A process may not write a resource that another process shares for reading only.
    // spec: memory §2.7
    pub fn may_write(&self, number: AllocationNumber) -> Result<(), Refusal> {
        self.memory.allocations.may_write(number, self.process_of_binding(number))
    }

    fn process_of_binding(&self, number: AllocationNumber) -> ProcessId {
        self.owners.process_of(self.memory.allocations[number].device)
    }
}
