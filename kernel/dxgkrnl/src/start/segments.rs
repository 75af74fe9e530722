//! A starting driver's answers about its memory: the two-call query in the form of its generation, then the ranges that no allocation may
//! have (memory §1.2 to §1.4). VidMm checks that the segments keep the rules; here stand the rules of asking.

use ddi::{
    AdapterCaps, DESCRIPTOR4_BYTES, DdiVersion, DescriptorArray, DriverModel, DriverStatus, MemoryRange, Miniport,
    PagingBufferInfo, QueryMemoryRanges, QuerySegment, QuerySegment3, QuerySegment4, QuerySegmentIn, SegmentDescriptor,
    SegmentDescriptor3, SegmentDescriptor4,
};
use vidmm::{MemoryLayout, SegmentDescription};
use wddm_types::{PAGE_BYTES, SegmentId};

use super::StartError;

/// `SegmentDescriptorStride`: longer than today's descriptor, as a later kernel's would be.
const STRIDE: usize = DESCRIPTOR4_BYTES + 32;

/// Most private bytes that a driver may want for a paging buffer.
const PRIVATE_DATA_BYTES_MAX: u32 = 16 << 20;

/// The paging-buffer members before the first call, which must leave them alone.
const POISON: PagingBufferInfo =
    PagingBufferInfo { segment: SegmentId(0x55), size_bytes: 0x5555_5555, private_data_bytes: 0x5555_5555 };

/// This kernel drives no GART, so it never has an AGP window to offer.
// spec: memory §1.3, memory §1.9
const NO_AGP: QuerySegmentIn = QuerySegmentIn { agp_aperture_base: 0, agp_aperture_size_bytes: 0, agp_flags: 0 };

/// Asks a driver for its segments, in the one form that its generation has.
// spec: memory §1.2, memory §1.3, memory §10.1
pub fn query(miniport: &dyn Miniport, caps: &AdapterCaps) -> Result<(MemoryLayout, PagingBufferInfo), StartError> {
    let (segments, paging_buffer) = match caps.driver_model {
        DriverModel::Wddm2 => query4(miniport, caps)?,
        DriverModel::Wddm1 if caps.ddi_version >= DdiVersion::WDDM_1_2 => query3(miniport)?,
        DriverModel::Wddm1 => query1(miniport)?,
    };
    check_paging_buffer(&segments, paging_buffer)?;
    let layout = MemoryLayout {
        version: caps.ddi_version,
        caps: caps.memory,
        aperture_commit_limit_bytes: caps.aperture_segment_commit_limit_bytes,
        ..MemoryLayout::new(caps.driver_model, segments)
    };
    layout.check()?;
    Ok((layout, paging_buffer))
}

type Described = (Vec<SegmentDescription>, PagingBufferInfo);

fn query1(miniport: &dyn Miniport) -> Result<Described, StartError> {
    let mut first = QuerySegment { input: NO_AGP, count: 0, descriptors: None, paging_buffer: POISON };
    miniport.query_segment(&mut first)?;
    let untouched = first.descriptors.is_none() && (first.input, first.paging_buffer) == (NO_AGP, POISON);
    let count = check_first(first.count, untouched)?;
    let mut descriptors = vec![SegmentDescriptor::default(); count as usize];
    let descriptors_in = Some(descriptors.as_mut_slice());
    let mut second =
        QuerySegment { input: NO_AGP, count, descriptors: descriptors_in, paging_buffer: PagingBufferInfo::default() };
    miniport.query_segment(&mut second)?;
    check_second(count, second.count)?;
    let paging_buffer = second.paging_buffer;
    Ok((descriptors.iter().map(Into::into).collect(), paging_buffer))
}

fn query3(miniport: &dyn Miniport) -> Result<Described, StartError> {
    let mut first = QuerySegment3 { input: NO_AGP, count: 0, descriptors: None, paging_buffer: POISON };
    miniport.query_segment3(&mut first)?;
    let untouched = first.descriptors.is_none() && (first.input, first.paging_buffer) == (NO_AGP, POISON);
    let count = check_first(first.count, untouched)?;
    let mut descriptors = vec![SegmentDescriptor3::default(); count as usize];
    let descriptors_in = Some(descriptors.as_mut_slice());
    let mut second =
        QuerySegment3 { input: NO_AGP, count, descriptors: descriptors_in, paging_buffer: PagingBufferInfo::default() };
    miniport.query_segment3(&mut second)?;
    check_second(count, second.count)?;
    let paging_buffer = second.paging_buffer;
    Ok((descriptors.iter().map(Into::into).collect(), paging_buffer))
}

