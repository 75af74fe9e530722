//! The socket: who may connect, and what becomes of whoever does.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dxgk_host::Host;
use kmt_calls::wire::{decode, encode};
use kmt_link::socket::{Hello, Packets, Response, Told, VERSION};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags};
use shared_words::StoresElsewhere;

use crate::client::{Brought, Client, Places};
use crate::departures::Departures;
use crate::limits::Limits;
use crate::peer::{Peer, process_of};
use crate::socket::Socket;
use crate::user::{Count, User, Users};

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
        /// What stands there.
        what: &'static str,
    },
    /// The operating system refuses.
    #[error("{path}: {source}")]
    Socket {
        /// The socket.
        path: String,
        /// What it says.
        source: Errno,
    },
    /// What a service manager has handed over is no socket to serve at.
    #[error("the descriptor that the service manager handed over (LISTEN_FDS) cannot be used: {0}")]
    Handed(String),
    /// It gives no thread.
    #[error("the operating system gives the daemon no thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A kernel that is served at a socket. Dropping it ends all clients; they see a kernel that has gone.
pub struct Daemon {
    socket: Arc<Socket>,
    accepts: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// What accepting, meeting and stopping have in common.
struct Shared {
    host: Arc<Host>,
    limits: Limits,
    /// Places taken, also by those that have not said yet who they are.
    taken: Count,
    users: Users,
    departures: Arc<Departures>,
    clients: Mutex<Vec<Weak<Client>>>,
    stop: AtomicBool,
}

/// How long a client may take to say who it is.
const HELLO_WITHIN: Duration = Duration::from_secs(2);
/// Most bytes of that.
const HELLO_BYTES_MAX: usize = 64;
/// How long nobody is accepted when that has failed.
const AFTER_FAILURE: Duration = Duration::from_millis(10);
/// Whoever waits to be met looks so often whether the daemon stops.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

impl Daemon {
    /// Serves a kernel at a path: [`Socket::bind`], then [`Daemon::listen`].
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve(host: Arc<Host>, path: &Path, mode: u32, limits: Limits) -> Result<Daemon, ServeError> {
        Daemon::listen(host, Socket::bind(path, mode)?, limits)
    }

