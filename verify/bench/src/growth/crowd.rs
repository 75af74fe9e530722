//! A kernel with one process that has many objects, and a device of it that has few: the bystander. `kind` defines the objects and the
//! calls on them. Made anew for each kind by `growth`.

use std::fmt;
use std::sync::Arc;

use d3dkmt::{
    Adapter, Allocation, Device, Event, EvictFlags, Fence, FenceFlags, HwContext, KernelQueue, MakeResidentFlags,
    NtHandle, PagingQueue, Resource, Section, VirtualContext,
};
use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink};
use dxgkd::Daemon;
use kmt_calls::{CreateAllocationFlags, ResourceRequest};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_umd::Gpu;
use wddm_types::{GpuVa, PAGE_BYTES};

use crate::report::BenchError;
use crate::served::no_limits;

/// Video memory: 100,000 pages and as many again.
const VRAM_BYTES: u64 = 1 << 30;
/// A process needs tables of its own, and 100,000 mappings at multiples of 64 KB need 3,200 leaf tables.
const PAGE_TABLE_BYTES: u64 = 1 << 30;

/// How the process comes to its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The kernel is in the same program.
    InProcess,
    /// It is behind a socket.
    Socket,
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Way::InProcess => "in process",
            Way::Socket => "socket",
        })
    }
}

/// The objects made, by kind: each measure fills one field. Objects come before their parents, so that they are dropped first.
pub(super) struct Crowd {
    /// Waits that have not ended; of queues, the last value signalled.
    pub waits: usize,
    pub events: Vec<Event>,
    pub nt_handles: Vec<NtHandle>,
    pub fences: Vec<Fence>,
    pub queues: Vec<KernelQueue>,
    pub contexts: Vec<HwContext>,
    pub packet_contexts: Vec<VirtualContext>,
    pub paging_queues: Vec<PagingQueue>,
    pub allocations: Vec<Arc<Allocation>>,
    pub sections: Vec<Section>,
    /// The first is shared, and each other one is an open of it.
    pub resources: Vec<Resource>,
    pub addresses: Vec<GpuVa>,
    pub devices: Vec<Device>,
    /// Another process with a device.
    pub processes: Vec<Device>,
    pub gpu: Gpu,
    bystander: Bystander,
    // Last of all.
    host: Arc<Host>,
    served: Option<(Daemon, std::path::PathBuf, tempfile::TempDir)>,
}

/// Another device of the process with one object of each kind.
struct Bystander {
    allocation: Arc<Allocation>,
    fence: Fence,
    value: u64,
    gpu: Gpu,
}

impl Crowd {
    /// A kernel, and a process that has nothing but two devices.
    pub fn start(way: Way) -> Result<Crowd, BenchError> {
        let failed = |error: String| BenchError::Device(error);
        let mode = if way == Way::Socket { Mode::Real } else { Mode::Virtual { stored: false } };
        let config = HostConfig {
            vram_bytes: VRAM_BYTES,
            page_table_bytes: PAGE_TABLE_BYTES,
            system_bytes: 2 * VRAM_BYTES,
            isolates_processes: way == Way::Socket,
            memory_files: way == Way::Socket,
            ..HostConfig::new(&PROFILES[0], mode)
        };
        let host = Host::start(config).map_err(|error| failed(error.to_string()))?;
        let serve = || {
            let folder = tempfile::tempdir()?;
            let path = folder.path().join("kernel");
            let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, no_limits());
            Ok::<_, BenchError>((daemon.map_err(|error| failed(error.to_string()))?, path, folder))
        };
        let served = (way == Way::Socket).then(serve).transpose()?;
        let path = served.as_ref().map(|(_, path, _)| path.as_path());
        let gpu = Gpu::open(connect(&host, path)?)?;
        let bystander = Bystander::beside(&gpu)?;
        Ok(Crowd {
            waits: 0,
            events: Vec::new(),
            nt_handles: Vec::new(),
            fences: Vec::new(),
            queues: Vec::new(),
            contexts: Vec::new(),
            packet_contexts: Vec::new(),
            paging_queues: Vec::new(),
            allocations: Vec::new(),
            sections: Vec::new(),
            resources: Vec::new(),
            addresses: Vec::new(),
            devices: Vec::new(),
            processes: Vec::new(),
            gpu,
            bystander,
            host,
            served,
        })
    }

    /// One page of memory of a device.
    pub fn page(device: &Device) -> Result<Arc<Allocation>, BenchError> {
        Ok(device.create_allocation(page_request().encode().to_vec())?)
    }

    /// The same as a resource that others open.
    pub fn shared_page(device: &Device) -> Result<Resource, BenchError> {
        let private_data = page_request().encode().to_vec();
        let allocation = kmt_calls::AllocationRequest { private_data, ..Default::default() };
        let flags = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED;
        Ok(Resource::create(device, vec![allocation], ResourceRequest { flags, ..Default::default() })?)
    }

    /// Another process.
    pub fn another_process(&self) -> Result<Arc<dyn Link>, BenchError> {
        connect(&self.host, self.served.as_ref().map(|(_, path, _)| path.as_path()))
    }

    /// One of each that is called all the time, by a device that has nothing to do with the crowd.
    pub fn bystander_calls(&mut self) -> Result<(), BenchError> {
        let Bystander { allocation, fence, value, gpu } = &mut self.bystander;
        gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty())?;
        gpu.device().evict(vec![allocation.handle()], EvictFlags::EVICT_ONLY_IF_NECESSARY)?;
        let (va, _) = gpu.paging().map(allocation, 1, true)?;
        gpu.device().free_gpu_va(va, PAGE_BYTES)?;
        drop(Crowd::page(gpu.device())?);
        drop(Device::create(gpu.adapter())?);
        *value += 1;
        gpu.device().signal(fence, *value)?;
        gpu.device().wait(&[(fence, *value)])?;
        Ok(())
    }
}

impl Bystander {
    fn beside(gpu: &Gpu) -> Result<Bystander, BenchError> {
        let own = Gpu::on(Adapter::open_first(Arc::clone(gpu.device().link()))?)?;
        let allocation = Crowd::page(own.device())?;
        own.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty())?;
        let fence = own.device().create_monitored_fence(FenceFlags::empty(), 0)?;
        Ok(Bystander { allocation, fence, value: 0, gpu: own })
    }
}

fn page_request() -> AllocationRequest {
    AllocationRequest {
        kind: Kind::Local,
        cpu_visible: true,
        cached: false,
        accessed_physically: false,
        size_bytes: PAGE_BYTES,
    }
}

fn connect(host: &Arc<Host>, path: Option<&std::path::Path>) -> Result<Arc<dyn Link>, BenchError> {
    Ok(match path {
        Some(path) => {
            SocketLink::connect(path).map_err(|error| BenchError::Device(error.to_string()))? as Arc<dyn Link>
        }
        None => ProcessLink::new(Arc::clone(host)),
    })
}