fn query4(miniport: &dyn Miniport, caps: &AdapterCaps) -> Result<Described, StartError> {
    let mut first = QuerySegment4 { physical_adapter: 0, count: 0, descriptors: None, paging_buffer: POISON };
    miniport.query_segment4(&mut first)?;
    let untouched = first.descriptors.is_none() && (first.physical_adapter, first.paging_buffer) == (0, POISON);
    let count = check_first(first.count, untouched)?;
    let mut bytes = vec![0; count as usize * STRIDE];
    let array = DescriptorArray::new(&mut bytes, STRIDE).expect("the stride holds a descriptor");
    let paging_buffer = PagingBufferInfo::default();
    let mut second = QuerySegment4 { physical_adapter: 0, count, descriptors: Some(array), paging_buffer };
    miniport.query_segment4(&mut second)?;
    check_second(count, second.count)?;
    let paging_buffer = second.paging_buffer;
    let array = DescriptorArray::new(&mut bytes, STRIDE).expect("the stride holds a descriptor");
    let mut segments = Vec::new();
    for index in 0..count as usize {
        let descriptor = array.get(index).expect("there are that many");
        let mut segment = SegmentDescription::from(&descriptor);
        // CAST: at most 31 segments.
        segment.invalid_ranges = invalid_ranges(miniport, caps, SegmentId(index as u8 + 1), &descriptor)?;
        segments.push(segment);
    }
    Ok((segments, paging_buffer))
}

fn check_first(count: u32, untouched: bool) -> Result<u32, StartError> {
    if !untouched {
        return Err(StartError::Rule("the first segment query writes only NbSegment"));
    }
    if count == 0 || count > u32::from(SegmentId::MAX.0) {
        return Err(StartError::Rule("a driver reports 1 to 31 segments"));
    }
    Ok(count)
}

fn check_second(first: u32, second: u32) -> Result<(), StartError> {
    if first == second {
        return Ok(());
    }
    Err(StartError::Rule("both segment queries tell the same number of segments"))
}

/// The ranges of a segment that no allocation may have, if its descriptor announced some.
// spec: memory §1.4
fn invalid_ranges(
    miniport: &dyn Miniport,
    caps: &AdapterCaps,
    segment: SegmentId,
    descriptor: &SegmentDescriptor4,
) -> Result<Vec<MemoryRange>, StartError> {
    if descriptor.num_uefi_frame_buffer_ranges > 0 && caps.ddi_version < DdiVersion::WDDM_2_2 {
        return Err(StartError::Rule("NumUEFIFrameBufferRanges is 0 before WDDM 2.2"));
    }
    let ask = |count: u32, query: &dyn Fn(&mut QueryMemoryRanges<'_>) -> Result<(), DriverStatus>| {
        if u64::from(count) > descriptor.size_bytes / PAGE_BYTES {
            return Err(StartError::Rule("a segment has no more invalid ranges than pages"));
        }
        let mut ranges = vec![MemoryRange::default(); count as usize];
        if count > 0 {
            query(&mut QueryMemoryRanges { segment, physical_adapter: 0, ranges: &mut ranges })?;
        }
        Ok(ranges)
    };
    let mut ranges = ask(descriptor.num_invalid_memory_ranges, &|query| miniport.segment_memory_state(query))?;
    ranges.extend(ask(descriptor.num_uefi_frame_buffer_ranges, &|query| miniport.uefi_frame_buffer_ranges(query))?);
    Ok(ranges)
}

// spec: memory §1.11, memory §1.13, memory §10.1
fn check_paging_buffer(segments: &[SegmentDescription], info: PagingBufferInfo) -> Result<(), StartError> {
    let aperture = |id: SegmentId| segments.get(usize::from(id.0) - 1).is_some_and(SegmentDescription::is_aperture);
    if !info.segment.is_system() && !aperture(info.segment) {
        return Err(StartError::Rule("PagingBufferSegmentId is an aperture segment or 0"));
    }
    if info.size_bytes == 0 || !u64::from(info.size_bytes).is_multiple_of(PAGE_BYTES) {
        return Err(StartError::Rule("PagingBufferSize is a multiple of the host page"));
    }
    if info.private_data_bytes > PRIVATE_DATA_BYTES_MAX {
        return Err(StartError::Rule("PagingBufferPrivateDataSize is at most 16 MiB"));
    }
    Ok(())
}
