//! A kernel and its clients over a socket, as processes elsewhere see it. The clients are in this program, which changes nothing: all
//! that they have is a connection.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits, ProcessLimits};
use kmt_calls::wire::{decode, encode};
use kmt_calls::{
    AdapterCall, Call, DeviceCall, EventCall, LockCall, NativeFenceRequest, Refusal, Reply, SignalFlags, SyncCall,
};
use kmt_link::Link;
use kmt_link::socket::{Asked, ConnectError, Hello, Packets, Request, Response, SocketLink, Told, VERSION};
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_umd::Gpu;
use wddm_types::{Blame, NtStatus};

/// How long anything may take before it counts as never.
const NEVER: Duration = Duration::from_secs(120);

/// A kernel that is served.
struct Served {
    host: Arc<Host>,
    daemon: Option<Daemon>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Served {
    fn start(limits: Limits) -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kernel");
        let profile = Profile::named("discrete-4k").expect("a built-in profile");
        let mut config = HostConfig::new(profile, Mode::Real);
        (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (16 << 20, 4 << 20, 32 << 20);
        config.isolates_processes = true;
        let host = Host::start(config).expect("a kernel");
        let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, limits).expect("a socket");
        Served { host, daemon: Some(daemon), path, _folder: folder }
    }

    fn connect(&self) -> Arc<SocketLink> {
        SocketLink::connect(&self.path).expect("a kernel")
    }

    /// A connection that has said nothing yet.
    fn raw(&self) -> Packets {
        let kind = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
        let socket = rustix::net::socket(kind.0, kind.1, None).expect("a socket");
        rustix::net::connect(&socket, &rustix::net::SocketAddrUnix::new(&self.path).expect("a path"))
            .expect("a kernel");
        Packets::new(socket)
    }

