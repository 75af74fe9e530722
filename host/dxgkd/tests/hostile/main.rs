//! Clients that end badly, over a connection of their own: the daemon soon holds exactly what it held before, without a call of another
//! client; freed memory shows nothing of the dead client's content, and other clients go on.

mod given;
mod lives;

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, Profile, StateDigest};
use dxgkd::{Daemon, Limits, ProcessLimits};
use kmt_calls::wire::{decode, encode};
use kmt_calls::{
    AdapterCall, Call, DeviceCall, EventCall, FenceFlags, NativeFenceRequest, QueueCall, Reply, ShareCall, SyncCall,
    SyncObjectAccess,
};
use kmt_link::Link;
use kmt_link::socket::{Asked, Hello, Packets, Request, Response, SocketLink, Told};
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, SurfaceKind};
use wddm_types::{NodeId, RawHandle};

const MIB: u64 = 1 << 20;

/// Descriptors are counted: one test at a time has any.
static ALONE: Mutex<()> = Mutex::new(());

struct Served {
    host: Arc<Host>,
    daemon: Daemon,
    path: PathBuf,
    /// The clients that live on.
    clients: u64,
    before: (ProgramResources, StateDigest),
    _folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// The resources of the operating system that this program holds, the daemon's among them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProgramResources {
    /// The file of each descriptor.
    descriptors: Vec<PathBuf>,
    /// Memory files with a mapped page.
    memory_files: usize,
    /// Threads that serve clients.
    threads: usize,
}

impl ProgramResources {
    fn now() -> ProgramResources {
        let list = |path| std::fs::read_dir(path).expect("a list").filter_map(Result::ok).map(|entry| entry.path());
        let open = list("/proc/self/fd").filter_map(|descriptor| std::fs::read_link(descriptor).ok());
        let mut descriptors: Vec<_> = open.collect();
        descriptors.sort_unstable();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a list");
        let inode = |line: &str| line.split_whitespace().nth(4).map(str::to_owned);
        let files: BTreeSet<_> = maps.lines().filter(|line| line.contains("/memfd:")).filter_map(inode).collect();
        let serves = |name: &String| ["stream ", "answers ", "lane ", "meet"].iter().any(|of| name.starts_with(of));
        // One that has ended meanwhile has no name any more.
        let names = list("/proc/self/task").filter_map(|task| std::fs::read_to_string(task.join("comm")).ok());
        ProgramResources { descriptors, memory_files: files.len(), threads: names.filter(serves).count() }
    }
}

/// The processes that threads of this program serve: a thread's name ends with the number. A client that is gone has threads for a moment more.
fn served_processes() -> BTreeSet<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a list").filter_map(Result::ok);
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let process = |name: String| {
        let (what, process) = name.trim_end().split_once(' ')?;
        ["stream", "answers", "lane"].contains(&what).then(|| process.to_owned())
    };
    names.filter_map(process).collect()
}

impl Served {
    fn start(limits: Limits) -> Served {
        let profile = Profile::named("discrete-4k").expect("a built-in profile");
        let mut config = HostConfig::new(profile, Mode::Real);
        (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (8 * MIB, 4 * MIB, 32 * MIB);
        config.isolates_processes = true;
        Served::of(config, limits)
    }

    fn of(config: HostConfig, limits: Limits) -> Served {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let host = Host::start(config).expect("a kernel");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kernel");
        let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, limits).expect("a socket");
        // The first use opens these descriptors for good: each one that is left over from here on belongs to a client.
        let _ = shared_words::StoresElsewhere::ours();
        let before = (ProgramResources::now(), host.state_digest());
        let mut served = Served { host, daemon, path, clients: 0, before, _folder: folder, _alone: alone };
        // A client of the test before may still be leaving.
        served.begin_anew(0);
        served
    }

    fn connect(&self) -> Arc<SocketLink> {
        SocketLink::connect(&self.path).expect("a kernel")
    }

