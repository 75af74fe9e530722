//! Creation of allocations: the kernel checks each bit of the request, the driver describes it, VidMm places it, the driver opens it for
//! the device (memory §2.7). All or nothing. Destruction is `destroy`, sharing is `resource`.

mod driver;
mod existing;
mod flags;
mod standard;

use ddi::{KmdAllocation, KmdResource};
use events::Event;
use kmt_calls::{AllocationInfoFlags, AllocationRequest, CreateAllocationFlags, Refusal, ResourceRequest};
use vidmm::{AllocationError, AllocationId, Origin};
use wddm_types::{Blame, NtStatus, PAGE_BYTES, PageRun, VidPnSourceId};

use crate::adapter::Adapter;
use crate::allocations::{Allocation, AllocationNumber, Body, Renaming, ResourceBody, ResourceNumber};
use crate::effect::Cx;
use crate::memory::LIST_MAX;
use crate::number::{DeviceNumber, SectionNumber};
use crate::refusal::{invalid, no_memory, not_supported, refuse};
use crate::scarcity::{Lack, NotCreated};
use crate::store::ObjectNumber;
use standard::{Rows, StandardData};

/// Most bytes of a driver's private data, per allocation and per call: as many as of a runtime's. No capability of a driver says how many
/// it takes.
const PRIVATE_DATA_MAX: usize = 65536;
/// Most of all allocations of a call together: a process that opens them is told the sum in 32 bits.
const PRIVATE_DATA_ALL_MAX: usize = 1 << 30;
/// Most bytes of a runtime's data per resource.
const RUNTIME_DATA_MAX: usize = 65536;

/// The result of a creation: numbers of bindings with their private data, and the resource.
pub struct Created {
    /// Binding and private data, if the driver changed them.
    pub allocations: Vec<(AllocationNumber, Option<Vec<u8>>)>,
    /// The device's resource, if there is one.
    pub resource: Option<ResourceNumber>,
    /// Flags as completed.
    pub flags: CreateAllocationFlags,
}

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

