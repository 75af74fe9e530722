//! The rules of segments (memory §1.5, §1.10, §1.13). Each broken one has a name of its own, and the adapter does not
//! start. Flags that mean nothing on a kind of segment are not looked at.

use ddi::{CpuAccess, DdiVersion, DriverModel, SegmentFlags as F};
use wddm_types::SegmentId;

use super::description::{MemoryLayout, SegmentDescription};
use super::error::SegmentError;
use super::{bank, id_of};
use crate::policy::Policy;

/// All rules of all segments.
pub(crate) fn check_segments(layout: &MemoryLayout) -> Result<(), SegmentError> {
    let segments = &layout.segments;
    let apertures = segments.iter().filter(|segment| segment.is_aperture()).count();
    // spec: memory §0, five-bit ids. System memory takes the number behind the last where no aperture stands for it
    if segments.len() + usize::from(apertures == 0) > usize::from(SegmentId::MAX.0) {
        return Err(SegmentError::TooMany);
    }
    let mut agp = false;
    for (index, segment) in segments.iter().enumerate() {
        let id = id_of(index);
        if segment.flags.contains(F::AGP) {
            return Err(check_agp(id, segment, layout, &mut agp));
        }
        check_one(id, segment)?;
        check_version(id, segment, layout)?;
        check_protected(id, segment)?;
        if segments[..index].iter().any(|other| overlap(other, segment)) {
            return Err(SegmentError::Overlap(id));
        }
    }
    // spec: memory §1.6, exactly one, or none for a compute-only driver; the first generation has any number
    if layout.model == DriverModel::Wddm2 && apertures > 1 {
        return Err(SegmentError::ApertureCount(apertures));
    }
    Ok(())
}

/// A transfer by address shows the driver windows of both ends, page by page: there is no place for two layouts.
// spec: memory §2.6, memory §3.4 operation 8
pub(crate) fn check_pitches(policy: &Policy, layout: &MemoryLayout) -> Result<(), SegmentError> {
    let pitched = layout.segments.iter().position(|segment| segment.flags.contains(F::PITCH_ALIGNMENT));
    match pitched {
        Some(index) if policy.paging_by_gpu_va => Err(SegmentError::PitchAlignment(id_of(index))),
        _ => Ok(()),
    }
}

/// Which rule an AGP segment breaks. There is always one: this kernel drives no GART, so it never offers a window.
// spec: memory §1.9, memory §1.13
fn check_agp(id: SegmentId, segment: &SegmentDescription, layout: &MemoryLayout, before: &mut bool) -> SegmentError {
    if layout.model == DriverModel::Wddm2 {
        return SegmentError::Agp(id);
    }
    if segment.flags != F::AGP {
        return SegmentError::AgpWithFlags(id);
    }
    if std::mem::replace(before, true) {
        return SegmentError::AgpTwice(id);
    }
    SegmentError::AgpWithoutWindow(id)
}

fn check_one(id: SegmentId, segment: &SegmentDescription) -> Result<(), SegmentError> {
    let flags = segment.flags;
    let aperture = segment.is_aperture();
    // spec: memory §1.5, bits 12 and 22 to 31
    if flags.contains(F::RESERVED_SYS_MEM) || flags.bits() & F::RESERVED != 0 {
        return Err(SegmentError::ReservedFlags(id));
    }
    check_power(id, segment)?;
    bank::check(id, segment)?;
    if !aperture {
        check_cpu(id, segment)?;
    }
    // spec: memory §1.4, memory §1.13
    if segment.size_bytes == 0 || !segment.size_bytes.is_multiple_of(segment.page_bytes()) {
        return Err(SegmentError::Size(id));
    }
    if aperture && segment.commit_limit_bytes > segment.size_bytes {
        return Err(SegmentError::CommitLimit(id));
    }
    if segment.base_address.checked_add(segment.size_bytes).is_none() {
        return Err(SegmentError::Overlap(id));
    }
    check_ranges(id, segment)
}

/// Flags of later versions: the older forms of the descriptor have no members for a host aperture or a protected region,
/// and firmware tells of what it keeps since WDDM 2.9.
// spec: memory §1.3, memory §1.5 bit 21, memory §1.13
fn check_version(id: SegmentId, segment: &SegmentDescription, layout: &MemoryLayout) -> Result<(), SegmentError> {
    let mut later = F::empty();
    if layout.model == DriverModel::Wddm1 && !segment.is_aperture() {
        later |= F::SUPPORTS_CPU_HOST_APERTURE | F::SUPPORTS_CACHED_CPU_HOST_APERTURE;
        later |= F::VPR_SUPPORTED | F::VPR_PRESERVED_DURING_STANDBY | F::ENCRYPTED_PAGING_SUPPORTED;
    }
    if layout.version < DdiVersion::WDDM_2_9 {
        later |= F::POPULATED_BY_RESERVED_DDR_BY_FIRMWARE;
    }
    if segment.flags.intersects(later) {
        return Err(SegmentError::Version(id));
    }
    Ok(())
}

