//! Adapter start: a driver's answers become the parts of an adapter, and its paging process the first that it has (sync §3.1, memory
//! §1.3, §4.7). What the driver may answer is the law of `start`.

use ddi::{
    CreateDevice, CreateHwContext, CreateProcess, KmdContext, KmdDevice, KmdProcess, Miniport, OsContext, OsProcess,
};
use events::Event;
use gpu_fence::FenceId;
use vidmm::{Operation, Policy, SpaceId, SpaceKind, VidMm};
use vidsch::{Limits, VidSch};
use wddm_types::{AdapterIndex, NodeId, ProcessId};

use crate::adapter::process::ProcessHost;
use crate::adapter::{Adapter, AdapterConfig};
use crate::coherency::is_io_coherent;
use crate::driver::{Creating, Driver, DriverHost, EntryPoints, KernelPages, StartedMiniport, Watch};
use crate::due::Due;
use crate::effect::Cx;
use crate::features::Features;
use crate::io_mmu::Pasids;
use crate::memory::AdapterMemory;
use crate::owners::{Owners, ProcessFacts};
use crate::packet::{Packets, check_device_info};
use crate::paging::{PacketRing, PagingRing};
use crate::process::Terms;
use crate::queue::HardwareQueues;
use crate::scheduling::{rank_paging, setup_bands};
use crate::start::{Computer, Description, StartError, describe, paging_tables};
use crate::sync::Synchronization;
use crate::tally::Tally;

/// Most packets that a queue may hold back.
const PACKETS_PER_QUEUE: usize = 1 << 16;

impl Adapter {
    /// Starts a driver and sets up its paging process.
    ///
    /// # Errors
    /// See [`StartError`]. The driver's device is stopped then, if it was started.
    pub fn start(
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        mut miniport: Box<dyn Miniport>,
        config: AdapterConfig,
    ) -> Result<Adapter, StartError> {
        let features = Features::negotiate(miniport.as_mut(), &config.features);
        let mut pages = KernelPages::new(config.kernel_pages);
        let clients = cx.platform(index).clients();
        miniport.start_device(&mut DriverHost::new(&features, &mut pages, clients, Creating::Nothing))?;
        // The kernel asks once: later answers do not matter.
        let looks = config.recovery.delay_ns.is_some();
        let watch = Watch::new(looks.then_some(config.recovery.ddi_delay_ns));
        let mut miniport = StartedMiniport::new(miniport, watch);
        let mut entry_points = miniport.lend(cx.platform(index).driver_clock());
        let caps = entry_points.adapter_caps();
        let computer = Computer {
            system_bytes: cx.memory.bytes(),
            io_mmu: cx.platform(index).io_mmu().is_some(),
            coherent: is_io_coherent(cx.platform(index), config.snoops),
        };
        let described = describe(&mut entry_points, caps, &features, computer);
        if !caps.native_gpu_fence {
            miniport.forgo_native_fences();
        }
        match described {
            Ok((said, description)) => {
                Adapter::build(cx, index, Driver::new(index, miniport, features, pages, said), config, description)
            }
            Err(error) => {
                let mut host = DriverHost::new(&features, &mut pages, clients, Creating::Nothing);
                miniport.lend(cx.platform(index).driver_clock()).stop_device(&mut host);
                Err(error)
            }
        }
    }

    fn build(
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        mut driver: Driver,
        config: AdapterConfig,
        description: Description,
    ) -> Result<Adapter, StartError> {
        let policy = memory_policy(cx, index, &driver, (&config, &description));
        let bands = setup_bands(&mut driver.call(cx), &config.scheduling).map_err(StartError::from);
        let made = bands.and_then(|()| PagingProcess::create(cx, &mut driver, policy, &description));
        let made = made.inspect_err(|_| stop_device(cx, &mut driver))?;
        let PagingProcess { mut vidmm, pasids, space, tables, kmd, ring } = made;
        let mut owners = Owners::default();
        owners.process_comes(ProcessId::SYSTEM, ProcessFacts { space, kmd }, Terms::default().class);
        let packet_caps = driver.call(cx).packet_scheduling().map(|packets| packets.packet_caps());
        let packets = Packets::new(packet_caps);
        vidmm.set_swizzling_ranges(driver.call(cx).swizzling().map_or(0, |facet| facet.swizzling_ranges()));
        let limits = Limits { packets_per_queue: PACKETS_PER_QUEUE };
        let (nodes, delay_ns) = (driver.nodes().len(), config.recovery.delay_ns);
        let vidsch = VidSch::new(limits, packets.terms(), nodes, delay_ns, config.scheduling);
        let mut sync = Synchronization::new(index);
        sync.process_comes(ProcessId::SYSTEM);
        let mut adapter = Adapter {
            index,
            luid: config.luid,
            tally: Tally::new(driver.nodes().len()),
            driver,
            vidmm,
            memory: AdapterMemory::new(space, kmd, pasids, ring),
            vidsch,
            sync,
            software: Default::default(),
            owners,
            queues: HardwareQueues::default(),
            packets,
            displays: description.displays,
            doorbells: Default::default(),
            life: Default::default(),
            scheduling_logs: Default::default(),
            due: Due::default(),
            config,
        };
        if let Err(error) = adapter.start_paging_process(cx, tables) {
            stop_device(cx, &mut adapter.driver);
            return Err(error);
        }
        adapter.announce(cx);
        Ok(adapter)
    }

    fn start_paging_process(&mut self, cx: &mut Cx<'_>, tables: Vec<Operation>) -> Result<(), StartError> {
        self.execute_now(cx, tables)
            .map_err(|()| StartError::Rule("a page-table update of the paging process failed"))?;
        self.start_ring(cx, self.driver.paging_node(), self.driver.paging_buffer())?;
        self.start_scratch(cx)
    }

