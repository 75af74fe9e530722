//! Putting an adapter into a host: how much memory it needs, where in system memory it works, its device, its driver. A host
//! has several behind one system memory: each has a piece of it for its kernel side and for its backing stores, and every device
//! reaches all of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use ddi::Miniport;
use device_port::{CpuCaches, DevicePort, InterruptPin, PeerBell};
use dxgkrnl::{AdapterConfig, ClientMemory, CpuCache, DriverClock, GivenMemory, IoMmu};
use shared_words::Memory;
use softgpu::{Config as DeviceConfig, DataMode, SoftGpu};
use softgpu_kmd::{KmdConfig, Layout, SoftGpuKmd, TableHome};
use wddm_types::{Luid, PAGE_BYTES, PageRun, Pages, PciAddress, PciFunction};

use super::{HostError, KERNEL_BYTES};
use crate::arenas::Arenas;
use crate::config::{AdapterSetup, directory_table_bytes};
use crate::cpu_cache::StaleCache;
use crate::cpu_mapping::DeviceBus;
use crate::doorbells::{AdapterDoorbells, Doorbells};
use crate::given::GivenFiles;
use crate::iommu::Iommu;
use crate::lent::Lender;
use crate::line::Line;
use crate::own_commands::Commands;
use crate::profile::Profile;
use crate::provided::Provided;

/// Bytes of a paging buffer.
const PAGING_BUFFER_BYTES: u32 = 64 << 10;
/// Paging buffers in flight at most.
const PAGING_BUFFERS: u32 = 64;
/// How often a device thread looks again before it gives up.
const POLL_SPINS: u32 = 2_000;
/// LUIDs of a host's adapters lie this far apart.
const LUID_STEP: u64 = 0x0001_0000;

/// The LUID of a host's adapter.
pub(super) fn luid(index: usize) -> Luid {
    Luid(LUID_STEP * (index as u64 + 1))
}

/// An adapter whose sizes are known.
pub(super) struct Measured {
    setup: AdapterSetup,
    driver: KmdConfig,
    /// Local memory, with page tables and the driver's own part.
    local_bytes: u64,
    page_table_bytes: u64,
    directory_bytes: u64,
    /// System memory for backing stores, and for page tables that lie there.
    system_bytes: u64,
}

/// The parts of a host that its devices share.
pub(super) struct SharedParts<'a> {
    pub system: &'a Arc<Memory>,
    pub doorbells: &'a Arc<Doorbells>,
    /// Reserves memory that devices and processes see: made of a file or not.
    pub reserve: fn(u64) -> Result<Arc<Memory>, shared_words::MemoryError>,
    pub data: DataMode,
    /// Processes get files of their own.
    pub isolates: bool,
    pub given: &'a Arc<GivenFiles>,
    pub arenas: &'a Arc<Arenas>,
    pub cpu_cache: Option<Arc<dyn CpuCache>>,
    /// The devices snoop them.
    pub snoops: bool,
    /// The computer's clock, in real time.
    pub driver_clock: Option<Arc<dyn DriverClock>>,
    /// Counts the commands of processes that ask.
    pub commands: &'a Arc<Commands>,
}

/// An adapter that is put together; its engines run once its driver starts, or before.
pub(super) struct Mounted {
    pub device: Arc<SoftGpu>,
    pub miniport: Box<dyn Miniport>,
    pub adapter: AdapterConfig,
    pub provided: Provided,
}

