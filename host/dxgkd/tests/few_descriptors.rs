//! A client at its limit of descriptors: a call whose answer brings one is refused and taken back, and the connection goes on. The client is a
//! process of its own, because the limit is its alone.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits, ProcessLimits};
use kmt_calls::{
    AdapterCall, Call, DeviceCall, FenceFlags, NativeFenceRequest, Refusal, Reply, SectionCall, ShareCall, SyncCall,
    SyncObjectAccess,
};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use softgpu_umd::{Gpu, Stream, StreamConfig};
use wddm_types::{NodeId, NtStatus, PAGE_BYTES, RawHandle};

/// Says where the kernel is of which the child is a client.
const KERNEL: &str = "OPENWDDM_KERNEL";
/// The socket's name in its folder.
const SOCKET: &str = "kernel";
/// Synchronization objects that the client may have: what a refused call has left behind would soon be too much.
const SYNC_OBJECTS: u64 = 24;

/// A kernel, and its daemon at the socket in the folder.
fn daemon(process: ProcessLimits) -> (Arc<Host>, Daemon, tempfile::TempDir) {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let mut config = HostConfig::new(profile, Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (16 << 20, 4 << 20, 64 << 20);
    config.isolates_processes = true;
    let host = Host::start(config).expect("the adapter starts");
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits { process, ..Limits::default() };
    let daemon = Daemon::serve(Arc::clone(&host), &folder.path().join(SOCKET), 0o600, limits).expect("a socket");
    (host, daemon, folder)
}

#[test]
fn a_call_that_brings_a_descriptor_too_much_is_refused_and_taken_back_and_the_connection_goes_on() {
    let limits = ProcessLimits { sync_objects: SYNC_OBJECTS, descriptors: 8, ..ProcessLimits::default() };
    let (host, _daemon, folder) = daemon(limits);
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "the_child", "--nocapture"]).env(KERNEL, folder.path().join(SOCKET));
    let output = program.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    host.check_invariants().expect("the kernel's invariants hold");
}

/// The kernel learns of a closed descriptor by looking: it looks before a quota refuses a call for what the descriptor kept.
#[test]
fn what_closed_descriptors_kept_counts_against_no_quota() {
    // spec: sync §2.2
    let limits = ProcessLimits { sync_objects: SYNC_OBJECTS, handles: 24, ..ProcessLimits::default() };
    let (_host, _daemon, folder) = daemon(limits);
    let client = Client::connect(&folder.path().join(SOCKET));
    let fence = client.fence(FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING).expect("within the limits");
    let mut fit = None;
    for round in 0..200 {
        let mut given = Vec::new();
        let refusal = loop {
            match client.descriptor(fence) {
                Ok(descriptor) => given.push(descriptor),
                Err(refusal) => break refusal,
            }
        };
        let fits = *fit.get_or_insert(given.len());
        assert!(given.len() > 8 && fits == given.len(), "{round}: {} of {fits}: {refusal}", given.len());
        assert_eq!(refusal.status, NtStatus::NO_MEMORY, "{round}: {refusal}");
        drop(given);
        let section = client.section().unwrap_or_else(|refusal| panic!("{round}: {refusal}"));
        client.link.call(Call::Section(SectionCall::Close { section })).expect("it is there");
    }
}

/// A client and its objects.
struct Client {
    link: Arc<SocketLink>,
    adapter: RawHandle,
    device: RawHandle,
}

