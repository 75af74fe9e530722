//! The tests' fixtures: descriptions of small adapters, and a naive machine that carries out paging work on
//! memory of one number per page.

mod machine;

use std::collections::{BTreeMap, VecDeque};

use ddi::{
    AllocationInfo, CpuAccess, CpuHostAperture, GpuMmuCaps, GpuMmuFlags, KmdAllocation, PRIORITY_NORMAL,
    PageTableLevelDesc, PageTableUpdateMode, Pte, PteFlags, SegmentDescriptor4, SegmentFlags, SegmentPreference,
};
use wddm_types::{FencePoint, GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId, SegmentSet};

use crate::allocation::Placement;
use crate::{AllocationId, DeviceId, Direction, Operation, Policy, SpaceId, SpaceKind, VidMm, Work};

pub use machine::Machine;

pub type Mm = VidMm<u8>;
pub const VRAM: SegmentId = SegmentId(1);
pub const APERTURE: SegmentId = SegmentId(2);
pub const EXTRA: SegmentId = SegmentId(3);
pub const VRAM_BASE: u64 = 1 << 32;
pub const EXTRA_BASE: u64 = 2 << 32;
pub const APERTURE_BASE: u64 = 1 << 40;
/// Where the CPU finds the memory segments: nowhere near where the GPU has them.
pub const VRAM_BAR: u64 = 3 << 45;
pub const EXTRA_BAR: u64 = 5 << 45;
pub const RESERVE: u64 = 512;
/// The content of memory before its first write.
pub const GARBAGE: u64 = u64::MAX;

/// The window of a segment: 24 pages.
pub fn window_range(segment: SegmentId) -> CpuHostAperture {
    CpuHostAperture { physical_address: (8 + u64::from(segment.0)) << 41, size_in_pages: 24 }
}

fn cpu_access(flags: SegmentFlags, segment: SegmentId) -> CpuAccess {
    if flags.contains(SegmentFlags::SUPPORTS_CPU_HOST_APERTURE) {
        CpuAccess::HostAperture(window_range(segment))
    } else {
        CpuAccess::Translated(if segment == VRAM { VRAM_BAR } else { EXTRA_BAR })
    }
}

pub fn vram_descriptor(pages: u64, flags: SegmentFlags) -> SegmentDescriptor4 {
    let size_bytes = (pages + RESERVE) * PAGE_BYTES;
    SegmentDescriptor4 {
        flags,
        base_address: VRAM_BASE,
        size_bytes,
        commit_limit_bytes: size_bytes,
        cpu: cpu_access(flags, VRAM),
        ..Default::default()
    }
}

pub fn aperture_descriptor(pages: u64) -> SegmentDescriptor4 {
    SegmentDescriptor4 {
        flags: SegmentFlags::APERTURE,
        base_address: APERTURE_BASE,
        size_bytes: pages * PAGE_BYTES,
        commit_limit_bytes: pages * PAGE_BYTES,
        ..Default::default()
    }
}

pub fn mmu(index_bits: &[u32]) -> GpuMmuCaps {
    GpuMmuCaps {
        flags: GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED,
        update_mode: PageTableUpdateMode::GpuPhysical,
        virtual_address_bits: 12 + index_bits.iter().sum::<u32>(),
        page_table_levels: index_bits.len() as u32,
        leaf_table_64kb_bytes: 0,
        legacy: ddi::LegacyBehaviors::empty(),
    }
}

pub fn levels(index_bits: &[u32]) -> Vec<PageTableLevelDesc> {
    let level = |&index_bits: &u32| PageTableLevelDesc {
        index_bits,
        segment: VRAM,
        paging_process_segment: VRAM,
        size_bytes: 4096,
        alignment_bytes: 4096,
    };
    index_bits.iter().map(level).collect()
}

pub fn policy() -> Policy {
    Policy {
        page_table_reserve: Pages(RESERVE),
        paging_table_reserve: Pages(64),
        ..Policy::new(PageRun { first: 1000, count: Pages(100_000) })
    }
}

/// An adapter of `pages` pages of video memory and an aperture of 64 pages, with small tables.
pub fn adapter(pages: u64, flags: SegmentFlags) -> Mm {
    let bits = [5, 5, 6];
    VidMm::new(policy(), &[vram_descriptor(pages, flags), aperture_descriptor(64)], mmu(&bits), &levels(&bits))
        .expect("the description keeps the rules")
}

/// The same with a second memory segment of 32 pages, number 3.
pub fn adapter_of_two(pages: u64, flags: SegmentFlags) -> Mm {
    adapter_with(policy(), pages, flags)
}

