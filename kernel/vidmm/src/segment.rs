//! The segments of one adapter: what the driver described, checked, with the frames of each. It does not place
//! anything: `residency` does. Called when an adapter starts.

use ddi::{GpuMmuCaps, PageTableLevelDesc, PageTableUpdateMode, SegmentDescriptor4, SegmentFlags};
use wddm_types::{PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::policy::Policy;
use crate::pool::FramePool;
use crate::rank::Victims;

/// Why an adapter with these descriptors does not start. The driver is to blame, except where the text says that
/// something is not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The message of each variant says what it means.
pub enum SegmentError {
    #[error("more than 31 segments (memory §0)")]
    TooMany,
    #[error("{0} aperture segments; a WDDM 2 adapter reports exactly one (memory §1.6)")]
    ApertureCount(usize),
    #[error("segment {}: the AGP kind does not exist in WDDM 2 (memory §1.9)", .0.0)]
    Agp(SegmentId),
    #[error("segment {}: reserved flags are set (memory §1.5)", .0.0)]
    ReservedFlags(SegmentId),
    #[error("segment {}: size is zero or no multiple of the segment's page (memory §1.4)", .0.0)]
    Size(SegmentId),
    #[error("segment {}: its addresses overlap another segment or leave 64 bits (memory §1.1)", .0.0)]
    Overlap(SegmentId),
    #[error("segment {}: the commit limit exceeds the size (memory §1.13)", .0.0)]
    CommitLimit(SegmentId),
    #[error("segment {}: CpuVisible and a CPU host aperture exclude each other (memory §1.5)", .0.0)]
    CpuVisibleWithHostAperture(SegmentId),
    #[error("segment {}: a cached CPU host aperture without a CPU host aperture (memory §1.5)", .0.0)]
    CachedWithoutHostAperture(SegmentId),
    #[error("segment {}: this combination of power flags is not recognised (memory §1.10)", .0.0)]
    PowerFlags(SegmentId),
    #[error("segment {}: descriptor 4 carries no bank table (memory §10.1 row 3)", .0.0)]
    Banking(SegmentId),
    #[error("segment {}: segments with PitchAlignment are not built", .0.0)]
    PitchAlignment(SegmentId),
    #[error("{0} page-table levels; 2 to 6 are allowed and each has one description (memory §4.2)")]
    LevelCount(u32),
    #[error("level {0}: index bits do not add up to the width of an address (memory §4.3)")]
    IndexBits(u32),
    #[error("level {0}: a resizable root (0 index bits) is not built")]
    ResizableRoot(u32),
    #[error("level {0}: table size or alignment (memory §4.3)")]
    TableSize(u32),
    #[error("level {0}: page tables live in a memory segment or in system memory (memory §4.3)")]
    TableSegment(u32),
    #[error("level {0}: page tables of several levels in different segments are not built")]
    TableSegmentsDiffer(u32),
    #[error("page tables in this update mode are not built; GPU_PHYSICAL is (memory §4.2)")]
    UpdateMode,
    #[error("the page-table reserve does not fit the page-table segment")]
    Reserve,
    #[error("there is no system page for the dummy page")]
    NoSystemPage,
}

/// One segment.
#[derive(Debug)]
pub struct Segment {
    /// Its number.
    pub id: SegmentId,
    /// What the driver said.
    pub descriptor: SegmentDescriptor4,
    pub(crate) pool: FramePool,
    /// Who has pages here, and who loses them first.
    pub(crate) victims: Victims,
}

impl Segment {
    /// Whether it only redirects to system pages.
    pub fn is_aperture(&self) -> bool {
        self.descriptor.flags.contains(SegmentFlags::APERTURE)
    }

    /// Bytes of its page: 4 KB or 64 KB (memory §1.5 bit 11).
    pub fn page_bytes(&self) -> u64 {
        page_bytes(&self.descriptor)
    }

    /// Bytes that allocations can have here: the size without page-table reserve; for an aperture the commit limit.
    pub fn capacity_bytes(&self) -> u64 {
        Pages(self.pool.capacity_pages()).bytes()
    }

    /// Bytes that allocations have here now, lazily evicted ones included.
    pub fn resident_bytes(&self) -> u64 {
        Pages(self.pool.capacity_pages() - self.pool.free_pages()).bytes()
    }
}

/// Opens the pools of checked segments, the page-table reserve cut off the end of its segment.
pub(crate) fn open(policy: &Policy, descriptors: &[SegmentDescriptor4], leaf: &PageTableLevelDesc) -> Vec<Segment> {
    let segment = |(index, descriptor): (usize, &SegmentDescriptor4)| {
        let id = id_of(index);
        let bytes = if descriptor.flags.contains(SegmentFlags::APERTURE) {
            descriptor.commit_limit_bytes / PAGE_BYTES * PAGE_BYTES
        } else if id == leaf.segment || id == leaf.paging_process_segment {
            descriptor.size_bytes - policy.page_table_reserve.bytes()
        } else {
            descriptor.size_bytes
        };
        let pool = FramePool::new(PageRun { first: 0, count: Pages(bytes / PAGE_BYTES) });
        Segment { id, descriptor: *descriptor, pool, victims: Victims::default() }
    };
    descriptors.iter().enumerate().map(segment).collect()
}

/// Rules of the descriptors (memory §1.5, §1.10, §1.13).
pub(crate) fn check_segments(descriptors: &[SegmentDescriptor4]) -> Result<(), SegmentError> {
    // spec: memory §0, five-bit ids
    if descriptors.len() > usize::from(SegmentId::MAX.0) {
        return Err(SegmentError::TooMany);
    }
    for (index, descriptor) in descriptors.iter().enumerate() {
        check_one(id_of(index), descriptor)?;
        let others = descriptors[..index].iter();
        if others.clone().any(|other| overlap(other, descriptor)) {
            return Err(SegmentError::Overlap(id_of(index)));
        }
    }
    // spec: memory §1.6
    let apertures = descriptors.iter().filter(|d| d.flags.contains(SegmentFlags::APERTURE)).count();
    if apertures != 1 {
        return Err(SegmentError::ApertureCount(apertures));
    }
    Ok(())
}

/// Rules of the page-table levels (memory §4.2, §4.3).
pub(crate) fn check_levels(
    policy: &Policy,
    descriptors: &[SegmentDescriptor4],
    mmu: &GpuMmuCaps,
    levels: &[PageTableLevelDesc],
) -> Result<(), SegmentError> {
    if !(2..=6).contains(&mmu.page_table_levels) || levels.len() != mmu.page_table_levels as usize {
        return Err(SegmentError::LevelCount(mmu.page_table_levels));
    }
    if mmu.update_mode != PageTableUpdateMode::GpuPhysical {
        return Err(SegmentError::UpdateMode);
    }
    for (number, level) in (0u32..).zip(levels) {
        check_level(number, level, descriptors)?;
        let same =
            level.segment == levels[0].segment && level.paging_process_segment == levels[0].paging_process_segment;
        if !same {
            return Err(SegmentError::TableSegmentsDiffer(number));
        }
    }
    let bits: u32 = levels.iter().map(|level| level.index_bits).sum();
    if bits + 12 != mmu.virtual_address_bits || mmu.virtual_address_bits > 63 {
        return Err(SegmentError::IndexBits(mmu.page_table_levels - 1));
    }
    if policy.paging_table_reserve >= policy.page_table_reserve {
        return Err(SegmentError::Reserve);
    }
    let both = [levels[0].segment, levels[0].paging_process_segment];
    let apart = both.iter().all(|id| !id.is_system()) && both[0] != both[1];
    if apart {
        return Err(SegmentError::TableSegmentsDiffer(0));
    }
    if let Some(id) = both.into_iter().find(|id| !id.is_system()) {
        let descriptor = &descriptors[usize::from(id.0) - 1];
        let reserve = policy.page_table_reserve.bytes();
        let whole = reserve.is_multiple_of(page_bytes(descriptor));
        if reserve >= descriptor.size_bytes || !whole {
            return Err(SegmentError::Reserve);
        }
    }
    Ok(())
}

fn check_one(id: SegmentId, descriptor: &SegmentDescriptor4) -> Result<(), SegmentError> {
    use SegmentFlags as F;
    let flags = descriptor.flags;
    let aperture = flags.contains(F::APERTURE);
    // spec: memory §1.9
    if flags.contains(F::AGP) {
        return Err(SegmentError::Agp(id));
    }
    // spec: memory §1.5, bits 12 and 22 to 31
    if flags.contains(F::RESERVED_SYS_MEM) || flags.bits() >> 22 != 0 {
        return Err(SegmentError::ReservedFlags(id));
    }
    // spec: memory §1.10
    let standby = flags.contains(F::PRESERVED_DURING_STANDBY);
    let hibernate = flags.contains(F::PRESERVED_DURING_HIBERNATE);
    let partially = flags.contains(F::PARTIALLY_PRESERVED_DURING_HIBERNATE);
    if (hibernate || partially) && !standby || hibernate && partially {
        return Err(SegmentError::PowerFlags(id));
    }
    if flags.contains(F::USE_BANKING) {
        return Err(SegmentError::Banking(id));
    }
    if flags.contains(F::PITCH_ALIGNMENT) {
        return Err(SegmentError::PitchAlignment(id));
    }
    // spec: memory §1.5, bits 2, 13, 14; on apertures CpuVisible means nothing (§10.1 row 5)
    if flags.contains(F::CPU_VISIBLE | F::SUPPORTS_CPU_HOST_APERTURE) && !aperture {
        return Err(SegmentError::CpuVisibleWithHostAperture(id));
    }
    if flags.contains(F::SUPPORTS_CACHED_CPU_HOST_APERTURE) && !flags.contains(F::SUPPORTS_CPU_HOST_APERTURE) {
        return Err(SegmentError::CachedWithoutHostAperture(id));
    }
    // spec: memory §1.4, §1.13
    if descriptor.size_bytes == 0 || !descriptor.size_bytes.is_multiple_of(page_bytes(descriptor)) {
        return Err(SegmentError::Size(id));
    }
    if aperture && descriptor.commit_limit_bytes > descriptor.size_bytes {
        return Err(SegmentError::CommitLimit(id));
    }
    if descriptor.base_address.checked_add(descriptor.size_bytes).is_none() {
        return Err(SegmentError::Overlap(id));
    }
    Ok(())
}

fn check_level(
    number: u32,
    level: &PageTableLevelDesc,
    descriptors: &[SegmentDescriptor4],
) -> Result<(), SegmentError> {
    match level.index_bits {
        0 => return Err(SegmentError::ResizableRoot(number)),
        1..=31 => {}
        _ => return Err(SegmentError::IndexBits(number)),
    }
    let size = u64::from(level.size_bytes);
    let alignment = u64::from(level.alignment_bytes);
    if size == 0 || !size.is_multiple_of(PAGE_BYTES) || alignment > 1 && !alignment.is_power_of_two() {
        return Err(SegmentError::TableSize(number));
    }
    for id in [level.segment, level.paging_process_segment] {
        if id.is_system() {
            // spec: memory §4.3, a table in system memory is at most 4 KB
            if size > PAGE_BYTES {
                return Err(SegmentError::TableSize(number));
            }
            continue;
        }
        let memory = descriptors
            .get(usize::from(id.0) - 1)
            .is_some_and(|descriptor| !descriptor.flags.contains(SegmentFlags::APERTURE));
        if !memory {
            return Err(SegmentError::TableSegment(number));
        }
    }
    Ok(())
}

pub(crate) fn page_bytes(descriptor: &SegmentDescriptor4) -> u64 {
    let large =
        descriptor.flags.contains(SegmentFlags::USE_64KB_PAGES) && !descriptor.flags.contains(SegmentFlags::APERTURE);
    if large { 16 * PAGE_BYTES } else { PAGE_BYTES }
}

fn overlap(one: &SegmentDescriptor4, other: &SegmentDescriptor4) -> bool {
    one.base_address < other.base_address + other.size_bytes && other.base_address < one.base_address + one.size_bytes
}

fn id_of(index: usize) -> SegmentId {
    // CAST: at most 31 segments.
    SegmentId(index as u8 + 1)
}