/// Memory that exists already, resolved: its pages, and the section that they belong to.
pub type Existing = Option<(Vec<PageRun>, SectionNumber)>;

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
        let resource = self.enter_resource(device, resource, call, kmd_resource);
        let shared = call.flags.contains(CreateAllocationFlags::CREATE_SHARED);
        let mut allocations = Vec::with_capacity(placed.len());
        let placed = placed.into_iter().zip(requests);
        for ((((id, section), request), open), (blob, before)) in placed.zip(opens).zip(blobs.into_iter().zip(before)) {
            // The caller's data of a standard allocation are not the driver's: openers see the caller's.
            let own = is_standard && !request.private_data.is_empty();
            let changed = (blob != before || is_standard && !own).then(|| blob.clone());
            let resource_body = resource.map(|resource| self.memory.allocations.resource(resource).body);
            let mut body = Body::new(process, resource_body);
            body.private_data = if shared { blob } else { Vec::new() };
            body.callers_data = (shared && own).then(|| request.private_data.clone());
            body.section = section;
            let primary = request.flags.contains(AllocationInfoFlags::PRIMARY);
            body.primary = primary.then_some(VidPnSourceId(request.video_source));
            let (kmd, renaming) = (self.vidmm.kmd_handle(id), Renaming::default());
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
        if body.section.is_none() {
            self.memory.committing.charge(body.creator, self.vidmm.allocation_bytes(id));
        }
        let number = self.memory.allocations.enter(allocation, body);
        self.devices[device].allocations.insert(number);
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
        flags::check(requests, call)?;
        // spec: memory §1.14, bit 4
        let across = call.flags.contains(CreateAllocationFlags::CROSS_ADAPTER);
        if across && !self.driver.has_cross_adapter_resources() {
            return Err(invalid("CrossAdapter needs a driver with CrossAdapterResource"));
        }
        self.check_lengths(requests, call)?;
        if let Some(resource) = resource {
            // spec: memory §2.7: never to a shared one
            if self.memory.allocations.body_of_resource(resource).shared {
                return Err(invalid("nothing can be added to a shared resource"));
            }
        }
        Ok(())
    }

    fn check_lengths(&self, requests: &[AllocationRequest], call: &ResourceRequest) -> Result<(), Refusal> {
        if requests.len() > LIST_MAX {
            return Err(invalid(format!("a call creates at most {LIST_MAX} allocations, not {}", requests.len())));
        }
        if call.runtime_data.len() > RUNTIME_DATA_MAX {
            return Err(invalid(format!("runtime data of {} bytes", call.runtime_data.len())));
        }
        let blobs = requests.iter().map(|request| &request.private_data).chain([&call.private_data]);
        if let Some(blob) = blobs.into_iter().find(|blob| blob.len() > PRIVATE_DATA_MAX) {
            return Err(invalid(format!("private data of {} bytes; at most {PRIVATE_DATA_MAX}", blob.len())));
        }
        let all: usize = requests.iter().map(|request| request.private_data.len()).sum();
        if all > PRIVATE_DATA_ALL_MAX {
            let most = PRIVATE_DATA_ALL_MAX;
            return Err(invalid(format!(
                "private data of {all} bytes in a call; at most {most}: create them in several calls"
            )));
        }
        Ok(())
    }

    /// VidMm's part: all or none.
    fn place(
        &mut self,
        cx: &Cx<'_>,
        device: DeviceNumber,
        requests: &[AllocationRequest],
        call: &ResourceRequest,
        infos: &[ddi::AllocationInfo],
        existing: Vec<Existing>,
    ) -> Result<Vec<(AllocationId, Option<SectionNumber>)>, NotCreated> {
        let owner = self.owners.vidmm_of(device);
        let mut wanted = Vec::with_capacity(infos.len());
        let mut sections = Vec::with_capacity(infos.len());
        for ((info, request), existing) in infos.iter().zip(requests).zip(existing) {
            self.check_notices(info)?;
            self.check_shared_backing(info, call)?;
            sections.push(existing.as_ref().map(|(_, section)| *section));
            let origin = Origin {
                primary: request.flags.contains(AllocationInfoFlags::PRIMARY),
                existing: existing.map(|(pages, _)| pages),
            };
            let mut info = completed(*info, request, call);
            if origin.existing.is_some() && !info.flags.contains(ddi::AllocationFlags::EXISTING_SYS_MEM) {
                // A driver that knows of such memory, or is asked for it, says itself where it may lie: copies are brought by locks.
                if !call.is_standard() {
                    self.keep_in_system(&mut info)?;
                }
                info.flags |= ddi::AllocationFlags::EXISTING_SYS_MEM;
            }
            wanted.push((info, origin));
        }
        let checked = self.vidmm.check_allocations(&wanted);
        checked.map_err(|error| self.told_apart(from_allocation(&error), wanted.iter().map(|(info, _)| info)))?;
        let fresh = || wanted.iter().filter(|(_, origin)| origin.existing.is_none());
        // VidMm rounds the sizes that it has checked to pages.
        let bytes = fresh().map(|(info, _)| info.size_bytes.next_multiple_of(PAGE_BYTES)).sum();
        let files = fresh().count() as u64 * self.files_of_one(cx);
        self.memory.committing.may_commit(bytes, files)?;
        let mut placed: Vec<(AllocationId, Option<SectionNumber>)> = Vec::with_capacity(infos.len());
        for ((info, origin), section) in wanted.into_iter().zip(sections) {
            match self.vidmm.create_allocation_from(owner, info, origin) {
                Ok(id) => {
                    // Memory that existed has been lent as what it is.
                    if section.is_none() {
                        self.provide_backing(cx, id);
                    }
                    placed.push((id, section));
                }
                Err(error) => {
                    self.unplace(&mut placed);
                    return Err(self.told_apart(from_allocation(&error), infos.iter()));
                }
            }
        }
        Ok(placed)
    }

    /// Takes back what was placed before a refusal.
    fn unplace(&mut self, placed: &mut Vec<(AllocationId, Option<SectionNumber>)>) {
        for (id, _) in placed.drain(..) {
            self.memory.cpu_view.forget(id);
            assert!(self.vidmm.destroy_allocation(id, &[]).is_none(), "no work has used it");
        }
    }

    /// Refuses an allocation whose driver wants eviction notices that its paging buffers cannot carry.
    // spec: memory §3.4, operation 22: the driver is shown its pages by an address of the paging process
    fn check_notices(&self, info: &ddi::AllocationInfo) -> Result<(), Refusal> {
        let notified = info.flags2.contains(ddi::AllocationFlags2::NOTIFY_EVICTION);
        if notified && !self.memory.ring.has_addresses() {
            return Err(invalid("NotifyEviction needs paging buffers that run in an address space"));
        }
        Ok(())
    }

    // spec: memory §2.2, bit 0 of DXGK_ALLOCATIONINFOFLAGS2
    fn check_shared_backing(&self, info: &ddi::AllocationInfo, call: &ResourceRequest) -> Result<(), Refusal> {
        if !info.flags2.contains(ddi::AllocationFlags2::SHARE_BACKING_STORE_WITH_KMD) {
            return Ok(());
        }
        if !self.driver.has_feature(ddi::FeatureId::SHARE_BACKING_STORE_WITH_KMD) {
            return Err(invalid("ShareBackingStoreWithKmd needs its feature, which is off"));
        }
        if !call.flags.contains(CreateAllocationFlags::CREATE_SHARED) {
            return Err(invalid("ShareBackingStoreWithKmd is for shared allocations"));
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
        let number = self.memory.allocations.enter_resource(device, body);
        self.devices[device].resources.insert(number);
        Some(number)
    }

    /// Only the creating process may lock a shared allocation.
    // spec: memory §6.3
    pub fn may_lock(&self, number: AllocationNumber) -> Result<(), Refusal> {
        if self.memory.allocations.is_creator(number, self.owners.process_of(self.memory.allocations[number].device)) {
            Ok(())
        } else {
            Err(invalid("only the process that created a shared allocation may lock it"))
        }
    }

    /// A process may not write a resource that another process shares for reading only.
    // spec: memory §2.7
    pub fn may_write(&self, number: AllocationNumber) -> Result<(), Refusal> {
        let process = self.owners.process_of(self.memory.allocations[number].device);
        match self.memory.allocations.resource_of(number) {
            Some(resource) if resource.read_only && resource.creator != process => {
                Err(crate::refusal::access_denied("the resource was shared for reading"))
            }
            _ => Ok(()),
        }
    }
}

