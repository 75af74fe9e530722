//! The link of one process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use kmt_calls::wire::encode;
use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, QueuedFence, Refusal, Reply, SectionCall};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use shared_words::{Lineage, Memory, ReadOnlyWord, StoresElsewhere, own_threads};
use wddm_types::{PAGE_BYTES, RawHandle, WordAddress};

use super::hearing::{Hearing, Page, listen};
use super::lanes::{Heard, Lanes, no_descriptor, response};
use super::message::{CALLS_MAX, Hello, QUEUED_MAX, Request, Response};
use super::packet::PacketError;
use super::packets::Packets;
use super::unasked::{gone, scarce, unasked};
use crate::{CpuMapping, DoorbellPage, Link, OrderedAnswer, OwnCommands, OwnEvents, WritableWord};

/// Why there is no kernel to speak to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No kernel listens there, or this process may not speak to it.
    #[error("cannot connect to the kernel at {path}: {source}")]
    NoKernel {
        /// The socket.
        path: String,
        /// The operating system's error.
        source: rustix::io::Errno,
    },
    /// The kernel refuses this process.
    #[error("the daemon refuses this process: {0}")]
    Refused(String),
    /// The operating system gives this process not all that a connection takes: descriptors, or memory.
    #[error("the operating system does not give this process what a connection takes: {0}")]
    NoConnection(PacketError),
    /// The program that listens there speaks another language.
    #[error("the program that listens there does not speak this version of the protocol: {0}")]
    NoKernelOfThisVersion(PacketError),
}

impl From<PacketError> for ConnectError {
    fn from(error: PacketError) -> ConnectError {
        match error {
            PacketError::System(_) | PacketError::Memory(_) => ConnectError::NoConnection(error),
            _ => ConnectError::NoKernelOfThisVersion(error),
        }
    }
}

/// The kernel's response, and the descriptor that comes with it; the error: this process has none left for it.
type Answered = (Response, Result<Option<OwnedFd>, Errno>);

/// A process's way to a kernel in another process. Dropping it is the process's death, as far as that kernel is concerned.
#[derive(Debug)]
pub struct SocketLink {
    lanes: Lanes,
    /// The process that connected: its forked children are others.
    lineage: Lineage,
    stream: Arc<Packets>,
    hearing: Arc<Hearing>,
    listener: Option<JoinHandle<()>>,
}

impl SocketLink {
    /// Connects to the kernel that listens at this path.
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// When the operating system gives no thread.
    pub fn connect(path: &Path) -> Result<Arc<SocketLink>, ConnectError> {
        let no_kernel = |source| ConnectError::NoKernel { path: path.display().to_string(), source };
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(no_kernel)?;
        let address = SocketAddrUnix::new(path).map_err(no_kernel)?;
        let ready = Ready::new()?;
        rustix::net::connect(&socket, &address).map_err(no_kernel)?;
        ready.over(socket)
    }

    /// The same over a connection that the caller has made.
    ///
    /// # Errors
    /// See [`ConnectError`].
    ///
    /// # Panics
    /// When the operating system gives no thread.
    pub fn over(socket: OwnedFd) -> Result<Arc<SocketLink>, ConnectError> {
        Ready::new()?.over(socket)
    }

    /// The kernel's events about this process since it looked last. The first look begins to keep them, in a ring of bounded size.
    ///
    /// # Errors
    /// `DEVICE_REMOVED` when the kernel has gone.
    pub fn own_events(&self) -> Result<OwnEvents, Refusal> {
        match self.ask(Request::OwnEvents) {
            Ok(Response::OwnEvents(events)) => Ok(events),
            Ok(_) => Err(gone("unexpected response type from the daemon".into())),
            Err(error) => Err(unasked(error)),
        }
    }

    /// The page in which a word lies.
    fn page(&self, address: WordAddress) -> Page {
        self.hearing.page(address.0 / PAGE_BYTES).expect("a word that an answer named")
    }

    /// Asks, and hears what the kernel had said before it answered.
    fn ask(&self, request: Request) -> Result<Response, PacketError> {
        self.ask_with(request, &[]).map(|(response, _)| response)
    }

