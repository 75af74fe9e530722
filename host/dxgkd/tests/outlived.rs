//! No object of a process outlives its end for a program that has waited for that: the daemon looks whether other clients have gone before a
//! call asks for something of theirs, whether its threads have seen it or not.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits, UserLimits};
use kmt_calls::wire::{decode, encode};
use kmt_calls::{
    AdapterCall, AllocationCall, Call, CreateAllocationFlags, DeviceCall, FenceFlags, NativeFenceRequest, Refusal,
    Reply, ResourceRequest, ShareCall, ShareName, SyncCall, SyncObjectAccess, WaitFlags,
};
use kmt_link::Link;
use kmt_link::socket::{Asked, Hello, MESSAGE_MAX, Packets, Request, Response, SocketLink, Told};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use wddm_types::{Luid, NtStatus, RawHandle};

/// Says where the kernel is of which the child is a client.
const KERNEL: &str = "OPENWDDM_KERNEL";

/// One test at a time: while a test starts a program, that program has copies of all descriptors of this process for a moment. A connection of
/// another test that closes then stays open until the program runs, and its client has not gone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Served {
    path: PathBuf,
    host: Arc<Host>,
    // Before the folder of its socket.
    _daemon: Daemon,
    _folder: tempfile::TempDir,
}

fn serve(limits: Limits) -> Served {
    let mut config = HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (8 << 20, 4 << 20, 64 << 20);
    config.isolates_processes = true;
    let host = Host::start(config).expect("the adapter starts");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, limits).expect("a socket");
    Served { path, host, _daemon: daemon, _folder: folder }
}

/// A client, by whatever makes its calls.
struct Client<'a> {
    call: &'a dyn Fn(Call) -> Result<Reply, Refusal>,
    device: RawHandle,
}

impl<'a> Client<'a> {
    fn new(luid: Luid, call: &'a dyn Fn(Call) -> Result<Reply, Refusal>) -> Client<'a> {
        let handle = |made: Call| match call(made) {
            Ok(Reply::Handle(handle)) => handle,
            other => panic!("{other:?}"),
        };
        let adapter = handle(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid }));
        Client { call, device: handle(Call::Device(DeviceCall::CreateDevice { adapter })) }
    }

    /// An empty resource, shared so: its handle, and its global one.
    fn share(&self, more: CreateAllocationFlags) -> (RawHandle, RawHandle) {
        let flags = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED | more;
        let resource = ResourceRequest { flags, ..ResourceRequest::default() };
        let (device, allocations) = (self.device, Vec::new());
        let create = AllocationCall::CreateAllocation { device, allocations, resource };
        match (self.call)(Call::Allocation(create)) {
            Ok(Reply::Allocations(created)) => (created.resource, created.global_share),
            other => panic!("{other:?}"),
        }
    }

    /// An NT handle of a resource, by this name.
    fn name(&self, resource: RawHandle, name: &str) -> Result<u64, NtStatus> {
        let (objects, access) = (vec![resource], SyncObjectAccess::empty());
        match (self.call)(Call::Share(ShareCall::ShareObjects { objects, access, name: Some(name.into()) })) {
            Ok(Reply::NtHandle(handle)) => Ok(handle),
            other => Err(other.expect_err("an NT handle").status),
        }
    }

    fn opens(&self, share: RawHandle) -> Result<(), NtStatus> {
        let (device, share) = (self.device, ShareName::Global(share));
        let open = AllocationCall::OpenResource { device, share, keyed_mutex_data: Vec::new() };
        (self.call)(Call::Allocation(open)).map(drop).map_err(|refusal| refusal.status)
    }

    fn finds(&self, name: &str) -> Result<(), NtStatus> {
        let open = ShareCall::OpenNtHandleFromName { name: name.into(), access: 1, sync_object: false };
        (self.call)(Call::Share(open)).map(drop).map_err(|refusal| refusal.status)
    }
}

/// A client's first lane and its stream, without the library.
struct Raw {
    lane: Packets,
    _stream: Packets,
}

impl Raw {
    fn begin(path: &Path) -> Raw {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("a kernel");
        let (lane, (stream, theirs)) = (Packets::new(socket), Packets::pair().expect("two descriptors"));
        lane.send(&encode(&Hello::OURS, Vec::new()), &[theirs.as_fd()]).expect("it listens");
        lane.receive(MESSAGE_MAX, 0).expect("it is a client");
        Raw { lane, _stream: stream }
    }

