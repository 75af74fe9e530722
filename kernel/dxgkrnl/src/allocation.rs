//! The rules of a creation of allocations (memory §2.7): what a call may ask for, what the kernel adds to the driver's description, and where
//! memory that existed before may lie. It asks neither driver nor memory manager and keeps no state: the adapter does, and enters what was made
//! in `allocations`.

mod flags;
mod standard;

use ddi::AllocationInfo;
use kmt_calls::{AllocationInfoFlags, AllocationRequest, CreateAllocationFlags, Refusal, ResourceRequest};
use vidmm::Segment;
use wddm_types::{PageRun, SegmentId, SegmentSet};

use crate::memory::LIST_MAX;
use crate::number::{AllocationNumber, ResourceNumber, SectionNumber};
use crate::refusal::invalid;

pub use flags::check;
pub use standard::{Rows, rows};

/// Most bytes of a driver's private data, per allocation and per call: as many as of a runtime's. No capability of a driver says how many
/// it takes.
pub const PRIVATE_DATA_MAX: usize = 65536;
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

/// Memory that exists already, resolved: its pages, and the section that they belong to.
pub type Existing = Option<(Vec<PageRun>, SectionNumber)>;

/// Refuses more than a call may bring.
pub fn check_lengths(requests: &[AllocationRequest], call: &ResourceRequest) -> Result<(), Refusal> {
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

/// The driver's description with what the caller and the kernel add to it.
pub fn completed(mut info: AllocationInfo, request: &AllocationRequest, call: &ResourceRequest) -> AllocationInfo {
    // spec: memory §2.7, bit 2 of D3DDDI_ALLOCATIONINFO2
    if request.flags.contains(AllocationInfoFlags::OVERRIDE_PRIORITY) {
        info.priority = request.priority;
    }
    if call.flags.contains(CreateAllocationFlags::NO_IMPLICIT_SYNCHRONIZATION) {
        info.flags2 |= ddi::AllocationFlags2::NO_IMPLICIT_SYNCHRONIZATION;
    }
    info
}

/// Leaves an allocation over existing memory only system memory and apertures, or refuses it: the CPU stores into those pages, and
/// no lock says when. The driver does not know what memory it is.
// spec: memory §2.2 (bit 4), memory §2.7
pub fn keep_in_system(info: &mut AllocationInfo, segments: &[Segment]) -> Result<(), Refusal> {
    let is_system = |id: &SegmentId| {
        let segment = segments.get(usize::from(id.0).wrapping_sub(1));
        segment.is_none_or(Segment::is_aperture)
    };
    let only =
        |set: SegmentSet| set.iter().filter(is_system).fold(SegmentSet::NONE, |set, id| set.with(SegmentSet::only(id)));
    let supported = only(info.supported_segments);
    if supported != info.supported_segments {
        if supported.is_empty() {
            return Err(invalid("memory of the program for an allocation that its driver has in video memory only"));
        }
        (info.supported_segments, info.preferred_segment) = (supported, Default::default());
    }
    info.read_segments = only(info.read_segments);
    Ok(())
}
