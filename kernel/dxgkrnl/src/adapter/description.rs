//! What an adapter says of itself: as it started, for its embedder's listings (segments, totals, address translation, engines,
//! capabilities), by which the kernel decides nothing; to a process that asks; and to calls and the machine, whether it takes calls at all.

use ddi::{
    CpuHostAperture, FeatureId, FeatureState, GpuMmuCaps, GpuMmuFlags, NativeFenceOsCaps, NodeMetadata,
    PreemptionGranularity, SegmentFlags,
};
use kmt_calls::{AdapterInfo, MonitoredFenceSignal, Refusal, SegmentInfo, Wddm30Caps};
use vidmm::{MemoryTotals, Segment, SegmentGroup};
use wddm_types::{AdapterIndex, Luid, PageRun, SegmentId};

use crate::adapter::Adapter;
use crate::driver::Reported;
use crate::effect::Cx;
use crate::features::FeatureReport;
use crate::tally::AdapterCounters;

/// One segment.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// Its number.
    pub id: SegmentId,
    /// Address space only.
    pub aperture: bool,
    /// The flags as the driver said them.
    pub flags: SegmentFlags,
    /// Of these, the ones that mean nothing on this kind of segment.
    pub ignored: SegmentFlags,
    /// GPU address of its first byte.
    pub base_address: u64,
    /// Its size.
    pub size_bytes: u64,
    /// Most bytes mapped at once; of memory segments their size.
    pub commit_limit_bytes: u64,
    /// The last byte that a hibernate which preserves a part leaves alone; else 0.
    pub system_memory_end_address: u64,
    /// Bytes that allocations can have.
    pub capacity_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bus address of its first byte, where the CPU reaches it linearly.
    pub bus_address: Option<u64>,
    /// The CPU's window, where it has one.
    pub host_aperture: Option<CpuHostAperture>,
    /// The budget group that it counts in: local, or else the other one.
    pub local: bool,
    /// Its banks in pages.
    pub banks: Vec<PageRun>,
    /// Pages that no allocation may have.
    pub invalid: Vec<PageRun>,
}

/// An adapter.
#[derive(Clone, Debug)]
pub struct AdapterDescription {
    /// Its name for a reader of logs and listings.
    pub name: String,
    /// The driver's answers at start.
    pub reported: Reported,
    /// Its segments, number 1 first.
    pub segments: Vec<SegmentReport>,
    /// Its memory as a whole.
    pub totals: MemoryTotals,
    /// Bytes of the local budget group and of the other one, which its processes share.
    pub budget_bytes: [u64; 2],
    /// Its engines.
    pub nodes: Vec<NodeMetadata>,
    /// Features that the kernel has, and the results of their negotiation with the driver.
    pub features: Vec<FeatureReport>,
    /// The native fence capabilities that the kernel allows.
    pub native_fence_os_caps: NativeFenceOsCaps,
    /// How each of its engines signals monitored fences.
    pub monitored_fence_signals: Vec<MonitoredFenceSignal>,
    /// Bits of a monitored fence that its engines update at once.
    pub monitored_fence_bits: u32,
    /// How finely it preempts packets; `None`: not at all, or it has none.
    pub preemption: Option<PreemptionGranularity>,
    /// The driver's optional facets, by name.
    pub facets: Vec<&'static str>,
}

impl Adapter {
    /// The adapter as it started.
    pub fn description(&self, cx: &Cx<'_>) -> AdapterDescription {
        let has = self.driver.facets();
        let facets = [
            ("GPU virtual addresses", has.gpu_va),
            ("hardware queues", has.hardware_queues),
            ("native fences", has.native_fences.is_some()),
            ("doorbells", has.doorbells),
            ("CPU host aperture", has.cpu_host_aperture),
            ("swizzling ranges", has.swizzling),
        ];
        AdapterDescription {
            name: self.config.name.clone(),
            reported: self.driver.reported().clone(),
            segments: self.vidmm.segments().iter().map(|segment| self.segment_report(segment)).collect(),
            totals: self.vidmm.totals(),
            budget_bytes: [SegmentGroup::Local, SegmentGroup::NonLocal].map(|group| self.vidmm.group_bytes(group)),
            nodes: self.driver.nodes().to_vec(),
            features: self.driver.feature_report(),
            native_fence_os_caps: self.driver.native_fence_os_caps(),
            monitored_fence_signals: self.monitored_fence_signals(cx),
            monitored_fence_bits: if !self.driver.has_64_bit_atomics() { 32 } else { 64 },
            preemption: self.packets.granularity(),
            facets: facets.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect(),
        }
    }