impl Measured {
    /// How much memory an adapter needs.
    ///
    /// # Errors
    /// A size that no adapter can have.
    pub fn new(setup: AdapterSetup) -> Result<Measured, HostError> {
        let profile = &setup.profile;
        let page = profile.segment_page_bytes();
        let vram = setup.vram_bytes / page * page;
        if vram == 0 {
            return Err(HostError::Size(format!(
                "{} bytes of video memory are less than one page of {page} bytes",
                setup.vram_bytes
            )));
        }
        let mut driver = KmdConfig { paging_buffer_bytes: PAGING_BUFFER_BYTES, ..profile.driver_for(vram) };
        let page_table_bytes = if driver.has_page_tables() { setup.page_table_bytes.next_multiple_of(page) } else { 0 };
        let directory_bytes = directory_table_bytes(page_table_bytes).next_multiple_of(page);
        // Page tables lie in memory segments or in system memory.
        let in_home = |home| driver.table_homes().bytes_in(home, page_table_bytes, directory_bytes);
        let (second_tables, system_tables) = (in_home(TableHome::Second), in_home(TableHome::System));
        let local_tables = in_home(TableHome::Local).saturating_add(second_tables);
        if let Layout::TwoMemories { second_bytes, .. } = &mut driver.layout {
            *second_bytes = second_bytes.saturating_add(second_tables);
        }
        let system_bytes = setup.system_bytes.saturating_add(system_tables).next_multiple_of(PAGE_BYTES);
        // The driver keeps a part of local memory for itself, beside the part that it reports.
        let reported = vram.checked_add(local_tables);
        let local_bytes = reported
            .and_then(|bytes| driver.local_bytes(bytes, profile.aperture_bytes))
            .ok_or_else(HostError::too_large)?;
        Ok(Measured { setup, driver, local_bytes, page_table_bytes, directory_bytes, system_bytes })
    }

    /// Bytes of system memory that are its own: `None` when they exceed 64 bits.
    pub fn share_bytes(&self) -> Option<u64> {
        self.system_bytes.checked_add(KERNEL_BYTES)
    }

    /// Builds device and driver. `first_page`: where its share of system memory begins; `place`: its place on the bus.
    ///
    /// # Errors
    /// When there are no addresses for its memory.
    pub fn mount(
        self,
        shared: &SharedParts<'_>,
        index: usize,
        first_page: u64,
        place: PciAddress,
        pin: Arc<dyn InterruptPin>,
    ) -> Result<Mounted, HostError> {
        let Measured { setup, driver, local_bytes, page_table_bytes, directory_bytes, system_bytes } = self;
        let profile = &setup.profile;
        let config = device_config(profile, local_bytes, shared.data);
        // Memory that the host lends with its content lies in a memory file.
        let reserve = if shared.isolates { Memory::reserve_file } else { shared.reserve };
        let (system, local) = (Arc::clone(shared.system), reserve(local_bytes)?);
        let lender = Lender {
            system: Arc::clone(&system),
            arenas: Arc::clone(shared.arenas),
            lends_local: shared.data == DataMode::Stored && local.lends_content(),
        };
        let probe = shared.commands.before(index, setup.probe);
        let device = SoftGpu::with_local(config, local, Arc::clone(&system), pin, Some(probe))?;
        let iommu = driver.uses_cpu_addresses().then(Iommu::new);
        if let Some(iommu) = &iommu {
            let weak = Arc::downgrade(&device);
            iommu.attach(weak);
            device.connect_iommu(Arc::clone(iommu) as Arc<dyn device_port::Iommu>);
        }
        let clients = shared.isolates.then(|| Arc::new(lender) as Arc<dyn ClientMemory>);
        let port = Arc::clone(&device) as Arc<dyn DevicePort>;
        let port = match setup.wrap_port {
            Some(wrap) => wrap(port),
            None => port,
        };
        let miniport = Box::new(SoftGpuKmd::new(port, system, driver)) as Box<dyn Miniport>;
        let miniport = match setup.wrap_miniport {
            Some(wrap) => wrap(miniport),
            None => miniport,
        };
        let kernel_pages = KERNEL_BYTES / PAGE_BYTES;
        let adapter = AdapterConfig {
            name: profile.name.to_owned(),
            luid: luid(index),
            pci: PciFunction { address: place, ..profile.pci },
            kernel_pages: PageRun { first: first_page, count: Pages(kernel_pages) },
            system_pages: PageRun { first: first_page + kernel_pages, count: Pages(system_bytes / PAGE_BYTES) },
            page_table_reserve: Pages(page_table_bytes / PAGE_BYTES),
            directory_reserve: Pages(directory_bytes / PAGE_BYTES),
            paging_buffers: PAGING_BUFFERS,
            clear_pages: shared.data == DataMode::Stored,
            memory_policy: setup.memory_policy,
            snoops: shared.snoops,
            features: setup.features,
            recovery: setup.recovery,
            scheduling: setup.scheduling,
        };
        let provided = Provided {
            cpu_cache: shared.cpu_cache.clone(),
            io_mmu: iommu.map(|iommu| iommu as Arc<dyn IoMmu>),
            bus: Arc::new(DeviceBus(Arc::clone(&device))),
            doorbells: Arc::new(AdapterDoorbells {
                all: Arc::clone(shared.doorbells),
                device: Arc::clone(&device) as Arc<dyn DevicePort>,
            }),
            clients,
            driver_clock: setup.driver_clock.or_else(|| shared.driver_clock.clone()),
            // Where no bytes are stored no client has any.
            given: (shared.data == DataMode::Stored).then(|| Arc::clone(shared.given) as Arc<dyn GivenMemory>),
        };
        Ok(Mounted { device, miniport, adapter, provided })
    }
}

