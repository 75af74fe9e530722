//! One client: a process to the kernel, its lanes and its stream.

pub mod clients;
pub mod hangup;
mod lane;
mod lanes;
pub mod mappings;
mod posts;
mod reaping;
mod refusals;
mod reply_budget;
pub mod stream;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use dxgk_host::{AccountId, Admission, FilePiece, Host, RemoteProcess};
use kmt_calls::{DoorbellAddress, MappingId, Notification, ProcessIdentity, Reply};
use kmt_link::socket::{Lost, Packets, Placed, Push, Said};
use shared_words::{LentFile, StoresElsewhere};
use wddm_types::{PAGE_BYTES, ProcessId};

use crate::client::clients::Clients;
use crate::client::hangup::{Hangup, LEFT_TO_DO, Signs};
use crate::client::lanes::Lanes;
use crate::client::posts::Posts;
use crate::client::reaping::{Asleep, Reaping};
use crate::client::refusals::Refusals;
use crate::client::stream::Stream;
use crate::limits::user::{Count, Part, Place, User};
use crate::limits::{ProcessLimits, UNLIMITED};
use crate::listener::peer::Peer;
use crate::listener::reconnect_delay::ReconnectDelays;

/// A client.
pub(crate) struct Client {
    pub host: Arc<Host>,
    pub peer: Peer,
    speaker: Arc<Speaker>,
    process: ProcessId,
    user: Arc<User>,
    lanes: Lanes,
    /// Bytes of its messages that are in memory.
    messages: Count,
    refusals: Refusals,
    /// Posted calls: those that get no response.
    pub posts: Posts,
    ended: AtomicBool,
    /// By which it is seen that it has gone; set before its first call.
    signs: OnceLock<Arc<Signs>>,
    reaping: Reaping,
    clients: Arc<Clients>,
    reconnect_delays: Arc<ReconnectDelays>,
    /// Until the kernel has reaped its objects.
    places: Mutex<Option<Places>>,
}

/// A client's places among all, and among those of its user.
#[derive(Debug)]
pub(crate) struct Places {
    pub _of_all: Place,
    pub _of_user: Place,
}

/// The descriptors that a client has brought with its first message.
pub(crate) struct Brought {
    /// The daemon's messages to the client go here.
    pub stream: Packets,
    /// The daemon holds the client's stores through this.
    pub stores: Option<StoresElsewhere>,
    /// Readable when its process has died.
    pub process: Option<OwnedFd>,
    /// The name of its program, from the operating system; empty: it does not tell.
    pub name: String,
}

/// Where a message of a client is, until it has been answered.
pub(crate) struct MessageRoom<'a> {
    client: &'a Client,
    own: Part,
    together: Part,
}

impl MessageRoom<'_> {
    /// Room for so many bytes more.
    ///
    /// # Errors
    /// The limit that they would be over.
    pub fn grow(&mut self, more: usize) -> Result<(), String> {
        let limits = self.client.user.limits();
        let (own, together) = (limits.process.message_bytes, limits.user.message_bytes);
        if !self.own.grow(more as u64, own) {
            return Err(format!(
                "limit of messages: those of the process would have more than {own} bytes (process.messages)"
            ));
        }
        if !self.together.grow(more as u64, together) {
            let uid = self.client.peer.uid;
            return Err(format!(
                "limit of messages: those of user {uid} would have more than {together} bytes (user.messages)"
            ));
        }
        Ok(())
    }
}

/// The kernel sends its messages to the client through this.
struct Speaker {
    stream: Stream,
    /// The client may omit its own barrier when it rings. The daemon finds out when the client is about to have its first doorbell.
    rare_pays: OnceLock<bool>,
}

impl RemoteProcess for Speaker {
    fn shows(&self, mapping: MappingId, size_bytes: u64, pieces: Vec<FilePiece>) {
        self.stream.push_shows(mapping, size_bytes, pieces);
    }

    fn protected(&self, mapping: MappingId) {
        self.stream.push_protected(mapping);
    }

    fn gone(&self, mapping: MappingId) {
        self.stream.push_gone(mapping);
    }

    fn doorbell(&self, address: DoorbellAddress, page: Arc<LentFile>) {
        let push = Push::Doorbell { address, rare_pays: *self.rare_pays.get().unwrap_or(&false) };
        let bytes = page.bytes();
        self.stream.push(push, vec![FilePiece { file: page, offset: 0, bytes }]);
    }

    fn doorbell_gone(&self, address: DoorbellAddress) {
        self.stream.push(Push::DoorbellGone(address), Vec::new());
    }

    fn notify(&self, notification: Notification) {
        self.stream.push(Push::Notify(notification), Vec::new());
    }

