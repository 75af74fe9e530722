//! Allocations and resources of one process: creation, destruction, priorities, residency.

use d3dkmt_abi::*;
use kmt_calls::{
    AllocationCall, AllocationInfoFlags, AllocationRequest, AllocationTarget, Call, CreateAllocationFlags,
    CreatedAllocation, DestroyFlags, PropertyCall, PropertyFlags, PropertyMask, PropertyRequest, Refusal, Reply,
    Residency, ResourceRequest, SectionRange,
};
use wddm_types::{NtStatus, PAGE_BYTES, RawHandle, SegmentSet};

use crate::border::{Answer, Caller, ResultBuffer};
use crate::handle::{event_or_section, handles};
use crate::program_memory::{Given, give};
use crate::refusal::{expect_reply, invalid};
use crate::residency::at;

/// `D3DKMTCreateAllocation`: descriptions of the first form.
pub fn create_allocation(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATEALLOCATION) -> Answer {
    let array = arguments.Anonymous2.pAllocationInfo();
    let mut infos = caller.array(array, arguments.NumAllocations)?;
    let room = caller.room(array, arguments.NumAllocations)?;
    let descriptions = infos.iter().map(|info| Description {
        existing: info.pSystemMem.cast_mut(),
        private_data: info.pPrivateDriverData,
        private_data_size: info.PrivateDriverDataSize,
        video_source: info.VidPnSourceId,
        flags: info.Flags.Value,
        priority: 0,
    });
    let created = create(caller, arguments, descriptions.collect())?;
    for (info, created) in infos.iter_mut().zip(created) {
        info.hAllocation = created.handle.0;
    }
    room.write(&infos);
    Ok(NtStatus::SUCCESS)
}

/// `D3DKMTCreateAllocation2`: descriptions of the second form.
pub fn create_allocation2(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATEALLOCATION) -> Answer {
    let array = arguments.Anonymous2.pAllocationInfo2();
    let mut infos = caller.array(array, arguments.NumAllocations)?;
    let room = caller.room(array, arguments.NumAllocations)?;
    if infos.iter().any(|info| info.Reserved != [0; 5]) {
        return Err(invalid("Reserved of an allocation is not 0"));
    }
    let descriptions = infos.iter().map(|info| Description {
        existing: info.Anonymous1.hSection(),
        private_data: info.pPrivateDriverData,
        private_data_size: info.PrivateDriverDataSize,
        video_source: info.VidPnSourceId,
        flags: info.Flags.Value,
        priority: info.Anonymous2.Priority(),
    });
    let created = create(caller, arguments, descriptions.collect())?;
    for (info, created) in infos.iter_mut().zip(created) {
        info.hAllocation = created.handle.0;
        info.GpuVirtualAddress = created.address.0;
    }
    room.write(&infos);
    Ok(NtStatus::SUCCESS)
}

/// The description of an allocation, as both forms have it.
struct Description {
    existing: HANDLE,
    private_data: *mut VOID,
    private_data_size: u32,
    video_source: u32,
    flags: u32,
    priority: u32,
}

