//! The driver's configuration, which the host chooses. A wrong choice fails `start_device`, never panics.

use ddi::{DdiVersion, DriverModel, DriverStatus, PageTableUpdateMode, SegmentFlags, VidMmCaps};
use softgpu_spec::bus::PAGE_BYTES;
use softgpu_spec::context_data::DmaBuffers;
use wddm_types::NodeId;

use crate::doorbells::VictimPolicy;
use crate::queues::SUBMISSION_BYTES;
use crate::segments::ENTRY_BYTES;

/// How local memory is reported: which segments there are (memory §1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// A memory segment, and the aperture.
    #[default]
    Memory,
    /// Two memory segments, the second of this many bytes and placed behind a range that the driver keeps for itself
    /// (memory §1.1), and the aperture between them in number.
    TwoMemories {
        /// Bytes of the second segment.
        second_bytes: u64,
        /// Bytes that no segment covers: the microcode's.
        hidden_bytes: u64,
    },
    /// A memory segment, and the aperture in two halves: two segments, as only drivers of the first generation may have.
    TwoApertures,
    /// The aperture only: an integrated GPU. Its page tables lie in system memory, its local memory is hidden.
    Aperture,
    /// A memory segment only: a GPU that computes and never shows anything.
    ComputeOnly,
}

/// The address space that the engines use (memory §4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// GPU virtual addresses, through page tables of the GPU.
    #[default]
    GpuMmu,
    /// The CPU's, through the platform's IOMMU: of an integrated GPU that stands behind one.
    IoMmu,
}

/// Where page tables of a kind live (memory §4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableHome {
    /// In the first memory segment; in system memory where there is none.
    #[default]
    Local,
    /// In the second memory segment.
    Second,
    /// In system memory.
    System,
}

/// The homes of page tables: one for each kind of level, and separate ones for the paging process (memory §4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableHomes {
    /// Leaf tables.
    pub leaf: TableHome,
    /// Tables of the levels between leaf and root.
    pub middle: TableHome,
    /// Root tables, one for each process.
    pub root: TableHome,
    /// Leaf tables of the paging process.
    pub paging_leaf: TableHome,
    /// Its other tables.
    pub paging_directories: TableHome,
}

impl TableHomes {
    /// All in one place.
    pub const fn all(home: TableHome) -> TableHomes {
        TableHomes { leaf: home, middle: home, root: home, paging_leaf: home, paging_directories: home }
    }

    /// Bytes of page tables that `home` has to have room for: `bytes` if leaf tables live there, `directory_bytes` if only others do.
    pub fn bytes_in(&self, home: TableHome, bytes: u64, directory_bytes: u64) -> u64 {
        let TableHomes { leaf, middle, root, paging_leaf, paging_directories } = *self;
        match home {
            _ if [leaf, paging_leaf].contains(&home) => bytes,
            _ if [middle, root, paging_directories].contains(&home) => directory_bytes,
            _ => 0,
        }
    }
}

