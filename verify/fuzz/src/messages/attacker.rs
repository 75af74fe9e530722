//! Attackers that send malformed messages. A stranger sends anything, and is soon disconnected; a spy behaves for a while, as hostile
//! processes of worlds do ([`Generator`]): its odd messages meet memory that is its own, locked and lent to it.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use kmt_calls::wire::{decode, encode};
use kmt_calls::{
    AdapterCall, Call, DeviceCall, DoorbellAddress, EventCall, LockCall, MakeResidentFlags, MappingId,
    NativeFenceRequest, PriorityCall, QueueCall, QueueFlags, QueuedFence, Reply, ResidencyCall, SyncCall,
};
use kmt_link::socket::{Asked, Hello, Lost, Packets, Placed, Request, Response, Said, Told};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use shared_words::StoresElsewhere;
use sim::Random;
use wddm_types::{Luid, NodeId, RawHandle};

use super::{Messages, shows_video_memory};
use crate::dice::Dice;
use crate::generate::Generator;
use crate::known::Known;

/// Of a hundred values of a stranger, and of a spy, those that are an attacker's.
const MALICE: u64 = 30;
const MALICE_OF_SPIES: u64 = 3;
/// Of a hundred connections, those of spies.
const SPIES: u64 = 25;
/// Of a hundred calls of a spy, those that lock something that is in video memory or is about to be.
const LOCKS: u64 = 10;
/// A call may wait: the attacker gives it up then.
const PATIENCE: Duration = Duration::from_millis(5);
/// A spy learns whether its call waits, so that the daemon may be as slow as the machine makes it.
const PATIENCE_OF_SPIES: Duration = Duration::from_secs(10);

pub struct Attacker {
    dice: Dice,
    path: PathBuf,
    luid: Luid,
    connection: Option<Connection>,
}

struct Connection {
    calls: Packets,
    stream: Packets,
    spies: Option<Spy>,
    /// Calls sent without an answer.
    posted: u64,
}

/// Of so many mappings a spy says that they hold.
const MAPPINGS: usize = 4;

/// The findings of a spy.
struct Spy {
    known: Known,
    /// The latest mappings that it got.
    mappings: Vec<MappingId>,
}

impl Connection {
    /// The daemon's answer, after its word that the call waits; `None`: it has ended the connection, or the attacker has no more patience.
    fn answer(&self, until_word: Duration) -> Option<Vec<u8>> {
        let has_patience = |patience| set_socket_timeout(self.calls.as_fd(), Timeout::Recv, Some(patience)).ok();
        has_patience(until_word)?;
        let (first, _) = self.calls.receive(1 << 20, 0).ok()?;
        has_patience(PATIENCE)?;
        match decode(&first) {
            Ok(Told { response: Response::Waits, .. }) => Some(self.calls.receive(1 << 20, 0).ok()?.0),
            _ => Some(first),
        }
    }
}

impl Attacker {
    pub fn new(seed: u64, path: PathBuf, luid: Luid) -> Attacker {
        Attacker { dice: Dice::new(Random::new(seed), MALICE), path, luid, connection: None }
    }