    fn traces(&self, on: bool) {
        self.stream.push(Push::Traces(on), Vec::new());
    }

    fn lost(&self, reason: &str) {
        // The thread that reads the client's answers sees the closed stream, and ends the client.
        self.stream.end(reason);
    }
}

impl Client {
    /// Makes the process known to the kernel, and starts the threads that serve it until it goes.
    ///
    /// # Errors
    /// When the operating system gives no thread: then the client has been ended already.
    pub fn begin(
        host: &Arc<Host>,
        user: Arc<User>,
        peer: Peer,
        places: Places,
        first: Packets,
        brought: Brought,
        (clients, reconnect_delays): (&Arc<Clients>, &Arc<ReconnectDelays>),
    ) -> std::io::Result<Arc<Client>> {
        let limits = user.limits();
        let stream = Stream::new(brought.stream, Arc::clone(&user), brought.stores);
        let speaker = Arc::new(Speaker { stream, rare_pays: OnceLock::new() });
        let (process, together) = (limits.process.quota(), limits.user.quota());
        let admission = Admission { account: AccountId(peer.uid), process, together };
        let process = host.process_elsewhere(Arc::clone(&speaker) as Arc<dyn RemoteProcess>, admission);
        grant(host, process, &limits.process);
        let identity = ProcessIdentity::new(peer.pid.unsigned_abs(), &brought.name);
        tracing::info!(process = process.0, pid = peer.pid, uid = peer.uid, name = identity.name, "a client");
        host.identify_process(process, identity);
        let client = Arc::new(Client {
            host: Arc::clone(host),
            peer,
            speaker,
            process,
            user,
            lanes: Lanes::default(),
            messages: Count::default(),
            refusals: Refusals::default(),
            posts: Posts::default(),
            ended: AtomicBool::new(false),
            signs: OnceLock::new(),
            reaping: Reaping::default(),
            clients: Arc::clone(clients),
            reconnect_delays: Arc::clone(reconnect_delays),
            places: Mutex::new(Some(places)),
        });
        clients.add(&client);
        match client.run(first, brought.process) {
            Ok(()) => Ok(client),
            Err(error) => {
                client.end(&error.to_string());
                Err(error)
            }
        }
    }

    fn run(self: &Arc<Self>, first: Packets, process: Option<OwnedFd>) -> std::io::Result<()> {
        self.spawn("stream", |client| {
            let holds = |mapping| client.host.mapping_holds(client.process, mapping);
            client.end(&client.speaker.stream.send_all(&holds));
        })?;
        let lane = self.add_lane(first).map_err(std::io::Error::other)?;
        let signs = Arc::new(Signs::new(Arc::clone(&lane), process));
        let hangup = Hangup::new(Arc::clone(&signs));
        // Set once, before any lane is served.
        let _ = self.signs.set(signs);
        self.spawn("answers", move |client| client.hear(hangup))?;
        self.spawn("lane", move |client| lane::serve(client, &lane))
    }

    /// Its user's limits have changed: the kernel enforces them from now on, as the daemon does with each look. What the client has above
    /// them stays its own.
    pub fn limit(&self) {
        let limits = self.user.limits();
        self.host.readmit(self.process, limits.process.quota(), limits.user.quota());
        grant(&self.host, self.process, &limits.process);
    }

    /// A thread of this client.
    pub fn spawn(self: &Arc<Self>, what: &str, run: impl FnOnce(&Arc<Client>) + Send + 'static) -> std::io::Result<()> {
        let client = Arc::clone(self);
        let name = format!("{what} {}", self.process.0);
        std::thread::Builder::new().name(name).spawn(move || run(&client)).map(drop)
    }

    /// The client is about to have a doorbell: where the host can run on every processor, the client may omit its own barrier when it rings.
    /// The caller does not hold the kernel's lock, because the host waits here until it has run on every processor.
    pub fn will_ring(&self) {
        self.speaker.rare_pays.get_or_init(|| self.host.run_everywhere());
    }

    /// Takes a lane over.
    ///
    /// # Errors
    /// The limit that it would be over.
    pub fn add_lane(&self, lane: Packets) -> Result<Arc<Packets>, String> {
        let (own, together) = (self.user.limits().process.lanes, self.user.limits().user.lanes);
        let over = || {
            format!(
                "limit of lanes: the processes of user {} have all {together} that they may have (user.lanes)",
                self.peer.uid
            )
        };
        self.lanes.add(lane, own, || self.user.lanes.take(together).ok_or_else(over))
    }

