//! NT handles as descriptors, between clients of a served kernel. The clients are in this program, which changes nothing: what passes from
//! one to the other is a descriptor, as over any socket.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits, ProcessLimits};
use kmt_calls::{
    AdapterCall, AllocationCall, Call, CreateAllocationFlags, DeviceCall, EventCall, NotificationKind, Reply,
    ResourceRequest, ShareCall, ShareName, SyncObjectAccess,
};
use kmt_link::Link;
use kmt_link::socket::{Packets, SocketLink};
use wddm_types::{NtStatus, RawHandle};

struct Served {
    host: Arc<Host>,
    daemon: Daemon,
    folder: tempfile::TempDir,
}

impl Served {
    fn start() -> Served {
        Served::with(Limits::default())
    }

    fn with(limits: Limits) -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let profile = Profile::named("discrete-4k").expect("a built-in profile");
        let mut config = HostConfig::new(profile, Mode::Real);
        (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (16 << 20, 4 << 20, 32 << 20);
        config.isolates_processes = true;
        let host = Host::start(config).expect("a kernel");
        let path = folder.path().join("kernel");
        let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, limits).expect("a socket");
        Served { host, daemon, folder }
    }

    fn client(&self) -> Client {
        let link = SocketLink::connect(&self.folder.path().join("kernel")).expect("a kernel");
        let ask = |call| match link.call(call) {
            Ok(Reply::Handle(handle)) => handle,
            other => panic!("{other:?}"),
        };
        let adapter = ask(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: self.host.luid() }));
        let device = ask(Call::Device(DeviceCall::CreateDevice { adapter }));
        Client { link, device }
    }
}

struct Client {
    link: Arc<SocketLink>,
    device: RawHandle,
}

impl Client {
    /// An empty resource, which goes by NT handle: its handle, and the NT handle.
    fn share(&self) -> (RawHandle, u64) {
        let flags = CreateAllocationFlags::CREATE_RESOURCE
            | CreateAllocationFlags::CREATE_SHARED
            | CreateAllocationFlags::NT_SECURITY_SHARING;
        let resource = ResourceRequest { flags, ..ResourceRequest::default() };
        let create = Call::Allocation(AllocationCall::CreateAllocation {
            device: self.device,
            allocations: Vec::new(),
            resource,
        });
        let Ok(Reply::Allocations(created)) = self.link.call(create) else { panic!("no resource") };
        let objects = vec![created.resource];
        let share = Call::Share(ShareCall::ShareObjects {
            objects,
            access: SyncObjectAccess::empty(),
            name: Some("shared".into()),
        });
        let Ok(Reply::NtHandle(token)) = self.link.call(share) else { panic!("no NT handle") };
        (created.resource, token)
    }

    /// A descriptor for another NT handle of a resource.
    fn descriptor_of(&self, resource: RawHandle) -> Result<OwnedFd, NtStatus> {
        let share = Call::Share(ShareCall::ShareObjects {
            objects: vec![resource],
            access: SyncObjectAccess::empty(),
            name: None,
        });
        let token = match self.link.call(share).map_err(|refusal| refusal.status)? {
            Reply::NtHandle(token) => token,
            other => panic!("no NT handle: {other:?}"),
        };
        self.link.descriptor(token).map_err(|refusal| refusal.status)
    }

    fn open(&self, token: u64) -> Result<Reply, NtStatus> {
        let call = Call::Allocation(AllocationCall::OpenResource {
            device: self.device,
            share: ShareName::NtHandle(token),
            keyed_mutex_data: Vec::new(),
        });
        self.link.call(call).map_err(|refusal| refusal.status)
    }

    fn finds(&self) -> bool {
        let call =
            Call::Share(ShareCall::OpenNtHandleFromName { name: "shared".into(), access: 1, sync_object: false });
        match self.link.call(call) {
            Ok(Reply::NtHandle(token)) => {
                self.link.call(Call::Share(ShareCall::CloseNtHandle { handle: token })).is_ok()
            }
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => {
                assert_eq!(refusal.status, NtStatus::OBJECT_NAME_NOT_FOUND);
                false
            }
        }
    }
}

