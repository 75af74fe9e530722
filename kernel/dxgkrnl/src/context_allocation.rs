//! Context allocations (memory §7.5): a driver asks for them while it creates a device or a context. VidMm decides at once; the kernel
//! queues the paging work when the driver has returned, in the order in which it asked, and answers the creation behind it. So operations
//! that the driver calls synchronous are over before a process can use the device or the context.
//!
//! A host knows the memory manager alone, and only for one call of the driver. It keeps no allocation afterwards: the device or the context has
//! them, and the adapter queues the works.

use ddi::{
    AllocationInfo, ContextAllocationFlags, CreateContextAllocation, DriverStatus, MapContextAllocation, MapProtection,
    OsContextAllocation, PRIORITY_MAXIMUM,
};
use gpu_fence::FenceId;
use vidmm::{AllocationId, DeviceId, MapRequest, Protection, SpaceId, Target, VidMm, Work};
use wddm_types::{GpuVa, Pages};

use crate::driver::ContextRequests;

/// Serves a driver's requests for allocations while it creates a device or a context.
pub struct ContextHost<'a> {
    vidmm: &'a mut VidMm<FenceId>,
    device: DeviceId,
    space: SpaceId,
    by_address: bool,
    /// What the driver has asked for.
    pub made: Vec<ContextAllocation>,
    /// What is to be queued for it, in that order.
    pub works: Vec<Work<FenceId>>,
}

/// A context allocation.
#[derive(Clone, Copy, Debug)]
pub struct ContextAllocation {
    pub vidmm: AllocationId,
    pub flags: ContextAllocationFlags,
}

impl ContextHost<'_> {
    /// A work of a request. It is queued behind the driver's call; a driver that panics in that call takes it along.
    fn take_over(&mut self, work: Option<Work<FenceId>>) {
        self.works.extend(work.map(|mut work| {
            work.accept();
            work
        }));
    }
}

impl ContextRequests for ContextHost<'_> {
    // spec: memory §7.5
    fn create(&mut self, create: CreateContextAllocation) -> Result<OsContextAllocation, DriverStatus> {
        // spec: memory §3.4, operations 10 and 13
        if !self.by_address {
            return Err(DriverStatus::NotSupported("context allocations where paging buffers run in no address space"));
        }
        if create.context_flags.bits() >> 2 != 0 {
            return Err(DriverStatus::InvalidParameter("reserved flags of a context allocation"));
        }
        let info = AllocationInfo {
            alignment_bytes: create.alignment_bytes,
            size_bytes: create.size_bytes,
            hinted_bank: create.hinted_bank,
            preferred_segment: create.preferred_segment,
            read_segments: create.supported_segments,
            supported_segments: create.supported_segments,
            eviction_segments: create.eviction_segments,
            allocation: create.allocation,
            flags: create.flags,
            priority: PRIORITY_MAXIMUM,
            ..AllocationInfo::default()
        };
        let vidmm = self
            .vidmm
            .create_context_allocation(self.device, info)
            .map_err(|_| DriverStatus::InvalidParameter("a context allocation that breaks a rule, or has no memory"))?;
        // spec: memory §5.1: resident whenever a context of the device is scheduled, so it stands on the device's list
        match self.vidmm.make_resident(self.device, &[vidmm]) {
            Ok(work) => self.take_over(work),
            Err(_) => {
                assert!(self.vidmm.destroy_allocation(vidmm, &[]).is_none(), "no work has used it");
                return Err(DriverStatus::NoMemory("no room for a context allocation"));
            }
        }
        self.made.push(ContextAllocation { vidmm, flags: create.context_flags });
        Ok(OsContextAllocation(self.made.len() as u64))
    }

    // spec: memory §7.5
    fn map(&mut self, map: MapContextAllocation) -> Result<GpuVa, DriverStatus> {
        let known = self.find(map.allocation)?;
        if !known.flags.contains(ContextAllocationFlags::MAP_GPU_VIRTUAL_ADDRESS) {
            return Err(DriverStatus::InvalidParameter("a context allocation without MapGpuVirtualAddress"));
        }
        if !(MapProtection::WRITE | MapProtection::EXECUTE).contains(map.protection) {
            return Err(DriverStatus::InvalidParameter("a context allocation is shown: Write and Execute at most"));
        }
        let protection = Protection {
            write: map.protection.contains(MapProtection::WRITE),
            execute: map.protection.contains(MapProtection::EXECUTE),
            driver: map.driver_protection,
        };
        let target = Target::Allocation { allocation: known.vidmm, offset_pages: Pages(map.offset_in_pages) };
        let request = MapRequest {
            target,
            size_pages: Pages(map.size_in_pages),
            base: (!map.base.is_null()).then_some(map.base),
            minimum: map.minimum,
            maximum: map.maximum,
            protection,
        };
        let (va, work) = self
            .vidmm
            .map_for_driver(self.space, request)
            .map_err(|_| DriverStatus::InvalidParameter("no such address for a context allocation"))?;
        self.take_over(work);
        Ok(va)
    }

    // spec: memory §7.5
    fn update(&mut self, allocation: OsContextAllocation, private_data: &[u8]) -> Result<(), DriverStatus> {
        let known = self.find(allocation)?;
        // The driver hears of it when a quiesced device has its list back, with its turn.
        let work = self.vidmm.update_context_allocation(known.vidmm, private_data.to_vec());
        self.take_over(work);
        Ok(())
    }
}

impl<'a> ContextHost<'a> {
    /// One for a device in its process's space. `by_address`: paging buffers run in the paging process, where their driver sees what it is
    /// to fill.
    pub fn new(vidmm: &'a mut VidMm<FenceId>, device: DeviceId, space: SpaceId, by_address: bool) -> ContextHost<'a> {
        ContextHost { vidmm, device, space, by_address, made: Vec::new(), works: Vec::new() }
    }

    fn find(&self, allocation: OsContextAllocation) -> Result<ContextAllocation, DriverStatus> {
        let nth = allocation.0.checked_sub(1).and_then(|nth| usize::try_from(nth).ok());
        let known = nth.and_then(|nth| self.made.get(nth)).copied();
        known.ok_or(DriverStatus::InvalidParameter("no context allocation of what is being created"))
    }
}

impl ContextAllocation {
    /// Whether it stays with its device when the context goes that the driver asked for it in.
    pub fn is_of_device(&self) -> bool {
        self.flags.contains(ContextAllocationFlags::SHARED_ACROSS_CONTEXTS)
    }
}
