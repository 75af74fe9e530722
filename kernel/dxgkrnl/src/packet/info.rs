//! A driver's needs of DMA buffers and lists, for a device and for a context of it, and the rules of that (memory §7.1).
//! [`super::dma_buffer`] makes the buffers. Called when a device or a context is created.

use ddi::{ContextCaps, ContextInfo, DeviceInfo, WRITTEN_PRIMARIES_MAX};
use kmt_calls::Refusal;
use vidmm::Segment;
use wddm_types::{Blame, NodeId, NtStatus, SegmentId, SegmentSet};

use crate::refusal::refuse;

/// Most bytes that a driver may want for a DMA buffer.
const DMA_BUFFER_BYTES_MAX: u32 = 16 << 20;
/// Most entries that a driver may want in a list.
const LIST_ENTRIES_MAX: u32 = 1 << 16;
const SIZES: &str = "sizes of DMA buffers or lists that no context can have";

/// A context's needs as its driver said: a patched context of which it said nothing has those of its device.
// spec: memory §7.1
pub fn info_of_context(of_device: DeviceInfo, said: ContextInfo, addresses: bool) -> ContextInfo {
    let ContextInfo { caps, paging_companion_node, .. } = said;
    // A half answer is no answer, and breaks the rules.
    if addresses || said != (ContextInfo { caps, paging_companion_node, ..ContextInfo::default() }) {
        return said;
    }
    ContextInfo {
        dma_buffer_bytes: of_device.dma_buffer_bytes,
        dma_buffer_segment_set: of_device.dma_buffer_segment_set,
        dma_buffer_private_data_bytes: of_device.dma_buffer_private_data_bytes,
        allocation_list_entries: of_device.allocation_list_entries,
        patch_location_list_entries: of_device.patch_location_list_entries,
        ..said
    }
}

/// The rules of what a driver wants for a context.
// spec: memory §4.1, memory §5.6, memory §7.1, memory §1.13
pub fn check_context_info(
    info: &ContextInfo,
    addresses: bool,
    by_cpu_addresses: bool,
    has_node: impl Fn(NodeId) -> bool,
    segments: &[Segment],
) -> Result<(), Refusal> {
    let broken = |rule: &'static str| refuse(NtStatus::INVALID_PARAMETER, Blame::Driver, rule);
    if info.caps.contains(ContextCaps::DRIVER_MANAGES_RESIDENCY) {
        let why = "contexts whose driver manages residency";
        return Err(refuse(NtStatus::NOT_SUPPORTED, Blame::Driver, why));
    }
    // spec: memory §4.1, a context runs in its adapter's model
    if info.caps.contains(ContextCaps::USE_IO_MMU) != by_cpu_addresses {
        return Err(broken("UseIoMmu goes with the addresses of an adapter of the IoMmu model, and they with it"));
    }
    if info.caps.contains(ContextCaps::NO_PATCHING_REQUIRED) != addresses {
        return Err(broken("NoPatchingRequired goes with GPU virtual addresses, and they with it"));
    }
    // spec: memory §4.8, memory §7.1: tile updates of the context go to a context there. Here one ring does all paging, in
    // order, whichever node is named.
    if addresses && !has_node(info.paging_companion_node) {
        return Err(broken("PagingCompanionNodeId names no node of the adapter"));
    }
    if addresses {
        let right =
            info.patch_location_list_entries == 0 && info.allocation_list_entries as usize == WRITTEN_PRIMARIES_MAX;
        if !right {
            return Err(broken("without patching: 16 entries and no patch list"));
        }
    }
    dma_buffer_segments(segments, info.dma_buffer_segment_set).map_err(broken)?;
    // spec: memory §5.7, with addresses they are for presents: a driver may do without
    let buffers = DeviceInfo {
        dma_buffer_bytes: info.dma_buffer_bytes,
        dma_buffer_private_data_bytes: info.dma_buffer_private_data_bytes,
        allocation_list_entries: info.allocation_list_entries,
        patch_location_list_entries: info.patch_location_list_entries,
        ..DeviceInfo::default()
    };
    let none = addresses && info.dma_buffer_bytes == 0;
    let sound = (none || has_buffers(&buffers)) && info.dma_buffer_private_data_bytes <= DMA_BUFFER_BYTES_MAX;
    if sound && (addresses || has_lists(&buffers)) { Ok(()) } else { Err(broken(SIZES)) }
}

/// The rules of what a driver wants for a device: its segment set in any case, its sizes if its contexts are to have them.
///
/// # Errors
/// The rule that it breaks.
// spec: memory §7.1, memory §1.13
pub fn check_device_info(segments: &[Segment], info: &DeviceInfo) -> Result<(), &'static str> {
    dma_buffer_segments(segments, info.dma_buffer_segment_set)?;
    let none = DeviceInfo { dma_buffer_segment_set: info.dma_buffer_segment_set, ..DeviceInfo::default() };
    if *info == none || has_buffers(info) && has_lists(info) { Ok(()) } else { Err(SIZES) }
}

/// The apertures in which DMA buffers of a set may be shown, in order; none: contiguous system memory.
///
/// # Errors
/// The rule that the set breaks.
// spec: memory §7.1, memory §1.13
pub fn dma_buffer_segments(segments: &[Segment], set: SegmentSet) -> Result<Vec<SegmentId>, &'static str> {
    for id in set.iter() {
        match segments.get(usize::from(id.0) - 1) {
            None => return Err("DmaBufferSegmentSet names a segment that there is not"),
            Some(segment) if !segment.is_aperture() => return Err("DmaBufferSegmentSet names a memory segment"),
            Some(_) => {}
        }
    }
    Ok(set.iter().collect())
}

fn has_buffers(info: &DeviceInfo) -> bool {
    (8..=DMA_BUFFER_BYTES_MAX).contains(&info.dma_buffer_bytes)
        && info.dma_buffer_bytes.is_multiple_of(8)
        && info.dma_buffer_private_data_bytes <= DMA_BUFFER_BYTES_MAX
}

fn has_lists(info: &DeviceInfo) -> bool {
    let entries = 1..=LIST_ENTRIES_MAX;
    entries.contains(&info.allocation_list_entries) && entries.contains(&info.patch_location_list_entries)
}