    fn ask(&self, call: Call) {
        self.lane.send(&encode(&Asked::only(Request::Call(call)), Vec::new()), &[]).expect("it listens");
    }

    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        self.ask(call);
        let (bytes, _) = self.lane.receive(MESSAGE_MAX, 0).expect("an answer");
        match decode::<Told>(&bytes).expect("an answer").response {
            Response::Answer(answer) => answer,
            other => panic!("{other:?}"),
        }
    }
}

/// A client that has shared a resource by a global handle and another by a name, and that goes in the middle of a wait: the thread of its only
/// lane sleeps in the kernel, and cannot see that the client has gone. Answers with the global handle.
fn goes_in_a_wait(served: &Served, name: &str) -> RawHandle {
    let raw = Raw::begin(&served.path);
    let call = |made| raw.call(made);
    let goes = Client::new(served.host.luid(), &call);
    let (_, share) = goes.share(CreateAllocationFlags::empty());
    let (resource, _) = goes.share(CreateAllocationFlags::NT_SECURITY_SHARING);
    goes.name(resource, name).expect("the name is free");
    let request = NativeFenceRequest { flags: FenceFlags::empty(), ..NativeFenceRequest::default() };
    let device = goes.device;
    let fence = match raw.call(Call::Sync(SyncCall::CreateNativeFence { device, request })) {
        Ok(Reply::Fence(created)) => created.fence,
        other => panic!("{other:?}"),
    };
    let (points, async_event, flags) = (vec![(fence, 1)], RawHandle::NONE, WaitFlags::empty());
    raw.ask(Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu { device, points, async_event, flags }));
    share
}

// spec: memory §2.7
#[test]
fn what_a_client_had_that_went_in_the_middle_of_a_wait_is_gone_for_the_next_call_of_another() {
    let _alone = alone();
    let served = serve(Limits::default());
    let link = SocketLink::connect(&served.path).expect("a kernel");
    let call = |made| link.call(made);
    let stays = Client::new(served.host.luid(), &call);
    let share = goes_in_a_wait(&served, "first");
    assert_eq!(stays.opens(share), Err(NtStatus::INVALID_PARAMETER), "the creator has gone");
    goes_in_a_wait(&served, "second");
    assert_eq!(stays.finds("second"), Err(NtStatus::OBJECT_NAME_NOT_FOUND), "the creator has gone");
    goes_in_a_wait(&served, "third");
    let (resource, _) = stays.share(CreateAllocationFlags::NT_SECURITY_SHARING);
    stays.name(resource, "third").expect("the name is free again");
    served.host.check_invariants().expect("the kernel's invariants hold");
}

#[test]
fn a_client_that_has_gone_keeps_no_place() {
    let _alone = alone();
    let user = UserLimits { processes: 1, ..UserLimits::default() };
    for limits in [Limits { processes: 1, ..Limits::default() }, Limits { user, ..Limits::default() }] {
        let served = serve(limits);
        for _ in 0..3 {
            goes_in_a_wait(&served, "a name");
        }
        SocketLink::connect(&served.path).expect("the place is free");
    }
}

// spec: memory §2.7
#[test]
fn a_program_that_has_waited_for_a_process_finds_nothing_of_it() {
    let _alone = alone();
    let served = serve(Limits::default());
    let link = SocketLink::connect(&served.path).expect("a kernel");
    let call = |made| link.call(made);
    let stays = Client::new(served.host.luid(), &call);
    for _ in 0..10 {
        let mut program = Command::new(std::env::current_exe().expect("this program"));
        program.args(["--exact", "the_child", "--nocapture"]).env(KERNEL, &served.path).stdout(Stdio::piped());
        let mut child = program.spawn().expect("it starts");
        assert!(child.wait().expect("it ends").success());
        let mut said = String::new();
        child.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
        let share = said.lines().find_map(|line| line.split("share ").nth(1)?.trim().parse().ok());
        let share = RawHandle(share.unwrap_or_else(|| panic!("no global handle in {said}")));
        assert_eq!(stays.opens(share), Err(NtStatus::INVALID_PARAMETER), "{share} of a process that has ended");
    }
}

#[test]
fn the_child() {
    let Ok(path) = std::env::var(KERNEL) else { return };
    let link = SocketLink::connect(Path::new(&path)).expect("a kernel");
    let call = |made| link.call(made);
    let luid = match call(Call::Adapter(AdapterCall::EnumAdapters)) {
        Ok(Reply::Adapters(adapters)) => adapters[0].0,
        other => panic!("{other:?}"),
    };
    let (_, share) = Client::new(luid, &call).share(CreateAllocationFlags::empty());
    println!("share {}", share.0);
    // The end of the process closes the connection.
    std::process::exit(0);
}
