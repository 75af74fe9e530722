//! The adapters that have names: one line of `driver` says what is special about each.

use ddi::{DriverModel, NativeFenceOsCaps, PageTableUpdateMode};
use dxgkrnl::MemoryPolicy;
use softgpu::{DisplayConfig, Timing};
use softgpu_kmd::{Addressing, KmdConfig, Layout, PeerMode, TableHome, TableHomes};
use softgpu_spec::context_data::DmaBuffers;
use softgpu_spec::page_table::Shape;
use wddm_types::{PciAddress, PciFunction};

use super::Profile;

/// The profiles that are built in; the first is the default.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "discrete-4k",
        description: "a mid-size discrete GPU: 8 GiB at 1 TB/s, 25 GB/s to system memory, 4-KB segment pages",
        driver: SMALL_PAGES,
        displays: ONE_DISPLAY,
        ..DISCRETE
    },
    DISCRETE,
    Profile {
        name: "datacenter",
        description: "a large accelerator: 80 GiB at 3.3 TB/s, 55 GB/s to system memory, 64-KB segment pages",
        driver: KmdConfig::DEFAULT,
        vram_bytes: 80 << 30,
        aperture_bytes: 1 << 30,
        timing: Timing {
            compute_bytes_per_us: 3_300_000,
            copy_bytes_per_us: 55_000,
            local_copy_bytes_per_us: 1_600_000,
            ..MIDDLE
        },
        ..DISCRETE
    },
    Profile {
        name: "small-bar",
        description: "discrete-64k without a resized BAR: the CPU reaches memory through a window of 256 MiB",
        driver: KmdConfig { cpu_visible: false, cpu_window_pages: 4096, ..KmdConfig::DEFAULT },
        ..DISCRETE
    },
    Profile {
        name: "integrated",
        description: "an integrated GPU: an aperture and no memory of its own, page tables in system memory",
        driver: KmdConfig { layout: Layout::Aperture, ..SMALL_PAGES },
        vram_bytes: 4 << 30,
        displays: TWO_DISPLAYS,
        timing: Timing { compute_bytes_per_us: 50_000, copy_bytes_per_us: 50_000, ..MIDDLE },
        ..DISCRETE
    },
    Profile {
        name: "iommu",
        description: "integrated without page tables of its own: it uses the CPU's addresses, the IOMMU translates",
        driver: KmdConfig {
            layout: Layout::Aperture,
            addressing: Addressing::IoMmu,
            maps_displayed: true,
            ..SMALL_PAGES
        },
        displays: ONE_DISPLAY,
        vram_bytes: 4 << 30,
        timing: Timing { compute_bytes_per_us: 50_000, copy_bytes_per_us: 50_000, ..MIDDLE },
        ..DISCRETE
    },
    Profile {
        name: "two-memories",
        description: "two memory segments, the second a quarter of all, with a range between that the driver hides",
        driver: KmdConfig {
            layout: Layout::TwoMemories { second_bytes: 2 << 30, hidden_bytes: 1 << 20 },
            ..KmdConfig::DEFAULT
        },
        ..DISCRETE
    },
    Profile {
        name: "compute-only",
        description: "an accelerator without an aperture: system memory stands behind its one segment",
        driver: KmdConfig { layout: Layout::ComputeOnly, ..KmdConfig::DEFAULT },
        ..DISCRETE
    },
    Profile {
        name: "by-address",
        description: "discrete-64k with a driver that pages by GPU virtual address and maps its aperture by device pages",
        driver: KmdConfig { paging_by_gpu_va: true, map_aperture2: true, ..KmdConfig::DEFAULT },
        ..DISCRETE
    },
    Profile {
        name: "levels-2",
        description: "discrete-4k with two page-table levels: 39-bit addresses, a root that is lengthened and shortened",
        driver: SMALL_PAGES,
        shape: Shape::new(&[9, 18]),
        ..DISCRETE
    },
    Profile {
        name: "levels-3",
        description: "discrete-64k with three page-table levels: 42-bit addresses, the root in 32 KiB",
        shape: Shape::new(&[9, 9, 12]),
        ..DISCRETE
    },
    Profile {
        name: "levels-5",
        description: "discrete-64k with five page-table levels: 57-bit addresses",
        shape: Shape::new(&[9, 9, 9, 9, 9]),
        ..DISCRETE
    },
    Profile {
        name: "levels-6",
        description: "discrete-64k with six page-table levels of unequal width: 60-bit addresses, leaf tables of 1 MiB",
        shape: Shape::new(&[8, 9, 9, 9, 9, 4]),
        ..DISCRETE
    },
    Profile {
        name: "tables-by-cpu",
        description: "discrete-64k with page tables in system memory that the CPU writes (CPU_VIRTUAL)",
        driver: KmdConfig {
            tables: TableHomes::all(TableHome::System),
            update_mode: PageTableUpdateMode::CpuVirtual,
            ..KmdConfig::DEFAULT
        },
        ..DISCRETE
    },
    Profile {
        name: "tables-by-address",
        description: "discrete-64k with page tables that the copy engine writes by virtual address (GPU_VIRTUAL)",
        driver: KmdConfig { update_mode: PageTableUpdateMode::GpuVirtual, ..KmdConfig::DEFAULT },
        ..DISCRETE
    },
    Profile {
        name: "leaves-64k",
        description: "discrete-64k with leaf tables of 64-KB entries, converted where a 4-KB page appears while contexts are quiesced",
        driver: KmdConfig { leaf_64kb: true, large_pages: false, ..KmdConfig::DEFAULT },
        ..DISCRETE
    },
    Profile {
        name: "idle-spaces",
        description: "leaves-64k on hardware that wants a process's contexts quiesced for every change of its page tables",
        driver: KmdConfig { leaf_64kb: true, large_pages: false, idle_spaces: true, ..KmdConfig::DEFAULT },
        ..DISCRETE
    },
    Profile {
        name: "dual-entries",
        description: "discrete-64k with entries that name two leaf tables: each 64 KB goes from 64-KB to 4-KB entries and back at any time",
        shape: Shape::FOUR_LEVELS.with_dual_entries(),
        ..DISCRETE
    },
    Profile {
        name: "levels-apart",
        description: "two-memories with the tables of each level elsewhere: leaf tables in system memory, roots in the second memory",
        driver: KmdConfig {
            layout: Layout::TwoMemories { second_bytes: 2 << 30, hidden_bytes: 1 << 20 },
            tables: TableHomes {
                leaf: TableHome::System,
                middle: TableHome::Local,
                root: TableHome::Second,
                paging_leaf: TableHome::System,
                paging_directories: TableHome::Second,
            },
            ..KmdConfig::DEFAULT
        },
        ..DISCRETE
    },
    Profile {
        name: "intra-gpu-fences",
        description: "discrete-64k under a kernel that allows INTRA_GPU fences: their words lie in video memory",
        fence_caps: NativeFenceOsCaps { intra_gpu_fence_type: true, ..PLAIN },
        ..DISCRETE
    },
    Profile {
        name: "local-monitored",
        description: "discrete-64k under a kernel that keeps MonitoredValues of DEFAULT fences in video memory, next to the engines",
        fence_caps: NativeFenceOsCaps { optimized_default_fence_type: true, ..PLAIN },
        ..DISCRETE
    },
    Profile {
        name: "wddm2-packets",
        description: "discrete-4k as of WDDM 2.6: engines that take packets, monitored fences and no native ones",
        driver: KmdConfig { hardware_queues: false, ..SMALL_PAGES },
        displays: ONE_DISPLAY,
        ..DISCRETE
    },
    Profile {
        name: "packets-by-address",
        description: "wddm2-packets with a driver that pages and writes page tables by GPU virtual address",
        driver: KmdConfig {
            hardware_queues: false,
            paging_by_gpu_va: true,
            update_mode: PageTableUpdateMode::GpuVirtual,
            ..SMALL_PAGES
        },
        ..DISCRETE
    },
    Profile {
        name: "iommu-packets",
        description: "iommu whose engines take packets",
        driver: KmdConfig {
            layout: Layout::Aperture,
            addressing: Addressing::IoMmu,
            hardware_queues: false,
            ..SMALL_PAGES
        },
        vram_bytes: 4 << 30,
        timing: Timing { compute_bytes_per_us: 50_000, copy_bytes_per_us: 50_000, ..MIDDLE },
        ..DISCRETE
    },
    Profile {
        name: "basic-engines",
        description: "wddm2-packets whose engines do not interrupt when they signal a fence",
        driver: KmdConfig { hardware_queues: false, fence_interrupt: false, ..SMALL_PAGES },
        ..DISCRETE
    },
    Profile {
        name: "atomics-32",
        description: "wddm2-packets whose engines update 32 bits of a fence at once (No64BitAtomics)",
        driver: KmdConfig { hardware_queues: false, ..SMALL_PAGES },
        signal_bits: 32,
        ..DISCRETE
    },
    Profile {
        name: "wddm1-banks",
        description: "a WDDM 1.3 GPU: four banks, no GPU virtual addresses",
        driver: KmdConfig { driver_model: DriverModel::Wddm1, banks: 4, ..SMALL_PAGES },
        vram_bytes: 1 << 30,
        displays: ONE_DISPLAY,
        ..DISCRETE
    },
    Profile {
        name: "aperture-bar",
        description: "wddm1-banks whose aperture the CPU reaches: it sees primaries that lie there through it",
        driver: KmdConfig { driver_model: DriverModel::Wddm1, banks: 4, aperture_visible: true, ..SMALL_PAGES },
        vram_bytes: 1 << 30,
        displays: ONE_DISPLAY,
        ..DISCRETE
    },
    Profile {
        name: "noncoherent",
        description: "discrete-4k on a platform without I/O coherency: the CPU's caches are maintained by software",
        driver: SMALL_PAGES,
        io_coherent: false,
        ..DISCRETE
    },
    Profile {
        name: "snooping",
        description: "discrete-4k with the CPU's caches played: the GPU sees them where entries and aperture maps say that it snoops",
        driver: SMALL_PAGES,
        plays_caches: true,
        ..DISCRETE
    },
    Profile {
        name: "mixed-engines",
        description: "wddm2-packets whose copy engine has no GPU virtual addresses: its buffers are patched, in contiguous memory",
        driver: KmdConfig {
            hardware_queues: false,
            copy_addresses: false,
            dma_buffers: DmaBuffers::Contiguous,
            ..SMALL_PAGES
        },
        displays: ONE_DISPLAY,
        ..DISCRETE
    },
    Profile {
        name: "peer-doorbells",
        description: "discrete-4k whose signals of cross-adapter fences ring the doorbells of other GPUs that have them",
        driver: KmdConfig { peers: PeerMode::Doorbells, ..SMALL_PAGES },
        ..DISCRETE
    },
    Profile {
        name: "peer-linear",
        description: "the same, and both words of a cross-adapter fence are one storage for all GPUs",
        driver: KmdConfig { peers: PeerMode::LinearStorage, ..SMALL_PAGES },
        ..DISCRETE
    },
    Profile {
        name: "optimized-fences",
        description: "discrete-4k whose fence interrupts name queues: their logs say what was signalled",
        driver: KmdConfig { optimized_fence_interrupt: true, ..SMALL_PAGES },
        ..DISCRETE
    },
    Profile {
        name: "power-saving",
        description: "discrete-4k whose engines ask for less power when they had nothing to do for 50 us",
        driver: KmdConfig { idle_ns: 50_000, ..SMALL_PAGES },
        ..DISCRETE
    },
    Profile {
        name: "flip-queue",
        description: "discrete-4k whose displays take 16 flips ahead, each with its time, and log what became of them",
        driver: KmdConfig { flip_queue: true, ..SMALL_PAGES },
        displays: DisplayConfig { queue_entries: 16, ..ONE_DISPLAY },
        ..DISCRETE
    },
    Profile {
        name: "maps-displayed",
        description: "integrated whose aperture shows primaries only while they are displayed: no engine needs them there",
        driver: KmdConfig { layout: Layout::Aperture, maps_displayed: true, ..SMALL_PAGES },
        vram_bytes: 4 << 30,
        displays: TWO_DISPLAYS,
        timing: Timing { compute_bytes_per_us: 50_000, copy_bytes_per_us: 50_000, ..MIDDLE },
        ..DISCRETE
    },
    Profile {
        name: "paired-engines",
        description: "discrete-4k whose engines are reset together: a context that has left the one loses nothing when the other hangs",
        driver: SMALL_PAGES,
        reset_group: 0b11,
        ..DISCRETE
    },
    Profile {
        name: "few-doorbells",
        description: "discrete-4k with one doorbell for all user-mode queues: a queue that rings takes it over",
        driver: SMALL_PAGES,
        doorbells: 1,
        ..DISCRETE
    },
];