/// The device of a profile, with so much memory of its own.
fn device_config(profile: &Profile, local_bytes: u64, data: DataMode) -> DeviceConfig {
    DeviceConfig {
        local_bytes,
        aperture_bytes: profile.aperture_bytes,
        shape: profile.shape,
        data,
        signal_bits: profile.signal_bits,
        timing: profile.timing,
        poll_spins: POLL_SPINS,
        doorbells: profile.doorbells,
        displays: profile.displays,
        reset_group: profile.reset_group,
    }
}

/// What each adapter needs, and the bytes of system memory that all need together.
///
/// # Errors
/// One cannot be measured, or all together need more memory than there are addresses.
pub fn measure(setups: Vec<AdapterSetup>) -> Result<(Vec<Measured>, u64), HostError> {
    let measured = setups.into_iter().map(Measured::new).collect::<Result<Vec<_>, _>>()?;
    let mut shares = measured.iter().map(Measured::share_bytes);
    let total = shares.try_fold(0u64, |sum, share| sum.checked_add(share?)).ok_or_else(HostError::too_large)?;
    Ok((measured, total))
}

/// Builds all devices and drivers; their shares of system memory lie one behind the other.
///
/// # Errors
/// As [`Measured::mount`].
pub fn all(measured: Vec<Measured>, shared: &SharedParts<'_>, line: &Arc<Line>) -> Result<Vec<Mounted>, HostError> {
    let (mut mounted, mut first_page) = (Vec::with_capacity(measured.len()), 0);
    let places = places(&measured)?;
    for (index, (adapter, place)) in measured.into_iter().zip(places).enumerate() {
        let pages = adapter.share_bytes().expect("summed before") / PAGE_BYTES;
        mounted.push(adapter.mount(shared, index, first_page, place, line.pin(index))?);
        first_page += pages;
    }
    Ok(mounted)
}

/// The place of each adapter on the bus: as its profile says it, else the next one on bus 0 that no other has. Device 0 there is the bus's own.
///
/// # Errors
/// Two profiles say the same.
// spec: sync §2.10
fn places(measured: &[Measured]) -> Result<Vec<PciAddress>, HostError> {
    let profiles = || measured.iter().map(|adapter| &adapter.setup.profile);
    let mut taken = BTreeMap::new();
    for profile in profiles() {
        if let Some(place) = profile.pci_address
            && let Some(other) = taken.insert(place, profile.name)
        {
            return Err(HostError::Place(format!(
                "{other} and {} are both at {place} on the bus: give one of them another pci.address, or none",
                profile.name
            )));
        }
    }
    let on_bus = |bus| (1..PciAddress::DEVICES).filter_map(move |device| PciAddress::new(bus, device, 0));
    let mut free = (0..=u8::MAX).flat_map(on_bus).filter(|place| !taken.contains_key(place));
    let place = |profile: &Profile| profile.pci_address.or_else(|| free.next());
    Ok(profiles().map(place).map(|place| place.expect("a host has few adapters")).collect())
}

/// Connects devices to the CPU's caches, where they snoop some, and each to every other's bell; their drivers decide who rings.
pub fn connect(devices: &[Arc<SoftGpu>], snooped: Option<&Arc<StaleCache>>) {
    if let Some(caches) = snooped {
        devices.iter().for_each(|device| device.connect_caches(Arc::clone(caches) as Arc<dyn CpuCaches>));
    }
    for (from, device) in devices.iter().enumerate() {
        for (to, peer) in devices.iter().enumerate().filter(|(to, _)| *to != from) {
            let bell = Arc::downgrade(peer) as Weak<dyn PeerBell>;
            // CAST: a host has at most 64 adapters.
            device.connect_peer(to as u32, bell);
        }
    }
}
