//! A client that reads the daemon's messages and answers none: they lie there until the test hears them, in their order.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dxgk_host::Host;
use kmt_calls::wire::{decode, encode};
use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, QueuedFence, Refusal, Reply};
use kmt_link::socket::{
    Asked, FILES_MAX, Hello, MESSAGE_MAX, PacketError, Packets, Placed, Push, Pushed, Request, Response, Told,
};
use kmt_link::{CpuMapping, DoorbellPage, Link, OwnCommands, WritableWord};
use shared_words::{Memory, ReadOnlyWord};
use wddm_types::{RawHandle, WordAddress};

/// A process's link to the kernel that reads the daemon's messages and answers none. It reads words directly in the kernel's memory.
pub struct Deaf {
    pub lane: Mutex<Packets>,
    pub stream: Packets,
    host: Arc<Host>,
    /// The places of mappings that its next request names.
    pub placed: Mutex<Vec<Placed>>,
    came: Mutex<Came>,
}

/// Messages of the daemon that have come, on the stream or with a response.
#[derive(Default)]
struct Came {
    /// How many the test has heard.
    next: u64,
    /// Those that it has not.
    early: BTreeMap<u64, (Push, Vec<OwnedFd>)>,
}

impl Deaf {
    /// Connects to the kernel at this path, which is this host's.
    pub fn connect(path: &Path, host: &Arc<Host>) -> Arc<Deaf> {
        Deaf::with(path, host, None)
    }

    /// A client that brings the descriptor by which the daemon holds its stores.
    pub fn with(path: &Path, host: &Arc<Host>, stores: Option<BorrowedFd<'_>>) -> Arc<Deaf> {
        let kind = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
        let socket = rustix::net::socket(kind.0, kind.1, None).expect("a socket");
        let address = rustix::net::SocketAddrUnix::new(path).expect("a path");
        rustix::net::connect(&socket, &address).expect("a kernel");
        let (stream, theirs) = Packets::pair().expect("two descriptors");
        let lane = Packets::new(socket);
        let files: Vec<_> = [Some(theirs.as_fd()), stores].into_iter().flatten().collect();
        lane.send(&encode(&Hello::OURS, Vec::new()), &files).expect("it listens");
        lane.receive(MESSAGE_MAX, 0).expect("it is a client");
        let (lane, host) = (Mutex::new(lane), Arc::clone(host));
        Arc::new(Deaf { lane, stream, host, placed: Mutex::default(), came: Mutex::default() })
    }

    /// The next message of the daemon; `None`: the daemon has ended the client.
    pub fn hear(&self) -> Option<Push> {
        self.hear_with_files().map(|(push, _)| push)
    }

    /// The same, and the files that come with it.
    pub fn hear_with_files(&self) -> Option<(Push, Vec<OwnedFd>)> {
        loop {
            {
                let mut came = self.came.lock().expect("no panic");
                let next = came.next;
                if let Some(message) = came.early.remove(&next) {
                    came.next += 1;
                    return Some(message);
                }
            }
            let patience = Duration::from_millis(5);
            match self.stream.receive_patiently(patience, MESSAGE_MAX, FILES_MAX) {
                Ok((bytes, files)) => {
                    let Pushed { before, push } = decode(&bytes).expect("a message of the daemon");
                    let files = files.all().expect("there are descriptors");
                    self.came.lock().expect("no panic").early.insert(before, (push, files));
                }
                Err(PacketError::System(rustix::io::Errno::AGAIN)) => {}
                Err(_) => return None,
            }
        }
    }
}

fn gone() -> Refusal {
    let (status, blame) = (wddm_types::NtStatus::DEVICE_REMOVED, wddm_types::Blame::Driver);
    Refusal { status, blame, reason: "it was ended".into(), bytes_to_trim: 0 }
}

impl Link for Deaf {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        let lane = self.lane.lock().expect("no panic");
        let placed = std::mem::take(&mut *self.placed.lock().expect("no panic"));
        let asked = Asked { placed, ..Asked::only(Request::Call(call)) };
        lane.send(&encode(&asked, Vec::new()), &[]).map_err(|_| gone())?;
        let (bytes, _) = lane.receive(MESSAGE_MAX, 0).map_err(|_| gone())?;
        let Told { pushed, pushes, response } = decode(&bytes).expect("a response");
        let first = pushed - pushes.len() as u64;
        let numbered = (first..).zip(pushes).map(|(before, push)| (before, (push, Vec::new())));
        self.came.lock().expect("no panic").early.extend(numbered);
        match response {
            Response::Answer(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn system_memory(&self) -> Option<&Arc<Memory>> {
        None
    }

    fn read_only(&self, address: WordAddress) -> ReadOnlyWord {
        ReadOnlyWord::new(Arc::clone(self.host.system_memory()), address.0)
    }

    fn writable(&self, address: WordAddress) -> WritableWord {
        WritableWord::new(Arc::clone(self.host.system_memory()), address.0)
    }

    fn mapping(&self, _mapping: MappingId) -> Option<Arc<CpuMapping>> {
        None
    }

    fn doorbell(&self, _address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        None
    }

    fn take_notification(&self) -> Option<Notification> {
        None
    }

    fn wait_notification(&self) -> Option<Notification> {
        None
    }

    fn descriptor(&self, _handle: u64) -> Result<OwnedFd, Refusal> {
        Err(gone())
    }

    fn described(&self, _descriptor: BorrowedFd<'_>) -> Result<u64, Refusal> {
        Err(gone())
    }

    fn section_over(
        &self,
        adapter: RawHandle,
        file: BorrowedFd<'_>,
        offset_bytes: u64,
        size_bytes: u64,
    ) -> Result<Reply, Refusal> {
        let _ = (adapter, file, offset_bytes, size_bytes);
        Err(gone())
    }

    fn own_commands(&self) -> Result<OwnCommands, Refusal> {
        Err(gone())
    }

    fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    fn traces_fences(&self) -> bool {
        false
    }

    fn fences_queued(&self, _queue: RawHandle, _queued: &[QueuedFence]) {}
}
