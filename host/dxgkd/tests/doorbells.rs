//! Doorbells of processes elsewhere (sync §3.17): rung by a store into a page of their own, wherever that leads meanwhile.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use d3dkmt::DeviceState;
use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits};
use kmt_calls::wire::encode;
use kmt_calls::{Call, QueueCall, QueueFlags, Reply};
use kmt_link::Link;
use kmt_link::socket::{Hello, Packets, Said, SocketLink};
use shared_words::across::Processors;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::NodeId;

const CONNECTED: u64 = 0;
const RETRY: u64 = 2;

/// A kernel that is served.
struct Served {
    host: Arc<Host>,
    _daemon: Daemon,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn serve(profile: &str) -> Served {
    let mut config = HostConfig::new(Profile::named(profile).expect("a built-in profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (16 << 20, 4 << 20, 32 << 20);
    config.isolates_processes = true;
    config.processors = Processors::all();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let host = Host::start(config).expect("a kernel");
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default()).expect("a socket");
    Served { host, _daemon: daemon, path, _folder: folder }
}

/// A process with a user-mode queue, and the surface that the queue fills.
struct Client {
    stream: Stream,
    surface: Surface,
    gpu: Gpu,
    link: Arc<SocketLink>,
}

impl Client {
    fn connect(served: &Served) -> Client {
        let link = SocketLink::connect(&served.path).expect("a kernel");
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
        let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
        let surface = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
        gpu.pin(&surface).expect("room for it");
        Client { stream, surface, gpu, link }
    }

    /// Fills the words of the surface with a number.
    fn fill(&mut self, number: u32) -> u64 {
        let mut commands = Commands::new();
        commands.fill(self.surface.va(), 4096, number);
        self.stream.submit(&self.gpu, &[], &commands).expect("a submission")
    }

    fn filled(&self) -> u64 {
        self.surface.lock().expect("system memory").read_word(0) & 0xffff_ffff
    }
}

#[test]
fn a_process_elsewhere_submits_by_a_store_and_wakes_an_engine_that_sleeps() {
    // spec: sync §3.17, sync §3.19
    let served = serve("discrete-4k");
    let mut client = Client::connect(&served);
    for number in 1..=20 {
        if number % 4 == 0 {
            // The engine gives up looking at a doorbell before so long, and sleeps.
            std::thread::sleep(Duration::from_millis(5));
        }
        let value = client.fill(number);
        client.stream.wait(&client.gpu, value).expect("it runs");
        assert_eq!(client.filled(), u64::from(number));
    }
}

#[test]
fn processes_with_one_doorbell_among_them_lose_nothing() {
    // spec: sync §3.17, sync §3.19
    const ROUNDS: u32 = 200;
    let served = serve("few-doorbells");
    let mut clients = [(); 3].map(|()| Client::connect(&served));
    let before = served.host.counters().doorbells_passed_on;
    std::thread::scope(|scope| {
        for (seed, client) in (0u64..).zip(&mut clients) {
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let value = client.fill(round);
                    // Sometimes several are under way when the doorbell goes, sometimes the engine sleeps.
                    if (u64::from(round) * 7 + seed).is_multiple_of(5) {
                        client.stream.wait(&client.gpu, value).expect("it runs");
                    }
                }
                let last = client.stream.last_value();
                client.stream.wait(&client.gpu, last).expect("everything ran");
            });
        }
    });
    for client in &clients {
        assert_eq!(client.stream.progress().current(), client.stream.last_value(), "and no more than that");
        assert_eq!(client.filled(), u64::from(ROUNDS));
    }
    assert!(served.host.counters().doorbells_passed_on > before, "it was taken from one and given to another");
    served.host.check_invariants().expect("the kernel's invariants hold");
}

/// A doorbell of a queue that takes this surface for its ring, not connected, and its status.
fn bell(client: &Client, ring: &Surface) -> (kmt_calls::CreatedDoorbell, shared_words::ReadOnlyWord) {
    let call = |call| client.link.call(Call::Queue(call)).expect("it is made");
    let device = client.gpu.device().handle();
    let made = call(QueueCall::CreateHwContext { device, node: NodeId(0), private_data: Vec::new() });
    let Reply::Handle(context) = made else { panic!("no context: {made:?}") };
    let made =
        call(QueueCall::CreateHwQueue { context, flags: QueueFlags::USER_MODE_SUBMISSION, private_data: Vec::new() });
    let Reply::HwQueue(queue) = made else { panic!("no queue: {made:?}") };
    let (ring_va, ring) = (ring.va(), ring.allocation().handle());
    let made = call(QueueCall::CreateDoorbell { queue: queue.queue, ring, ring_va, private_data: Vec::new() });
    let Reply::Doorbell(made) = made else { panic!("no doorbell: {made:?}") };
    let status = client.link.read_only(made.status);
    (made, status)
}

#[test]
fn a_doorbell_that_was_taken_away_leads_nowhere_and_a_stranger_rings_none() {
    // spec: sync §2.9, sync §3.17
    let served = serve("few-doorbells");
    let [first, mut second] = [(); 2].map(|()| Client::connect(&served));
    let ring = first.gpu.create_surface(SurfaceKind::System, 4096).expect("a ring");
    first.gpu.pin(&ring).expect("room for it");
    let (made, status) = bell(&first, &ring);
    let page = first.link.doorbell(made.address).expect("its own");
    assert!(second.link.doorbell(made.address).is_none(), "it is no doorbell of another process");
    assert_eq!(status.load(), RETRY);
    // One that was never connected leads nowhere, too: this would be a fault.
    page.ring(1 << 40);
    let connect = Call::Queue(QueueCall::ConnectDoorbell { doorbell: made.doorbell });
    for number in 1..=10 {
        first.link.call(connect.clone()).expect("it connects");
        assert_eq!(status.load(), CONNECTED);
        // The other process takes the only doorbell there is.
        let value = second.fill(number);
        second.stream.wait(&second.gpu, value).expect("it runs");
        assert_eq!((status.load(), second.filled()), (RETRY, u64::from(number)));
        page.ring(1 << 40);
        let value = second.fill(number + 100);
        second.stream.wait(&second.gpu, value).expect("it runs");
    }
    // The kernel ignores a client that says that it has rung another client's doorbell.
    let kind = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
    let socket = rustix::net::socket(kind.0, kind.1, None).expect("a socket");
    rustix::net::connect(&socket, &rustix::net::SocketAddrUnix::new(&served.path).expect("a path")).expect("a kernel");
    let (stranger, stream, theirs) = {
        let (stream, theirs) = Packets::pair().expect("two descriptors");
        (Packets::new(socket), stream, theirs)
    };
    stranger.send(&encode(&Hello::OURS, Vec::new()), &[theirs.as_fd()]).expect("it listens");
    for number in 0..64 {
        let rung = Said::Rung(kmt_calls::DoorbellAddress(made.address.0 ^ number));
        stream.send(&encode(&rung, Vec::new()), &[]).expect("it listens");
    }
    for client in [&first, &second] {
        assert_eq!(client.gpu.device().state().expect("a state"), DeviceState::Active, "no such ring was heard");
    }
    assert_eq!(served.host.stopped(), None);
    served.host.check_invariants().expect("the kernel's invariants hold");
}
