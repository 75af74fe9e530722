//! Adapter start: the rules of descriptors and levels.

use ddi::{GpuMmuCaps, GpuMmuFlags, PageTableLevelDesc, PageTableUpdateMode, SegmentDescriptor4, SegmentFlags};
use wddm_types::{PAGE_BYTES, PageRun, Pages, SegmentId};

use super::world::*;
use crate::{Policy, SegmentError, VidMm};

type Change = fn(&mut Vec<SegmentDescriptor4>, &mut GpuMmuCaps, &mut Vec<PageTableLevelDesc>, &mut Policy);

fn start(change: Change) -> Result<Mm, SegmentError> {
    let bits = [5, 5, 6];
    let mut descriptors = vec![vram_descriptor(64, SegmentFlags::empty()), aperture_descriptor(64)];
    let (mut mmu, mut levels, mut policy) = (mmu(&bits), levels(&bits), policy());
    change(&mut descriptors, &mut mmu, &mut levels, &mut policy);
    VidMm::new(policy, &descriptors, mmu, &levels)
}

#[test]
fn descriptors_that_break_a_rule_fail_adapter_start() {
    // seed: M13
    // seed: M16
    // spec: memory §1.5, §1.6, §1.9, §1.10, §1.13
    use SegmentFlags as F;
    let rows: &[(&str, Change, SegmentError)] = &[
        (
            "two apertures",
            |d, _, _, _| d.push(SegmentDescriptor4 { base_address: 1 << 50, ..d[1] }),
            SegmentError::ApertureCount(2),
        ),
        ("AGP", |d, _, _, _| d[0].flags |= F::AGP, SegmentError::Agp(VRAM)),
        ("reserved for the OS", |d, _, _, _| d[0].flags |= F::RESERVED_SYS_MEM, SegmentError::ReservedFlags(VRAM)),
        ("reserved bit 31", |d, _, _, _| d[0].flags |= F::from_bits_retain(1 << 31), SegmentError::ReservedFlags(VRAM)),
        ("no page multiple", |d, _, _, _| d[0].size_bytes += 1, SegmentError::Size(VRAM)),
        ("empty", |d, _, _, _| d[0].size_bytes = 0, SegmentError::Size(VRAM)),
        (
            "no 64-KB multiple",
            |d, _, _, _| {
                d[0].flags |= F::USE_64KB_PAGES;
                d[0].size_bytes += PAGE_BYTES;
            },
            SegmentError::Size(VRAM),
        ),
        ("overlap", |d, _, _, _| d[1].base_address = VRAM_BASE + PAGE_BYTES, SegmentError::Overlap(APERTURE)),
        ("beyond 64 bits", |d, _, _, _| d[1].base_address = u64::MAX - PAGE_BYTES, SegmentError::Overlap(APERTURE)),
        ("commit limit", |d, _, _, _| d[1].commit_limit_bytes += PAGE_BYTES, SegmentError::CommitLimit(APERTURE)),
        (
            "CPU-visible and host aperture",
            |d, _, _, _| d[0].flags |= F::CPU_VISIBLE | F::SUPPORTS_CPU_HOST_APERTURE,
            SegmentError::CpuVisibleWithHostAperture(VRAM),
        ),
        (
            "cached host aperture alone",
            |d, _, _, _| d[0].flags |= F::SUPPORTS_CACHED_CPU_HOST_APERTURE,
            SegmentError::CachedWithoutHostAperture(VRAM),
        ),
        ("hibernate alone", |d, _, _, _| d[0].flags |= F::PRESERVED_DURING_HIBERNATE, SegmentError::PowerFlags(VRAM)),
        ("banks", |d, _, _, _| d[0].flags |= F::USE_BANKING, SegmentError::Banking(VRAM)),
        (
            "pitch, paging by address",
            |d, _, _, p| {
                d[0].flags |= F::PITCH_ALIGNMENT;
                p.paging_by_gpu_va = true;
            },
            SegmentError::PitchAlignment(VRAM),
        ),
        ("too many", |d, _, _, _| d.extend([SegmentDescriptor4::default(); 30]), SegmentError::TooMany),
    ];
    for (name, change, error) in rows {
        assert_eq!(start(*change).err(), Some(*error), "{name}");
    }
    assert!(start(|_, _, _, _| {}).is_ok());
}

