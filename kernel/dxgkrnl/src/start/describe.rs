//! A driver's description of its adapter when it has started: nodes, segments, addresses, fences; and the rules that it has to keep to
//! (memory §1.13, §4.2, §4.3, sync §3.1).

use ddi::{
    AdapterCaps, DdiVersion, FeatureId, GpuMmuCaps, GpuVirtualAddressing, NodeMetadata, PageTableLevelDesc,
    PageTableUpdateMode, RootPageTableSize, VidMmCaps,
};
use vidmm::MemoryLayout;
use wddm_types::{NodeId, Pages};

use crate::display::Displays;
use crate::driver::{Answers, EntryPoints, Reported};
use crate::features::Features;
use crate::start::{StartError, caps, segments};

/// Most nodes that a driver may report.
const NODES_MAX: u16 = 64;

/// A started driver's description of its adapter, as far as the parts besides the driver are set up by it.
pub struct Description {
    pub layout: MemoryLayout,
    pub paging_space: Pages,
    pub paging_by_gpu_va: bool,
    pub moves_within_segments: bool,
    /// Paging buffers run in the paging process's address space: those of a hardware queue always, packets where content is moved, or tables
    /// are written, by address, and where the engines have the CPU's addresses.
    // spec: memory §3.3, memory §4.1, memory §4.2, memory §4.7
    pub paging_has_addresses: bool,
    pub roots: Vec<RootPageTableSize>,
    /// The adapter is of the IoMmu model.
    pub io_mmu: bool,
    pub displays: Displays,
}

/// The facts of the computer that the driver's rules need.
pub struct Computer {
    pub system_bytes: u64,
    /// There is an IOMMU to share.
    pub io_mmu: bool,
    /// GPUs can snoop the CPU's caches here.
    pub coherent: bool,
}

pub fn describe(
    miniport: &mut EntryPoints<'_>,
    caps: AdapterCaps,
    features: &Features,
    computer: Computer,
) -> Result<(Answers, Description), StartError> {
    caps::check(miniport, &caps, computer.system_bytes)?;
    // Asked once: a driver that answers otherwise later has not changed its model.
    let io_mmu = !miniport.facets().gpu_va && caps.memory.contains(VidMmCaps::IO_MMU_SUPPORTED);
    if io_mmu && !computer.io_mmu {
        return Err(StartError::NotSupported("IoMmuSupported: this computer has no IOMMU to share"));
    }
    check_fences(miniport, &caps, features, io_mmu)?;
    let nodes: Vec<_> = (0..NODES_MAX).map_while(|node| miniport.node_metadata(NodeId(node))).collect();
    check_nodes(miniport, &caps, &nodes)?;
    let (layout, paging_buffer) = segments::query(&**miniport, &caps)?;
    // spec: memory §6.6, both entry points work as soon as the segments are known
    let windowed = |segment: &vidmm::SegmentDescription| {
        !segment.is_aperture() && segment.flags.contains(ddi::SegmentFlags::SUPPORTS_CPU_HOST_APERTURE)
    };
    if layout.segments.iter().any(windowed) && !miniport.facets().cpu_host_aperture {
        return Err(StartError::Rule("SupportsCpuHostAperture needs the entry points of the CPU host aperture"));
    }
    let Addresses { mmu, levels, roots } = describe_addresses(miniport, &caps)?;
    if computer.coherent {
        caps::check_coherency(&layout.segments, (!levels.is_empty()).then_some(mmu.flags))?;
    }
    // spec: sync §0, sync §4.1
    if caps.native_gpu_fence && caps.ddi_version < DdiVersion::WDDM_3_2 {
        return Err(StartError::Rule("NativeGpuFence exists from WDDM 3.2 on"));
    }
    if caps.native_gpu_fence && !miniport.facets().hardware_queues {
        return Err(StartError::Rule("native fences belong to hardware scheduling: they need hardware queues"));
    }
    let paging_space = caps::paging_space(miniport, &caps, &layout.segments);
    let displays = Displays::of(miniport, &caps, features).map_err(StartError::Rule)?;
    let reported = Reported {
        driver_model: caps.driver_model,
        ddi_version: caps.ddi_version,
        memory_caps: caps::memory_caps(miniport, &caps),
        levels,
        mmu,
        paging_buffer,
        paging_space_bytes: if miniport.facets().gpu_va { paging_space.bytes() } else { 0 },
        paging_node: caps.paging_node,
    };
    let tables = !reported.levels.is_empty() && reported.mmu.update_mode == PageTableUpdateMode::GpuVirtual;
    let description = Description {
        layout,
        paging_space,
        paging_by_gpu_va: caps.paging_by_gpu_va,
        moves_within_segments: caps.move_paging_supported,
        paging_has_addresses: miniport.facets().hardware_queues || caps.paging_by_gpu_va || tables || io_mmu,
        roots,
        io_mmu,
        displays,
    };
    Ok((Answers { caps, nodes, reported }, description))
}

/// The rules of engines at adapter start.
fn check_nodes(miniport: &EntryPoints<'_>, caps: &AdapterCaps, nodes: &[NodeMetadata]) -> Result<(), StartError> {
    if usize::from(caps.paging_node) >= nodes.len() {
        return Err(StartError::Rule("PagingNodeIndex names a node that there is"));
    }
    // spec: sync §3.7: nothing but its fences tells how far a hardware queue is
    if miniport.facets().hardware_queues && nodes.iter().any(|node| !node.fence_interrupt) {
        return Err(StartError::Rule("hardware queues need engines that interrupt when they signal a fence"));
    }
    // spec: memory §4.1, a context of such a node is given a root page table
    if !miniport.facets().gpu_va && nodes.iter().any(|node| node.gpu_mmu_supported) {
        return Err(StartError::Rule("GpuMmuSupported of a node needs the entry points of GPU addresses"));
    }
    Ok(())
}