    /// Room for a message, which is none as long as it fits its lane's packet.
    pub fn message_room(&self) -> MessageRoom<'_> {
        MessageRoom { client: self, own: self.messages.part(), together: self.user.messages.part() }
    }

    /// Something was refused because of a limit.
    pub fn log_refusal(&self, what: &str, reason: &str) {
        if let Some(before) = self.refusals.note(Instant::now()) {
            let Peer { pid, uid } = self.peer;
            tracing::warn!(process = self.process.0, pid, uid, what, unlogged = before, "{reason}");
        }
    }

    /// The client's process, as the kernel names it.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// Whether it is told nothing more.
    pub fn has_ended(&self) -> bool {
        self.speaker.stream.has_ended()
    }

    /// It says where it has mappings.
    pub fn placed(&self, placed: &[Placed]) {
        self.speaker.stream.placed(placed);
    }

    /// It could not take these files.
    pub fn lost(&self, lost: &[Lost]) {
        self.speaker.stream.lost(lost);
    }

    /// The calling thread makes calls of this client from now on, and sends their responses.
    pub fn serves_here(&self) {
        self.speaker.stream.serves_here();
    }

    /// How many messages there have been for it; and the last of them, if they are to go `with` the response that says so.
    pub fn pushed(&self, with: bool) -> (u64, Vec<Push>) {
        self.speaker.stream.pushed(with)
    }

    /// No response follows soon: messages that waited for one go on the stream.
    pub fn let_pushes_go(&self) {
        self.speaker.stream.let_go();
    }

    /// Sends the pages of the words that an answer names ahead of the answer.
    ///
    /// # Errors
    /// When one lies in no file, why: descriptors or mappings are used up.
    pub fn lend_words(&self, reply: &Reply) -> Result<(), String> {
        for word in reply.words() {
            let lent = self.host.lent_word_to(self.process, word).ok_or_else(|| {
                "the daemon is out of descriptors or mappings for the words of the call; raise its limits (LimitNOFILE=)"
                    .to_owned()
            })?;
            self.speaker.stream.push_page(word.0 / PAGE_BYTES, lent);
        }
        Ok(())
    }

    fn hear(&self, mut hangup: Hangup) {
        loop {
            if let Err(reason) = hangup.or_says(self.speaker.stream.as_fd()) {
                return self.end(reason);
            }
            match self.speaker.stream.hear() {
                Ok(Said::Holds(mapping)) => {
                    self.speaker.stream.answered(mapping);
                    self.host.mapping_holds(self.process, mapping);
                }
                Ok(Said::Rung(address)) => self.host.doorbell_rung(self.process, address),
                Err(error) => return self.end(&error.to_string()),
            }
        }
    }

    /// Clients that have gone are reaped before this one asks for something of others.
    pub fn reaches_others(&self) {
        let _asleep = self.sleeps();
        self.clients.reap_gone(Some(self));
    }

    /// The thread of a lane is about to sleep in a call.
    pub fn sleeps(&self) -> Asleep<'_> {
        self.reaping.sleeps()
    }

    /// Reaps the client if it has gone: the kernel has its objects no more when this returns. The requests that it made before come first, as
    /// long as they take no longer than [`LEFT_TO_DO`]. No answer of a call that sleeps is waited for.
    pub fn reap_if_gone(&self) {
        if !self.signs.get().is_some_and(|signs| signs.are_there()) {
            return;
        }
        if !self.reaping.wait(LEFT_TO_DO, |asleep| self.lanes.none_looks(asleep)) {
            self.end("it has gone");
            // Another thread may have begun to end it.
            self.reaping.wait_ended();
        }
    }

    /// Ends the client, which has disconnected or is being disconnected: to the kernel its process has died.
    pub fn end(&self, reason: &str) {
        let reason = self.speaker.stream.end(reason);
        self.posts.end();
        self.lanes.close();
        if !self.ended.swap(true, Ordering::AcqRel) {
            let Peer { pid, uid } = self.peer;
            tracing::info!(process = self.process.0, pid, uid, reason, "a client has gone");
            let reaps = self.reaping.reaps();
            let took = self.host.process_died(self.process);
            drop(self.places.lock().unwrap_or_else(PoisonError::into_inner).take());
            drop(reaps);
            let percent = self.user.limits().process.clearing_percent;
            self.reconnect_delays.cleared(self.peer, took, percent, Instant::now());
        }
    }
}

/// The right to raise priorities, and the budget.
fn grant(host: &Host, process: ProcessId, limits: &ProcessLimits) {
    host.allow_raised_priority(process, limits.raise_priority);
    host.set_process_budget(process, Some(limits.budget_bytes).filter(|bytes| *bytes != UNLIMITED));
}
