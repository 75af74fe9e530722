//! The configuration of a host.

use std::sync::Arc;

use ddi::Miniport;
use device_port::{DevicePort, Probe};
use dxgkrnl::{DriverClock, FeaturePolicy, MemoryPolicy, RecoveryPolicy, SchedulingPolicy};
use events::Tracer;
use shared_words::across::Processors;

use wddm_types::PAGE_BYTES;

use crate::computer;
use crate::faults::FaultPlan;
use crate::profile::Profile;

/// How time passes and whether bytes exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Threads and the computer's clock; every byte is stored.
    Real,
    /// Virtual time; `stored` says whether content exists or is only timed.
    Virtual {
        /// Content exists.
        stored: bool,
    },
}

/// Puts something between kernel and driver: a recorder, a checker, a driver that lies.
pub type WrapMiniport = Box<dyn FnOnce(Box<dyn Miniport>) -> Box<dyn Miniport>>;
/// Puts something between driver and device: hardware that misbehaves.
pub type WrapPort = Box<dyn FnOnce(Arc<dyn DevicePort>) -> Arc<dyn DevicePort>>;

/// One adapter of a host. Sizes in bytes.
pub struct AdapterSetup {
    /// The adapter's hardware and driver.
    pub profile: Profile,
    /// Video memory that allocations can have.
    pub vram_bytes: u64,
    /// Video memory for page tables, beside it.
    pub page_table_bytes: u64,
    /// System memory for backing stores of its allocations: they take it as they use it.
    pub system_bytes: u64,
    /// The choices of the memory manager.
    pub memory_policy: MemoryPolicy,
    /// The features that the configuration allows or forbids.
    pub features: FeaturePolicy,
    /// The kernel's response to work that does not end, and how often it resets the adapter before it gives it up.
    pub recovery: RecoveryPolicy,
    /// Measures the driver's calls, where the kernel watches work; `None`: the computer's clock does in real time, and nothing in virtual
    /// time, in which a driver takes none.
    pub driver_clock: Option<Arc<dyn DriverClock>>,
    /// The choices of the scheduler.
    pub scheduling: SchedulingPolicy,
    /// A probe on the device.
    pub probe: Option<Arc<dyn Probe>>,
    /// Between kernel and driver.
    pub wrap_miniport: Option<WrapMiniport>,
    /// Between driver and device.
    pub wrap_port: Option<WrapPort>,
}

impl AdapterSetup {
    /// An adapter of this profile with its own memory size, and as much system memory as there is ([`system_bytes`]).
    pub fn new(profile: &Profile, mode: Mode) -> AdapterSetup {
        AdapterSetup::sized(profile, mode, None, None)
    }

    /// The same with these sizes where they are given, and page tables for both memories.
    pub fn sized(profile: &Profile, mode: Mode, vram_bytes: Option<u64>, system: Option<u64>) -> AdapterSetup {
        let vram_bytes = vram_bytes.unwrap_or(profile.vram_bytes);
        let system_bytes = system.unwrap_or_else(|| system_bytes(mode));
        AdapterSetup {
            profile: *profile,
            vram_bytes,
            page_table_bytes: page_table_bytes(vram_bytes.saturating_add(system_bytes)),
            system_bytes,
            memory_policy: profile.memory_policy,
            features: FeaturePolicy { native_fence: profile.fence_caps, ..FeaturePolicy::default() },
            // A software device on a busy computer is slow, not hung: timeout detection is off unless a caller turns it on.
            recovery: RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() },
            driver_clock: None,
            scheduling: SchedulingPolicy::default(),
            probe: None,
            wrap_miniport: None,
            wrap_port: None,
        }
    }
}

