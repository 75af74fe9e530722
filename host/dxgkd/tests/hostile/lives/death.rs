//! One life: a client over a connection of its own that ends at one call.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kmt_calls::wire::encode;
use kmt_calls::{Call, Refusal, Reply};
use kmt_link::socket::{Asked, Request, SocketLink};
use kmt_link::{Link, Routed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Signal, getpid, kill_process};
use softgpu_umd::UmdError;
use wddm_types::{Blame, NtStatus};

/// The first byte of a packet whose message goes on in the next packet, and of one that ends its message.
const MORE: u8 = 0;
const LAST: u8 = 1;
/// An answer that has not come by then is one that the kernel waits with.
const PENDING: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };

/// How a life ends at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The client hangs up before the call's message.
    Before,
    /// It sends half of the message in a packet that says that more follows, and hangs up.
    Within,
    /// It sends the message, and hangs up before the kernel can have answered.
    Unheard,
    /// It hangs up when the answer has come, which it does not read, or when the kernel waits with the answer.
    Answered,
    /// It sends the message, and the operating system kills its process.
    Killed,
}

impl Death {
    /// Those that end a client without a process of its own.
    pub const HANGS_UP: [Death; 4] = [Death::Before, Death::Within, Death::Unheard, Death::Answered];
}

/// A client.
pub struct Life {
    link: Arc<dyn Link>,
    fate: Arc<Fate>,
}

/// A life that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lived {
    /// The calls that were answered, and the one that it ended at.
    pub calls: u64,
    /// That one; `None`: it came to the end of its script.
    pub ended_at: Option<&'static str>,
}

struct Fate {
    socket: OwnedFd,
    death: Death,
    made: AtomicU64,
    ends_at: AtomicU64,
    ended_at: Mutex<Option<&'static str>>,
}

impl Life {
    /// Connects. The life ends at the call with this number, counted from 1.
    pub fn begin(path: &Path, ends_at: u64, death: Death) -> Life {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .expect("a socket");
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("a kernel");
        let copy = socket.try_clone().expect("a descriptor");
        let link = SocketLink::over(socket).expect("a kernel");
        let (made, ends_at) = (AtomicU64::new(0), AtomicU64::new(ends_at));
        let fate = Arc::new(Fate { socket: copy, death, made, ends_at, ended_at: Mutex::default() });
        let of_route = Arc::clone(&fate);
        let route = move |link: &SocketLink, call: Call| of_route.call(link, call);
        Life { link: Arc::new(Routed::new(link, route)), fate }
    }

    /// Its way to the kernel.
    pub fn link(&self) -> &Arc<dyn Link> {
        &self.link
    }

    /// The next call is the one that it ends at: no answer would come.
    pub fn ends_now(&self) {
        self.fate.ends_at.store(self.fate.made.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Lives.
    ///
    /// # Panics
    /// When the kernel refuses a call of a client that is alive: the script has none that is to be refused.
    pub fn live(self, script: impl FnOnce(&Life) -> Result<(), UmdError>) -> Lived {
        let lived = script(&self);
        let (calls, ended_at) = (self.fate.made.load(Ordering::Relaxed), self.fate.ended_at());
        match lived {
            Err(error) if ended_at.is_none() => panic!("call {calls} of the script is refused: {error}"),
            _ => Lived { calls, ended_at },
        }
    }
}

impl Fate {
    fn ended_at(&self) -> Option<&'static str> {
        *self.ended_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, link: &SocketLink, call: Call) -> Result<Reply, Refusal> {
        // The destructors of a client that has ended call, too.
        if self.ended_at().is_some() {
            return Err(gone());
        }
        let nth = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        if nth != self.ends_at.load(Ordering::Relaxed) {
            return link.call(call);
        }
        *self.ended_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(call.name());
        let message = encode(&Asked::only(Request::Call(call)), Vec::new());
        match self.death {
            Death::Before => {}
            Death::Within => self.send(MORE, &message[..message.len() / 2]),
            Death::Unheard => self.send(LAST, &message),
            Death::Answered => {
                self.send(LAST, &message);
                let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&PENDING)).expect("a poll");
            }
            Death::Killed => {
                self.send(LAST, &message);
                kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
            }
        }
        rustix::net::shutdown(&self.socket, Shutdown::Both).expect("it is connected");
        Err(gone())
    }

    fn send(&self, first: u8, bytes: &[u8]) {
        let packet: Vec<u8> = std::iter::once(first).chain(bytes.iter().copied()).collect();
        // Each message of the script fits a packet, and there is room for one.
        rustix::net::send(&self.socket, &packet, SendFlags::NOSIGNAL).expect("the daemon has not ended this client");
    }
}

fn gone() -> Refusal {
    let reason = "this client has ended".into();
    Refusal { status: NtStatus::DEVICE_REMOVED, blame: Blame::Caller, reason, bytes_to_trim: 0 }
}
