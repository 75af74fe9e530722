//! The rules that a new allocation keeps: sizes, alignment, flags, sets, primaries, memory that exists (memory §1.13, §2.1,
//! §2.2, §2.6, §2.7, §6.3). Pure: it looks at the driver's description and the segments, and changes nothing.

use ddi::{AllocationFlags, AllocationFlags2, AllocationInfo, DdiVersion, DriverModel, SegmentFlags, VidMmCaps};
use wddm_types::{PAGE_BYTES, PageRun, SegmentId, SegmentSet};

use crate::allocation::AllocationError;
use crate::segment::Segment;

/// Flags of content whose system copy is what a lock shows, wherever it lies.
// spec: memory §2.2 bits 1 and 4
pub(crate) const SYSTEM_COPY: AllocationFlags =
    AllocationFlags::PERMANENT_SYS_MEM.union(AllocationFlags::EXISTING_SYS_MEM);

/// Flags of content that the CPU may see wherever it lies. With the second it has an address there only while it is locked, which
/// is all that anything here ever has.
// spec: memory §2.2 bits 0 and 18
pub(crate) const VISIBLE: AllocationFlags = AllocationFlags::CPU_VISIBLE.union(AllocationFlags::CPU_VISIBLE_ON_DEMAND);

/// Where an allocation comes from, beside the driver's description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// It is a primary.
    pub primary: bool,
    /// Its backing store exists already: these pages. They stay their owner's.
    pub existing: Option<Vec<PageRun>>,
}

/// The terms for a driver's flags: its version, its capabilities and its segments.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub model: DriverModel,
    pub version: DdiVersion,
    pub caps: VidMmCaps,
    pub segments: &'a [Segment],
}

/// Checks a description. Answers with it as it counts here, and with its size in pages, rounded to the segments' pages.
pub(crate) fn check(
    mut info: AllocationInfo,
    origin: &Origin,
    terms: Terms<'_>,
) -> Result<(AllocationInfo, u64), AllocationError> {
    let Terms { model, segments, .. } = terms;
    if info.size_bytes == 0 {
        return Err(AllocationError::ZeroSize);
    }
    if info.priority == 0 {
        return Err(AllocationError::ZeroPriority);
    }
    if info.alignment_bytes > 1 && !info.alignment_bytes.is_power_of_two() {
        return Err(AllocationError::Alignment);
    }
    check_flags(&info, origin.primary, terms)?;
    check_flags2(info.flags2, terms.version)?;
    info.supported_segments = supported(&info, model, segments)?;
    check_sets(&info, segments)?;
    check_cpu(&info, origin.primary, terms)?;
    let pages = pages(&info, segments)?;
    check_existing(&info, origin, pages)?;
    check_shared_backing(&info, origin, segments)?;
    debug_assert!(!info.supported_segments.is_empty(), "an allocation is created that may lie nowhere");
    debug_assert!(pages > 0, "{} bytes have no page", info.size_bytes);
    Ok((info, pages))
}

// spec: memory §2.2, bit 0 of DXGK_ALLOCATIONINFOFLAGS2
fn check_shared_backing(info: &AllocationInfo, origin: &Origin, segments: &[Segment]) -> Result<(), AllocationError> {
    if !info.flags2.contains(AllocationFlags2::SHARE_BACKING_STORE_WITH_KMD) {
        return Ok(());
    }
    let in_system = |id| find(id, segments).is_ok_and(Segment::is_aperture);
    let sound = origin.existing.is_none() && info.supported_segments.iter().all(in_system);
    if sound { Ok(()) } else { Err(AllocationError::SharedBackingStore) }
}

/// Bits that name nothing in a version of the flags.
fn reserved(model: DriverModel) -> AllocationFlags {
    use AllocationFlags as F;
    let named = (1 << 19) - 1;
    match model {
        DriverModel::Wddm1 => F::from_bits_retain(!named),
        DriverModel::Wddm2 => F::from_bits_retain(!named | (F::SYNCHRONOUS_PAGING | F::LINK_MIRRORED).bits()),
    }
}

