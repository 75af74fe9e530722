//! What the host may choose about the driver. A wrong choice fails `start_device`, never panics.

use ddi::{DriverModel, DriverStatus, PageTableUpdateMode, SegmentFlags};
use softgpu_spec::bus::PAGE_BYTES;

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
    /// The aperture only: an integrated GPU. Its page tables lie in system memory, its local memory is hidden.
    Aperture,
    /// A memory segment only: a GPU that computes and never shows anything.
    ComputeOnly,
}

/// Where page tables live (memory §4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableHome {
    /// In the first memory segment; in system memory where there is none.
    #[default]
    Local,
    /// In system memory.
    System,
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
    /// Which segments are reported.
    pub layout: Layout,
    /// The generation of the contract that the driver speaks. The first one has no GPU virtual addresses.
    pub driver_model: DriverModel,
    /// `Wddm1`: so many banks of equal size divide the first memory segment; 0: none (memory §1.8).
    pub banks: u8,
    /// Power flags of the memory segments (memory §1.10); other flags are not looked at.
    pub preserved: SegmentFlags,
    /// The second memory segment aligns pitches (`PitchAlignment`, memory §2.6): rows of what lies there are further apart.
    pub pitch_aligned: bool,
    /// Content is paged by GPU virtual address (memory §3.3).
    pub paging_by_gpu_va: bool,
    /// `LargePageSupported`: 2 MB of consecutive memory have one page-table entry (memory §4.5).
    pub large_pages: bool,
    /// Leaf tables may have entries of 64 KB (`LeafPageTableSizeFor64KPagesInBytes`, memory §4.5).
    pub leaf_64kb: bool,
    /// `PageTableUpdateRequireAddressSpaceIdle`: nothing runs in a space while its tables change (memory §4.2). The device
    /// does not need that; kernels that honour it are tested so.
    pub idle_spaces: bool,
    /// Where page tables live.
    pub tables: TableHome,
    /// How those of processes are written (memory §4.2).
    pub update_mode: PageTableUpdateMode,
    /// Aperture maps are taken as device pages (`MapAperture2Supported`, memory §1.14).
    pub map_aperture2: bool,
    /// Bytes of a save area that each context of a process gets (a context allocation, memory §7.5); 0: none.
    pub context_save_bytes: u64,
    /// A connected doorbell is reported as `CONNECTED_NOTIFY_KMD` (sync §2.9): clients tell the kernel after each ring. Not
    /// needed by clients that look at the doorbell's second word and tell the kernel only when the engine sleeps.
    pub notify_after_ring: bool,
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
        driver_model: DriverModel::Wddm2,
        banks: 0,
        preserved: SegmentFlags::empty(),
        pitch_aligned: false,
        paging_by_gpu_va: false,
        large_pages: true,
        leaf_64kb: false,
        idle_spaces: false,
        tables: TableHome::Local,
        update_mode: PageTableUpdateMode::GpuPhysical,
        map_aperture2: false,
        context_save_bytes: 0,
        notify_after_ring: false,
    };

    /// Whether page tables live in local memory; else in system memory.
    pub fn tables_are_local(&self) -> bool {
        self.tables == TableHome::Local && self.layout != Layout::Aperture
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
            Layout::Memory | Layout::ComputeOnly => 0,
        };
        reported.checked_add(hidden)?.checked_add(table)
    }

    /// Whether the driver's generation has GPU virtual addresses, and with them hardware queues and fences of the
    /// hardware's own. Without, its engines take packets that are patched.
    pub fn translates(&self) -> bool {
        self.driver_model == DriverModel::Wddm2
    }

    /// Checks the choices against each other.
    ///
    /// # Errors
    /// `InvalidParameter` with the rule.
    pub(crate) fn check(&self) -> Result<(), DriverStatus> {
        let rules = [
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
            (
                !self.pitch_aligned || matches!(self.layout, Layout::TwoMemories { .. }),
                "the second memory segment aligns pitches, and there has to be one",
            ),
            (self.max_in_flight > 0, "a ring has an end: the buffers in flight are limited"),
            // One more than the limit, because the engine moves its read pointer after it has signalled.
            (
                SUBMISSION_BYTES * (u64::from(self.max_in_flight) + 1) <= self.ring_bytes,
                "the ring holds the buffers in flight",
            ),
        ];
        match rules.iter().find(|(kept, _)| !kept) {
            Some((_, rule)) => Err(DriverStatus::InvalidParameter(rule)),
            None => Ok(()),
        }
    }
}
