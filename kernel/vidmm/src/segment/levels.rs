//! The rules of page-table levels (memory §4.2, §4.3): how many, how wide, where the tables live. A broken one fails
//! adapter start.

use ddi::{GpuMmuCaps, PageTableLevelDesc, PageTableUpdateMode, RootPageTableSize, SegmentFlags};
use wddm_types::{PAGE_BYTES, SegmentId};

use super::description::SegmentDescription;
use super::error::SegmentError;
use crate::page_table::reserve_of;
use crate::policy::Policy;

/// Rules of the page-table levels (memory §4.2, §4.3).
pub(crate) fn check_levels(
    policy: &Policy,
    segments: &[SegmentDescription],
    mmu: &GpuMmuCaps,
    levels: &[PageTableLevelDesc],
    roots: &[RootPageTableSize],
) -> Result<(), SegmentError> {
    if !(2..=6).contains(&mmu.page_table_levels) || levels.len() != mmu.page_table_levels as usize {
        return Err(SegmentError::LevelCount(mmu.page_table_levels));
    }
    check_update_mode(segments, mmu, levels)?;
    check_roots(segments, mmu, levels, roots)?;
    for (number, level) in (0u32..).zip(levels) {
        check_alignment(number, level)?;
        // The size that a driver reports for a resizable root is no promise and may be 0.
        if roots.is_empty() || number + 1 < mmu.page_table_levels {
            check_level(number, level, segments)?;
        } else {
            check_segments_of(number, level, 0, segments)?;
        }
    }
    let bits: u32 = levels.iter().map(|level| level.index_bits).sum();
    if roots.is_empty() && bits + 12 != mmu.virtual_address_bits || mmu.virtual_address_bits > 63 {
        return Err(SegmentError::IndexBits(mmu.page_table_levels - 1));
    }
    if policy.paging_table_reserve >= policy.page_table_reserve {
        return Err(SegmentError::Reserve);
    }
    let named = levels.iter().flat_map(|level| [level.segment, level.paging_process_segment]);
    named.into_iter().try_for_each(|id| check_reserve(policy, segments, levels, id))
}

/// The reserve of a segment that a level names has something for each kind of table there, and leaves something beside it.
// spec: memory §4.3
fn check_reserve(
    policy: &Policy,
    segments: &[SegmentDescription],
    levels: &[PageTableLevelDesc],
    id: SegmentId,
) -> Result<(), SegmentError> {
    let (process, paging) = reserve_of(policy, levels, id);
    let enough = (!process.is_zero() || levels.iter().all(|level| level.segment != id))
        && (!paging.is_zero() || levels.iter().all(|level| level.paging_process_segment != id));
    let fits = id.is_system() || {
        let descriptor = &segments[usize::from(id.0) - 1];
        let bytes = (process + paging).bytes();
        bytes < descriptor.size_bytes && bytes.is_multiple_of(descriptor.page_bytes())
    };
    if enough && fits { Ok(()) } else { Err(SegmentError::Reserve) }
}

/// The lengths of a resizable root: the driver has them where there are two levels, each is longer than the one before and
/// whole pages of the root's segment, the longest reaches all addresses.
// spec: memory §4.2, memory §4.6
fn check_roots(
    segments: &[SegmentDescription],
    mmu: &GpuMmuCaps,
    levels: &[PageTableLevelDesc],
    roots: &[RootPageTableSize],
) -> Result<(), SegmentError> {
    let Some(last) = roots.last() else { return Ok(()) };
    let [leaf, root] = levels else { return Err(SegmentError::RootSizes) };
    let entries = mmu.virtual_address_bits.checked_sub(12 + leaf.index_bits).filter(|bits| (1..=31).contains(bits));
    if entries.is_none_or(|bits| last.entries < 1 << bits) {
        return Err(SegmentError::IndexBits(1));
    }
    for id in [root.segment, root.paging_process_segment] {
        let page = segments.get(usize::from(id.0).wrapping_sub(1)).map_or(PAGE_BYTES, SegmentDescription::page_bytes);
        let mut before = 0;
        for size in roots {
            // spec: memory §4.3, a table in system memory is at most 4 KB
            let fits = !id.is_system() || size.bytes <= PAGE_BYTES;
            if size.entries <= before || size.bytes == 0 || !size.bytes.is_multiple_of(page) || !fits {
                return Err(SegmentError::RootSize(size.entries));
            }
            before = size.entries;
        }
    }
    Ok(())
}

/// Tables that the CPU writes are where it reaches them: directories in system memory, leaf tables there or in a segment
/// that it sees.
// spec: memory §4.2
fn check_update_mode(
    segments: &[SegmentDescription],
    mmu: &GpuMmuCaps,
    levels: &[PageTableLevelDesc],
) -> Result<(), SegmentError> {
    for (number, level) in (0u32..).zip(levels) {
        let local = (!level.segment.is_system()).then(|| segments.get(usize::from(level.segment.0) - 1)).flatten();
        match mmu.update_mode {
            PageTableUpdateMode::CpuVirtual if number > 0 && local.is_some() => {
                return Err(SegmentError::CpuWrittenDirectory(number));
            }
            PageTableUpdateMode::CpuVirtual
                if local.is_some_and(|segment| !segment.flags.contains(SegmentFlags::CPU_VISIBLE)) =>
            {
                return Err(SegmentError::CpuWrittenTable(number));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_level(number: u32, level: &PageTableLevelDesc, segments: &[SegmentDescription]) -> Result<(), SegmentError> {
    match level.index_bits {
        0 => return Err(SegmentError::ResizableRoot(number)),
        1..=31 => {}
        _ => return Err(SegmentError::IndexBits(number)),
    }
    let size = u64::from(level.size_bytes);
    if size == 0 || !size.is_multiple_of(PAGE_BYTES) {
        return Err(SegmentError::TableSize(number));
    }
    check_segments_of(number, level, size, segments)
}

/// Tables of every level lie where their level says, the longest root too.
// spec: memory §4.3
fn check_alignment(number: u32, level: &PageTableLevelDesc) -> Result<(), SegmentError> {
    match level.alignment_bytes > 1 && !level.alignment_bytes.is_power_of_two() {
        true => Err(SegmentError::TableSize(number)),
        false => Ok(()),
    }
}

/// Tables of this size can live in the segments that their level names.
fn check_segments_of(
    number: u32,
    level: &PageTableLevelDesc,
    size: u64,
    segments: &[SegmentDescription],
) -> Result<(), SegmentError> {
    for id in [level.segment, level.paging_process_segment] {
        if id.is_system() {
            // spec: memory §4.3, a table in system memory is at most 4 KB
            if size > PAGE_BYTES {
                return Err(SegmentError::TableSize(number));
            }
            continue;
        }
        let memory = segments.get(usize::from(id.0) - 1).is_some_and(|descriptor| !descriptor.is_aperture());
        if !memory {
            return Err(SegmentError::TableSegment(number));
        }
    }
    Ok(())
}