    /// The same with descriptors.
    fn ask_with(&self, request: Request, files: &[BorrowedFd<'_>]) -> Result<Answered, PacketError> {
        if !self.lineage.is_here() {
            return Err(PacketError::Forked);
        }
        let asked = match request {
            Request::Now | Request::FencesQueued { .. } => self.lanes.ask_shortly(request),
            _ => self.lanes.ask(request, files),
        };
        self.take(asked)
    }

    /// Takes a response, when the messages that the kernel had before it have been carried out. No response may be left untaken: messages on the
    /// stream wait for those that it brings.
    fn take(&self, asked: Result<Heard, PacketError>) -> Result<Answered, PacketError> {
        if let Err(why @ (PacketError::Malformed(_) | PacketError::Closed)) = &asked {
            // There may have been messages in it.
            self.give_up(why);
        }
        let heard = asked.and_then(|(told, file)| {
            self.hearing.with_response(told.pushes, told.pushed, &self.stream)?;
            match self.hearing.up_to(told.pushed) {
                true => Ok((told.response, file)),
                false => Err(PacketError::Closed),
            }
        });
        heard.map_err(|error| self.hearing.blamed(error))
    }

    /// The answer of a call, as the caller gets it: what names memory of which this process could not take the file is taken back and refused.
    fn whole(
        &self,
        undo: impl FnOnce(&Reply) -> Option<Call>,
        answer: Result<Reply, Refusal>,
    ) -> Result<Reply, Refusal> {
        let reply = answer?;
        if !self.hearing.lacks(&reply) {
            return Ok(reply);
        }
        if let Some(undo) = undo(&reply) {
            // The kernel may have gone meanwhile, and all that was made with it.
            let _ = self.ask(Request::Call(undo));
        }
        Err(scarce(format!("{}; the call was taken back", no_descriptor(Errno::MFILE))))
    }

    /// No more messages are heard.
    fn give_up(&self, why: &PacketError) {
        self.hearing.end(why);
        self.stream.close();
    }
}

/// The ends of a process's stream, made before it connects: a client that has connected is to say soon who it is.
struct Ready {
    stream: Packets,
    /// The kernel's end of the stream.
    theirs: OwnedFd,
    /// That by which its stores are held, where the operating system holds any.
    stores: Option<BorrowedFd<'static>>,
}

impl Ready {
    fn new() -> Result<Ready, PacketError> {
        // Before the kernel hears of this process: the kernel then runs on every processor after the registration (`shared_words::across`).
        shared_words::across::register();
        let (stream, theirs) = Packets::pair().map_err(PacketError::System)?;
        Ok(Ready { stream, theirs, stores: StoresElsewhere::ours() })
    }

    fn over(self, socket: OwnedFd) -> Result<Arc<SocketLink>, ConnectError> {
        let first = Packets::new(socket);
        // A kernel that does not even listen to this may have said why.
        let files: Vec<_> = [Some(self.theirs.as_fd()), self.stores].into_iter().flatten().collect();
        let _ = first.send(&encode(&Hello::OURS, Vec::new()), &files);
        // The kernel's own end is the only one: when it goes, the stream ends.
        drop(self.theirs);
        match response(&first, 0)?.0.response {
            Response::Done => {}
            Response::Refused(reason) => return Err(ConnectError::Refused(reason)),
            _ => return Err(PacketError::Malformed("unexpected response type to the first message").into()),
        }
        let (stream, hearing) = (Arc::new(self.stream), Arc::new(Hearing::default()));
        let listener = {
            let (stream, hearing) = (Arc::clone(&stream), Arc::downgrade(&hearing));
            let listen = move || listen(&stream, &hearing);
            own_threads::spawn("kmt stream", listen).expect("the system gives a thread")
        };
        Ok(Arc::new(SocketLink {
            lanes: Lanes::new(first, Arc::clone(&hearing)),
            lineage: Lineage::here(),
            stream,
            hearing,
            listener: Some(listener),
        }))
    }
}

impl Link for SocketLink {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        let shows = call.shows_memory().then(|| call.clone());
        match self.ask(Request::Call(call)) {
            Ok(Response::Answer(result)) => self.whole(|reply| shows?.undone_by(reply), result),
            Ok(_) => Err(gone("unexpected response type from the daemon".into())),
            Err(error) => Err(unasked(error)),
        }
    }

    fn call_in_order(&self, call: Call, waits: &dyn Fn()) -> OrderedAnswer {
        if !self.lineage.is_here() {
            return (Err(unasked(PacketError::Forked)), None);
        }
        let shows = call.shows_memory().then(|| call.clone());
        let undo = |reply: &Reply| shows?.undone_by(reply);
        match self.take(self.lanes.ask_in_order(call, waits)).map(|(response, _)| response) {
            Ok(Response::AnswerInOrder(result, order)) => (self.whole(undo, result), order),
            // There was no room for the message.
            Ok(Response::Answer(result)) => (self.whole(undo, result), None),
            Ok(_) => (Err(gone("unexpected response type from the daemon".into())), None),
            Err(error) => (Err(unasked(error)), None),
        }
    }

    fn calls(&self, calls: Vec<Call>) -> Vec<Result<Reply, Refusal>> {
        if calls.iter().any(Call::shows_memory) {
            return calls.into_iter().map(|call| self.call(call)).collect();
        }
        let mut results = Vec::with_capacity(calls.len());
        let mut rest = calls.into_iter();
        loop {
            let some: Vec<Call> = rest.by_ref().take(CALLS_MAX).collect();
            let count = some.len();
            if count == 0 {
                return results;
            }
            results.extend(match self.ask(Request::Calls(some)) {
                Ok(Response::Answers(answers)) if answers.len() == count => answers,
                // There was no room for the message.
                Ok(Response::Answer(Err(refusal))) => vec![Err(refusal); count],
                Ok(_) => vec![Err(gone("unexpected response type from the daemon".into())); count],
                Err(error) => vec![Err(unasked(error)); count],
            });
        }
    }