fn create(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_CREATEALLOCATION,
    descriptions: Vec<Description>,
) -> Result<Vec<CreatedAllocation>, Refusal> {
    let flags = CreateAllocationFlags::from_bits_retain(arguments.Flags.Value);
    let (private_data, size_bytes) = described(caller, arguments, flags)?;
    if flags.contains(CreateAllocationFlags::EXISTING_SYS_MEM) {
        check_existing_heap(flags, &descriptions)?;
    }
    let mut answers: Vec<ResultBuffer<'_, u8>> = Vec::with_capacity(descriptions.len());
    let mut allocations = Vec::with_capacity(descriptions.len());
    for description in &descriptions {
        let size = description.private_data_size;
        allocations.push(AllocationRequest {
            private_data: caller.bytes(description.private_data, size)?,
            flags: AllocationInfoFlags::from_bits_retain(description.flags),
            video_source: description.video_source,
            priority: description.priority,
            existing: match flags.contains(CreateAllocationFlags::EXISTING_SECTION) {
                true => {
                    let section = event_or_section(description.existing)?;
                    Some(SectionRange { section, offset_bytes: 0, size_bytes })
                }
                false => None,
            },
        });
        answers.push(caller.room(description.private_data.cast(), size)?);
    }
    let device = RawHandle(arguments.hDevice);
    let mut resource = ResourceRequest {
        resource: RawHandle(arguments.hResource),
        flags,
        private_data,
        runtime_data: caller.bytes(arguments.pPrivateRuntimeData, arguments.PrivateRuntimeDataSize)?,
    };
    let given = program_memory(caller, device, &descriptions, &mut allocations, &mut resource, size_bytes)?;
    let call = Call::Allocation(AllocationCall::CreateAllocation { device, allocations, resource });
    let created =
        caller.process.call(call).and_then(|reply| Ok(expect_reply!(reply, Reply::Allocations(created) => created)));
    let mut created = created.inspect_err(|_| given.abandon(caller))?;
    given.entered(caller, device, &created);
    if !flags.contains(CreateAllocationFlags::EXISTING_SECTION) {
        // The library made the section behind the program's memory; the program did not ask for one.
        created.flags -= CreateAllocationFlags::EXISTING_SECTION;
    }
    arguments.hResource = created.resource.0;
    arguments.hGlobalShare = created.global_share.0;
    arguments.Flags.Value = created.flags.bits();
    for (room, created) in answers.iter().zip(&created.allocations) {
        // The driver's writes into its blob; the blob cannot have grown.
        if let Some(data) = &created.private_data {
            room.write(&data[..data.len().min(room.count())]);
        }
    }
    Ok(created.allocations)
}

/// Gives the memory of the program that descriptions name (`pSystemMem`): their requests lie over it then. An existing heap is as large
/// as its description says, anything else as its driver makes it.
// spec: memory §2.7
fn program_memory(
    caller: &Caller<'_>,
    device: RawHandle,
    descriptions: &[Description],
    requests: &mut [AllocationRequest],
    resource: &mut ResourceRequest,
    heap_bytes: u64,
) -> Result<Given, Refusal> {
    use CreateAllocationFlags as F;
    if resource.flags.contains(F::EXISTING_SECTION) {
        return Ok(Given::default());
    }
    let named: Vec<bool> = descriptions.iter().map(|description| !description.existing.is_null()).collect();
    let heap = resource.flags.contains(F::EXISTING_SYS_MEM);
    if heap && !named.iter().all(|named| *named) {
        return Err(invalid("ExistingSysMem needs memory of the program, but pSystemMem is NULL"));
    }
    if !named.contains(&true) {
        return Ok(Given::default());
    }
    if !heap && named.contains(&false) {
        return Err(invalid("pSystemMem is NULL for some allocations of the call; give it for all or for none"));
    }
    let sizes = match heap && resource.flags.contains(F::STANDARD_ALLOCATION) {
        true => vec![heap_bytes; descriptions.len()],
        false => {
            let (allocations, resource) = (requests.to_vec(), resource.clone());
            let call = Call::Allocation(AllocationCall::DescribeAllocations { device, allocations, resource });
            expect_reply!(caller.process.call(call)?, Reply::AllocationSizes(sizes) => sizes)
        }
    };
    let places = descriptions.iter().map(|description| description.existing as u64).zip(sizes);
    let (given, ranges) = give(caller, device, places)?;
    for (request, range) in requests.iter_mut().zip(ranges) {
        request.existing = Some(range);
    }
    if !heap {
        resource.flags |= F::EXISTING_SECTION;
    }
    Ok(given)
}

