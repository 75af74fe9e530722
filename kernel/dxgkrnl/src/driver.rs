//! The driver of a started adapter: its entry points, its answers at start, the outcome of the negotiation of features, and the kernel's
//! own pages, out of which it is served.
//!
//! This part is a leaf: every other part may ask it, and it asks none. The rules that a driver's answers have to keep stand in `start`, and
//! what a failure means is for the part that made the call: a call returns the driver's status, and a late one is told when the turn ends.
//!
//! Relations between the fields, which [`Driver::new`] asserts and nothing changes afterwards:
//! - the paging node is one of the nodes;
//! - a driver with hardware queues has only nodes that interrupt when they signal a fence;
//! - the entry points of native fences are there exactly where the driver has set the capability and the feature is on;
//! - there are levels of page tables exactly where the driver has the entry points of GPU addresses.

mod entry_points;
mod gone;
mod host;
mod pages;
mod watch;

use ddi::{
    AdapterCaps, DdiVersion, DriverModel, DriverStatus, FeatureId, FeatureState, GpuClock, GpuMmuCaps,
    NativeFenceOsCaps, NodeMetadata, PageTableLevelDesc, PageTableUpdateMode, PagingBufferInfo, VidMmCaps,
};
use wddm_types::{AdapterIndex, NodeId, PageRun};

use crate::effect::Cx;
use crate::features::{FeatureReport, Features};

pub use entry_points::{EntryPoints, Facets, StartedMiniport};
pub use host::{ContextRequests, Creating, DriverHost, ProcessRequests};
pub use pages::KernelPages;
pub use watch::{LateCall, Watch};

/// The driver of an adapter. Its entry points are called on it directly; a call that lends the driver the kernel takes
/// [`Driver::with_host`].
pub struct Driver {
    /// The adapter that it drives.
    adapter: AdapterIndex,
    miniport: StartedMiniport,
    features: Features,
    pages: KernelPages,
    said: Answers,
}

/// The answers of a driver at start: the kernel does not ask again.
pub struct Answers {
    pub caps: AdapterCaps,
    pub nodes: Vec<NodeMetadata>,
    pub reported: Reported,
}

/// The facts that start has learned of the driver and that hold until it stops.
#[derive(Clone, Debug)]
pub struct Reported {
    /// Its generation.
    pub driver_model: DriverModel,
    /// Its interface version.
    pub ddi_version: DdiVersion,
    /// The memory manager's capabilities, those of the facets included.
    pub memory_caps: VidMmCaps,
    /// How addresses are translated, leaf first; empty without GPU virtual addresses.
    pub levels: Vec<PageTableLevelDesc>,
    /// Bits and widths of the same.
    pub mmu: GpuMmuCaps,
    /// The paging buffers.
    pub paging_buffer: PagingBufferInfo,
    /// Addresses of the paging process in bytes; 0 without GPU virtual addresses.
    pub paging_space_bytes: u64,
    /// Which node runs paging buffers.
    pub paging_node: u16,
}

impl Driver {
    /// A driver that has started and whose answers keep the rules.
    pub fn new(
        adapter: AdapterIndex,
        miniport: StartedMiniport,
        features: Features,
        pages: KernelPages,
        said: Answers,
    ) -> Driver {
        let facets = miniport.facets();
        assert!(usize::from(said.reported.paging_node) < said.nodes.len(), "the paging node is one of the nodes");
        assert!(!facets.hardware_queues || said.nodes.iter().all(|node| node.fence_interrupt));
        assert_eq!(facets.gpu_va, !said.reported.levels.is_empty(), "levels come with the entry points of addresses");
        // spec: sync §3.1 step 8
        let agreed = features.enabled(FeatureId::NATIVE_FENCE) && said.caps.native_gpu_fence;
        assert_eq!(agreed, facets.native_fences.is_some(), "native fences need feature, capability and entry points");
        Driver { adapter, miniport, features, pages, said }
    }

    /// The entry points.
    pub fn call<'a, 'x: 'a>(&'a mut self, cx: &Cx<'x>) -> EntryPoints<'a> {
        self.miniport.lend(cx.platform(self.adapter).driver_clock())
    }

    /// The driver has answered all that it was asked in this turn. Returns the longest of the calls that took too long.
    pub fn leaves(&mut self, cx: &Cx<'_>) -> Option<LateCall> {
        self.miniport.leaves(cx.platform(self.adapter).driver_clock())
    }

    /// An engine's clock now. No watch measures this call, which only reads.
    ///
    /// # Errors
    /// The driver's.
    pub fn calibrate_gpu_clock(&self, node: NodeId) -> Result<GpuClock, DriverStatus> {
        self.miniport.calibrate_gpu_clock(node)
    }