    fn post(&self, call: Call) {
        // A posted call has no answer to read, and a forked child posts none.
        if !self.lineage.is_here() {
            return;
        }
        if let Ok(false) = self.lanes.post(call.clone()) {
            // A posted call's answer is not read.
            let _ = self.take(self.lanes.ask_shortly(Request::Call(call)));
        }
    }

    fn system_memory(&self) -> Option<&Arc<Memory>> {
        None
    }

    fn read_only(&self, address: WordAddress) -> ReadOnlyWord {
        match self.page(address) {
            Page::ReadOnly(memory, offset) => memory.word(offset + address.0 % PAGE_BYTES),
            Page::Writable(memory, offset) => ReadOnlyWord::new(memory, offset + address.0 % PAGE_BYTES),
            // PANIC: as in `writable`.
            Page::Lost => panic!("a word of which the process has no page, at {:#x}", address.0),
        }
    }

    fn writable(&self, address: WordAddress) -> WritableWord {
        match self.page(address) {
            Page::Writable(memory, offset) => WritableWord::new(memory, offset + address.0 % PAGE_BYTES),
            // PANIC: no answer names such a word as one to be written.
            Page::ReadOnly(..) | Page::Lost => panic!("a word that the process may not write, at {:#x}", address.0),
        }
    }

    fn mapping(&self, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        self.hearing.mapping(mapping)
    }

    fn doorbell(&self, address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        self.hearing.doorbell(address)
    }

    fn take_notification(&self) -> Option<Notification> {
        self.hearing.notification(false)
    }

    fn wait_notification(&self) -> Option<Notification> {
        self.hearing.notification(true)
    }

    fn descriptor(&self, handle: u64) -> Result<OwnedFd, Refusal> {
        match self.ask_with(Request::Descriptor(handle), &[]) {
            Ok((Response::Answer(answer), file)) => {
                answer?;
                // The kernel closes the NT handle with the copy that could not come.
                let file = file.map_err(|error| unasked(error.into()))?;
                file.ok_or_else(|| gone("the daemon's response lacks the descriptor".into()))
            }
            Ok(_) => Err(gone("unexpected response type from the daemon".into())),
            Err(error) => Err(unasked(error)),
        }
    }

    fn described(&self, descriptor: BorrowedFd<'_>) -> Result<u64, Refusal> {
        match self.ask_with(Request::Described, &[descriptor]) {
            Ok((Response::Answer(answer), _)) => match answer? {
                Reply::NtHandle(handle) => Ok(handle),
                _ => Err(gone("unexpected response type from the daemon".into())),
            },
            Ok(_) => Err(gone("unexpected response type from the daemon".into())),
            Err(error) => Err(unasked(error)),
        }
    }

    fn section_over(
        &self,
        adapter: RawHandle,
        file: BorrowedFd<'_>,
        offset_bytes: u64,
        size_bytes: u64,
    ) -> Result<Reply, Refusal> {
        let request = Request::SectionOver { adapter, offset_bytes, size_bytes };
        match self.ask_with(request, &[file]) {
            Ok((Response::Answer(answer), _)) => {
                let over = Call::Section(SectionCall::CreateOver { adapter, size_bytes, given: 0 });
                self.whole(|reply| over.undone_by(reply), answer)
            }
            Ok(_) => Err(gone("unexpected response type from the daemon".into())),
            Err(error) => Err(unasked(error)),
        }
    }

    fn own_commands(&self) -> Result<OwnCommands, Refusal> {
        match self.ask(Request::OwnCommands) {
            Ok(Response::OwnCommands(commands)) => Ok(commands),
            Ok(_) => Err(gone("unexpected response type from the daemon".into())),
            Err(error) => Err(unasked(error)),
        }
    }

    fn now_ns(&self) -> u64 {
        match self.ask(Request::Now) {
            Ok(Response::Now(now_ns)) => now_ns,
            // Without a kernel no time passes; calls that wait for it are refused.
            _ => 0,
        }
    }

    fn traces_fences(&self) -> bool {
        self.hearing.traces()
    }

    fn fences_queued(&self, queue: RawHandle, queued: &[QueuedFence]) {
        for some in queued.chunks(QUEUED_MAX) {
            // The kernel has heard of it before this process rings. One that has gone has no tool, either.
            let _ = self.ask(Request::FencesQueued { queue, queued: some.to_vec() });
        }
    }
}

impl Drop for SocketLink {
    fn drop(&mut self) {
        // A child shares the parent's connection, and the thread that listens on it runs in the parent.
        if !self.lineage.is_here() {
            return;
        }
        self.give_up(&PacketError::Closed);
        if let Some(listener) = self.listener.take() {
            // A panic there has been printed by its thread.
            let _ = listener.join();
        }
    }
}