    /// Serves a kernel to whoever connects to a socket, which goes with the daemon.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn listen(host: Arc<Host>, socket: Socket, limits: Limits) -> Result<Daemon, ServeError> {
        let socket = Arc::new(socket);
        let shared = Arc::new(Shared {
            host,
            limits,
            taken: Count::default(),
            users: Users::default(),
            departures: Arc::default(),
            clients: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let accepts = {
            let (socket, shared) = (Arc::clone(&socket), Arc::clone(&shared));
            std::thread::Builder::new().name("accept".into()).spawn(move || shared.accept(&socket))?
        };
        Ok(Daemon { socket, accepts: Some(accepts), shared })
    }

    /// How many clients there are, with those that have not said yet who they are.
    pub fn clients(&self) -> u64 {
        self.shared.taken.now()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // Whoever waits for a connection is told that none comes.
        let _ = rustix::net::shutdown(&*self.socket, Shutdown::Both);
        if let Some(accepts) = self.accepts.take() {
            // A panic there has been printed by its thread.
            let _ = accepts.join();
        }
        for client in self.shared.clients().drain(..).filter_map(|client| client.upgrade()) {
            client.end("the daemon stops");
        }
    }
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, Vec<Weak<Client>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, socket: &Socket) {
        while !self.stop.load(Ordering::Acquire) {
            let connection = match rustix::net::accept_with(socket, SocketFlags::CLOEXEC) {
                Ok(connection) => Packets::new(connection),
                Err(_) if self.stop.load(Ordering::Acquire) => return,
                Err(error) => {
                    // Out of descriptors, or a peer that has gone again: the next may come to something.
                    tracing::warn!("nobody was accepted: {error}");
                    std::thread::park_timeout(AFTER_FAILURE);
                    continue;
                }
            };
            let peer = match Peer::of(&connection) {
                Ok(peer) => peer,
                Err(error) => {
                    tracing::warn!("somebody of whom nothing is known: {error}");
                    continue;
                }
            };
            let (user, places) = match self.admit(peer) {
                Ok(admitted) => admitted,
                Err(reason) => {
                    refuse(&connection, peer, reason);
                    continue;
                }
            };
            let shared = Arc::clone(self);
            // One that says nothing keeps nobody else from being accepted.
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
        let most = self.limits.processes;
        let of_all = self
            .taken
            .take(most)
            .ok_or_else(|| format!("limit of processes: the daemon serves all {most} that it may (processes)"))?;
        let user = self.users.find(peer.uid, &self.limits);
        let most = user.limits.user.processes;
        let over = || format!("limit of processes: user {} has all {most} that it may have (user.processes)", peer.uid);
        let of_user = user.processes.take(most).ok_or_else(over)?;
        Ok((user, Places { _of_all: of_all, _of_user: of_user }))
    }

    /// Waits as long as this process has to before it is a client again; false: the daemon stops.
    fn rests(&self, peer: Peer) -> bool {
        let rest = self.departures.rest_of(peer, Instant::now());
        if !rest.is_zero() {
            let Peer { pid, uid } = peer;
            tracing::debug!(pid, uid, ?rest, "a process waits before it is a client again");
        }
        loop {
            let rest = self.departures.rest_of(peer, Instant::now());
            if self.stop.load(Ordering::Acquire) {
                return false;
            }
            if rest.is_zero() {
                return true;
            }
            std::thread::park_timeout(rest.min(BETWEEN_LOOKS));
        }
    }

    /// Hears who somebody says to be.
    fn meet(&self, connection: Packets, peer: Peer, user: Arc<User>, places: Places) {
        match hello(&connection) {
            Ok(_) if self.host.has_failed() => refuse(&connection, peer, "the kernel has failed".to_owned()),
            Ok(brought) => {
                if !self.rests(peer) {
                    return refuse(&connection, peer, "the daemon stops".to_owned());
                }
                let told = Told { pushed: 0, response: Response::Done };
                if connection.send(&encode(&told, Vec::new()), &[]).is_err() {
                    return;
                }
                match Client::begin(&self.host, user, peer, places, connection, brought, &self.departures) {
                    Ok(client) => {
                        let mut clients = self.clients();
                        clients.retain(|client| client.strong_count() > 0);
                        clients.push(Arc::downgrade(&client));
                        drop(clients);
                        // Whoever stops looks at the list after this, or is seen here; a kernel that fails ends whom it knows by then.
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

/// The first message, which brings the stream, and perhaps that by which stores are held.
fn hello(connection: &Packets) -> Result<Brought, String> {
    let first = connection.receive_patiently(HELLO_WITHIN, HELLO_BYTES_MAX, 2);
    let (bytes, files) = first.map_err(|error| error.to_string())?;
    match decode(&bytes) {
        Ok(Hello { magic: Hello::MAGIC, version: VERSION }) => {
            let mut files = files.into_iter();
            let stream = Packets::new(files.next().ok_or("its first message lacks the descriptor of its stream")?);
            // Where this process may not hold stores its clients are asked to, whatever they bring.
            let stores = files.next().filter(|_| StoresElsewhere::ours().is_some());
            let stores = stores.map(StoresElsewhere::given).transpose();
            let stores = stores.map_err(|reason| format!("its second descriptor: {reason}"))?;
            let process = process_of(connection.as_fd())
                .map_err(|error| format!("the daemon cannot find its process: {error}"))?;
            Ok(Brought { stream, stores, process })
        }
        Ok(Hello { magic: Hello::MAGIC, version }) => Err(format!(
            "it speaks version {version} of the protocol, and the daemon {VERSION}; use programs of one version"
        )),
        _ => Err("its first message is not that of a client".into()),
    }
}

fn refuse(connection: &Packets, peer: Peer, reason: String) {
    tracing::warn!(pid = peer.pid, uid = peer.uid, reason, "a client is refused");
    let told = Told { pushed: 0, response: Response::Refused(reason) };
    // It may have gone already.
    let _ = connection.send(&encode(&told, Vec::new()), &[]);
}
