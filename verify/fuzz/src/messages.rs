//! Messages that no client sends, against the daemon: bytes of good messages that are cut, longer, changed in places, or made up, with
//! descriptors or without. One client beside behaves. Real threads and time: what is checked holds whatever their order.

use std::fmt;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits};
use kmt_calls::wire::encode;
use kmt_calls::{
    Call, DoorbellAddress, EventCall, MakeResidentFlags, MappingId, NativeFenceRequest, PriorityCall, QueueCall,
    QueueFlags, Reply, SyncCall,
};
use kmt_link::Link;
use kmt_link::socket::{Hello, Packets, Request, Said, SocketLink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use sim::Random;
use wddm_types::{Luid, NodeId, RawHandle};

use crate::dice::Dice;

/// What became of the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Sent.
    pub sent: u64,
    /// Of these, answered; the others ended their connection, or waited in a call until the connection was given up.
    pub answered: u64,
    /// Connections that were needed.
    pub connections: u64,
}

impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Messages { sent, answered, connections } = self;
        write!(f, "{sent} messages, {answered} of them answered, over {connections} connections")
    }
}

/// Of a hundred values, those that are an attacker's.
const MALICE: u64 = 30;
/// A call may wait: the attacker gives it up then.
const PATIENCE: Duration = Duration::from_millis(5);
/// How long everything that a client had may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// Sends so many.
///
/// # Errors
/// What did not hold.
pub fn run_messages(seed: u64, count: u64) -> Result<Messages, String> {
    let path = std::env::temp_dir().join(format!("openwddm-fuzz-{}-{seed}", std::process::id()));
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let config = HostConfig {
        vram_bytes: 8 << 20,
        page_table_bytes: 4 << 20,
        system_bytes: 32 << 20,
        isolates_processes: true,
        ..HostConfig::new(profile, Mode::Real)
    };
    let host = Host::start(config).map_err(|error| error.to_string())?;
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default());
    let daemon = daemon.map_err(|error| error.to_string())?;
    let honest = SocketLink::connect(&path).map_err(|error| error.to_string())?;
    let luid = host.luid();
    behave(&honest, luid)?;
    let files = open_files();
    let mut attacker = Attacker { dice: Dice::new(Random::new(seed), MALICE), path, luid, connection: None };
    let mut report = Messages::default();
    while report.sent < count {
        report.answered += u64::from(attacker.message(&mut report.connections)?);
        report.sent += 1;
        if report.sent.is_multiple_of(1000) {
            behave(&honest, luid)?;
            host.check_invariants().map_err(|broken| broken.to_string())?;
        }
    }
    drop(attacker);
    let began = Instant::now();
    while daemon.clients() != 1 {
        if began.elapsed() > GONE_WITHIN {
            return Err(format!("{} clients are left beside the honest one", daemon.clients() - 1));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    behave(&honest, luid)?;
    host.check_invariants().map_err(|broken| broken.to_string())?;
    // What a process that has gone had given out is closed behind it, by a thread of the kernel's.
    let began = Instant::now();
    loop {
        let left = open_files();
        if left == files {
            return Ok(report);
        }
        if began.elapsed() > GONE_WITHIN {
            return Err(format!("{files} descriptors before, {left} after"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many descriptors this program has: daemon and clients are all in it. What hears that a descriptor for an NT handle was closed is opened
/// by whoever asks for the first of these, once, and stays.
fn open_files() -> usize {
    // PANIC: without procfs nobody knows, and every system that runs this has it.
    let open = std::fs::read_dir("/proc/self/fd").expect("procfs").filter_map(Result::ok);
    let names = open.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
    names.filter(|name| !name.ends_with("anon_inode:[eventfd]")).count()
}

/// What a client of good will does, start to end.
fn behave(honest: &SocketLink, luid: Luid) -> Result<(), String> {
    let made = |call: Call| match honest.call(call.clone()) {
        Ok(Reply::Handle(handle)) => Ok(handle),
        other => Err(format!("the honest client's {} answers {other:?}", call.name())),
    };
    let adapter = made(Call::OpenAdapterFromLuid { luid })?;
    let device = made(Call::CreateDevice { adapter })?;
    for call in [Call::DestroyDevice { device }, Call::CloseAdapter { adapter }] {
        honest.call(call).map_err(|refusal| format!("the honest client is refused: {refusal}"))?;
    }
    Ok(())
}

struct Attacker {
    dice: Dice,
    path: PathBuf,
    luid: Luid,
    connection: Option<(Packets, Packets)>,
}

impl Attacker {
    /// Sends one; whether it was answered.
    fn message(&mut self, connections: &mut u64) -> Result<bool, String> {
        let mut bytes = encode(&self.request(), Vec::new());
        self.spoil(&mut bytes);
        let files = usize::from(self.dice.chance(3));
        let (connection, stream) = match self.connection.take() {
            Some(open) => open,
            None => {
                *connections += 1;
                self.connect().map_err(|error| error.to_string())?
            }
        };
        if self.dice.chance(10) {
            // A daemon that has ended it hears no more.
            let _ = stream.send(&self.said(), &[]);
        }
        let sent = connection.send(&bytes, &[stream.as_fd(); 1][..files]);
        if sent.is_ok() && connection.receive(1 << 20, 0).is_ok() {
            self.connection = Some((connection, stream));
            return Ok(true);
        }
        Ok(false)
    }

    /// A connection; now and then it begins with something else than it should.
    fn connect(&mut self) -> Result<(Packets, Packets), rustix::io::Errno> {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(&self.path)?)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        let connection = Packets::new(socket);
        let (stream, theirs) = Packets::pair()?;
        let mut hello = encode(&Hello::OURS, Vec::new());
        if self.dice.chance(5) {
            self.spoil(&mut hello);
        }
        // Whoever is refused at once finds out with its first message.
        let _ = connection.send(&hello, &[theirs.as_fd()]);
        let _ = connection.receive(1 << 12, 0);
        Ok((connection, stream))
    }

    /// What a client would say on its stream, of doorbells and mappings that it has or has not.
    fn said(&mut self) -> Vec<u8> {
        let (doorbell, mapping) = (DoorbellAddress(self.dice.below(8)), MappingId(self.dice.below(8)));
        let said = [Said::Rung(doorbell), Said::Holds(mapping)][self.dice.below(2) as usize];
        let mut bytes = encode(&said, Vec::new());
        self.spoil(&mut bytes);
        bytes
    }

    /// A message as a client would send it.
    fn request(&mut self) -> Request {
        let handle = RawHandle(0xc000_0000 | (self.dice.below(64) as u32) << 6);
        let call = match self.dice.below(15) {
            0 => Call::EnumAdapters,
            1..=3 => Call::OpenAdapterFromLuid { luid: self.luid },
            4 | 5 => Call::CreateDevice { adapter: handle },
            6 => Call::CreatePagingQueue { device: handle, priority: 0, physical_adapter: 0 },
            7 => {
                let request = NativeFenceRequest::default();
                Call::Sync(SyncCall::CreateNativeFence { device: handle, request })
            }
            8 => Call::Event(EventCall::Create { manual_reset: false }),
            9 => {
                let (allocations, flags) = (vec![handle; 3], MakeResidentFlags::empty());
                Call::MakeResident { paging_queue: handle, allocations, flags }
            }
            11 => {
                let (node, private_data) = (NodeId(0), Vec::new());
                Call::Queue(QueueCall::CreateHwContext { device: handle, node, private_data })
            }
            12 => {
                let flags = QueueFlags::USER_MODE_SUBMISSION;
                Call::Queue(QueueCall::CreateHwQueue { context: handle, flags })
            }
            13 => Call::Queue(QueueCall::ConnectDoorbell { doorbell: handle }),
            10 => Call::Priority(PriorityCall::GetProcessSchedulingPriorityClass { adapter: handle }),
            _ => return [Request::Now, Request::Lane][self.dice.below(2) as usize].clone(),
        };
        Request::Call(call)
    }

    /// Changes bytes as no client would.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        if !self.dice.odd() {
            return;
        }
        match self.dice.below(4) {
            0 => bytes.truncate(self.dice.below(bytes.len() as u64 + 1) as usize),
            1 => {
                for _ in 0..self.dice.below(64) {
                    bytes.push(self.dice.below(256) as u8);
                }
            }
            2 => {
                for _ in 0..=self.dice.below(4) {
                    let at = self.dice.below(bytes.len().max(1) as u64) as usize;
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = self.dice.below(256) as u8;
                    }
                }
            }
            _ => {
                let length = self.dice.below(100_000) as usize;
                *bytes = (0..length).map(|_| self.dice.below(256) as u8).collect();
            }
        }
    }
}