    /// Sends one message.
    pub fn message(&mut self, report: &mut Messages) -> Result<(), String> {
        let mut connection = match self.connection.take() {
            Some(open) => open,
            None => {
                report.connections += 1;
                self.connect().map_err(|error| error.to_string())?
            }
        };
        let seed = self.dice.below(u64::MAX);
        let (request, odd) = match &mut connection.spies {
            Some(spy) => {
                let mut dice = Dice::new(Random::new(seed), MALICE_OF_SPIES);
                (Request::CallInOrder(spy.call(&mut dice, self.luid)), dice.odd())
            }
            None => (self.request(), self.dice.odd()),
        };
        let request = if connection.spies.is_some() { request } else { self.in_another_form(request) };
        // A posted call has no answer, so the attacker does not wait for one. Now and then it claims that more were posted than were.
        let after = connection.posted + u64::from(odd && self.dice.chance(1));
        let posts = matches!(request, Request::Post(_));
        connection.posted += u64::from(posts);
        let asked = Asked { after, placed: self.placed(&connection), lost: self.lost(), request };
        let mut bytes = encode(&asked, Vec::new());
        if odd {
            self.spoil(&mut bytes);
        }
        let files =
            usize::from(if connection.spies.is_some() { odd && self.dice.chance(30) } else { self.dice.chance(3) });
        for said in self.said(&connection) {
            // A daemon that has ended it hears no more.
            let _ = connection.stream.send(&said, &[]);
        }
        let sent = connection.calls.send(&bytes, &[connection.stream.as_fd(); 1][..files]);
        if sent.is_err() {
            return Ok(());
        }
        if posts && !odd {
            self.connection = Some(connection);
            return Ok(());
        }
        let told = connection.spies.is_some() && !odd;
        let Some(answer) = connection.answer(if told { PATIENCE_OF_SPIES } else { PATIENCE }) else { return Ok(()) };
        report.answered += 1;
        if let (Some(spy), Request::CallInOrder(call)) = (&mut connection.spies, &asked.request)
            && let Ok(Told { response: Response::AnswerInOrder(Ok(reply), _), .. }) = decode(&answer)
        {
            // The spoiled message may have been another call; then the spy records something untrue.
            spy.known.answered(call, &reply);
            if let Reply::Mapped(mapped) | Reply::Locked { mapped, .. } = reply {
                report.lent[0] += u64::from(shows_video_memory(&mapped));
                spy.mappings.push(mapped.mapping);
                spy.mappings.drain(..spy.mappings.len().saturating_sub(MAPPINGS));
            }
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// A stranger's request, now and then as a post, in order, in a batch, or with queued fences.
    fn in_another_form(&mut self, request: Request) -> Request {
        match request {
            Request::Call(call) if self.dice.chance(10) => Request::Post(call),
            Request::Call(call) if self.dice.chance(10) => Request::CallInOrder(call),
            Request::Call(call) if self.dice.chance(10) => Request::Calls(vec![call; self.dice.below(20) as usize]),
            Request::Call(_) if self.dice.chance(5) => {
                // CAST: drawn below 2^16.
                let [queue, fence] = [(); 2].map(|()| RawHandle(self.dice.below(1 << 16) as u32));
                let (value, recorded_ns) = (self.dice.below(u64::MAX), self.dice.below(u64::MAX));
                let one = QueuedFence { fence, value, signal: self.dice.odd(), recorded_ns };
                Request::FencesQueued { queue, queued: vec![one; self.dice.below(1_100) as usize] }
            }
            request => request,
        }
    }

    /// A connection; now and then it begins with something else than it should.
    fn connect(&mut self) -> Result<Connection, rustix::io::Errno> {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(&self.path)?)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        let calls = Packets::new(socket);
        let (stream, theirs) = Packets::pair()?;
        let mut hello = encode(&Hello::OURS, Vec::new());
        if self.dice.chance(5) && self.dice.odd() {
            self.spoil(&mut hello);
        }
        // Most let their stores be held, as the library does; or bring what cannot do that.
        let stores = match self.dice.below(20) {
            0 => Some(calls.as_fd()),
            1..=5 => None,
            _ => StoresElsewhere::ours(),
        };
        let files: Vec<_> = [Some(theirs.as_fd()), stores].into_iter().flatten().collect();
        // A connection that is refused at once finds out with its first message.
        let _ = calls.send(&hello, &files);
        let _ = calls.receive(1 << 12, 0);
        let spies = self.dice.chance(SPIES).then(|| Spy { known: Known::new(false), mappings: Vec::new() });
        Ok(Connection { calls, stream, spies, posted: 0 })
    }

    /// Where it says that it has mappings: it has them nowhere.
    fn placed(&mut self, connection: &Connection) -> Vec<Placed> {
        let known = connection.spies.as_ref().and_then(|spy| spy.mappings.last().copied());
        if !self.dice.chance(5) {
            return Vec::new();
        }
        let mapping = known.filter(|_| self.dice.odd()).unwrap_or(MappingId(self.dice.below(8)));
        let address = [0, 0x1000, u64::MAX - 0xfff, 1 << 63][self.dice.below(4) as usize];
        vec![Placed { mapping, address }]
    }

    /// Files that it says it could not take, which it has been sent or not.
    fn lost(&mut self) -> Vec<Lost> {
        if !self.dice.chance(5) {
            return Vec::new();
        }
        // CAST: drawn below 4.
        let number = self.dice.below(4) as u32;
        vec![[Lost::Arena(number), Lost::Page(self.dice.below(1 << 14))][self.dice.below(2) as usize]]
    }

    /// Messages of a client's stream, about doorbells and mappings that it has or has not.
    fn said(&mut self, connection: &Connection) -> Vec<Vec<u8>> {
        if let Some(Spy { mappings, .. }) = &connection.spies
            && self.dice.chance(50)
        {
            // As one does that has heard all: the kernel waits for it or not.
            return mappings.iter().map(|mapping| encode(&Said::Holds(*mapping), Vec::new())).collect();
        }
        if !self.dice.chance(if connection.spies.is_some() { 1 } else { 10 }) {
            return Vec::new();
        }
        let (doorbell, mapping) = (DoorbellAddress(self.dice.below(8)), MappingId(self.dice.below(8)));
        let said = [Said::Rung(doorbell), Said::Holds(mapping)][self.dice.below(2) as usize];
        let mut bytes = encode(&said, Vec::new());
        if self.dice.odd() {
            self.spoil(&mut bytes);
        }
        vec![bytes]
    }

    /// A message as a client would send it.
    fn request(&mut self) -> Request {
        let handle = RawHandle(0xc000_0000 | (self.dice.below(64) as u32) << 6);
        let call = match self.dice.below(15) {
            0 => Call::Adapter(AdapterCall::EnumAdapters),
            1..=3 => Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: self.luid }),
            4 | 5 => Call::Device(DeviceCall::CreateDevice { adapter: handle }),
            6 => Call::Device(DeviceCall::CreatePagingQueue { device: handle, priority: 0, physical_adapter: 0 }),
            7 => {
                let request = NativeFenceRequest::default();
                Call::Sync(SyncCall::CreateNativeFence { device: handle, request })
            }
            8 => Call::Event(EventCall::Create { manual_reset: false }),
            9 => {
                let (allocations, flags) = (vec![handle; 3], MakeResidentFlags::empty());
                Call::Residency(ResidencyCall::MakeResident { paging_queue: handle, allocations, flags })
            }
            11 => {
                let (node, private_data) = (NodeId(0), Vec::new());
                Call::Queue(QueueCall::CreateHwContext { device: handle, node, private_data })
            }
            12 => {
                let flags = QueueFlags::USER_MODE_SUBMISSION;
                Call::Queue(QueueCall::CreateHwQueue { context: handle, flags, private_data: Vec::new() })
            }
            13 => Call::Queue(QueueCall::ConnectDoorbell { doorbell: handle }),
            10 => Call::Priority(PriorityCall::GetProcessSchedulingPriorityClass { adapter: handle }),
            _ => return [Request::Now, Request::Lane][self.dice.below(2) as usize].clone(),
        };
        Request::Call(call)
    }

    /// Changes bytes as no client would.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
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

impl Spy {
    /// Its next call.
    fn call(&mut self, dice: &mut Dice, luid: Luid) -> Call {
        self.known.choose_device(dice);
        if let (true, Some(allocation)) = (dice.chance(LOCKS), dice.pick(&self.known.listed_and_lockable())) {
            return Call::Lock(LockCall::Lock2 { device: self.known.device, allocation, flags: 0 });
        }
        let (endless, old, queues, shows, escapes, reported_pages) = (false, false, true, false, true, 0);
        Generator { dice, known: &self.known, luid, endless, old, queues, shows, escapes, reported_pages }.call()
    }
}