    fn until_clients_are(&self, count: u64) {
        let began = Instant::now();
        while self.daemon.as_ref().expect("it serves").clients() != count {
            assert!(began.elapsed() < NEVER, "clients stay for ever");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn open(link: &SocketLink) -> wddm_types::RawHandle {
    let Ok(Reply::Adapters(adapters)) = link.call(Call::Adapter(AdapterCall::EnumAdapters)) else {
        panic!("no adapters")
    };
    let (luid, name) = &adapters[0];
    assert_eq!(name, "discrete-4k");
    let Ok(Reply::Handle(adapter)) = link.call(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: *luid })) else {
        panic!("no adapter")
    };
    adapter
}

fn refused(connection: &Packets) -> String {
    let (bytes, _) = connection.receive(4096, 0).expect("an answer");
    match decode(&bytes).expect("a response") {
        Told { response: Response::Refused(reason), .. } => reason,
        told => panic!("not refused: {told:?}"),
    }
}

#[test]
fn clients_are_processes_of_their_own_to_the_kernel() {
    let served = Served::start(Limits::default());
    let (first, second) = (served.connect(), served.connect());
    let adapters = [open(&first), open(&second)];
    let Ok(Reply::Handle(device)) = first.call(Call::Device(DeviceCall::CreateDevice { adapter: adapters[0] })) else {
        panic!("no device")
    };
    let foreign = second.call(Call::Device(DeviceCall::DestroyDevice { device }));
    assert_eq!(foreign.expect_err("it is the first's").status, NtStatus::INVALID_PARAMETER);
    assert_eq!(first.call(Call::Device(DeviceCall::DestroyDevice { device })), Ok(Reply::Done));
    assert!(first.now_ns() < first.now_ns(), "the kernel's clock goes on");
}

// spec: sync §1.4 (user CPU VA: read-only)
#[test]
fn a_fence_is_polled_without_the_kernel_and_its_file_takes_no_store() {
    let served = Served::start(Limits::default());
    let client = served.connect();
    let adapter = open(&client);
    let Ok(Reply::Handle(device)) = client.call(Call::Device(DeviceCall::CreateDevice { adapter })) else {
        panic!("no device")
    };
    let request = NativeFenceRequest { initial_value: 7, ..NativeFenceRequest::default() };
    let Ok(Reply::Fence(made)) = client.call(Call::Sync(SyncCall::CreateNativeFence { device, request })) else {
        panic!("no fence")
    };
    let word = client.read_only(made.current);
    assert_eq!(word.load(), 7);
    let (points, flags) = (vec![(made.fence, 9)], SignalFlags::empty());
    let signal = SyncCall::SignalSynchronizationObjectFromCpu { device, points, flags };
    assert_eq!(client.call(Call::Sync(signal)), Ok(Reply::Done));
    assert_eq!(word.load(), 9, "the word is the kernel's own");
    drop(served);
    assert_eq!(word.load(), 9, "and stays where it is when the kernel goes");
}

#[test]
fn what_a_client_had_goes_with_it() {
    let served = Served::start(Limits::default());
    let before = served.host.state_digest();
    let client = served.connect();
    let adapter = open(&client);
    let Ok(Reply::Handle(_)) = client.call(Call::Device(DeviceCall::CreateDevice { adapter })) else {
        panic!("no device")
    };
    drop(client);
    served.until_clients_are(0);
    served.host.check_invariants().expect("the kernel's invariants hold");
    let left: Vec<_> = before.differences(&served.host.state_digest());
    assert!(left.iter().all(|part| !part.contains("device")), "{left:?}");
}

/// A client that makes so many fences and dies, which is the time, and has been cleared away.
fn leave_fences_behind(served: &Served, fences: u32) -> Instant {
    let client = served.connect();
    let adapter = open(&client);
    let Ok(Reply::Handle(device)) = client.call(Call::Device(DeviceCall::CreateDevice { adapter })) else {
        panic!("no device")
    };
    for _ in 0..fences {
        let create = SyncCall::CreateNativeFence { device, request: NativeFenceRequest::default() };
        assert!(matches!(client.call(Call::Sync(create)), Ok(Reply::Fence(_))));
    }
    let died = Instant::now();
    drop(client);
    served.until_clients_are(0);
    died
}

#[test]
fn who_leaves_much_behind_waits_before_it_is_a_client_again() {
    let process = ProcessLimits { clearing_percent: 1, ..ProcessLimits::default() };
    let served = Served::start(Limits { process, ..Limits::default() });
    let died = leave_fences_behind(&served, 2_000);
    open(&served.connect());
    // 99 times as long as that took, and a fence takes 100 ns on any machine.
    assert!(died.elapsed() >= Duration::from_millis(19), "it came back after {:?}", died.elapsed());
}

#[test]
fn who_waits_to_be_a_client_again_hears_that_the_daemon_stops() {
    let process = ProcessLimits { clearing_percent: 0, ..ProcessLimits::default() };
    let mut served = Served::start(Limits { process, ..Limits::default() });
    let died = leave_fences_behind(&served, 1);
    let path = served.path.clone();
    let waits = std::thread::spawn(move || SocketLink::connect(&path));
    served.until_clients_are(1);
    drop(served.daemon.take());
    match waits.join().expect("no thread panics") {
        Err(ConnectError::Refused(reason)) => assert_eq!(reason, "the daemon stops"),
        came => assert!(died.elapsed() >= Duration::from_secs(5), "it was to wait for five seconds: {came:?}"),
    }
}

#[test]
fn a_call_that_waits_keeps_no_other_thread_of_its_process() {
    let served = Served::start(Limits::default());
    let client = served.connect();
    let create = Call::Event(EventCall::Create { manual_reset: false });
    let Ok(Reply::Handle(event)) = client.call(create) else { panic!("no event") };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| client.call(Call::Event(EventCall::Wait { event, block: true })));
        for _ in 0..100 {
            open(&client);
        }
        assert!(!waits.is_finished(), "no call has set the event");
        assert_eq!(client.call(Call::Event(EventCall::Close { event })), Ok(Reply::Done));
        // Closing the event ends the wait.
        let _ = waits.join().expect("no panic");
    });
}