impl Client {
    fn connect(path: &Path) -> Client {
        let link = SocketLink::connect(path).expect("a kernel");
        let luid = match link.call(Call::Adapter(AdapterCall::EnumAdapters)) {
            Ok(Reply::Adapters(adapters)) => adapters[0].0,
            other => panic!("{other:?}"),
        };
        let adapter = handle(&link, Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid }));
        let device = handle(&link, Call::Device(DeviceCall::CreateDevice { adapter }));
        Client { link, adapter, device }
    }

    fn fence(&self, flags: FenceFlags) -> Result<RawHandle, Refusal> {
        let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
        match self.link.call(Call::Sync(SyncCall::CreateNativeFence { device: self.device, request }))? {
            Reply::Fence(created) => Ok(created.fence),
            other => panic!("{other:?}"),
        }
    }

    fn section(&self) -> Result<RawHandle, Refusal> {
        let create = SectionCall::Create { adapter: self.adapter, size_bytes: PAGE_BYTES };
        match self.link.call(Call::Section(create))? {
            Reply::Section(created) => {
                self.link.mapping(created.mapped.mapping).expect("what is answered is there");
                Ok(created.section)
            }
            other => panic!("{other:?}"),
        }
    }

    fn destroy(&self, fence: RawHandle) {
        self.link.call(Call::Sync(SyncCall::DestroySynchronizationObject { fence })).expect("it is there");
    }

    /// A name of a fence, as a descriptor.
    fn descriptor(&self, fence: RawHandle) -> Result<OwnedFd, Refusal> {
        let access = SyncObjectAccess::ALL_ACCESS;
        let share = ShareCall::ShareObjects { objects: vec![fence], access, name: None };
        match self.link.call(Call::Share(share))? {
            Reply::NtHandle(handle) => self.link.descriptor(handle),
            other => panic!("{other:?}"),
        }
    }
}

fn handle(link: &SocketLink, call: Call) -> RawHandle {
    match link.call(call) {
        Ok(Reply::Handle(handle)) => handle,
        other => panic!("{other:?}"),
    }
}

/// Opens files until this process may have no more.
fn fill() -> Vec<OwnedFd> {
    let null = || std::fs::File::open("/dev/null").map(OwnedFd::from);
    std::iter::from_fn(|| null().ok()).collect()
}

/// The refusals of a call that is made more often than limits would allow what it makes.
fn refused<T>(what: &str, call: impl Fn() -> Result<T, Refusal>) {
    for nth in 0..2 * SYNC_OBJECTS {
        let refusal = call().err().unwrap_or_else(|| panic!("{what} needs a descriptor"));
        assert_eq!(refusal.status, NtStatus::NO_MEMORY, "{what}, {nth}: {refusal}");
        assert!(refusal.reason.contains("this process is out of descriptors"), "{what}, {nth}: {refusal}");
    }
}

#[test]
fn the_child() {
    let Ok(path) = std::env::var(KERNEL) else { return };
    let client = Client::connect(Path::new(&path));
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), maximum }).expect("a lower limit");

    // The first fence brings the file in which the words of the process lie.
    let full = fill();
    refused("a fence", || client.fence(FenceFlags::empty()));
    drop(full);
    let fence = client.fence(FenceFlags::empty()).expect("the kernel sends the file again");
    let shared = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let named = client.fence(shared).expect("within the limits");
    let kept = client.descriptor(named).expect("within the limits");

    let full = fill();
    let more = client.fence(FenceFlags::empty()).expect("it brings no descriptor");
    refused("a section", || client.section());
    refused("a descriptor of a name", || client.descriptor(named));
    let gpu = Gpu::open(Arc::clone(&client.link) as Arc<dyn Link>).expect("it brings no descriptor");
    for _ in 0..SYNC_OBJECTS {
        assert!(Stream::create(&gpu, NodeId(0), StreamConfig::default()).is_err(), "a doorbell has a page of its own");
    }
    drop(full);
    Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("the connection goes on");
    drop(gpu);
    // As many as the limit of files allows beside the two descriptors: none was left behind.
    let sections: Vec<_> = (0..6).map(|_| client.section().expect("within the limits")).collect();
    sections.into_iter().for_each(|section| {
        client.link.call(Call::Section(SectionCall::Close { section })).expect("it is there");
    });
    let fences: Vec<_> = (0..SYNC_OBJECTS - 8).map(|_| client.fence(FenceFlags::empty()).expect("within it")).collect();
    fences.into_iter().chain([fence, more]).for_each(|fence| client.destroy(fence));
    drop(kept);
}