    /// Its facets.
    pub fn facets(&self) -> Facets {
        self.miniport.facets()
    }

    /// The entry points, and the kernel as the driver sees it during a call that creates nothing.
    pub fn with_host<'a, 'x: 'a>(&'a mut self, cx: &Cx<'x>) -> (EntryPoints<'a>, DriverHost<'a>) {
        self.creating(cx, Creating::Nothing)
    }

    /// The same for a call that creates something the driver may ask more for.
    pub fn creating<'a, 'x: 'a>(&'a mut self, cx: &Cx<'x>, what: Creating<'a>) -> (EntryPoints<'a>, DriverHost<'a>) {
        let platform = cx.platform(self.adapter);
        let host = DriverHost::new(&self.features, &mut self.pages, platform.clients(), what);
        (self.miniport.lend(platform.driver_clock()), host)
    }

    /// The kernel's own pages.
    pub fn pages(&mut self) -> &mut KernelPages {
        &mut self.pages
    }

    /// The runs that the kernel's own pages have grown by.
    pub fn grown_pages(&self) -> impl Iterator<Item = PageRun> {
        self.pages.grown()
    }
}

/// What was negotiated.
impl Driver {
    /// Whether a feature is on.
    pub fn has_feature(&self, feature: FeatureId) -> bool {
        self.features.enabled(feature)
    }

    /// The state of a feature; one that the kernel does not know is off with version 0.
    pub fn feature_state(&self, feature: FeatureId) -> FeatureState {
        self.features.state(feature)
    }

    /// Every feature that the kernel has, with what came of it.
    pub fn feature_report(&self) -> Vec<FeatureReport> {
        self.features.report()
    }

    /// The native fence capabilities that the kernel allows; nothing while the feature is off.
    pub fn native_fence_os_caps(&self) -> NativeFenceOsCaps {
        self.features.native_fence_os_caps()
    }

    /// Whether the adapter's fences are native: the feature is on, the driver says so, and has what it takes.
    // spec: sync §3.1: the entry points are called in no other case
    pub fn has_native_fences(&self) -> bool {
        self.miniport.facets().native_fences.is_some()
    }
}

/// The driver's answers at start.
impl Driver {
    /// Its engines.
    pub fn nodes(&self) -> &[NodeMetadata] {
        &self.said.nodes
    }

    /// Whether there is such an engine.
    pub fn has_node(&self, node: NodeId) -> bool {
        usize::from(node.0) < self.said.nodes.len()
    }

    /// One engine, which there is.
    pub fn node(&self, node: NodeId) -> &NodeMetadata {
        &self.said.nodes[usize::from(node.0)]
    }

    /// The numbers of its engines.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        // CAST: start takes 64 nodes at most.
        (0..self.said.nodes.len() as u16).map(NodeId)
    }

    /// The engine that runs paging buffers.
    pub fn paging_node(&self) -> NodeId {
        NodeId(self.said.reported.paging_node)
    }

    /// The paging buffers that it wants.
    pub fn paging_buffer(&self) -> PagingBufferInfo {
        self.said.reported.paging_buffer
    }

    /// Its interface version.
    pub fn ddi_version(&self) -> DdiVersion {
        self.said.reported.ddi_version
    }

    /// It is of the first generation: the kernel patches its buffers, and allocations have no handles of their own for its user mode.
    pub fn is_wddm_1(&self) -> bool {
        self.said.caps.driver_model == DriverModel::Wddm1
    }

    /// Its engines translate addresses by page tables that the kernel writes.
    pub fn has_page_tables(&self) -> bool {
        !self.said.reported.levels.is_empty()
    }

    /// How its page tables are written.
    pub fn table_update_mode(&self) -> PageTableUpdateMode {
        self.said.reported.mmu.update_mode
    }

    /// Its engines write 64 bits at once.
    pub fn has_64_bit_atomics(&self) -> bool {
        !self.said.caps.no_64_bit_atomics
    }

    /// Its interrupts name the fences that were signaled (`OptimizedNativeFenceSignaledInterrupt`).
    pub fn names_signaled_fences(&self) -> bool {
        self.said.caps.optimized_native_fence_interrupt
    }

    /// It takes allocations of memory that another adapter shares.
    pub fn has_cross_adapter_resources(&self) -> bool {
        self.said.caps.memory.contains(VidMmCaps::CROSS_ADAPTER_RESOURCE)
    }

    /// It maps pages into apertures by their device addresses.
    pub fn has_map_aperture2(&self) -> bool {
        self.said.caps.memory.contains(VidMmCaps::MAP_APERTURE2_SUPPORTED)
    }

    /// All of it, for a reader of listings.
    pub fn reported(&self) -> &Reported {
        &self.said.reported
    }
}
