//! Adapter start: features, capabilities, segments, the paging process (sync §3.1, memory §1.3, §4.7).

pub(crate) mod caps;
mod segments;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ddi::{
    AdapterCaps, CreateDevice, CreateHwContext, CreateProcess, DriverStatus, FeatureId, GpuMmuCaps,
    GpuVirtualAddressing, KmdContext, KmdDevice, Miniport, OsContext, PageTableLevelDesc, PagingBufferInfo,
    RootPageTableSize, VidMmCaps,
};
use events::Event;
use gpu_fence::Fences;
use shared_words::Memory;
use vidmm::{MemoryLayout, Policy, SpaceKind, VidMm};
use vidsch::{Limits, VidSch};
use wddm_types::{AdapterIndex, NodeId, Pages, ProcessId};

use crate::adapter::{Adapter, AdapterConfig, AdapterCounters};
use crate::description::Reported;
use crate::driver::Driver;
use crate::driver_host::{DriverHost, KernelPages};
use crate::features::Features;
use crate::io_mmu::{IoMmu, Pasids};
use crate::machine::Cx;
use crate::object::ProcessOnAdapter;
use crate::packet::Packets;
use crate::paging::{PacketRing, PagingRing};
use crate::store::Store;
use crate::suspension::Suspensions;
use crate::turns::Turns;
use crate::word_page::WordPages;

/// Most packets that a queue may hold back.
const PACKETS_PER_QUEUE: usize = 1 << 16;
/// Most nodes that a driver may report.
const NODES_MAX: u16 = 64;