    /// A segment as it is.
    pub fn segment_report(&self, segment: &Segment) -> SegmentReport {
        let said = &segment.descriptor;
        let banks = segment.banks.iter().flat_map(|table| (1..).map_while(|bank| table.window(bank)));
        SegmentReport {
            id: segment.id,
            aperture: segment.is_aperture(),
            flags: segment.reported,
            ignored: segment.reported - said.flags,
            base_address: said.base_address,
            size_bytes: said.size_bytes,
            commit_limit_bytes: if segment.is_aperture() { said.commit_limit_bytes } else { said.size_bytes },
            system_memory_end_address: said.system_memory_end_address,
            capacity_bytes: segment.capacity_bytes(),
            page_bytes: segment.page_bytes(),
            bus_address: segment.bus_address(0),
            host_aperture: segment.host_aperture(),
            local: self.vidmm.group_of(segment.id) == SegmentGroup::Local,
            banks: banks.collect(),
            invalid: said.hidden_runs(),
        }
    }
}

/// What calls and the machine ask of its life; `crate::life` has the states.
impl Adapter {
    /// Whether it was stopped.
    pub fn has_stopped(&self) -> bool {
        self.life.has_stopped()
    }

    /// Why it was stopped, if it was.
    pub fn why_stopped(&self) -> Option<&str> {
        self.life.why_stopped()
    }

    /// Whether its device has power.
    pub fn has_power(&self) -> bool {
        !self.life.is_off()
    }

    /// That it takes calls: it was not stopped.
    ///
    /// # Errors
    /// `DEVICE_REMOVED` with the reason of the stop.
    pub fn running(&self) -> Result<(), Refusal> {
        self.life.running()
    }

    /// That it takes calls which need the device: it runs, and is not asleep.
    ///
    /// # Errors
    /// As of [`Adapter::running`]; or that it sleeps.
    pub fn awake(&self) -> Result<(), Refusal> {
        self.life.awake()
    }
}

/// What it is and can.
impl Adapter {
    /// The number by which the machine knows it.
    pub fn index(&self) -> AdapterIndex {
        self.index
    }

    /// Its id.
    pub fn luid(&self) -> Luid {
        self.luid
    }

    /// Its name for a reader of logs and listings.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The state of a feature.
    pub fn feature_state(&self, feature: FeatureId) -> FeatureState {
        self.driver.feature_state(feature)
    }

    /// What has happened, counted.
    pub fn counters(&self) -> AdapterCounters {
        self.tally.counters()
    }

    /// A call that touched the adapter was refused.
    pub fn call_refused(&mut self) {
        self.tally.call_refused();
    }

    /// `D3DKMTQueryAdapterInfo`.
    pub fn info(&self, cx: &Cx<'_>) -> AdapterInfo {
        let segments = self
            .vidmm
            .segments()
            .iter()
            .map(|segment| {
                let report = self.segment_report(segment);
                SegmentInfo {
                    id: report.id,
                    aperture: report.aperture,
                    flags: report.flags.bits(),
                    local: report.local,
                    commit_limit_bytes: report.commit_limit_bytes,
                    size_bytes: report.capacity_bytes,
                    page_bytes: report.page_bytes,
                }
            })
            .collect();
        AdapterInfo {
            luid: self.luid,
            name: self.config.name.clone(),
            pci: self.config.pci,
            ddi_version: self.driver.reported().ddi_version.0,
            atomics_64_bit: self.driver.has_64_bit_atomics(),
            segments,
            nodes: self.driver.nodes().iter().map(|node| node.name.to_owned()).collect(),
            wddm_3_0_caps: self.wddm_3_0_caps(),
            wddm_3_1_caps: self.wddm_3_1_caps(),
            monitored_fence_signals: self.monitored_fence_signals(cx),
            user_mode_submission: self.driver.has_feature(ddi::FeatureId::USER_MODE_SUBMISSION),
            gpu_virtual_addresses: self.driver.has_page_tables(),
            gpu_mmu: gpu_mmu(self.driver.reported().mmu),
            cross_adapter_resources: self.driver.has_cross_adapter_resources(),
            preemption: self.packets.preemption(),
            cpu_addresses: self.uses_cpu_addresses(),
            io_coherent: self.is_io_coherent(cx),
            displays: self.displays.info(),
        }
    }

    /// `D3DKMT_WDDM_3_0_CAPS`.
    // spec: sync §2.1, sync §4.6
    fn wddm_3_0_caps(&self) -> Wddm30Caps {
        let mut caps = Wddm30Caps::empty();
        let supported = self.driver.feature_state(ddi::FeatureId::HWFLIPQUEUE).supported_by_driver;
        caps.set(Wddm30Caps::HW_FLIP_QUEUE_STABLE, supported);
        caps.set(Wddm30Caps::HW_FLIP_QUEUE_ENABLED, self.displays.are_queued_by_hardware());
        caps
    }
}

/// The bits of `D3DKMT_GPUMMU_CAPS` are numbered otherwise than those of the driver's.
fn gpu_mmu(caps: GpuMmuCaps) -> (u32, u32) {
    let bits = [
        GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED,
        GpuMmuFlags::NO_EXECUTE_MEMORY_SUPPORTED,
        GpuMmuFlags::ZERO_IN_PTE_SUPPORTED,
        GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED,
    ];
    let bits = bits.into_iter().enumerate().filter(|(_, flag)| caps.flags.contains(*flag));
    (bits.fold(0, |word, (bit, _)| word | 1 << bit), caps.virtual_address_bits)
}