/// The description of the whole call: the driver's blob, or the size of a standard allocation.
fn described(
    caller: &Caller<'_>,
    arguments: &D3DKMT_CREATEALLOCATION,
    flags: CreateAllocationFlags,
) -> Result<(Vec<u8>, u64), Refusal> {
    if !flags.contains(CreateAllocationFlags::STANDARD_ALLOCATION) {
        let data = arguments.Anonymous1.pPrivateDriverData();
        return Ok((caller.bytes(data, arguments.PrivateDriverDataSize)?, 0));
    }
    let standard = caller.array(arguments.Anonymous1.pStandardAllocation().cast_const(), 1)?[0];
    if standard.Type != D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP || standard.Flags.Value != 0 {
        return Err(invalid(format!(
            "Type of the standard allocation is {} and Flags are {:#x}; give {D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP} and 0",
            standard.Type, standard.Flags.Value
        )));
    }
    // Its own size, where programs say how long what stands there is.
    let said = arguments.PrivateDriverDataSize as usize;
    if said != 0 && said != size_of::<D3DKMT_CREATESTANDARDALLOCATION>() {
        return Err(invalid(format!(
            "PrivateDriverDataSize is {said}; with a standard allocation it is 0 or the size of its description"
        )));
    }
    let size_bytes = standard.ExistingHeapData.Size as u64;
    if size_bytes == 0 || !size_bytes.is_multiple_of(PAGE_BYTES) {
        return Err(invalid(format!("the heap has {size_bytes:#x} bytes, which is no multiple of {PAGE_BYTES}, or 0")));
    }
    Ok((Vec::new(), size_bytes))
}

/// A wrong description of an allocation over memory of the program is refused before anything else is looked at.
// spec: memory §2.2 (ExistingSysMem), memory §2.7
fn check_existing_heap(flags: CreateAllocationFlags, descriptions: &[Description]) -> Result<(), Refusal> {
    if !flags.contains(CreateAllocationFlags::STANDARD_ALLOCATION) {
        return Err(invalid("ExistingSysMem needs the flag StandardAllocation"));
    }
    let [one] = descriptions else {
        return Err(invalid(format!(
            "{} allocations over an existing heap; create one in each call",
            descriptions.len()
        )));
    };
    let address = one.existing.addr() as u64;
    if address == 0 || !address.is_multiple_of(PAGE_BYTES) {
        return Err(invalid(format!("the existing heap at {address:#x} does not begin at a multiple of {PAGE_BYTES}")));
    }
    Ok(())
}

/// A resource, or a list.
fn target(
    caller: &Caller<'_>,
    resource: u32,
    list: *const D3DKMT_HANDLE,
    count: u32,
) -> Result<AllocationTarget, Refusal> {
    Ok(AllocationTarget { resource: RawHandle(resource), allocations: handles(caller, list, count)? })
}

// spec: memory §6.2
pub fn destroy_allocation2(caller: &Caller<'_>, arguments: &D3DKMT_DESTROYALLOCATION2) -> Answer {
    let D3DKMT_DESTROYALLOCATION2 { hDevice, hResource, phAllocationList, AllocationCount, Flags } = *arguments;
    caller.process.call(Call::Allocation(AllocationCall::DestroyAllocation {
        device: RawHandle(hDevice),
        target: target(caller, hResource, phAllocationList, AllocationCount)?,
        flags: DestroyFlags::from_bits_retain(Flags.Value),
    }))?;
    let list = handles(caller, phAllocationList, AllocationCount)?;
    caller.process.program_memory().left(caller, |user| {
        user.device == RawHandle(hDevice)
            && (hResource != 0 && user.resource == RawHandle(hResource) || list.contains(&user.allocation))
    });
    Ok(NtStatus::SUCCESS)
}

pub fn destroy_allocation(caller: &Caller<'_>, arguments: &D3DKMT_DESTROYALLOCATION) -> Answer {
    let D3DKMT_DESTROYALLOCATION { hDevice, hResource, phAllocationList, AllocationCount } = *arguments;
    let flags = D3DDDICB_DESTROYALLOCATION2FLAGS::default();
    destroy_allocation2(
        caller,
        &D3DKMT_DESTROYALLOCATION2 { hDevice, hResource, phAllocationList, AllocationCount, Flags: flags },
    )
}