// spec: memory §2.2, with the incompatibility summary
fn check_flags(info: &AllocationInfo, primary: bool, terms: Terms<'_>) -> Result<(), AllocationError> {
    let Terms { model, version, caps, segments } = terms;
    use AllocationFlags as F;
    let flags = info.flags;
    let has = |flag: F| flags.contains(flag);
    let exclusive = F::PERMANENT_SYS_MEM | F::PROTECTED | F::EXISTING_SYS_MEM | F::EXISTING_KERNEL_SYS_MEM;
    let needs_cpu = F::PERMANENT_SYS_MEM | F::CACHED | F::HISTORY_BUFFER;
    let visible = flags.intersects(VISIBLE);
    let coherent = segments
        .iter()
        .any(|segment| segment.is_aperture() && segment.descriptor.flags.contains(SegmentFlags::CACHE_COHERENT));
    let history_wants = if coherent { F::CPU_VISIBLE | F::CACHED } else { F::CPU_VISIBLE };
    let history_allows = F::CPU_VISIBLE | F::CACHED | F::HISTORY_BUFFER;
    let broken = flags.intersects(reserved(model))
        || (flags & exclusive).bits().count_ones() > 1
        || flags.intersects(needs_cpu) && !visible
        || has(F::EXPLICIT_RESIDENCY_NOTIFICATION) && !has(F::ACCESSED_PHYSICALLY)
        || has(F::HISTORY_BUFFER) && !(has(history_wants) && history_allows.contains(flags))
        || primary && flags.intersects(exclusive | F::CACHED);
    if broken {
        return Err(AllocationError::Flags);
    }
    match model {
        DriverModel::Wddm1 => {
            if has(F::USE_ALTERNATE_VA) && !primary {
                return Err(AllocationError::Flags);
            }
        }
        DriverModel::Wddm2 => {
            // spec: memory §2.2 bit 13
            if has(F::MAP_APERTURE_CPU_VISIBLE)
                && (version < DdiVersion::WDDM_2_9 || !caps.contains(VidMmCaps::MAP_APERTURE2_SUPPORTED))
            {
                return Err(AllocationError::NoMapAperture2);
            }
            if has(F::CREATE_IN_VPR) {
                return Err(AllocationError::NotBuilt(
                    "content in a protected region: nothing here keeps one engine from what another may see",
                ));
            }
        }
    }
    if has(F::HARDWARE_PROTECTED) {
        return Err(AllocationError::NotBuilt("hardware-protected content: this hardware protects none"));
    }
    if has(F::EXISTING_KERNEL_SYS_MEM) {
        return Err(AllocationError::NotBuilt("a kernel range as backing store: no driver here has one to give"));
    }
    Ok(())
}

// spec: memory §2.2, DXGK_ALLOCATIONINFOFLAGS2
fn check_flags2(flags: AllocationFlags2, version: DdiVersion) -> Result<(), AllocationError> {
    let named = match version {
        version if version >= DdiVersion::WDDM_3_2 => AllocationFlags2::from_bits_retain((1 << 6) - 1),
        version if version >= DdiVersion::WDDM_3_0 => AllocationFlags2::SHARE_BACKING_STORE_WITH_KMD,
        _ => AllocationFlags2::empty(),
    };
    if !named.contains(flags) {
        return Err(AllocationError::Flags);
    }
    Ok(())
}

/// The supported set by version, without segments that it cannot be in.
// spec: memory §2.1
fn supported(info: &AllocationInfo, model: DriverModel, segments: &[Segment]) -> Result<SegmentSet, AllocationError> {
    let named = match model {
        DriverModel::Wddm2 => info.supported_segments,
        // VidMm places content for reads and writes alike; what can only be written has no reader to lose.
        DriverModel::Wddm1 => match SegmentSet(info.supported_segments.0 & info.read_segments.0) {
            SegmentSet::NONE => info.supported_segments,
            both => both,
        },
    };
    if named.is_empty() {
        return Err(AllocationError::NoSegment);
    }
    let mut usable = SegmentSet::NONE;
    for id in named.iter() {
        let segment = find(id, segments)?;
        // spec: memory §2.6: no PitchAlignedSize, not supported there
        if !segment.aligns_pitches() || info.pitch_aligned_size_bytes != 0 {
            usable = usable.with(SegmentSet::only(id));
        }
    }
    if info.pitch_aligned_size_bytes != 0 && info.pitch_aligned_size_bytes < info.size_bytes {
        return Err(AllocationError::PitchAlignedSize);
    }
    let pitched = |id: SegmentId| find(id, segments).is_ok_and(Segment::aligns_pitches);
    if usable.iter().any(pitched) && !info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY) {
        return Err(AllocationError::PitchAlignedScattered);
    }
    if usable.is_empty() { Err(AllocationError::NoSegment) } else { Ok(usable) }
}