    /// A client that speaks the protocol by itself, without the library.
    fn raw(&self) -> Raw {
        let kind = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
        let socket = rustix::net::socket(kind.0, kind.1, None).expect("a socket");
        let address = rustix::net::SocketAddrUnix::new(&self.path).expect("a path");
        rustix::net::connect(&socket, &address).expect("a kernel");
        let (stream, theirs) = Packets::pair().expect("two descriptors");
        let lane = Packets::new(socket);
        lane.send(&encode(&Hello::OURS, Vec::new()), &[theirs.as_fd()]).expect("it listens");
        Raw { lane, _stream: stream }
    }

    /// What is held when no more clients are left than this, nor a thread of another, is what is held before: the same at two looks.
    fn begin_anew(&mut self, clients: u64) {
        self.clients = clients;
        loop {
            let is_alone = self.daemon.clients() == clients && served_processes().len() as u64 == clients;
            let before = (ProgramResources::now(), self.host.state_digest());
            std::thread::sleep(Duration::from_millis(50));
            let same =
                before.0 == ProgramResources::now() && before.1.differences(&self.host.state_digest()).is_empty();
            if is_alone && same {
                self.before = before;
                return;
            }
        }
    }

    /// Waits until there is no client any more but those that live on, and nothing of one.
    fn until_as_before(&self, what: &str) {
        self.until_left(what, &[]);
    }

    /// The same but for some parts of the kernel's state, of which it has made more for itself.
    fn until_left(&self, what: &str, own: &[&str]) {
        let (held, state) = &self.before;
        let began = Instant::now();
        loop {
            // The clients first: without them the rest cannot change again, so all values are of one moment.
            let clients = self.daemon.clients();
            let (now, mut left) = (ProgramResources::now(), state.differences(&self.host.state_digest()));
            // These two parts count works, and a count never falls.
            left.retain(|part| !["adapter ", "works "].iter().chain(own).any(|own| part.starts_with(own)));
            if clients == self.clients && now == *held && left.is_empty() {
                break;
            }
            let late = began.elapsed() > Duration::from_secs(60);
            assert!(!late, "{what}: {clients} clients, {now:?} instead of {held:?}, left: {left:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
        self.host.check_invariants().expect("the kernel's invariants hold");
    }
}

struct Raw {
    lane: Packets,
    _stream: Packets,
}

impl Raw {
    /// The next answer; `None`: it was ended.
    fn hear(&self) -> Option<Response> {
        let (bytes, _) = self.lane.receive(1 << 20, 0).ok()?;
        Some(decode::<Told>(&bytes).expect("a response").response)
    }

    fn say(&self, call: Call) {
        // A kernel that has ended this client hears nothing more.
        let _ = self.lane.send(&encode(&Asked::only(Request::Call(call)), Vec::new()), &[]);
    }

    fn ask(&self, call: Call) -> Option<Reply> {
        self.say(call);
        match self.hear()? {
            Response::Answer(Ok(reply)) => Some(reply),
            _ => None,
        }
    }
}

fn handle(reply: Option<Reply>) -> RawHandle {
    match reply {
        Some(Reply::Handle(handle)) => handle,
        Some(Reply::PagingQueue(made)) => made.queue,
        Some(Reply::Fence(made)) => made.fence,
        Some(Reply::HwQueue(made)) => made.queue,
        other => panic!("no handle: {other:?}"),
    }
}

/// A client's calls one after the other, up to the call that it waits in for ever.
fn step(client: &Raw, nth: usize, made: &[RawHandle]) -> Option<Call> {
    if nth == 0 {
        let Reply::Adapters(adapters) = client.ask(Call::Adapter(AdapterCall::EnumAdapters))? else { return None };
        return Some(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: adapters[0].0 }));
    }
    let (device, context, queue, fence) = (made.get(1), made.get(3), made.get(4), made.get(5));
    Some(match nth {
        1 => Call::Device(DeviceCall::CreateDevice { adapter: made[0] }),
        2 => Call::Device(DeviceCall::CreatePagingQueue { device: *device?, priority: 0, physical_adapter: 0 }),
        3 => Call::Queue(QueueCall::CreateHwContext { device: *device?, node: NodeId(0), private_data: Vec::new() }),
        4 => Call::Queue(QueueCall::CreateHwQueue {
            context: *context?,
            flags: Default::default(),
            private_data: Vec::new(),
        }),
        5 => Call::Sync(SyncCall::CreateNativeFence { device: *device?, request: NativeFenceRequest::default() }),
        6 => Call::Event(EventCall::Create { manual_reset: false }),
        7 => Call::Queue(QueueCall::SubmitWaitForSyncObjectsToHwQueue { queue: *queue?, points: vec![(*fence?, 9)] }),
        8 => Call::Event(EventCall::Wait { event: made[6], block: true }),
        _ => return None,
    })
}