/// DEFAULT fences, their words in system memory.
pub(super) const PLAIN: NativeFenceOsCaps =
    NativeFenceOsCaps { optimized_default_fence_type: false, intra_gpu_fence_type: false };

/// The software GPU on the bus. No maker has this number, so that no driver takes it for a device of its own; its letters are "ow". [R]
// spec: sync §2.10
const SOFTGPU: PciFunction = PciFunction {
    vendor: 0x6f77,
    device: 0x0001,
    subsystem_vendor: 0x6f77,
    subsystem: 0x0001,
    revision: 0x01,
    bus_type: 1,
    address: NOWHERE,
};

/// The host says it.
const NOWHERE: PciAddress = PciAddress::new(0, 0, 0).expect("every bus has it");

/// 60 blanks a second, and one flip at a time.
const ONE_DISPLAY: DisplayConfig = DisplayConfig { count: 1, period_ns: 16_666_667, queue_entries: 1 };

const TWO_DISPLAYS: DisplayConfig = DisplayConfig { count: 2, ..ONE_DISPLAY };

const DISCRETE: Profile = Profile {
    name: "discrete-64k",
    description: "the same with 64-KB segment pages",
    pci: SOFTGPU,
    pci_address: None,
    driver: KmdConfig::DEFAULT,
    vram_bytes: 8 << 30,
    aperture_bytes: 256 << 20,
    shape: Shape::FOUR_LEVELS,
    io_coherent: true,
    plays_caches: false,
    fence_caps: PLAIN,
    signal_bits: 64,
    doorbells: softgpu_spec::doorbell::PAGES_MAX,
    displays: DisplayConfig::NONE,
    reset_group: 0,
    timing: MIDDLE,
    call_ns: 500,
    memory_policy: MemoryPolicy::DEFAULT,
};

const SMALL_PAGES: KmdConfig = KmdConfig { segment_page_bytes: 4096, large_pages: false, ..KmdConfig::DEFAULT };

const MIDDLE: Timing = Timing::MIDDLE;