/// Choices of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KmdConfig {
    /// Page in which local memory is managed: 4096 or 65536 (`USE_64KB_PAGES`, memory §1.5).
    pub segment_page_bytes: u64,
    /// Bytes of a kernel-mode queue's ring: a power of two from 4096.
    pub ring_bytes: u64,
    /// Bytes of a paging buffer: a multiple of 4096.
    pub paging_buffer_bytes: u32,
    /// `MaxInFlightHwQueueBuffers` of each node, not 0: so many submissions have room in a ring.
    pub max_in_flight: u16,
    /// Local memory is reported as `CPU_VISIBLE`: all of it is behind a resized BAR (memory §1.7).
    pub cpu_visible: bool,
    /// Pages of a CPU host aperture, through which the CPU reaches local memory that is not `cpu_visible`; 0: there is none
    /// (memory §6.6). A page is `segment_page_bytes`.
    pub cpu_window_pages: u32,
    /// The segments that the driver reports.
    pub layout: Layout,
    /// The address space that the engines use.
    pub addressing: Addressing,
    /// The generation of the contract that the driver speaks. The first one has no GPU virtual addresses.
    pub driver_model: DriverModel,
    /// The version of the contract that the driver states; `None`: the newest of which its choices use anything.
    pub ddi_version: Option<DdiVersion>,
    /// `Wddm1`: so many banks of equal size divide the first memory segment; 0: none (memory §1.8).
    pub banks: u8,
    /// Power flags of the memory segments (memory §1.10); the driver ignores other flags.
    pub preserved: SegmentFlags,
    /// The second memory segment aligns pitches (`PitchAlignment`, memory §2.6): rows of allocations there are further apart.
    pub pitch_aligned: bool,
    /// Content is paged by GPU virtual address (memory §3.3).
    pub paging_by_gpu_va: bool,
    /// `SourcePageTableVaInTransfer`: copies by address come with the addresses of the tables that translate their ends (memory §3.4).
    /// The device walks its tables itself; kernels that honour it are tested so.
    pub source_page_table_va: bool,
    /// `LargePageSupported`: 2 MB of consecutive memory have one page-table entry (memory §4.5).
    pub large_pages: bool,
    /// Leaf tables may have entries of 64 KB (`LeafPageTableSizeFor64KPagesInBytes`, memory §4.5).
    pub leaf_64kb: bool,
    /// `PageTableUpdateRequireAddressSpaceIdle`: nothing runs in a space while its tables change (memory §4.2). The device
    /// does not need that; kernels that honour it are tested so.
    pub idle_spaces: bool,
    /// Where page tables live.
    pub tables: TableHomes,
    /// How the page tables of processes are written (memory §4.2).
    pub update_mode: PageTableUpdateMode,
    /// Aperture maps are taken as device pages (`MapAperture2Supported`, memory §1.14).
    pub map_aperture2: bool,
    /// Bytes of a save area that each context of a process gets (a context allocation, memory §7.5); 0: none.
    pub context_save_bytes: u64,
    /// Bytes of an area that each device of a process gets for all its contexts (likewise); 0: none.
    pub device_save_bytes: u64,
    /// The engines have hardware queues, and with them native fences; else they take packets, and fences are monitored. Only
    /// with GPU virtual addresses.
    pub hardware_queues: bool,
    /// The driver says that its engines interrupt when they signal a monitored fence; else its user-mode driver signals by
    /// plain stores, and the kernel looks at each buffer that completes (sync §3.7). Not with hardware queues.
    pub fence_interrupt: bool,
    /// A connected doorbell is reported as `CONNECTED_NOTIFY_KMD` (sync §2.9): clients tell the kernel after each ring. Not
    /// needed by clients that look at the doorbell's second word and tell the kernel only when the engine sleeps.
    pub notify_after_ring: bool,
    /// Which queue loses its doorbell when more queues want one than the device has (sync §3.17).
    pub victims: VictimPolicy,
    /// `OptimizedNativeFenceSignaledInterrupt`: its interrupts name queues, whose logs have the signals, and no fences (sync §3.15).
    pub optimized_fence_interrupt: bool,
    /// Whether signals of cross-adapter fences reach other devices without the processor (sync §3.18). Only with native fences.
    pub peers: PeerMode,
    /// Nanoseconds after which an engine that has nothing to do asks for less power (sync §3.17); 0: never. Only with hardware queues.
    pub idle_ns: u64,
    /// `MaxHwQueuedFlips` is what a display's queue holds, and HWFLIPQUEUE is supported (sync §4.6); else the kernel keeps the queue. Only
    /// with hardware queues.
    pub flip_queue: bool,
    /// Primaries are not AccessedPhysically: where they lie in system memory, the aperture shows them only while they are displayed
    /// (memory §1.6). Only with virtual addresses.
    pub maps_displayed: bool,
    /// `PreemptionAware`: the driver takes packets back from an engine (sync §4.3).
    pub preemption: bool,
    /// The copy engine has GPU virtual addresses; else its contexts are patched, beside those of the compute engine that are not (memory §5.6).
    pub copy_addresses: bool,
    /// The aperture is reported as `CPU_VISIBLE`: the CPU sees primaries that lie there through it (memory §1.5, bit 2).
    pub aperture_visible: bool,
    /// Where DMA buffers lie when a context does not choose a place (memory §7.1).
    pub dma_buffers: DmaBuffers,
}

/// How a device's signals reach other devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerMode {
    /// Through the processor.
    #[default]
    None,
    /// By the peers' doorbells.
    Doorbells,
    /// By the peers' doorbells, and both words of a fence are one storage for all.
    LinearStorage,
}

impl Default for KmdConfig {
    fn default() -> KmdConfig {
        KmdConfig::DEFAULT
    }
}