fn find(id: SegmentId, segments: &[Segment]) -> Result<&Segment, AllocationError> {
    segments.get(usize::from(id.0).wrapping_sub(1)).ok_or(AllocationError::NoSuchSegment(id))
}

// spec: memory §1.13, memory §2.1
fn check_sets(info: &AllocationInfo, segments: &[Segment]) -> Result<(), AllocationError> {
    for id in info.preferred_segment.segments() {
        if !info.supported_segments.contains(id) {
            return Err(AllocationError::PreferredNotSupported(id));
        }
    }
    for id in info.eviction_segments.iter() {
        let segment = find(id, segments)?;
        if !segment.is_aperture() || segment.aligns_pitches() {
            return Err(AllocationError::EvictionNotAperture(id));
        }
    }
    // One physical adapter: a link has more.
    if info.physical_adapter != 0 {
        return Err(AllocationError::PhysicalAdapter);
    }
    Ok(())
}

fn check_cpu(info: &AllocationInfo, primary: bool, terms: Terms<'_>) -> Result<(), AllocationError> {
    let segments = terms.segments;
    let of = |set: SegmentSet| segments.iter().filter(move |segment| set.contains(segment.id));
    let reached = SegmentFlags::CPU_VISIBLE | SegmentFlags::SUPPORTS_CPU_HOST_APERTURE;
    let unseen = |segment: &&Segment| !segment.is_aperture() && !segment.descriptor.flags.intersects(reached);
    // spec: memory §2.7, primary rules: the preferred segments, else the write set
    let preferred = info.preferred_segment.segments().fold(SegmentSet::NONE, |set, id| set.with(SegmentSet::only(id)));
    let placed = if preferred.is_empty() { info.supported_segments } else { preferred };
    let may_be_unseen = terms.caps.contains(VidMmCaps::NON_CPU_VISIBLE_PRIMARY);
    if primary
        && !may_be_unseen
        && let Some(segment) = of(placed).find(unseen)
    {
        return Err(AllocationError::PrimaryNotVisible(segment.id));
    }
    // spec: memory §6.3, requirements
    // An aligned pitch is no layout for a program: the CPU sees such content in system memory only.
    // So is content of which a lock shows the system copy always.
    let not_linear = |segment: &Segment| {
        let linear = segment.descriptor.flags.contains(SegmentFlags::CPU_VISIBLE) && !segment.aligns_pitches();
        !segment.is_aperture() && (!linear || info.flags.intersects(SYSTEM_COPY))
    };
    let visible = info.flags.intersects(VISIBLE);
    if visible && of(info.supported_segments).any(not_linear) && !of(info.supported_segments).any(Segment::is_aperture)
    {
        return Err(AllocationError::LockNeedsAperture);
    }
    Ok(())
}

fn pages(info: &AllocationInfo, segments: &[Segment]) -> Result<u64, AllocationError> {
    let supported = || segments.iter().filter(|segment| info.supported_segments.contains(segment.id));
    let page_bytes = supported().map(Segment::page_bytes).max().expect("a supported segment");
    // spec: memory §1.13
    if page_bytes > PAGE_BYTES && (info.alignment_bytes == 0 || !info.alignment_bytes.is_multiple_of(page_bytes)) {
        return Err(AllocationError::Alignment64Kb);
    }
    let bytes = info.size_bytes.checked_next_multiple_of(page_bytes).ok_or(AllocationError::TooLarge)?;
    let physically = info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY);
    // Content that is not accessed physically needs no room in the aperture itself.
    let there = |segment: &Segment| {
        let pitched = info.pitch_aligned_size_bytes.checked_next_multiple_of(segment.page_bytes());
        if segment.aligns_pitches() { pitched } else { Some(bytes) }
    };
    let fits = |segment: &Segment| {
        segment.is_aperture() && !physically || there(segment).is_some_and(|bytes| bytes <= segment.capacity_bytes())
    };
    if !supported().any(fits) {
        return Err(AllocationError::TooLarge);
    }
    Ok(bytes / PAGE_BYTES)
}

// spec: memory §2.2, bits 4 and 5
fn check_existing(info: &AllocationInfo, origin: &Origin, pages: u64) -> Result<(), AllocationError> {
    let declared = info.flags.contains(AllocationFlags::EXISTING_SYS_MEM);
    let given = origin.existing.as_ref().map(|runs| runs.iter().map(|run| run.count.0).sum::<u64>());
    match (declared, given) {
        (false, None) => Ok(()),
        (true, Some(given)) if given == pages => Ok(()),
        _ => Err(AllocationError::ExistingMemory),
    }
}