/// The same under a policy.
pub fn adapter_with(policy: Policy, pages: u64, flags: SegmentFlags) -> Mm {
    let bits = [5, 5, 6];
    let extra = SegmentDescriptor4 {
        flags,
        base_address: EXTRA_BASE,
        size_bytes: 32 * PAGE_BYTES,
        commit_limit_bytes: 32 * PAGE_BYTES,
        cpu: cpu_access(flags, EXTRA),
        ..Default::default()
    };
    let descriptors = [vram_descriptor(pages, flags), aperture_descriptor(64), extra];
    VidMm::new(policy, &descriptors, mmu(&bits), &levels(&bits)).expect("the description keeps the rules")
}

/// The same with tables apart: leaf tables in the second memory segment, roots in the first, where all of the paging
/// process's are, what is between in system memory; and room for so few that those of three processes do not fit.
pub fn adapter_of_levels_apart(pages: u64, flags: SegmentFlags) -> Mm {
    let policy = Policy {
        page_table_reserve: Pages(32),
        paging_table_reserve: Pages(16),
        directory_reserve: Pages(64),
        ..policy()
    };
    let memory = |base_address, pages: u64, segment| {
        let size_bytes = (pages + 32) * PAGE_BYTES;
        let cpu = cpu_access(flags, segment);
        SegmentDescriptor4 {
            flags,
            base_address,
            size_bytes,
            commit_limit_bytes: size_bytes,
            cpu,
            ..Default::default()
        }
    };
    let descriptors = [memory(VRAM_BASE, pages, VRAM), aperture_descriptor(64), memory(EXTRA_BASE, 32, EXTRA)];
    let bits = [5, 5, 6];
    let mut levels = levels(&bits);
    (levels[0].segment, levels[1].segment) = (EXTRA, SegmentId::SYSTEM);
    VidMm::new(policy, &descriptors, mmu(&bits), &levels).expect("the description keeps the rules")
}

/// The first with entries of level 1 that hold two leaf tables, and so many pages for the tables of processes.
pub fn adapter_of_dual_entries(pages: u64, table_pages: u64, flags: SegmentFlags) -> Mm {
    let (bits, size_bytes) = ([5, 5, 6], 32 * PAGE_BYTES);
    let mut caps = mmu(&bits);
    (caps.leaf_table_64kb_bytes, caps.flags) = (4096, caps.flags | GpuMmuFlags::DUAL_PTE_SUPPORTED);
    let cpu = cpu_access(flags, EXTRA);
    let extra = SegmentDescriptor4 {
        flags,
        base_address: EXTRA_BASE,
        size_bytes,
        commit_limit_bytes: size_bytes,
        cpu,
        ..Default::default()
    };
    let descriptors = [vram_descriptor(pages, flags), aperture_descriptor(64), extra];
    let policy = Policy { paging_table_reserve: Pages(RESERVE - table_pages), ..policy() };
    VidMm::new(policy, &descriptors, caps, &levels(&bits)).expect("the description keeps the rules")
}

/// The first with a space and a device.
pub fn with_device(pages: u64) -> (Mm, SpaceId, DeviceId) {
    let mut mm = adapter(pages, SegmentFlags::empty());
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, space, device)
}

/// The first with processes of one device each, whose lists may be broken for others.
pub fn with_processes<const N: usize>(pages: u64) -> (Mm, [(SpaceId, DeviceId); N]) {
    let mut mm = adapter(pages, SegmentFlags::empty());
    mm.policy.suspend_others = true;
    let processes = [(); N].map(|()| {
        let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
        (space, mm.create_device(space))
    });
    (mm, processes)
}

pub fn set(ids: &[SegmentId]) -> SegmentSet {
    ids.iter().fold(SegmentSet::NONE, |set, &id| set.with(SegmentSet::only(id)))
}

pub fn info(pages: u64, segments: &[SegmentId]) -> AllocationInfo {
    AllocationInfo {
        size_bytes: pages * PAGE_BYTES,
        preferred_segment: SegmentPreference::of(&segments[..1]),
        supported_segments: set(segments),
        allocation: KmdAllocation(pages),
        priority: PRIORITY_NORMAL,
        ..AllocationInfo::default()
    }
}

pub fn create(mm: &mut Mm, device: DeviceId, pages: u64, segments: &[SegmentId]) -> AllocationId {
    mm.create_allocation(device, info(pages, segments)).expect("it fits")
}

/// The frames of an allocation in its memory segment, as (first, count).
pub fn frames(mm: &Mm, id: AllocationId) -> Vec<(u64, u64)> {
    match &mm.allocations[id].placement {
        Placement::Memory(_, extents) => extents.iter().map(|extent| (extent.frame, extent.count)).collect(),
        _ => Vec::new(),
    }
}

pub fn point(fence: u8, value: u64) -> FencePoint<u8> {
    FencePoint { fence, value }
}