/// Standby, hibernate and partial hibernate: four combinations mean something.
// spec: memory §1.10, memory §10.1
fn check_power(id: SegmentId, segment: &SegmentDescription) -> Result<(), SegmentError> {
    let all = F::PRESERVED_DURING_STANDBY | F::PRESERVED_DURING_HIBERNATE | F::PARTIALLY_PRESERVED_DURING_HIBERNATE;
    let combination = segment.flags & all;
    let recognised = combination.is_empty()
        || combination == F::PRESERVED_DURING_STANDBY
        || combination == F::PRESERVED_DURING_STANDBY | F::PRESERVED_DURING_HIBERNATE
        || combination == F::PRESERVED_DURING_STANDBY | F::PARTIALLY_PRESERVED_DURING_HIBERNATE;
    if !recognised {
        return Err(SegmentError::PowerFlags(id));
    }
    let partial = combination.contains(F::PARTIALLY_PRESERVED_DURING_HIBERNATE);
    if partial && segment.system_memory_end_address == 0 {
        return Err(SegmentError::SystemMemoryEnd(id));
    }
    Ok(())
}

/// Promises about protected content. There is none here: nothing keeps one engine from what another may see, so allocations
/// in a protected region and hardware-protected ones are refused. A driver that relies on such a promise is told so
/// at its start, instead of being believed.
// spec: memory §1.5 bits 16 to 18, memory §1.13
fn check_protected(id: SegmentId, segment: &SegmentDescription) -> Result<(), SegmentError> {
    // On an aperture they mean nothing.
    let has = |flag| segment.flags.contains(flag) && !segment.is_aperture();
    if has(F::VPR_PRESERVED_DURING_STANDBY) && !has(F::VPR_SUPPORTED) {
        return Err(SegmentError::ProtectedRangeMissing(id));
    }
    let promises = [
        (F::VPR_PRESERVED_DURING_STANDBY, "VprPreservedDuringStandby: no content is kept in a protected region here"),
        (
            F::ENCRYPTED_PAGING_SUPPORTED,
            "EncryptedPagingSupported: no content is protected here, and none is encrypted",
        ),
    ];
    match promises.iter().find(|(flag, _)| has(*flag)) {
        Some((_, reason)) => Err(SegmentError::NotBuilt(id, reason)),
        None => Ok(()),
    }
}

/// The way of the CPU: linear, through a window, or none. On apertures it means nothing.
// spec: memory §1.5, memory §1.7, memory §10.1
fn check_cpu(id: SegmentId, segment: &SegmentDescription) -> Result<(), SegmentError> {
    let linear = segment.flags.contains(F::CPU_VISIBLE);
    let window = segment.flags.contains(F::SUPPORTS_CPU_HOST_APERTURE);
    if linear && window {
        return Err(SegmentError::CpuVisibleWithHostAperture(id));
    }
    if segment.flags.contains(F::SUPPORTS_CACHED_CPU_HOST_APERTURE) && !window {
        return Err(SegmentError::CachedWithoutHostAperture(id));
    }
    match segment.cpu {
        CpuAccess::Translated(_) if window => Err(SegmentError::CpuAccess(id)),
        CpuAccess::HostAperture(_) if !window => Err(SegmentError::CpuAccess(id)),
        CpuAccess::HostAperture(window) if window.size_in_pages == 0 => Err(SegmentError::HostApertureSize(id)),
        CpuAccess::HostAperture(window) => {
            let bytes = u64::from(window.size_in_pages) * segment.page_bytes();
            let end = window.physical_address.checked_add(bytes);
            end.map(drop).ok_or(SegmentError::BusAddress(id))
        }
        CpuAccess::Translated(origin) if linear && origin.checked_add(segment.size_bytes).is_none() => {
            Err(SegmentError::BusAddress(id))
        }
        CpuAccess::Translated(_) => Ok(()),
    }
}

/// Checks the ranges that no allocation may have, and the protected region.
// spec: memory §1.4
fn check_ranges(id: SegmentId, segment: &SegmentDescription) -> Result<(), SegmentError> {
    let page = segment.page_bytes();
    let mut ranges = segment.invalid_ranges.clone();
    ranges.sort_by_key(|range| range.segment_offset);
    let mut behind = 0;
    for range in &ranges {
        let end = range.segment_offset.checked_add(range.size_bytes);
        let whole =
            range.size_bytes > 0 && range.segment_offset.is_multiple_of(page) && range.size_bytes.is_multiple_of(page);
        let Some(end) = end.filter(|&end| whole && behind <= range.segment_offset && end <= segment.size_bytes) else {
            return Err(SegmentError::InvalidRange(id));
        };
        behind = end;
    }
    if !ranges.is_empty() && segment.is_aperture() {
        return Err(SegmentError::InvalidRange(id));
    }
    if segment.flags.contains(F::VPR_SUPPORTED) {
        let alignment = u64::from(segment.protected_alignment.max(1));
        let reserve = u64::from(segment.protected_reserve_bytes);
        let aligned = reserve <= segment.protected_bytes
            && segment.protected_offset.is_multiple_of(alignment)
            && segment.protected_bytes.is_multiple_of(alignment);
        let end = segment.protected_offset.checked_add(segment.protected_bytes);
        if !aligned || end.is_none_or(|end| end > segment.size_bytes) {
            return Err(SegmentError::ProtectedRange(id));
        }
    }
    Ok(())
}

fn overlap(one: &SegmentDescription, other: &SegmentDescription) -> bool {
    one.base_address < other.base_address + other.size_bytes && other.base_address < one.base_address + one.size_bytes
}