#[test]
fn a_client_that_dies_in_a_call_leaves_no_thread_waiting() {
    let served = Served::start(Limits::default());
    let connection = served.raw();
    let (_stream, theirs) = Packets::pair().expect("two descriptors");
    connection.send(&encode(&Hello::OURS, Vec::new()), &[theirs.as_fd()]).expect("it listens");
    connection.receive(4096, 0).expect("it is a client");
    let ask = |call| {
        connection.send(&encode(&Asked::only(Request::Call(call)), Vec::new()), &[]).expect("it listens");
    };
    ask(Call::Event(EventCall::Create { manual_reset: false }));
    let (bytes, _) = connection.receive(4096, 0).expect("an answer");
    let Ok(Told { response: Response::Answer(Ok(Reply::Handle(event))), .. }) = decode(&bytes) else {
        panic!("no event")
    };
    ask(Call::Event(EventCall::Wait { event, block: true }));
    drop((connection, theirs, _stream));
    served.until_clients_are(0);
}

#[test]
fn when_the_kernel_goes_every_call_says_so() {
    let mut served = Served::start(Limits::default());
    let client = served.connect();
    let create = Call::Event(EventCall::Create { manual_reset: false });
    let Ok(Reply::Handle(event)) = client.call(create) else { panic!("no event") };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| client.call(Call::Event(EventCall::Wait { event, block: true })));
        let hears = scope.spawn(|| client.wait_notification());
        open(&client);
        drop(served.daemon.take());
        let waited = waits.join().expect("no panic");
        assert_eq!(waited.expect_err("the kernel has gone").status, NtStatus::DEVICE_REMOVED);
        assert_eq!(hears.join().expect("no panic"), None);
    });
    let after = client.call(Call::Adapter(AdapterCall::EnumAdapters));
    assert_eq!(after.expect_err("the kernel has gone").status, NtStatus::DEVICE_REMOVED);
    assert!(matches!(SocketLink::connect(&served.path), Err(ConnectError::NoKernel { .. })));
}

#[test]
fn who_is_no_client_is_refused_with_the_reason() {
    let served = Served::start(Limits::default());
    let (_ours, theirs) = Packets::pair().expect("two descriptors");
    let says = |message: Vec<u8>, files: usize| {
        let connection = served.raw();
        connection.send(&message, &[theirs.as_fd(), theirs.as_fd(), theirs.as_fd()][..files]).expect("it listens");
        refused(&connection)
    };
    assert_eq!(says(b"GET / HTTP/1.1".to_vec(), 0), "its first message is not that of a client");
    assert_eq!(says(Vec::new(), 0), "its first message is not that of a client");
    let other = Hello { version: 77, ..Hello::OURS };
    let expected =
        format!("it speaks version 77 of the protocol, and the daemon {VERSION}; use programs of one version");
    assert_eq!(says(encode(&other, Vec::new()), 1), expected);
    assert_eq!(says(encode(&Hello::OURS, Vec::new()), 0), "its first message lacks the descriptor of its stream");
    assert_eq!(says(encode(&Hello::OURS, Vec::new()), 2), "its second descriptor: it is none by which stores are held");
    assert!(says(encode(&Hello::OURS, Vec::new()), 3).contains("more descriptors"));
    assert!(says(vec![0; 4096], 1).contains("longer than it may be"));
    served.until_clients_are(0);
    open(&served.connect());
}

#[test]
fn a_malformed_message_disconnects_its_client_and_no_other() {
    let served = Served::start(Limits::default());
    let honest = served.connect();
    for (message, files) in
        [(b"\xff\xff\xff\xff".to_vec(), 0), (Vec::new(), 0), (encode(&Asked::only(Request::Now), Vec::new()), 1)]
    {
        let connection = served.raw();
        let (_stream, theirs) = Packets::pair().expect("two descriptors");
        connection.send(&encode(&Hello::OURS, Vec::new()), &[theirs.as_fd()]).expect("it listens");
        connection.receive(4096, 0).expect("it is a client");
        connection.send(&message, &[theirs.as_fd()][..files]).expect("it listens");
        assert!(connection.receive(4096, 0).is_err(), "{message:?}");
    }
    served.until_clients_are(1);
    open(&honest);
}