#[test]
fn levels_that_break_a_rule_fail_adapter_start() {
    // spec: memory §4.2, §4.3
    let rows: &[(&str, Change, SegmentError)] = &[
        (
            "one level",
            |_, m, l, _| {
                m.page_table_levels = 1;
                l.truncate(1);
            },
            SegmentError::LevelCount(1),
        ),
        ("seven levels", |_, m, _, _| m.page_table_levels = 7, SegmentError::LevelCount(7)),
        ("a description too few", |_, _, l, _| l.truncate(2), SegmentError::LevelCount(3)),
        ("bits do not add up", |_, m, _, _| m.virtual_address_bits = 40, SegmentError::IndexBits(2)),
        ("resizable root", |_, _, l, _| l[2].index_bits = 0, SegmentError::ResizableRoot(2)),
        ("table of no page", |_, _, l, _| l[0].size_bytes = 100, SegmentError::TableSize(0)),
        ("alignment of 3 pages", |_, _, l, _| l[1].alignment_bytes = 3 * 4096, SegmentError::TableSize(1)),
        ("tables in the aperture", |_, _, l, _| l[0].segment = APERTURE, SegmentError::TableSegment(0)),
        ("no such segment", |_, _, l, _| l[1].segment = SegmentId(9), SegmentError::TableSegment(1)),
        (
            "no reserve for directories apart",
            |_, _, l, p| {
                l[1].segment = SegmentId::SYSTEM;
                p.directory_reserve = Pages::ZERO;
            },
            SegmentError::Reserve,
        ),
        (
            "a reserve too small to be shared",
            |_, _, l, p| {
                (l[2].segment, l[2].paging_process_segment) = (SegmentId::SYSTEM, SegmentId::SYSTEM);
                p.directory_reserve = Pages(7);
            },
            SegmentError::Reserve,
        ),
        (
            "large table in system memory",
            |_, _, l, _| {
                l[0].paging_process_segment = SegmentId::SYSTEM;
                l[0].size_bytes = 8192;
            },
            SegmentError::TableSize(0),
        ),
        (
            "directories by the CPU",
            |_, m, _, _| m.update_mode = PageTableUpdateMode::CpuVirtual,
            SegmentError::CpuWrittenTable(0),
        ),
        (
            "directories by the CPU, leaf tables visible",
            |d, m, _, _| {
                m.update_mode = PageTableUpdateMode::CpuVirtual;
                d[0].flags |= SegmentFlags::CPU_VISIBLE;
            },
            SegmentError::CpuWrittenDirectory(1),
        ),
        ("half a page of 64-KB entries", |_, m, _, _| m.leaf_table_64kb_bytes = 2048, SegmentError::LeafTableSize),
        (
            "a large table of 64-KB entries in system memory",
            |_, m, l, _| {
                m.leaf_table_64kb_bytes = 8192;
                l.iter_mut().for_each(|level| level.segment = SegmentId::SYSTEM);
            },
            SegmentError::LeafTableSize,
        ),
        ("reserve of all", |_, _, _, p| p.page_table_reserve = Pages(64 + RESERVE), SegmentError::Reserve),
        (
            "no page at all",
            |_, _, _, p| p.system_pages = PageRun { first: 0, count: Pages(0) },
            SegmentError::NoSystemPage,
        ),
    ];
    for (name, change, error) in rows {
        assert_eq!(start(*change).err(), Some(*error), "{name}");
    }
}

#[test]
fn a_capability_that_the_kernel_does_not_honour_fails_adapter_start() {
    // spec: memory §4.2
    for bit in 0..32 {
        let flag = GpuMmuFlags::from_bits_retain(1 << bit);
        let world =
            (vec![vram_descriptor(64, SegmentFlags::empty()), aperture_descriptor(64)], policy(), levels(&[5, 5, 6]));
        let mut caps = mmu(&[5, 5, 6]);
        caps.flags |= flag;
        let started = Mm::new(world.1, &world.0, caps, &world.2).err();
        let expected = match flag {
            GpuMmuFlags::DUAL_PTE_SUPPORTED => Some(SegmentError::DualWithoutTables),
            GpuMmuFlags::CACHED_PAGE_TABLES => Some(SegmentError::MmuCapNotBuilt("CachedPageTables")),
            _ if bit > 12 => Some(SegmentError::ReservedMmuCaps(1 << bit)),
            _ => None,
        };
        assert_eq!(started, expected, "bit {bit}");
    }
}

#[test]
fn the_reserve_is_not_for_allocations() {
    // seed: M01
    // seed: M02
    let mm = start(|_, _, _, _| {}).expect("rules are kept");
    assert_eq!(mm.capacity_bytes(VRAM), 64 * PAGE_BYTES);
    assert_eq!(mm.capacity_bytes(APERTURE), 64 * PAGE_BYTES);
    assert_eq!(mm.segments().len(), 2);
    // spec: memory §1.12, the commit limit and not the size counts for an aperture
    let mm = start(|d, _, _, _| d[1].commit_limit_bytes = 8 * PAGE_BYTES).expect("rules are kept");
    assert_eq!(mm.capacity_bytes(APERTURE), 8 * PAGE_BYTES);
}

#[test]
fn tables_may_live_in_system_memory() {
    // spec: memory §4.3
    let mut mm = start(|_, _, l, _| {
        for level in l {
            (level.segment, level.paging_process_segment) = (SegmentId::SYSTEM, SegmentId::SYSTEM);
        }
    })
    .expect("rules are kept");
    let (space, _) = mm.create_space(crate::SpaceKind::Process).expect("tables");
    assert!(mm.root(space).segment.is_system());
    assert_eq!(mm.capacity_bytes(VRAM), (64 + RESERVE) * PAGE_BYTES);
}
