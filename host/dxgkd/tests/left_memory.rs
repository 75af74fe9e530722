//! A client ends without destroying anything: as soon as the machine is idle, its memory and its descriptors are back, and no other client
//! makes a call for that. This file has one test, which counts the descriptors of the whole program.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use d3dkmt::{
    AllocationRequest, CreateAllocationFlags, MakeResidentFlags, Residency, Resource, ResourceRequest, ShareName,
};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use softgpu_spec::private_data::{self, Kind};
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig};
use wddm_types::{NodeId, PAGE_BYTES};

/// Says where the kernel is of which the child is a client.
const KERNEL: &str = "OPENWDDM_KERNEL";
const RESOURCES: usize = 50;
const RESOURCE_BYTES: u64 = 512 << 10;

/// What clients take of the machine.
#[derive(Debug, PartialEq, Eq)]
struct Taken {
    /// Pages of system memory that the kernel lends.
    lent: usize,
    /// Pages of allocations within the GPU's reach.
    resident: u64,
    descriptors: usize,
}

fn taken(host: &Host) -> Taken {
    let system = host.system_memory();
    let pages = (0..system.bytes()).step_by(PAGE_BYTES as usize);
    let resident = host.adapter(0).see_residences(|residences| {
        residences.iter().flat_map(|residence| &residence.runs).map(|run| run.count.0).sum()
    });
    Taken {
        lent: pages.filter(|page| system.lent_at(*page).is_some()).count(),
        resident,
        descriptors: std::fs::read_dir("/proc/self/fd").expect("Linux").count(),
    }
}

// spec: memory §6.2
#[test]
fn a_client_that_ends_leaves_neither_memory_nor_descriptors() {
    let mut config = HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (64 << 20, 4 << 20, 64 << 20);
    config.isolates_processes = true;
    let host = Host::start(config).expect("the adapter starts");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default()).expect("a socket");
    host.prepare_descriptors().expect("an instance of inotify");
    let before = taken(&host);
    // How much is under way at an end is chance.
    for _ in 0..12 {
        end_a_client(&path);
        let began = Instant::now();
        while daemon.clients() != 0 || taken(&host) != before {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?} are left of {before:?}", taken(&host));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    host.check_invariants().expect("in order");
}

/// A process makes the resources, has the GPU use them, and exits.
fn end_a_client(path: &Path) {
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "the_child", "--nocapture"]).env(KERNEL, path);
    let mut child = program.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut said = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(child.wait().expect("it ends").success(), "{said}");
    assert!(said.contains(&format!("{RESOURCES} are used")), "{said}");
}

#[test]
fn the_child() {
    let Ok(path) = std::env::var(KERNEL) else { return };
    let link = SocketLink::connect(Path::new(&path)).expect("a kernel");
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let kept: Vec<_> = (0..RESOURCES).map(|_| named(&link, &gpu)).collect();
    let mut commands = Commands::new();
    for (_, va, _) in &kept {
        commands.touch(*va, RESOURCE_BYTES, true);
    }
    let done = stream.submit(&gpu, &[], &commands).expect("a submission");
    stream.wait(&gpu, done).expect("it completes");
    println!("{} are used", kept.len());
    // The end of the process closes the connection.
    std::process::exit(0);
}

/// A resource that goes by NT handle, in video memory, with its address and the descriptor that keeps the handle.
fn named(link: &SocketLink, gpu: &Gpu) -> (Resource, wddm_types::GpuVa, std::os::fd::OwnedFd) {
    let flags = CreateAllocationFlags::CREATE_RESOURCE
        | CreateAllocationFlags::CREATE_SHARED
        | CreateAllocationFlags::NT_SECURITY_SHARING;
    let wanted = private_data::AllocationRequest {
        kind: Kind::LocalThenSystem,
        cpu_visible: false,
        cached: false,
        accessed_physically: false,
        size_bytes: RESOURCE_BYTES,
    };
    let request = AllocationRequest { private_data: wanted.encode().to_vec(), ..AllocationRequest::default() };
    let resource = ResourceRequest { flags, ..ResourceRequest::default() };
    let resource = Resource::create(gpu.device(), vec![request], resource).expect("a resource");
    let allocation = &resource.allocations()[0];
    let (va, mapped_at) = gpu.paging().map(allocation, RESOURCE_BYTES / PAGE_BYTES, true).expect("addresses");
    let resident = gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty());
    let value = match resident.expect("room for it") {
        Residency::Resident => mapped_at,
        Residency::Pending { paging_fence_value, .. } => paging_fence_value.max(mapped_at),
    };
    gpu.device().wait(&[(gpu.paging().fence(), value)]).expect("it gets there");
    let ShareName::NtHandle(handle) = resource.share().expect("a name") else { panic!("an NT handle") };
    let descriptor = link.descriptor(handle).expect("a descriptor");
    (resource, va, descriptor)
}
