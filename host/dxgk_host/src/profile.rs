//! Adapter profiles: named sets of sizes and rates. The rates are a stated cost model for virtual time; real time runs
//! as fast as this computer does.

mod built_in;
mod file;

use built_in::PLAIN;
pub use built_in::PROFILES;
pub use file::{FileError, ProfileError};

use ddi::{DriverModel, NativeFenceOsCaps};
use dxgkrnl::MemoryPolicy;
use softgpu::{DisplayConfig, Timing};
use softgpu_kmd::{KmdConfig, Layout, PeerMode};
use softgpu_spec::page_table::Shape;
use wddm_types::{PciAddress, PciFunction};

/// An adapter that can be asked for: by its name if it is built in, or by the file that describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// What its bus says of it, without its place.
    pub pci: PciFunction,
    /// Its place on the bus; none: the next one that is free on bus 0.
    pub pci_address: Option<PciAddress>,
    /// The driver's layout of the memory and its capabilities.
    pub driver: KmdConfig,
    /// Bytes of video memory when nothing else is said.
    pub vram_bytes: u64,
    /// Bytes of the aperture segment.
    pub aperture_bytes: u64,
    /// How the device cuts virtual addresses: levels and index bits (memory §4.3).
    pub shape: Shape,
    /// The device snoops the CPU's caches (memory §6.7).
    pub io_coherent: bool,
    /// The host plays the CPU's caches all the same: the device sees them where entries and aperture mappings say that it snoops.
    pub plays_caches: bool,
    /// The types of native fences that the kernel allows beside the usual.
    pub fence_caps: NativeFenceOsCaps,
    /// Bits that an engine stores in one piece when it signals a monitored fence: 64, or 32 (`No64BitAtomics`, sync §1.6).
    pub signal_bits: u32,
    /// Doorbells of the device for processes (sync §3.17); with fewer than queues that want one, the driver passes them on.
    pub doorbells: u32,
    /// Its displays.
    pub displays: DisplayConfig,
    /// A bit for each of its engines that are reset together (sync §4.4); 0: each is by itself.
    pub reset_group: u64,
    /// The cost of commands in virtual time.
    pub timing: Timing,
    /// The cost of a call to its caller in virtual time, in nanoseconds.
    pub call_ns: u64,
    /// The choices that the fact sheet leaves to the memory manager.
    pub memory_policy: MemoryPolicy,
}

impl Profile {
    /// Whether its engines use the CPU's addresses (memory §4.9).
    pub fn uses_cpu_addresses(&self) -> bool {
        self.driver.uses_cpu_addresses()
    }

    /// Whether its engines have virtual addresses, the GPU's or the CPU's.
    pub fn has_addresses(&self) -> bool {
        self.driver.has_page_tables() || self.driver.uses_cpu_addresses()
    }

    /// Whether its engines have hardware queues.
    pub fn has_hardware_queues(&self) -> bool {
        self.driver.hardware_queues && self.driver.driver_model != DriverModel::Wddm1
    }

    /// Whether it has memory that other adapters reach, too (memory §1.14, bit 4).
    pub fn has_cross_adapter_resources(&self) -> bool {
        self.driver.driver_model != DriverModel::Wddm1
    }

    /// The same adapter when its engines take packets (sync §4.1): without hardware queues it has neither native fences nor features that
    /// need them.
    pub fn with_packets(&self) -> Profile {
        let driver = KmdConfig {
            hardware_queues: false,
            optimized_fence_interrupt: false,
            peers: PeerMode::None,
            flip_queue: false,
            ..self.driver
        };
        Profile { driver, fence_caps: PLAIN, ..*self }
    }

    /// Bytes of the memory segments' page: 4096 or 65536.
    pub fn segment_page_bytes(&self) -> u64 {
        self.driver.segment_page_bytes
    }

    /// Whether it has memory of its own, and so a local budget: an integrated adapter's allocations lie in system memory.
    pub fn has_memory_segments(&self) -> bool {
        !matches!(self.driver.layout, Layout::Aperture)
    }

    /// Bytes of its memory that a process's fences take for good: a page where the kernel keeps their MonitoredValues there.
    pub fn fence_bytes_local(&self) -> u64 {
        let kept_there = self.fence_caps.optimized_default_fence_type && self.has_memory_segments();
        if kept_there { self.segment_page_bytes() } else { 0 }
    }

    /// The driver's choices for this much video memory: a second memory segment is a quarter of it.
    pub fn driver_for(&self, vram_bytes: u64) -> KmdConfig {
        let layout = match self.driver.layout {
            Layout::TwoMemories { hidden_bytes, .. } => {
                let page = self.segment_page_bytes();
                Layout::TwoMemories { second_bytes: (vram_bytes / 4 / page * page).max(page), hidden_bytes }
            }
            other => other,
        };
        KmdConfig { layout, ..self.driver }
    }

    /// The profile with this name.
    pub fn named(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }
}