#[test]
fn a_client_that_dies_at_any_step_leaves_nothing_behind() {
    let served = Served::start(Limits::default());
    let mut reached = 0;
    for dies_at in 0..=9 {
        for answered in [false, true] {
            let client = served.raw();
            if answered || dies_at > 0 {
                assert_eq!(client.hear(), Some(Response::Done));
            }
            let mut made = Vec::new();
            for nth in 0..dies_at {
                let call = step(&client, nth, &made).expect("a call");
                if nth + 1 == dies_at && !answered {
                    // It goes while it is answered.
                    client.say(call);
                } else if nth < 7 {
                    made.push(handle(client.ask(call)));
                } else if nth == 7 {
                    assert_eq!(client.ask(call), Some(Reply::Done));
                } else {
                    client.say(call);
                }
                reached = reached.max(nth);
            }
            drop(client);
            served.until_as_before(&format!("died at {dies_at}, answered: {answered}"));
        }
    }
    assert_eq!(reached, 8, "every step");
}

#[test]
fn floods_of_descriptors_and_of_unheard_messages_end_the_client_that_floods() {
    let process = ProcessLimits { unheard: 64, answer_ms: 300, ..ProcessLimits::default() };
    let served = Served::start(Limits { process, ..Limits::default() });
    let others = served.connect();
    for descriptors in [2, 17, 200] {
        let client = served.raw();
        assert_eq!(client.hear(), Some(Response::Done));
        let files = vec![client.lane.as_fd(); descriptors];
        client.lane.send(&encode(&Asked::only(Request::Now), Vec::new()), &files).expect("it listens");
        assert_eq!(client.hear(), None, "{descriptors} descriptors");
    }
    // The daemon sends a message for each fence on the stream, which this client never reads.
    let client = served.raw();
    assert_eq!(client.hear(), Some(Response::Done));
    let adapter = handle(client.ask(step(&client, 0, &[]).expect("a call")));
    let device = handle(client.ask(Call::Device(DeviceCall::CreateDevice { adapter })));
    let create = || Call::Sync(SyncCall::CreateNativeFence { device, request: NativeFenceRequest::default() });
    let began = Instant::now();
    while client.ask(create()).is_some() {
        assert!(began.elapsed() < Duration::from_secs(60), "the daemon does not end it");
    }
    assert!(others.call(Call::Adapter(AdapterCall::EnumAdapters)).is_ok(), "others go on");
    drop((client, others));
    served.until_as_before("after the floods");
}

