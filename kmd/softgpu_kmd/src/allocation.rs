//! From the user-mode driver's private data to a placement (memory §2). The bytes are untrusted; everything else about an
//! allocation is VidMm's.

use ddi::{
    AllocationFlags, AllocationInfo, CreateAllocation, DriverStatus, KmdAllocation, PRIORITY_NORMAL, SegmentPreference,
};
use softgpu_spec::private_data::{AllocationRequest, Kind, RequestError};
use wddm_types::{SegmentId, SegmentSet};

use crate::driver::SoftGpuKmd;
use crate::segments::{APERTURE, LOCAL};

impl SoftGpuKmd {
    // spec: memory §2.1
    pub(crate) fn place_allocation(&mut self, create: &mut CreateAllocation<'_>) -> Result<(), DriverStatus> {
        let request = AllocationRequest::decode(create.private_data).map_err(refuse)?;
        let (preferred, supported) = placement(request.kind);
        // spec: memory §1.5: 64-KB pages oblige every allocation that supports the segment
        let alignment_bytes = if supported.contains(LOCAL) { self.config.segment_page_bytes } else { 0 };
        let mut flags = AllocationFlags::empty();
        flags.set(AllocationFlags::CPU_VISIBLE, request.cpu_visible);
        flags.set(AllocationFlags::CACHED, request.cached);
        flags.set(AllocationFlags::ACCESSED_PHYSICALLY, request.accessed_physically);
        create.info = AllocationInfo {
            alignment_bytes,
            size_bytes: request.size_bytes,
            preferred_segment: preferred,
            supported_segments: supported,
            eviction_segments: SegmentSet::NONE,
            allocation: KmdAllocation(self.allocations.insert(request)),
            flags,
            priority: PRIORITY_NORMAL,
        };
        Ok(())
    }
}

/// Plain system memory is asked for by naming the aperture (memory §1.6).
fn placement(kind: Kind) -> (SegmentPreference, SegmentSet) {
    let none = SegmentId::SYSTEM;
    match kind {
        Kind::Local => (SegmentPreference([LOCAL, none, none, none, none]), SegmentSet::only(LOCAL)),
        Kind::System => (SegmentPreference([APERTURE, none, none, none, none]), SegmentSet::only(APERTURE)),
        Kind::LocalThenSystem => (
            SegmentPreference([LOCAL, APERTURE, none, none, none]),
            SegmentSet::only(LOCAL).with(SegmentSet::only(APERTURE)),
        ),
    }
}

fn refuse(error: RequestError) -> DriverStatus {
    DriverStatus::InvalidParameter(match error {
        RequestError::Length(_) => "private data of another length",
        RequestError::Magic(_) | RequestError::Version(_) => "private data of another driver",
        RequestError::Kind(_) => "private data: no such kind",
        RequestError::Flags(_) | RequestError::Reserved => "private data: flags or reserved bytes",
        RequestError::Size(_) => "private data: no size of an allocation",
    })
}

#[cfg(test)]
mod tests;