#[test]
fn there_are_no_more_clients_and_lanes_than_the_limits_say() {
    let process = ProcessLimits { lanes: 3, ..ProcessLimits::default() };
    let mut served = Served::start(Limits { processes: 2, process, ..Limits::default() });
    let (first, second) = (served.connect(), served.connect());
    let third = SocketLink::connect(&served.path);
    let Err(ConnectError::Refused(reason)) = third else { panic!("a third client") };
    assert_eq!(reason, "limit of processes: the daemon serves all 2 that it may (processes)");
    let create = Call::Event(EventCall::Create { manual_reset: false });
    let Ok(Reply::Handle(event)) = first.call(create) else { panic!("no event") };
    std::thread::scope(|scope| {
        // Two wait, the third lane asks for a fourth.
        let wait = || {
            // The loop below may occupy the third lane for a moment.
            while let Err(Refusal { blame: Blame::Quota, .. }) =
                first.call(Call::Event(EventCall::Wait { event, block: true }))
            {}
        };
        let waiting = [scope.spawn(wait), scope.spawn(wait)];
        let began = Instant::now();
        let refusal = loop {
            // Until both have come so far there is a lane for this.
            match first.call(Call::Adapter(AdapterCall::EnumAdapters)) {
                Ok(_) => assert!(began.elapsed() < NEVER, "no call is refused"),
                Err(refusal) => break refusal,
            }
        };
        assert_eq!((refusal.status, refusal.blame), (NtStatus::NO_MEMORY, Blame::Quota));
        assert_eq!(refusal.reason, "limit of lanes: the process has all 3 that it may have (process.lanes)");
        assert!(first.now_ns() > 0, "a call that is answered at once needs no lane of its own");
        assert!(waiting.iter().all(|waits| !waits.is_finished()), "nothing else has changed");
        open(&second);
        served.host.check_invariants().expect("the kernel's invariants hold");
        // No lane is left for a call that sets the event: the end of the daemon ends the waits.
        drop(served.daemon.take());
    });
}

/// Where all lanes are taken a posted call goes on the one that others are asked for with, and has a response that no caller reads. The
/// client hears nevertheless what that brings.
#[test]
fn what_a_posted_call_causes_is_heard_where_no_lane_is_left() {
    let process = ProcessLimits { lanes: 2, ..ProcessLimits::default() };
    let mut served = Served::start(Limits { process, ..Limits::default() });
    let link = served.connect();
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("an adapter");
    let (kind, size_bytes) = (Kind::System, 64 << 10);
    let asked = AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically: false, size_bytes };
    let locked = gpu.device().create_allocation(asked.encode().to_vec()).expect("memory");
    let (device, allocation) = (gpu.device().handle(), locked.handle());
    link.call(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 })).expect("always");
    let Ok(Reply::Handle(event)) = link.call(Call::Event(EventCall::Create { manual_reset: false })) else {
        panic!("no event")
    };
    let (tells, told) = std::sync::mpsc::channel();
    let waits = Arc::clone(&link);
    std::thread::spawn(move || {
        loop {
            match waits.call(Call::Event(EventCall::Wait { event, block: true })) {
                // The loop below may occupy the lane for a moment.
                Err(Refusal { blame: Blame::Quota, .. }) => {}
                waited => {
                    // The test waits no longer than it says.
                    let _ = tells.send(waited);
                    return;
                }
            }
        }
    });
    let began = Instant::now();
    while link.call(Call::Adapter(AdapterCall::EnumAdapters)).is_ok() {
        assert!(began.elapsed() < NEVER, "no call is refused");
    }
    // Its mapping goes with it, and the wait's response comes behind that.
    drop(locked);
    link.post(Call::Event(EventCall::Set { event }));
    let waited = told.recv_timeout(Duration::from_secs(60));
    if waited.is_err() {
        // What is to be dropped would wait as well.
        drop(served.daemon.take());
    }
    waited.expect("the wait is over").expect("the event is set");
    open(&link);
    served.host.check_invariants().expect("the kernel's invariants hold");
}

#[test]
fn a_socket_without_a_listener_is_taken_over_and_no_other() {
    let served = Served::start(Limits::default());
    let again = Daemon::serve(Arc::clone(&served.host), &served.path, 0o600, Limits::default());
    assert!(again.is_err_and(|error| error.to_string().contains("another daemon listens there already")));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("left");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that is left behind"));
    let daemon = Daemon::serve(Arc::clone(&served.host), &path, 0o600, Limits::default()).expect("it is taken over");
    open(&SocketLink::connect(&path).expect("a kernel"));
    drop(daemon);
    assert!(!path.exists(), "a clean stop leaves nothing behind");
}