    fn announce(&self, cx: &mut Cx<'_>) {
        let segments = self.vidmm.segments();
        // CAST: at most 31 segments.
        cx.emit(
            self.index,
            Event::AdapterStarted {
                adapter: self.index.0,
                name: self.config.name.clone(),
                segments: segments.len() as u32,
            },
        );
        for segment in segments {
            cx.emit(
                self.index,
                Event::SegmentAdded {
                    adapter: self.index.0,
                    segment: segment.id.0,
                    aperture: segment.is_aperture(),
                    capacity_bytes: self.vidmm.capacity_bytes(segment.id),
                    page_bytes: segment.page_bytes(),
                },
            );
        }
    }
}

fn stop_device(cx: &Cx<'_>, driver: &mut Driver) {
    let (mut entry_points, mut host) = driver.with_host(cx);
    entry_points.stop_device(&mut host);
}

/// What the memory manager may do, by the configuration and by what the driver said.
fn memory_policy(
    cx: &Cx<'_>,
    index: AdapterIndex,
    driver: &Driver,
    (config, description): (&AdapterConfig, &Description),
) -> Policy {
    let mut policy = Policy {
        page_table_reserve: config.page_table_reserve,
        directory_reserve: config.directory_reserve,
        paging_space: description.paging_space,
        paging_table_reserve: paging_tables(driver.reported(), description.paging_space, config.page_table_reserve),
        paging_by_gpu_va: description.paging_by_gpu_va,
        paging_has_addresses: description.paging_has_addresses,
        moves_within_segments: description.moves_within_segments,
        // Pages of each process are mapped in a file of its own.
        gathers_backing: cx.platform(index).clients().is_some(),
        // The kernel lends clients what they see page by page; rows that a range shows in another order are smaller than pages.
        cpu_reaches_local: match cx.platform(index).clients() {
            None => true,
            Some(clients) => clients.lends_local() && driver.facets().gpu_va,
        },
        ..Policy::new(config.system_pages)
    };
    config.memory_policy.apply(&mut policy);
    policy
}

/// The memory manager and the first process that it has a space of: the paging process, with its device and context in the driver.
struct PagingProcess {
    vidmm: VidMm<FenceId>,
    pasids: Pasids,
    space: SpaceId,
    /// Updates of its page tables that its ring is to begin with.
    tables: Vec<Operation>,
    kmd: KmdProcess,
    ring: PagingRing,
}

impl PagingProcess {
    fn create(
        cx: &mut Cx<'_>,
        driver: &mut Driver,
        policy: Policy,
        description: &Description,
    ) -> Result<PagingProcess, StartError> {
        let mut vidmm = memory_manager(driver, policy, description)?;
        let mut pasids = if description.io_mmu { Pasids::of_the_model() } else { Pasids::default() };
        let (space, tables) = vidmm
            .create_space(SpaceKind::Paging)
            .map_err(|_| StartError::Memory("page tables of the paging process"))?;
        let pasid = pasids.take().map_err(|_| StartError::Memory("a number of the paging process at the IOMMU"))?;
        pasids.enter(space, pasid);
        let create = CreateProcess { process: OsProcess::default(), system: true, pasids: pasid.as_slice() };
        let mut asked = ProcessHost { vidmm: &mut vidmm, process: create.process, space, made: Vec::new() };
        let (mut entry_points, mut host) = driver.creating(cx, Creating::Process(&mut asked));
        let kmd = entry_points.create_process(&mut host, create)?;
        let (node, buffer) = (driver.paging_node(), driver.paging_buffer());
        let (mut entry_points, mut host) = driver.with_host(cx);
        let (device, info) =
            entry_points.create_device(&mut host, CreateDevice { process: kmd, system: true, pasid })?;
        // spec: memory §7.1
        check_device_info(vidmm.segments(), &info).map_err(StartError::Rule)?;
        let has_addresses = description.paging_has_addresses;
        let context = if PacketRing::is_used(entry_points.facets()) {
            PacketRing::create_context(&mut entry_points, &mut host, device, node, buffer, has_addresses)?
        } else {
            create_paging_context(&mut entry_points, &mut host, device, node)?
        };
        if let Some(addressing) = entry_points.gpu_va().filter(|_| has_addresses) {
            let (root, entries) = vidmm.root_table(space);
            addressing.set_root_page_table(context, root, entries);
        }
        let ring = PagingRing::new(device, context, has_addresses);
        Ok(PagingProcess { vidmm, pasids, space, tables, kmd, ring })
    }
}

fn memory_manager(driver: &Driver, policy: Policy, description: &Description) -> Result<VidMm<FenceId>, StartError> {
    let layout = description.layout.clone();
    Ok(if driver.facets().gpu_va {
        let (levels, roots) = (&driver.reported().levels, &description.roots);
        VidMm::with_roots(policy, layout, driver.reported().mmu, levels, roots)?
    } else if description.io_mmu {
        VidMm::with_cpu_addresses(policy, layout)?
    } else {
        VidMm::without_addresses(policy, layout)?
    })
}

/// The system context of an adapter with hardware queues.
pub(super) fn create_paging_context(
    miniport: &mut EntryPoints<'_>,
    host: &mut DriverHost<'_>,
    device: KmdDevice,
    node: NodeId,
) -> Result<KmdContext, StartError> {
    let hardware = miniport.again().hardware_queues().expect("else the paging ring takes packets");
    let create = CreateHwContext { device, context: OsContext(0), node, system: true, private_data: &[] };
    let context = hardware.create_hw_context(host, create)?;
    rank_paging(miniport, context)?;
    Ok(context)
}