/// The driver's description with what the caller and the kernel add to it.
fn completed(
    mut info: ddi::AllocationInfo,
    request: &AllocationRequest,
    call: &ResourceRequest,
) -> ddi::AllocationInfo {
    // spec: memory §2.7, bit 2 of D3DDDI_ALLOCATIONINFO2
    if request.flags.contains(AllocationInfoFlags::OVERRIDE_PRIORITY) {
        info.priority = request.priority;
    }
    if call.flags.contains(CreateAllocationFlags::NO_IMPLICIT_SYNCHRONIZATION) {
        info.flags2 |= ddi::AllocationFlags2::NO_IMPLICIT_SYNCHRONIZATION;
    }
    info
}

// spec: memory §9.2
fn from_allocation(error: &AllocationError) -> NotCreated {
    NotCreated::Refused(match error {
        AllocationError::NoBackingStore { wanted, .. } => {
            return NotCreated::Lacks(Lack::Pages(*wanted), no_memory(error.to_string()));
        }
        // spec: memory §9.2: the segments are exhausted, and nothing that goes would make room
        AllocationError::TooLarge => refuse(NtStatus::GRAPHICS_NO_VIDEO_MEMORY, Blame::Caller, error.to_string()),
        AllocationError::NotBuilt(_) | AllocationError::PhysicalAdapter => not_supported(error.to_string()),
        _ => invalid(error.to_string()),
    })
}