/// How a driver's engines translate addresses.
#[derive(Default)]
struct Addresses {
    mmu: GpuMmuCaps,
    levels: Vec<PageTableLevelDesc>,
    roots: Vec<RootPageTableSize>,
}

/// The driver's GPU virtual addresses; nothing without them, and then its engines take packets.
// spec: memory §4.2, memory §4.3, memory §5.6
fn describe_addresses(miniport: &mut EntryPoints<'_>, caps: &AdapterCaps) -> Result<Addresses, StartError> {
    let queues = miniport.facets().hardware_queues;
    if !queues && !miniport.facets().packet_scheduling {
        return Err(StartError::Rule("an adapter without hardware queues takes packets"));
    }
    let Some(addressing) = miniport.again().gpu_va() else { return Ok(Addresses::default()) };
    let mmu = addressing.gpu_mmu_caps();
    caps::check_mmu(mmu.flags, caps.ddi_version)?;
    // spec: memory §0 (levels), §4.3
    if !(2..=6).contains(&mmu.page_table_levels) {
        return Err(StartError::Rule("PageTableLevelCount is 2 to 6"));
    }
    let levels: Vec<_> = (0..mmu.page_table_levels).map(|level| addressing.page_table_level(level)).collect();
    let roots = root_sizes(addressing, &mmu, &levels)?;
    Ok(Addresses { mmu, levels, roots })
}

/// The lengths of a resizable root: from the first one on, each at least twice as long, up to one that reaches all addresses.
// spec: memory §4.2, memory §4.6
fn root_sizes(
    addressing: &mut dyn GpuVirtualAddressing,
    mmu: &GpuMmuCaps,
    levels: &[PageTableLevelDesc],
) -> Result<Vec<RootPageTableSize>, StartError> {
    let [leaf, root] = levels else { return Ok(Vec::new()) };
    let bits = mmu.virtual_address_bits.saturating_sub(12 + leaf.index_bits);
    if !(1..=31).contains(&bits) || root.index_bits > bits {
        return Err(StartError::Rule("the index bits of two levels fit VirtualAddressBitCount"));
    }
    let (most, mut sizes, mut asked) = (1u32 << bits, Vec::new(), 1u32 << root.index_bits);
    loop {
        let size = addressing
            .root_page_table_size(asked)
            .ok_or(StartError::Rule("two page-table levels need GetRootPageTableSize: their root is resizable"))?;
        if size.entries < asked {
            return Err(StartError::Rule(
                "GetRootPageTableSize answers with as many entries as were asked for, or more",
            ));
        }
        sizes.push(size);
        if size.entries >= most {
            return Ok(sizes);
        }
        asked = size.entries.saturating_mul(2).min(most);
    }
}

/// The rules of native fences at adapter start.
// spec: sync §3.1, sync §1.6, sync §6 A3
fn check_fences(
    miniport: &mut EntryPoints<'_>,
    caps: &AdapterCaps,
    features: &Features,
    io_mmu: bool,
) -> Result<(), StartError> {
    if caps.native_gpu_fence && !features.enabled(FeatureId::NATIVE_FENCE) {
        return Err(StartError::Rule(
            "NativeGpuFence is set only when feature NATIVE_FENCE is enabled (STATUS_INVALID_PARAMETER)",
        ));
    }
    if caps.optimized_native_fence_interrupt && !caps.native_gpu_fence {
        return Err(StartError::Rule("OptimizedNativeFenceSignaledInterrupt needs NativeGpuFence"));
    }
    if caps.native_gpu_fence && caps.no_64_bit_atomics {
        return Err(StartError::Rule("native fences need 64-bit atomics"));
    }
    if !miniport.facets().gpu_va && !io_mmu {
        let rule = "native fences and hardware queues need GPU virtual addresses";
        let none =
            !caps.native_gpu_fence && miniport.facets().native_fences.is_none() && !miniport.facets().hardware_queues;
        return if none { Ok(()) } else { Err(StartError::Rule(rule)) };
    }
    if !caps.native_gpu_fence {
        // Monitored fences are enough for packets.
        return match miniport.facets().hardware_queues {
            false => Ok(()),
            true => Err(StartError::NotSupported("hardware queues whose progress fences are monitored fences")),
        };
    }
    let Some(fences) = miniport.facets().native_fences else {
        return Err(StartError::Rule("NativeGpuFence needs all native-fence entry points"));
    };
    // spec: sync §2.11: they came with WDDM 3.2, behind the others
    if !miniport.facets().native_fence_logs {
        return Err(StartError::Rule(
            "NativeGpuFence needs the entry points SetNativeFenceLogBuffer and UpdateNativeFenceLogs",
        ));
    }
    let stride = fences.monitored_value_stride;
    if !stride.is_multiple_of(8) || stride > 4096 {
        return Err(StartError::Rule("MonitoredValueStride is a multiple of 8 up to 4096, or 0"));
    }
    // spec: sync §2.6
    let (least, most) = (fences.minimum_address, fences.maximum_address);
    if !most.is_null() && most <= least {
        return Err(StartError::Rule("MaximumAddress of native fences lies behind their MinimumAddress"));
    }
    Ok(())
}
