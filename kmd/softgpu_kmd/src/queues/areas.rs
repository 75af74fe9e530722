//! Save areas of contexts and devices, which the driver makes of context allocations (memory §7.5).

use ddi::{
    ContextAllocationFlags, CreateContextAllocation, DriverStatus, Host, KmdAllocation, MapContextAllocation,
    MapProtection, SegmentPreference,
};
use wddm_types::{PAGE_BYTES, SegmentId, SegmentSet};

use crate::driver::SoftGpuKmd;

/// The driver's names of what it makes for a context and for a device: no handles of allocations of user mode, which count
/// from 1.
const CONTEXT_AREAS: u64 = u64::MAX;
const DEVICE_AREAS: u64 = u64::MAX - (1 << 62);

/// Makes the context's save area. The device keeps nothing of a context outside its registers, so the area only holds the
/// driver's note of the owner.
// spec: memory §7.5
pub(crate) fn save_area(
    host: &mut dyn Host,
    segment: SegmentId,
    size_bytes: u64,
    context: u64,
) -> Result<(), DriverStatus> {
    let flags = ContextAllocationFlags::MAP_GPU_VIRTUAL_ADDRESS;
    area(host, segment, (size_bytes, flags), CONTEXT_AREAS - context, context)
}

fn area(
    host: &mut dyn Host,
    segment: SegmentId,
    (size_bytes, context_flags): (u64, ContextAllocationFlags),
    name: u64,
    owner: u64,
) -> Result<(), DriverStatus> {
    let made = host.create_context_allocation(CreateContextAllocation {
        context_flags,
        allocation: KmdAllocation(name),
        size_bytes,
        supported_segments: SegmentSet::only(segment),
        preferred_segment: SegmentPreference::of(&[segment]),
        ..CreateContextAllocation::default()
    })?;
    let size_in_pages = size_bytes.div_ceil(PAGE_BYTES);
    let protection = MapProtection::WRITE;
    let map = MapContextAllocation { allocation: made, size_in_pages, protection, ..Default::default() };
    host.map_context_allocation(map)?;
    // Word 2 of the area, behind the head that its first initialisation wrote.
    let (offset, words) = (16u64.to_le_bytes(), owner.to_le_bytes());
    host.update_context_allocation(made, &[offset, words].concat())
}

impl SoftGpuKmd {
    /// Makes the save area of a process's device, for all its contexts.
    // spec: memory §7.5
    pub(crate) fn device_area(&mut self, host: &mut dyn Host, device: u64, system: bool) -> Result<(), DriverStatus> {
        if system || self.config.device_save_bytes == 0 {
            return Ok(());
        }
        let segment = self.geometry.as_ref().expect("the device is started").system();
        let flags = ContextAllocationFlags::MAP_GPU_VIRTUAL_ADDRESS | ContextAllocationFlags::SHARED_ACROSS_CONTEXTS;
        area(host, segment, (self.config.device_save_bytes, flags), DEVICE_AREAS - device, device)
    }
}