/// Why an adapter does not start. Each names the rule.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The driver refused.
    #[error("the driver did not start its device: {0}")]
    Driver(#[from] DriverStatus),
    /// A rule of the contract.
    #[error("the driver broke a rule at adapter start: {0}")]
    Rule(&'static str),
    /// A rule of the segments.
    #[error("the driver's segments break a rule: {0}")]
    Segment(#[from] vidmm::SegmentError),
    /// Something that this kernel does not have yet.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// The host gave too little memory.
    #[error("too little memory for the adapter: {0}")]
    Memory(&'static str),
}

impl Adapter {
    /// Starts a driver and sets up its paging process.
    ///
    /// # Errors
    /// See [`StartError`]. The driver's device is stopped then, if it was started.
    pub fn start(
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        memory: Arc<Memory>,
        mut miniport: Box<dyn Miniport>,
        config: AdapterConfig,
    ) -> Result<Adapter, StartError> {
        let features = Features::negotiate(miniport.as_mut(), &config.features);
        let mut pages = KernelPages::new(config.kernel_pages);
        miniport.start_device(&mut DriverHost { features: &features, pages: &mut pages, context: None })?;
        // Asked once: what it says later does not matter.
        let mut miniport = Driver::started(miniport);
        let caps = miniport.adapter_caps();
        match describe(&mut miniport, caps, &features, memory.bytes(), config.iommu.as_ref()) {
            Ok(description) => Adapter::build(cx, index, memory, miniport, config, features, pages, description),
            Err(error) => {
                miniport.stop_device(&mut DriverHost { features: &features, pages: &mut pages, context: None });
                Err(error)
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // each is a different thing that start has gathered; a struct would only rename them
    fn build(
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        memory: Arc<Memory>,
        mut miniport: Driver,
        config: AdapterConfig,
        features: Features,
        mut pages: KernelPages,
        description: Description,
    ) -> Result<Adapter, StartError> {
        let policy = Policy {
            page_table_reserve: config.page_table_reserve,
            directory_reserve: config.directory_reserve,
            paging_space: description.paging_space,
            paging_table_reserve: caps::paging_tables(&description.mmu, &description.levels, config.page_table_reserve),
            suspend_others: config.memory_policy.suspend_others,
            write_back_ahead: config.memory_policy.write_back_ahead,
            clear_ahead: config.memory_policy.clear_ahead,
            promote: config.memory_policy.promote,
            promote_patience_ns: config.memory_policy.promote_patience_ns,
            evict_page_tables: config.memory_policy.evict_page_tables,
            paging_by_gpu_va: description.caps.paging_by_gpu_va,
            moves_within_segments: description.caps.move_paging_supported,
            ..Policy::new(config.system_pages)
        };
        let built = (|| {
            let mut pasids = description.iommu.clone().map_or_else(Pasids::default, Pasids::at);
            let mut vidmm = if miniport.facets().gpu_va {
                let (levels, roots) = (&description.levels, &description.roots);
                VidMm::with_roots(policy, description.layout, description.mmu, levels, roots)?
            } else if description.iommu.is_some() {
                VidMm::with_cpu_addresses(policy, description.layout)?
            } else {
                VidMm::without_addresses(policy, description.layout)?
            };
            let (space, tables) = vidmm
                .create_space(SpaceKind::Paging)
                .map_err(|_| StartError::Memory("page tables of the paging process"))?;
            let pasid = pasids.take().map_err(|_| StartError::Memory("a number of the paging process at the IOMMU"))?;
            pasids.enter(space, pasid);
            let kmd = miniport.create_process(CreateProcess { system: true, pasids: pasid.as_slice() })?;
            let device = miniport.create_device(CreateDevice { process: kmd, system: true, pasid })?;
            let mut host = DriverHost { features: &features, pages: &mut pages, context: None };
            let node = description.paging_node;
            let packets = PacketRing::is_used(&miniport);
            let context = if packets {
                PacketRing::create_context(&mut miniport, &mut host, device, node, description.paging_buffer)?
            } else {
                create_paging_context(&mut miniport, &mut host, device, node)?
            };
            // Paging buffers that are packets name memory by physical address.
            if let Some(addressing) = miniport.gpu_va().filter(|_| !packets) {
                let (root, entries) = vidmm.root_table(space);
                addressing.set_root_page_table(context, root, entries);
            }
            Ok::<_, StartError>((vidmm, pasids, space, tables, kmd, device, context))
        })();
        let (vidmm, pasids, space, tables, kmd, device, context) = match built {
            Ok(parts) => parts,
            Err(error) => {
                miniport.stop_device(&mut DriverHost { features: &features, pages: &mut pages, context: None });
                return Err(error);
            }
        };
        let caps = description.caps;
        let reported = Reported {
            driver_model: caps.driver_model,
            ddi_version: caps.ddi_version,
            memory_caps: caps::memory_caps(&miniport, &caps),
            levels: description.levels,
            mmu: description.mmu,
            paging_buffer: description.paging_buffer,
            paging_space_bytes: if miniport.facets().gpu_va { description.paging_space.bytes() } else { 0 },
            paging_node: description.paging_node.0,
        };
        let system = ProcessOnAdapter {
            class: crate::object::Terms::default().class,
            space,
            kmd,
            fences: Default::default(),
            user_words: WordPages::default(),
            status_words: WordPages::default(),
            devices: 1,
            words_mapped_at: 0,
        };
        let packet_caps = miniport.packet_scheduling().map(|packets| packets.packet_caps());
        let packets = Packets::new(packet_caps, description.nodes.len());
        let mut vidmm = vidmm;
        vidmm.set_swizzling_ranges(miniport.swizzling().map_or(0, |facet| facet.swizzling_ranges()));
        let mut adapter = Adapter {
            index,
            luid: config.luid,
            memory,
            miniport,
            caps,
            features,
            nodes: description.nodes,
            reported,
            vidmm,
            vidsch: VidSch::new(Limits { packets_per_queue: PACKETS_PER_QUEUE }),
            waits: Fences::new(),
            fence_numbers: BTreeMap::new(),
            legacy: Default::default(),
            sync_objects: Store::default(),
            software: Default::default(),
            set_events: Vec::new(),
            pages,
            spaces: BTreeMap::from([(space, kmd)]),
            pasids,
            processes: BTreeMap::from([(ProcessId::SYSTEM, system)]),
            devices: Store::default(),
            contexts: Store::default(),
            queues: Store::default(),
            packet_contexts: Store::default(),
            packets,
            doorbells: Store::default(),
            paging_queues: Store::default(),
            allocations: Store::default(),
            allocation_numbers: BTreeMap::new(),
            bodies: BTreeMap::new(),
            resources: Store::default(),
            resource_bodies: Store::default(),
            sections: Store::default(),
            waiting_locks: Store::default(),
            waiting_renders: VecDeque::new(),
            fences: Store::default(),
            fence_opens: Store::default(),
            dying: VecDeque::new(),
            registrations: Store::default(),
            ring: PagingRing::new(device, context),
            cpu_mappings: Default::default(),
            copies: Default::default(),
            lines: Default::default(),
            suspensions: Suspensions::default(),
            power: Default::default(),
            turns: Turns::default(),
            updates: Default::default(),
            due: VecDeque::new(),
            stopped: None,
            counters: AdapterCounters::default(),
            config,
        };
        let (node, buffer) = (description.paging_node, description.paging_buffer);
        if let Err(error) = adapter.start_paging_process(cx, tables, node, buffer) {
            let Adapter { miniport, features, pages, .. } = &mut adapter;
            miniport.stop_device(&mut DriverHost { features, pages, context: None });
            return Err(error);
        }
        adapter.announce(cx);
        Ok(adapter)
    }

    fn start_paging_process(
        &mut self,
        cx: &mut Cx<'_>,
        tables: Vec<vidmm::Operation>,
        node: NodeId,
        buffer: PagingBufferInfo,
    ) -> Result<(), StartError> {
        self.execute_now(tables).map_err(|()| StartError::Rule("a page-table update of the paging process failed"))?;
        self.start_ring(cx, node, buffer)?;
        self.start_scratch()
    }

    fn announce(&self, cx: &mut Cx<'_>) {
        let segments = self.vidmm.segments();
        // CAST: at most 31 segments.
        cx.emit(Event::AdapterStarted {
            adapter: self.index.0,
            name: self.config.name.clone(),
            segments: segments.len() as u32,
        });
        for segment in segments {
            cx.emit(Event::SegmentAdded {
                adapter: self.index.0,
                segment: segment.id.0,
                aperture: segment.is_aperture(),
                capacity_bytes: self.vidmm.capacity_bytes(segment.id),
                page_bytes: segment.page_bytes(),
            });
        }
    }
}

/// The system context of an adapter with hardware queues.
fn create_paging_context(
    miniport: &mut Driver,
    host: &mut DriverHost<'_, '_>,
    device: KmdDevice,
    node: NodeId,
) -> Result<KmdContext, StartError> {
    let hardware = miniport.hardware_queues().expect("else the paging ring takes packets");
    let create = CreateHwContext { device, context: OsContext(0), node, system: true, private_data: &[] };
    Ok(hardware.create_hw_context(host, create)?)
}

/// What a started driver says of its adapter.
struct Description {
    nodes: Vec<ddi::NodeMetadata>,
    caps: AdapterCaps,
    paging_node: NodeId,
    layout: MemoryLayout,
    paging_buffer: PagingBufferInfo,
    paging_space: Pages,
    mmu: GpuMmuCaps,
    levels: Vec<PageTableLevelDesc>,
    roots: Vec<RootPageTableSize>,
    /// What translates for an adapter of the IoMmu model.
    iommu: Option<Arc<dyn IoMmu>>,
}

fn describe(
    miniport: &mut Driver,
    caps: AdapterCaps,
    features: &Features,
    system_bytes: u64,
    platform: Option<&Arc<dyn IoMmu>>,
) -> Result<Description, StartError> {
    caps::check(miniport, &caps, system_bytes)?;
    // Asked once: a driver that answers otherwise later has not changed its model.
    let io_mmu = !miniport.facets().gpu_va && caps.memory.contains(VidMmCaps::IO_MMU_SUPPORTED);
    let iommu = match (io_mmu, platform) {
        (true, None) => return Err(StartError::NotSupported("IoMmuSupported: this computer has no IOMMU to share")),
        (true, Some(platform)) => Some(Arc::clone(platform)),
        (false, _) => None,
    };
    check_fences(miniport, &caps, features, io_mmu)?;
    let nodes: Vec<_> = (0..NODES_MAX).map_while(|node| miniport.node_metadata(NodeId(node))).collect();
    let paging_node = NodeId(caps.paging_node);
    if usize::from(paging_node.0) >= nodes.len() {
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
    let (layout, paging_buffer) = segments::query(&**miniport, &caps)?;
    // spec: memory §6.6, both entry points work as soon as the segments are known
    let windowed = |segment: &vidmm::SegmentDescription| {
        !segment.is_aperture() && segment.flags.contains(ddi::SegmentFlags::SUPPORTS_CPU_HOST_APERTURE)
    };
    if layout.segments.iter().any(windowed) && !miniport.facets().cpu_host_aperture {
        return Err(StartError::Rule("SupportsCpuHostAperture needs the entry points of the CPU host aperture"));
    }
    let Addresses { mmu, levels, roots } = describe_addresses(miniport, &caps, io_mmu)?;
    let paging_space = caps::paging_space(miniport, &caps, &layout.segments);
    Ok(Description { nodes, caps, paging_node, layout, paging_buffer, paging_space, mmu, levels, roots, iommu })
}

/// How a driver's engines translate addresses.
#[derive(Default)]
struct Addresses {
    mmu: GpuMmuCaps,
    levels: Vec<PageTableLevelDesc>,
    roots: Vec<RootPageTableSize>,
}

/// What the driver says of GPU virtual addresses; nothing without them, and then its engines take packets.
// spec: memory §4.2, memory §4.3, memory §5.6
fn describe_addresses(miniport: &mut Driver, caps: &AdapterCaps, io_mmu: bool) -> Result<Addresses, StartError> {
    let queues = miniport.facets().hardware_queues;
    if io_mmu && !queues {
        return Err(StartError::NotSupported("the IoMmu model without hardware queues"));
    }
    if !queues && !miniport.facets().packet_scheduling {
        return Err(StartError::Rule("an adapter without hardware queues takes packets"));
    }
    let Some(addressing) = miniport.gpu_va() else { return Ok(Addresses::default()) };
    let mmu = addressing.gpu_mmu_caps();
    // Its paging buffers run in no address space.
    if !queues && (caps.paging_by_gpu_va || mmu.update_mode == ddi::PageTableUpdateMode::GpuVirtual) {
        return Err(StartError::NotSupported("paging by GPU virtual address without hardware queues"));
    }
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
    miniport: &mut Driver,
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
    if caps.optimized_native_fence_interrupt {
        return Err(StartError::NotSupported("the optimized native-fence interrupt (fence logs are not read yet)"));
    }
    let Some(fences) = miniport.facets().native_fences else {
        return Err(StartError::Rule("NativeGpuFence needs all native-fence entry points"));
    };
    if features.native_fence_os_caps().optimized_default_fence_type {
        return Err(StartError::NotSupported("MonitoredValues of DEFAULT fences in local memory"));
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
