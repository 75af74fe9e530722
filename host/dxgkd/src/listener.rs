//! The listener accepts connections, checks each against the limits, and makes a client of it or refuses it with a reason.

pub mod peer;
pub mod reconnect_delay;
pub mod socket;

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dxgk_host::Host;
use kmt_calls::wire::{decode, encode};
use kmt_link::socket::{Hello, Packets, Response, Told, VERSION};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags};
use shared_words::StoresElsewhere;

use crate::client::clients::Clients;
use crate::client::{Brought, Client, Places};
use crate::limits::Limits;
use crate::limits::user::{Count, User, Users};
use crate::listener::peer::{Peer, process_of};
use crate::listener::reconnect_delay::ReconnectDelays;
use crate::listener::socket::Socket;
use crate::process::outside::name_of;

/// Why a kernel can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another program listens there.
    #[error("{0}: another daemon listens there already")]
    Busy(String),
    /// Something stands there that no daemon has left behind.
    #[error("{path}: {what} stands there, and the daemon removes only a socket that no program has")]
    Taken {
        /// The socket.
        path: String,
        /// The kind of file at that path.
        what: &'static str,
    },
    /// The operating system refuses.
    #[error("{path}: {source}")]
    Socket {
        /// The socket.
        path: String,
        /// The operating system's error.
        source: Errno,
    },
    /// The service manager has handed over something other than one listening socket.
    #[error("the descriptor that the service manager handed over (LISTEN_FDS) cannot be used: {0}")]
    Handed(String),
    /// It gives no thread.
    #[error("the operating system gives the daemon no thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Tells the name of the program that a process of the operating system runs.
pub type Names = Box<dyn Fn(i32) -> Option<String> + Send + Sync>;

/// A kernel that is served at a socket. Dropping it disconnects all clients, which see a removed device.
pub struct Daemon {
    socket: Arc<Socket>,
    accepts: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// The state that the accepting thread, the meeting threads and the drop share.
struct Shared {
    host: Arc<Host>,
    limits: Mutex<Limits>,
    /// How often they have changed.
    changes: AtomicU64,
    names: Names,
    /// Places taken, also by connections that have not sent a `Hello` yet.
    taken: Count,
    users: Users,
    reconnect_delays: Arc<ReconnectDelays>,
    clients: Arc<Clients>,
    stop: AtomicBool,
}

/// How long a client may take to send its `Hello`.
const HELLO_WITHIN: Duration = Duration::from_secs(2);
/// Most bytes of that.
const HELLO_BYTES_MAX: usize = 64;
/// The accepting thread pauses for so long after a failed accept.
const AFTER_FAILURE: Duration = Duration::from_millis(10);
/// A connection that waits out its rest checks so often whether the daemon stops.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

impl Daemon {
    /// Serves a kernel at a path: [`Socket::bind`], then [`Daemon::listen`].
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve(host: Arc<Host>, path: &Path, mode: u32, limits: Limits) -> Result<Daemon, ServeError> {
        Daemon::listen(host, Socket::bind(path, mode)?, limits)
    }

    /// Serves a kernel to the processes that connect to a socket. The daemon owns the socket. It reads the names of programs itself, so a
    /// daemon that has given up files knows none: then [`Daemon::listen_with`].
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn listen(host: Arc<Host>, socket: Socket, limits: Limits) -> Result<Daemon, ServeError> {
        Daemon::listen_with(host, socket, limits, Box::new(name_of))
    }

    /// The same; `names` tells the name of the program that a process of the operating system runs. It may take a moment, for the one
    /// connection whose thread asks.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn listen_with(host: Arc<Host>, socket: Socket, limits: Limits, names: Names) -> Result<Daemon, ServeError> {
        let socket = Arc::new(socket);
        let shared = Arc::new(Shared {
            host,
            limits: Mutex::new(limits),
            changes: AtomicU64::new(0),
            names,
            taken: Count::default(),
            users: Users::default(),
            reconnect_delays: Arc::default(),
            clients: Arc::default(),
            stop: AtomicBool::new(false),
        });
        let accepts = {
            let (socket, shared) = (Arc::clone(&socket), Arc::clone(&shared));
            std::thread::Builder::new().name("accept".into()).spawn(move || shared.accept(&socket))?
        };
        Ok(Daemon { socket, accepts: Some(accepts), shared })
    }