impl KmdConfig {
    /// The usual choices: one memory segment behind a resized BAR, and the aperture.
    pub const DEFAULT: KmdConfig = KmdConfig {
        segment_page_bytes: 65536,
        ring_bytes: 64 << 10,
        paging_buffer_bytes: 64 << 10,
        max_in_flight: 256,
        cpu_visible: true,
        cpu_window_pages: 0,
        layout: Layout::Memory,
        addressing: Addressing::GpuMmu,
        driver_model: DriverModel::Wddm2,
        ddi_version: None,
        banks: 0,
        preserved: SegmentFlags::empty(),
        pitch_aligned: false,
        paging_by_gpu_va: false,
        source_page_table_va: false,
        large_pages: true,
        leaf_64kb: false,
        idle_spaces: false,
        tables: TableHomes::all(TableHome::Local),
        update_mode: PageTableUpdateMode::GpuPhysical,
        map_aperture2: false,
        context_save_bytes: 0,
        device_save_bytes: 0,
        hardware_queues: true,
        fence_interrupt: true,
        notify_after_ring: false,
        victims: VictimPolicy::Idle,
        optimized_fence_interrupt: false,
        peers: PeerMode::None,
        idle_ns: 0,
        flip_queue: false,
        maps_displayed: false,
        preemption: true,
        copy_addresses: true,
        aperture_visible: false,
        dma_buffers: DmaBuffers::Aperture,
    };

    /// Where page tables live in this layout: without a memory segment in system memory.
    pub fn table_homes(&self) -> TableHomes {
        if self.layout == Layout::Aperture { TableHomes::all(TableHome::System) } else { self.tables }
    }

    /// Local memory of a device whose driver is to report `reported_bytes` of it: with what the driver keeps for itself. `None`
    /// when that exceeds 64 bits.
    pub fn local_bytes(&self, reported_bytes: u64, aperture_bytes: u64) -> Option<u64> {
        let page = self.segment_page_bytes;
        let table = (aperture_bytes / PAGE_BYTES).checked_mul(ENTRY_BYTES)?.checked_next_multiple_of(page)?;
        let reported = if self.layout == Layout::Aperture { 0 } else { reported_bytes };
        let hidden = match self.layout {
            Layout::TwoMemories { hidden_bytes, .. } => hidden_bytes,
            // Something for the start of local memory to be; no segment reports it.
            Layout::Aperture => page,
            Layout::Memory | Layout::TwoApertures | Layout::ComputeOnly => 0,
        };
        reported.checked_add(hidden)?.checked_add(table)
    }

    /// The interface version of the driver: the one that it is to state, or else the newest that it needs. A driver whose engines take
    /// packets uses nothing newer than WDDM 2.6, which brought the last bit of its page tables (InvalidTlbEntriesNotCached).
    pub fn ddi_version(&self) -> DdiVersion {
        self.ddi_version.unwrap_or(match self.driver_model {
            DriverModel::Wddm1 => DdiVersion::WDDM_1_3,
            DriverModel::Wddm2 if self.hardware_queues => DdiVersion::WDDM_3_2,
            DriverModel::Wddm2 => DdiVersion::WDDM_2_6,
        })
    }

    /// Whether the driver's generation has virtual addresses. Without, its engines take packets that are patched.
    pub fn translates(&self) -> bool {
        self.driver_model == DriverModel::Wddm2
    }

    /// Whether the GPU has page tables of its own.
    pub fn has_page_tables(&self) -> bool {
        self.translates() && self.addressing == Addressing::GpuMmu
    }

    /// Whether an engine has GPU virtual addresses.
    pub(crate) fn has_addresses(&self, node: NodeId) -> bool {
        self.has_page_tables() && (self.copy_addresses || u32::from(node.0) != softgpu_spec::engine::COPY)
    }

    /// `MemoryManagementCaps`. Those of page tables follow from their entry points.
    // spec: memory §1.14, memory §4.1
    pub(crate) fn memory_caps(&self) -> VidMmCaps {
        let mut caps = VidMmCaps::empty();
        let addresses = VidMmCaps::VIRTUAL_ADDRESSING_SUPPORTED | VidMmCaps::IO_MMU_SUPPORTED;
        caps.set(addresses, self.uses_cpu_addresses());
        caps.set(VidMmCaps::MAP_APERTURE2_SUPPORTED, self.map_aperture2);
        // Cross-adapter resources lie in system memory, which the engines of the second generation reach as it is.
        caps.set(VidMmCaps::CROSS_ADAPTER_RESOURCE, self.driver_model == DriverModel::Wddm2);
        caps
    }

