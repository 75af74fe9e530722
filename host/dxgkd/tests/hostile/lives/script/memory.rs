//! Memory that is listed, moved, locked, offered, destroyed, made part of a resource; and memory of the process's own, as sections.

use std::os::fd::AsFd;
use std::sync::Arc;

use d3dkmt::{
    Allocation, AllocationRequest, CreateAllocationFlags, DestroyFlags, EvictFlags, LockFlags, MakeResidentFlags,
    OfferFlags, OfferList, PropertyFlags, PropertyMask, PropertyRequest, Resource, ResourceRequest, Section,
};
use kmt_calls::{AllocationCall, Call, ResidencyCall};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use softgpu_spec::private_data;
use softgpu_umd::{Gpu, Surface, SurfaceKind, UmdError};
use wddm_types::PAGE_BYTES;

use super::BYTES;

/// What stays until the life ends.
pub struct Memory {
    _offered: Surface,
    _resource: Resource,
    _over_sections: [Resource; 2],
    _section: Section,
}

/// Four pages that the CPU may lock.
pub fn allocation() -> AllocationRequest {
    let data = private_data::AllocationRequest {
        kind: SurfaceKind::LocalThenSystem,
        cpu_visible: true,
        cached: false,
        accessed_physically: false,
        size_bytes: 4 * PAGE_BYTES,
    };
    AllocationRequest { private_data: data.encode().to_vec(), ..AllocationRequest::default() }
}

pub fn live(gpu: &Gpu, surface: &Surface) -> Result<Memory, UmdError> {
    let listed = surface.allocation();
    listed.set_priority(0x7800_0000)?;
    listed.invalidate_cache(0, PAGE_BYTES)?;
    drop(listed.lock_legacy(Vec::new(), LockFlags::LOCK_ENTIRE)?);
    moved(gpu, listed)?;
    let offered = offered(gpu)?;
    let resource = grown(gpu)?;
    let section = Section::create(gpu.adapter(), 4 * PAGE_BYTES)?;
    let over = over(gpu, &section, CreateAllocationFlags::EXISTING_SECTION)?;
    let file = memfd_create("a life's", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).expect("a file");
    ftruncate(&file, 4 * PAGE_BYTES).expect("room");
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("a seal");
    let of_file = Section::over_file(gpu.adapter(), file.as_fd(), 0, 4 * PAGE_BYTES)?;
    let over_file = self::over(gpu, &of_file, CreateAllocationFlags::EXISTING_SYS_MEM)?;
    // The allocation keeps its pages.
    drop(of_file);
    Ok(Memory { _offered: offered, _resource: resource, _over_sections: [over, over_file], _section: section })
}

/// Content that goes and comes: this call waits for none of it at the end, so that paging is under way.
fn moved(gpu: &Gpu, listed: &Arc<Allocation>) -> Result<(), UmdError> {
    let (device, paging) = (gpu.device(), gpu.paging());
    let one = || vec![listed.handle()];
    device.evict(one(), EvictFlags::EVICT_ONLY_IF_NECESSARY)?;
    paging.make_resident(one(), MakeResidentFlags::empty())?;
    device.evict(one(), EvictFlags::empty())?;
    paging.make_resident(one(), MakeResidentFlags::CANT_TRIM_FURTHER)?;
    let flags = PropertyFlags::ACCESSED_PHYSICALLY;
    let request = PropertyRequest { flags, mask: PropertyMask::ACCESSED_PHYSICALLY, ..Default::default() };
    paging.update_allocation_property(listed, request)?;
    let low = device.create_paging_queue_of(-1)?;
    let more = gpu.create_surface(SurfaceKind::Local, BYTES)?;
    low.make_resident(vec![more.allocation().handle()], MakeResidentFlags::empty())?;
    more.allocation().destroy(DestroyFlags::ASSUME_NOT_IN_USE)?;
    Ok(())
}

/// Offers and reclaims of each form; it stays offered.
fn offered(gpu: &Gpu) -> Result<Surface, UmdError> {
    let device = gpu.device();
    let idle = gpu.create_surface(SurfaceKind::LocalThenSystem, BYTES)?;
    let list = || OfferList::Allocations(vec![idle.allocation().handle()]);
    device.offer(list(), 2, OfferFlags::empty())?;
    gpu.paging().reclaim(list())?;
    device.offer(list(), 1, OfferFlags::OFFER_IMMEDIATELY)?;
    device.reclaim(list(), true)?;
    device.offer(list(), 1, OfferFlags::ALLOW_DECOMMIT)?;
    let adapter = gpu.adapter();
    adapter.link().call(Call::Residency(ResidencyCall::FlushHeapTransitions { adapter: adapter.handle() }))?;
    Ok(idle)
}

/// A resource that gets one more allocation, and loses one.
fn grown(gpu: &Gpu) -> Result<Resource, UmdError> {
    let device = gpu.device();
    let request = ResourceRequest { flags: CreateAllocationFlags::CREATE_RESOURCE, ..ResourceRequest::default() };
    let made = Resource::create(device, vec![allocation(), allocation()], request)?;
    let resource = ResourceRequest { resource: made.handle(), ..ResourceRequest::default() };
    let allocations = vec![allocation()];
    let device = device.handle();
    gpu.adapter().link().call(Call::Allocation(AllocationCall::CreateAllocation { device, allocations, resource }))?;
    made.allocations()[1].destroy(DestroyFlags::SYNCHRONOUS_DESTROY)?;
    Ok(made)
}

/// An allocation over memory that the process has, resident and mapped.
fn over(gpu: &Gpu, section: &Section, existing: CreateAllocationFlags) -> Result<Resource, UmdError> {
    let flags = CreateAllocationFlags::CREATE_RESOURCE
        | CreateAllocationFlags::CREATE_SHARED
        | CreateAllocationFlags::CROSS_ADAPTER
        | CreateAllocationFlags::STANDARD_ALLOCATION
        | existing;
    let range = Some(section.range(PAGE_BYTES, 2 * PAGE_BYTES));
    let request = AllocationRequest { existing: range, ..AllocationRequest::default() };
    let made = Resource::create(gpu.device(), vec![request], ResourceRequest { flags, ..ResourceRequest::default() })?;
    let shown = &made.allocations()[0];
    gpu.paging().map(shown, 2, true)?;
    gpu.paging().make_resident(vec![shown.handle()], MakeResidentFlags::empty())?;
    Ok(made)
}