/// The configuration of a host: its first adapter field by field, and the others. Sizes in bytes.
pub struct HostConfig {
    /// The adapter.
    pub profile: Profile,
    /// Video memory that allocations can have.
    pub vram_bytes: u64,
    /// Video memory for page tables, beside it.
    pub page_table_bytes: u64,
    /// System memory for backing stores: they take it as they use it.
    pub system_bytes: u64,
    /// Memory is made of memory files: locks have addresses that stay while content moves. Off, first touches are cheaper,
    /// and a lock's bytes are reached through its methods only.
    pub memory_files: bool,
    /// The host lends a process the pages that it may map in memory files of their own, which a daemon can hand to the process
    /// ([`Host::lent_word`](crate::Host::lent_word)). Off, all memory is one, and clients are in this program.
    pub isolates_processes: bool,
    /// All processors, if this program may run on each: then processes that it isolates ring doorbells without a barrier of their own, and
    /// the host has a thread on each ([`shared_words::across`]). Asked for before files are given up.
    pub processors: Option<Processors>,
    /// Time and content.
    pub mode: Mode,
    /// The choices of the memory manager, at first those of the profile.
    pub memory_policy: MemoryPolicy,
    /// The features that the configuration allows or forbids.
    pub features: FeaturePolicy,
    /// The kernel's response to work that does not end, and how often it resets the adapter before it gives it up.
    pub recovery: RecoveryPolicy,
    /// Measures the driver's calls, where the kernel watches work; `None`: the computer's clock does in real time, and nothing in virtual
    /// time, in which a driver takes none.
    pub driver_clock: Option<Arc<dyn DriverClock>>,
    /// The choices of the scheduler.
    pub scheduling: SchedulingPolicy,
    /// Receives the kernel's events.
    pub tracer: Box<dyn Tracer + Send>,
    /// A probe on the device.
    pub probe: Option<Arc<dyn Probe>>,
    /// The device snoops the CPU's caches. Without it their contents differ from memory until the kernel flushes or invalidates them
    /// (memory §6.7).
    pub io_coherent: bool,
    /// The host plays the CPU's caches although the platform is coherent: the device sees their content only where an entry or an aperture
    /// mapping says that it snoops (memory §6.7). Locks have no addresses then, and the host cannot serve processes elsewhere.
    pub plays_caches: bool,
    /// Between kernel and driver.
    pub wrap_miniport: Option<WrapMiniport>,
    /// Between driver and device.
    pub wrap_port: Option<WrapPort>,
    /// Calls that are to fail, and faults of the first adapter's device.
    pub faults: Option<FaultPlan>,
    /// Adapters beside the first, behind the same system memory, in the order in which they are enumerated.
    pub others: Vec<AdapterSetup>,
}

impl HostConfig {
    /// An adapter of this profile with its own memory size, as much system memory as there is ([`system_bytes`]), without a listener.
    pub fn new(profile: &Profile, mode: Mode) -> HostConfig {
        HostConfig::of(AdapterSetup::new(profile, mode), mode)
    }

    /// A host of this adapter, without a listener.
    pub fn of(first: AdapterSetup, mode: Mode) -> HostConfig {
        let AdapterSetup {
            profile,
            vram_bytes,
            page_table_bytes,
            system_bytes,
            memory_policy,
            features,
            recovery,
            driver_clock,
            scheduling,
            probe,
            wrap_miniport,
            wrap_port,
        } = first;
        HostConfig {
            profile,
            vram_bytes,
            page_table_bytes,
            system_bytes,
            memory_files: false,
            isolates_processes: false,
            processors: None,
            mode,
            memory_policy,
            features,
            recovery,
            driver_clock,
            scheduling,
            tracer: Box::new(events::Silence),
            probe,
            io_coherent: profile.io_coherent,
            plays_caches: profile.plays_caches,
            wrap_miniport,
            wrap_port,
            faults: None,
            others: Vec::new(),
        }
    }

    /// Takes all adapters out, the first in front.
    pub(crate) fn take_adapters(&mut self) -> Vec<AdapterSetup> {
        let first = AdapterSetup {
            profile: self.profile,
            vram_bytes: self.vram_bytes,
            page_table_bytes: self.page_table_bytes,
            system_bytes: self.system_bytes,
            memory_policy: self.memory_policy,
            features: std::mem::take(&mut self.features),
            recovery: self.recovery,
            driver_clock: self.driver_clock.take(),
            scheduling: self.scheduling,
            probe: self.probe.take(),
            wrap_miniport: self.wrap_miniport.take(),
            wrap_port: self.wrap_port.take(),
        };
        std::iter::once(first).chain(self.others.drain(..)).collect()
    }
}

/// System memory of an adapter in virtual time: the same on every computer, so that a run is. No byte of it exists before it is written.
const VIRTUAL_SYSTEM_BYTES: u64 = 256 << 30;

/// As much system memory as there is for an adapter: in real time the computer's memory for this program, in virtual time 256 GiB.
pub fn system_bytes(mode: Mode) -> u64 {
    match mode {
        Mode::Real => computer::memory_bytes() / PAGE_BYTES * PAGE_BYTES,
        Mode::Virtual { .. } => VIRTUAL_SYSTEM_BYTES,
    }
}

/// The part of the memory for page tables that is kept where only directories live: they name a leaf table in 8 bytes, and
/// every process has one at least of each level.
pub fn directory_table_bytes(page_table_bytes: u64) -> u64 {
    page_table_bytes / 8
}

/// Enough for the page tables of `mapped_bytes` of addresses: 8 bytes for each 4-KB page, twice that for addresses that
/// are not packed, and room for many small allocations.
pub fn page_table_bytes(mapped_bytes: u64) -> u64 {
    (16 << 20) + (mapped_bytes / 256).next_multiple_of(65536)
}