    /// Whether the engines use the CPU's addresses.
    pub fn uses_cpu_addresses(&self) -> bool {
        self.addressing == Addressing::IoMmu
    }

    /// Checks the choices against each other.
    ///
    /// # Errors
    /// `InvalidParameter` with the rule.
    pub(crate) fn check(&self) -> Result<(), DriverStatus> {
        let mut rules = self.size_rules().into_iter().chain(self.feature_rules());
        match rules.find(|(kept, _)| !kept) {
            Some((_, rule)) => Err(DriverStatus::InvalidParameter(rule)),
            None => Ok(()),
        }
    }

    /// Of sizes, windows and banks: whether each rule is kept.
    fn size_rules(&self) -> [(bool, &'static str); 7] {
        [
            (matches!(self.segment_page_bytes, 4096 | 65536), "a segment's page is 4096 or 65536 bytes"),
            (
                self.ring_bytes.is_power_of_two() && self.ring_bytes >= PAGE_BYTES,
                "a ring is a power of two from 4096 bytes",
            ),
            (
                self.paging_buffer_bytes > 0 && u64::from(self.paging_buffer_bytes).is_multiple_of(PAGE_BYTES),
                "a paging buffer is whole pages",
            ),
            (
                self.cpu_window_pages == 0 || !self.cpu_visible,
                "local memory is behind a resized BAR or behind a window, not both",
            ),
            (
                self.cpu_window_pages == 0 || self.driver_model == DriverModel::Wddm2,
                "the first generation has no CPU host aperture",
            ),
            (self.banks == 0 || self.driver_model == DriverModel::Wddm1, "only the first generation has banks"),
            (self.banks <= 127, "a segment has 127 banks at most"),
        ]
    }

    /// Of features that need, or exclude, each other.
    fn feature_rules(&self) -> [(bool, &'static str); 14] {
        [
            (
                self.ddi_version() >= DdiVersion::WDDM_3_2 || !self.hardware_queues || !self.translates(),
                "the hardware queues of this GPU signal native fences, which exist from WDDM 3.2 on",
            ),
            (
                self.fence_interrupt || !self.hardware_queues || !self.translates(),
                "hardware queues need engines that interrupt when they signal a fence",
            ),
            (
                !self.pitch_aligned || matches!(self.layout, Layout::TwoMemories { .. }),
                "the second memory segment aligns pitches, and there has to be one",
            ),
            (
                self.table_homes().bytes_in(TableHome::Second, 1, 1) == 0
                    || matches!(self.layout, Layout::TwoMemories { .. }),
                "page tables live in the second memory segment, and there has to be one",
            ),
            (
                !self.uses_cpu_addresses() || self.driver_model == DriverModel::Wddm2,
                "the first generation does not share the CPU's addresses",
            ),
            (
                !self.uses_cpu_addresses() || self.layout == Layout::Aperture,
                "behind an IOMMU there is system memory only: no memory segment",
            ),
            (
                !self.uses_cpu_addresses() || !self.paging_by_gpu_va,
                "paging by GPU virtual address needs page tables of the GPU",
            ),
            (
                !self.flip_queue || (self.hardware_queues && self.translates()),
                "a flip queue belongs to hardware scheduling: it needs hardware queues",
            ),
            (
                !self.maps_displayed || self.translates(),
                "without virtual addresses everything is accessed physically, primaries too",
            ),
            (
                self.copy_addresses || !self.hardware_queues || !self.has_page_tables(),
                "hardware queues run in GPU address spaces: the copy engine needs them, too",
            ),
            (
                self.copy_addresses || !self.paging_by_gpu_va && self.update_mode != PageTableUpdateMode::GpuVirtual,
                "the copy engine pages: without GPU virtual addresses it does not page by them",
            ),
            (self.copy_addresses || !self.uses_cpu_addresses(), "behind an IOMMU every engine has the CPU's addresses"),
            (self.max_in_flight > 0, "a ring has an end: the buffers in flight are limited"),
            // One more than the limit, because the engine moves its read pointer after it has signalled.
            (
                SUBMISSION_BYTES * (u64::from(self.max_in_flight) + 1) <= self.ring_bytes,
                "the ring holds the buffers in flight",
            ),
        ]
    }
}