    /// Other limits from now on: for connections that come, and for the clients that are there, which keep what they have above them.
    pub fn limit(&self, limits: Limits) {
        self.shared.users.limit(&limits);
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
        // A user that came between the two has the old limits.
        self.shared.users.limit(&self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.changes.fetch_add(1, Ordering::AcqRel);
        self.shared.clients.all().iter().for_each(|client| client.limit());
    }

    /// How many clients there are, with connections that have not sent a `Hello` yet.
    pub fn clients(&self) -> u64 {
        self.shared.taken.now()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // This wakes the accepting thread, which then sees `stop`.
        let _ = rustix::net::shutdown(&*self.socket, Shutdown::Both);
        if let Some(accepts) = self.accepts.take() {
            // A panic there has been printed by its thread.
            let _ = accepts.join();
        }
        self.shared.host.processes_leave();
        for client in self.shared.clients.all() {
            client.end("the daemon stops");
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, socket: &Socket) {
        while !self.stop.load(Ordering::Acquire) {
            let connection = match rustix::net::accept_with(socket, SocketFlags::CLOEXEC) {
                Ok(connection) => Packets::new(connection),
                Err(_) if self.stop.load(Ordering::Acquire) => return,
                Err(error) => {
                    // Out of descriptors, or the peer has gone again: the next accept may succeed.
                    tracing::warn!("the operating system refused to accept a connection: {error}");
                    std::thread::park_timeout(AFTER_FAILURE);
                    continue;
                }
            };
            let peer = match Peer::of(&connection) {
                Ok(peer) => peer,
                Err(error) => {
                    tracing::warn!("a connection is dropped: the operating system does not name its process: {error}");
                    continue;
                }
            };
            let admitted = self.admit(peer).or_else(|_| {
                // Clients that have gone may still have the places.
                self.clients.reap_gone(None);
                self.admit(peer)
            });
            let (user, places) = match admitted {
                Ok(admitted) => admitted,
                Err(reason) => {
                    refuse(&connection, peer, reason);
                    continue;
                }
            };
            let shared = Arc::clone(self);
            // A silent connection blocks its own thread only; this thread accepts the next.
            let meet = move || shared.meet(connection, peer, user, places);
            if let Err(error) = std::thread::Builder::new().name("meet".into()).spawn(meet) {
                tracing::warn!(
                    pid = peer.pid,
                    uid = peer.uid,
                    "a connection is dropped: the operating system gives no thread: {error}"
                );
            }
        }
    }

    /// Places for a client, or the limit that it would be over.
    fn admit(&self, peer: Peer) -> Result<(Arc<User>, Places), String> {
        let limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let most = limits.processes;
        let of_all = self
            .taken
            .take(most)
            .ok_or_else(|| format!("limit of processes: the daemon serves all {most} that it may (processes)"))?;
        let user = self.users.find(peer.uid, &limits);
        drop(limits);
        let most = user.limits().user.processes;
        let over = || format!("limit of processes: user {} has all {most} that it may have (user.processes)", peer.uid);
        let of_user = user.processes.take(most).ok_or_else(over)?;
        Ok((user, Places { _of_all: of_all, _of_user: of_user }))
    }

    /// Waits as long as this process has to before it is a client again; false: the daemon stops.
    fn rests(&self, peer: Peer) -> bool {
        let rest = self.reconnect_delays.rest_of(peer, Instant::now());
        if !rest.is_zero() {
            let Peer { pid, uid } = peer;
            tracing::debug!(pid, uid, ?rest, "a process waits before it is a client again");
        }
        loop {
            let rest = self.reconnect_delays.rest_of(peer, Instant::now());
            if self.stop.load(Ordering::Acquire) {
                return false;
            }
            if rest.is_zero() {
                return true;
            }
            std::thread::park_timeout(rest.min(BETWEEN_LOOKS));
        }
    }

    /// Reads the `Hello` of a connection, and makes a client of it or refuses it.
    fn meet(&self, connection: Packets, peer: Peer, user: Arc<User>, places: Places) {
        match hello(&connection) {
            Ok(_) if self.host.has_failed() => refuse(&connection, peer, "the kernel has failed".to_owned()),
            Ok(mut brought) => {
                if !self.rests(peer) {
                    return refuse(&connection, peer, "the daemon stops".to_owned());
                }
                // Asked of the operating system, which knows the process by the connection: nothing that the process says.
                brought.name = (self.names)(peer.pid).unwrap_or_default();
                let told = Told { pushed: 0, pushes: Vec::new(), response: Response::Done };
                if connection.send(&encode(&told, Vec::new()), &[]).is_err() {
                    return;
                }
                let changes = self.changes.load(Ordering::Acquire);
                let with = (&self.clients, &self.reconnect_delays);
                match Client::begin(&self.host, user, peer, places, connection, brought, with) {
                    Ok(client) => {
                        // The limits changed while it was none of the clients yet.
                        if self.changes.load(Ordering::Acquire) != changes {
                            client.limit();
                        }
                        // The dropping thread sees this client in the list, or this thread sees its `stop`. A failing kernel ends the
                        // processes that it knows by then.
                        if self.stop.load(Ordering::Acquire) {
                            client.end("the daemon stops");
                        } else if self.host.has_failed() {
                            client.end("the kernel has failed");
                        }
                    }
                    Err(error) => tracing::warn!(pid = peer.pid, uid = peer.uid, "{error}"),
                }
            }
            Err(reason) => refuse(&connection, peer, reason),
        }
    }
}

/// The first message, which brings the stream, and perhaps a descriptor by which the daemon holds the client's stores.
fn hello(connection: &Packets) -> Result<Brought, String> {
    let first = connection.receive_patiently(HELLO_WITHIN, HELLO_BYTES_MAX, 2);
    let (bytes, files) = first.map_err(|error| error.to_string())?;
    let files = files.all().map_err(|error| format!("the daemon is out of descriptors for it: {error}"))?;
    match decode(&bytes) {
        Ok(Hello { magic: Hello::MAGIC, version: VERSION }) => {
            let mut files = files.into_iter();
            let stream = Packets::new(files.next().ok_or("its first message lacks the descriptor of its stream")?);
            // Where this process may not hold stores, it asks its clients to hold them, whether they bring a descriptor or not.
            let stores = files.next().filter(|_| StoresElsewhere::ours().is_some());
            let stores = stores.map(StoresElsewhere::given).transpose();
            let stores = stores.map_err(|reason| format!("its second descriptor: {reason}"))?;
            let process = process_of(connection.as_fd())
                .map_err(|error| format!("the daemon cannot find its process: {error}"))?;
            Ok(Brought { stream, stores, process, name: String::new() })
        }
        Ok(Hello { magic: Hello::MAGIC, version }) => Err(format!(
            "it speaks version {version} of the protocol, and the daemon {VERSION}; use programs of one version"
        )),
        _ => Err("its first message is not that of a client".into()),
    }
}

fn refuse(connection: &Packets, peer: Peer, reason: String) {
    tracing::warn!(pid = peer.pid, uid = peer.uid, reason, "a client is refused");
    let told = Told { pushed: 0, pushes: Vec::new(), response: Response::Refused(reason) };
    // It may have gone already.
    let _ = connection.send(&encode(&told, Vec::new()), &[]);
}