/// Makes as many of something as it is given, and dies without a word.
#[test]
fn floods_of_what_is_lent_leave_nothing_behind() {
    let process = ProcessLimits { handles: 900, sync_objects: 600, descriptors: 300, ..ProcessLimits::default() };
    let served = Served::start(Limits { process, ..Limits::default() });
    let shareable = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let fence = |device, flags| {
        let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
        Call::Sync(SyncCall::CreateNativeFence { device, request })
    };
    let floods: [(&str, Make); 5] = [
        ("fences", &|client, device| client.ask(fence(device, FenceFlags::empty())).is_some()),
        ("fences that others may open", &|client, device| {
            let Some(Reply::Fence(made)) = client.ask(fence(device, shareable)) else { return false };
            let (objects, access) = (vec![made.fence], SyncObjectAccess::ALL_ACCESS);
            client.ask(Call::Share(ShareCall::ShareObjects { objects, access, name: None })).is_some()
        }),
        ("events", &|client, _| client.ask(Call::Event(EventCall::Create { manual_reset: false })).is_some()),
        ("paging queues", &|client, device| {
            client
                .ask(Call::Device(DeviceCall::CreatePagingQueue { device, priority: 0, physical_adapter: 0 }))
                .is_some()
        }),
        ("queues", &|client, device| {
            let (node, private_data) = (NodeId(0), Vec::new());
            let context = client.ask(Call::Queue(QueueCall::CreateHwContext { device, node, private_data }));
            let Some(Reply::Handle(context)) = context else { return false };
            client
                .ask(Call::Queue(QueueCall::CreateHwQueue {
                    context,
                    flags: Default::default(),
                    private_data: Vec::new(),
                }))
                .is_some()
        }),
    ];
    for (what, make) in floods {
        let client = served.raw();
        assert_eq!(client.hear(), Some(Response::Done));
        let adapter = handle(client.ask(step(&client, 0, &[]).expect("a call")));
        let device = handle(client.ask(Call::Device(DeviceCall::CreateDevice { adapter })));
        let made = (0..1000).take_while(|_| make(&client, device)).count();
        assert!((10..1000).contains(&made), "{made} {what}");
        drop(client);
        served.until_as_before(&format!("{made} {what}"));
    }
}

/// Makes one more; false: it is refused.
type Make<'a> = &'a dyn Fn(&Raw, RawHandle) -> bool;

#[test]
fn what_one_client_wrote_no_other_sees() {
    let mut served = Served::start(Limits::default());
    let all = |served: &Served, kind, each: u64| {
        let gpu = Gpu::open(served.connect() as Arc<dyn Link>).expect("the adapter opens");
        let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
        let make = || {
            let surface = gpu.create_surface(kind, each).ok()?;
            gpu.pin(&surface).ok()?;
            Some(surface)
        };
        let surfaces: Vec<_> = std::iter::from_fn(make).take(64).collect();
        (gpu, stream, surfaces)
    };
    for kind in [SurfaceKind::System, SurfaceKind::LocalThenSystem] {
        for round in 0..2_u32 {
            let (gpu, mut stream, surfaces) = all(&served, kind, MIB);
            assert!(surfaces.len() >= 4, "{kind:?}: {}", surfaces.len());
            for surface in &surfaces {
                let lock = surface.lock().expect("it can be locked");
                let foreign = (0..MIB / 8).filter(|word| lock.read_word(word * 8) != 0).count();
                assert_eq!(foreign, 0, "{kind:?}, round {round}: words of another process");
                drop(lock);
                gpu.pin(surface).expect("room for it");
                let mut commands = Commands::new();
                commands.fill(surface.va(), MIB, 0xa5a5_a5a5);
                let value = stream.submit(&gpu, &[], &commands).expect("a submission");
                stream.wait(&gpu, value).expect("it completes");
            }
            let wrote = surfaces[0].lock().expect("it can be locked").read_word(0);
            assert_eq!(wrote, 0xa5a5_a5a5_a5a5_a5a5, "the pattern is there");
            drop((surfaces, stream, gpu));
            // When the kernel quiesces a device for the first time, it makes a fence for that, and keeps it.
            let own = ["fence ", "open of a fence ", "packed words of process 0"];
            served.until_left("a client with all the memory", if round == 0 { &own } else { &[] });
            served.before.1 = served.host.state_digest();
        }
    }
}