/// One for each allocation of a list; one for a resource.
fn answers_of(resource: u32, count: u32) -> u32 {
    if resource != 0 { 1 } else { count }
}

// spec: memory §2.3
pub fn set_allocation_priority(caller: &Caller<'_>, arguments: &D3DKMT_SETALLOCATIONPRIORITY) -> Answer {
    let D3DKMT_SETALLOCATIONPRIORITY { hDevice, hResource, phAllocationList, AllocationCount, pPriorities } =
        *arguments;
    caller.process.call(Call::Property(PropertyCall::SetAllocationPriority {
        device: RawHandle(hDevice),
        target: target(caller, hResource, phAllocationList, AllocationCount)?,
        priorities: caller.array(pPriorities, answers_of(hResource, AllocationCount))?,
    }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: memory §9.2
pub fn query_allocation_residency(caller: &Caller<'_>, arguments: &D3DKMT_QUERYALLOCATIONRESIDENCY) -> Answer {
    let D3DKMT_QUERYALLOCATIONRESIDENCY { hDevice, hResource, phAllocationList, AllocationCount, pResidencyStatus } =
        *arguments;
    let room = caller.room(pResidencyStatus, answers_of(hResource, AllocationCount))?;
    let target = target(caller, hResource, phAllocationList, AllocationCount)?;
    let call = Call::Property(PropertyCall::QueryAllocationResidency { device: RawHandle(hDevice), target });
    let statuses = expect_reply!(caller.process.call(call)?, Reply::ResidencyStatuses(statuses) => statuses);
    room.write(&statuses.iter().map(|status| *status as D3DKMT_ALLOCATIONRESIDENCYSTATUS).collect::<Vec<_>>());
    Ok(NtStatus::SUCCESS)
}

// spec: memory §2.3
pub fn get_allocation_priority(caller: &Caller<'_>, arguments: &D3DKMT_GETALLOCATIONPRIORITY) -> Answer {
    let D3DKMT_GETALLOCATIONPRIORITY { hDevice, hResource, phAllocationList, AllocationCount, pPriorities } =
        *arguments;
    let room = caller.room(pPriorities, answers_of(hResource, AllocationCount))?;
    let target = target(caller, hResource, phAllocationList, AllocationCount)?;
    let call = Call::Property(PropertyCall::GetAllocationPriority { device: RawHandle(hDevice), target });
    let priorities = expect_reply!(caller.process.call(call)?, Reply::Priorities(priorities) => priorities);
    // The priority of a resource is that of each of its allocations.
    room.write(&priorities[..room.count().min(priorities.len())]);
    Ok(NtStatus::SUCCESS)
}

// spec: memory §2.8
pub fn update_allocation_property(caller: &Caller<'_>, arguments: &mut D3DDDI_UPDATEALLOCPROPERTY) -> Answer {
    let call = Call::Property(PropertyCall::UpdateAllocationProperty {
        paging_queue: RawHandle(arguments.hPagingQueue),
        allocation: RawHandle(arguments.hAllocation),
        request: PropertyRequest {
            supported_segments: SegmentSet(arguments.SupportedSegmentSet),
            preferred_segment: arguments.PreferredSegment.Value,
            flags: PropertyFlags::from_bits_retain(arguments.Flags.Value),
            mask: PropertyMask::from_bits_retain(arguments.Anonymous.PropertyMaskValue()),
        },
    });
    let value = match expect_reply!(caller.process.call(call)?, Reply::Residency(residency) => residency) {
        Residency::Resident => 0,
        Residency::Pending { paging_fence_value, .. } => paging_fence_value,
    };
    arguments.PagingFenceValue = value;
    Ok(at(value))
}