fn in_the_end(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// More than one kernel once had for all: each process by its own quota, the second's does not shrink by the first's.
// spec: sync §2.2, memory §9.2
#[test]
fn each_process_has_descriptors_by_its_own_quota() {
    const MOST: usize = 400;
    let process = ProcessLimits { handles: MOST as u64, ..ProcessLimits::default() };
    let served = Served::with(Limits { process, ..Limits::default() });
    let (first, second) = (served.client(), served.client());
    let (ours, _token) = first.share();
    let fill = |client: &Client, resource| {
        let mut given: Vec<OwnedFd> = Vec::new();
        loop {
            match client.descriptor_of(resource) {
                Ok(descriptor) => given.push(descriptor),
                Err(refused) => break (given, refused),
            }
        }
    };
    let (mut given, refused) = fill(&first, ours);
    assert!((MOST - 8..MOST).contains(&given.len()), "beside its other handles: {}", given.len());
    assert_eq!(refused, NtStatus::NO_MEMORY);
    let share = Call::Allocation(AllocationCall::CreateAllocation {
        device: second.device,
        allocations: Vec::new(),
        resource: ResourceRequest {
            flags: CreateAllocationFlags::CREATE_RESOURCE
                | CreateAllocationFlags::CREATE_SHARED
                | CreateAllocationFlags::NT_SECURITY_SHARING,
            ..ResourceRequest::default()
        },
    });
    let Ok(Reply::Allocations(theirs)) = second.link.call(share) else { panic!("no resource") };
    let (others, _) = fill(&second, theirs.resource);
    assert!((MOST - 8..MOST).contains(&others.len()), "its quota is its own: {}", others.len());
    // The first client may replace a descriptor that it closes; the last of its descriptors still stands for its NT handle.
    given.pop();
    in_the_end("one is given back", || first.descriptor_of(ours).is_ok());
    let third = served.client();
    assert!(third.open(third.link.described(given[given.len() - 1].as_fd()).unwrap()).is_ok());
    served.host.check_invariants().unwrap();
    drop((given, others));
}

// spec: sync §2.2
#[test]
fn a_descriptor_keeps_an_nt_handle_wherever_it_is() {
    let served = Served::start();
    let (first, second) = (served.client(), served.client());
    let (_resource, token) = first.share();
    let descriptor = first.link.descriptor(token).expect("a descriptor");
    let closed = first.link.call(Call::Share(ShareCall::CloseNtHandle { handle: token })).unwrap_err();
    assert_eq!(closed.status, NtStatus::INVALID_HANDLE, "it is the descriptor's");
    // The client passes the descriptor on over a socket of its own.
    let (ours, theirs) = Packets::pair().expect("two descriptors");
    ours.send(b"here", &[descriptor.as_fd()]).expect("the other end is open");
    let arrived: OwnedFd = {
        let files = Packets::new(theirs).receive(16, 1).expect("a message").1;
        files.all().expect("there are descriptors").pop().expect("a descriptor")
    };
    drop(descriptor);
    let told = second.link.described(arrived.as_fd()).expect("it stands for the NT handle");
    assert!(second.open(told).is_ok());
    served.host.check_invariants().unwrap();
    // The maker goes; the descriptor still opens the resource, which the second client has open.
    drop(first);
    assert!(second.open(second.link.described(arrived.as_fd()).unwrap()).is_ok());
    assert!(second.finds());
    drop(arrived);
    in_the_end("the name goes with the last descriptor", || !second.finds());
    assert_eq!(second.open(told), Err(NtStatus::INVALID_HANDLE));
    served.host.check_invariants().unwrap();
}

// spec: memory §9.3
#[test]
fn what_is_no_such_descriptor_is_refused() {
    let served = Served::start();
    let (first, second) = (served.client(), served.client());
    let (_resource, token) = first.share();
    for (client, handle) in [(&first, 0), (&first, token ^ 1), (&second, token)] {
        assert_eq!(client.link.descriptor(handle).unwrap_err().status, NtStatus::INVALID_HANDLE, "not its own");
    }
    let (pipe, _theirs) = Packets::pair().expect("two descriptors");
    assert_eq!(first.link.described(pipe.as_fd()).unwrap_err().status, NtStatus::INVALID_HANDLE);
    let elsewhere = Served::start();
    let client = elsewhere.client();
    let foreign = client.link.descriptor(client.share().1).expect("a descriptor");
    assert_eq!(first.link.described(foreign.as_fd()).unwrap_err().status, NtStatus::INVALID_HANDLE, "another kernel's");
    assert_eq!(
        first.link.call(Call::Share(ShareCall::CloseNtHandle { handle: token })),
        Ok(Reply::Done),
        "nothing has changed"
    );
    assert_eq!(served.daemon.clients(), 2);
}

// spec: sync §2.4
#[test]
fn a_process_is_told_of_its_events() {
    let served = Served::start();
    let client = served.client();
    let Ok(Reply::Handle(event)) = client.link.call(Call::Event(EventCall::CreateTold)) else { panic!("no event") };
    for _ in 0..3 {
        client.link.call(Call::Event(EventCall::Set { event })).expect("it is there");
        let told = client.link.wait_notification().expect("the kernel is there");
        assert_eq!((told.registration, told.kind), (event, NotificationKind::EventSet));
    }
    client.link.call(Call::Event(EventCall::Close { event })).expect("it is there");
    assert_eq!(client.link.take_notification(), None);
}
