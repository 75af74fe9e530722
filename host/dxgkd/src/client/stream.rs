//! The daemon's messages to a client, in order. The kernel pushes a message under its lock, where no thread may wait for a client: a message
//! that the socket takes at once is sent at once; a thread of the client's own sends the rest, and also checks that the client answers in
//! time. A message that a call of the client causes goes with the response to that call where it can (`with_response`). That thread holds the client's stores, too, where the client has lent the means: the operating system call may take long, while
//! the client changes its mappings itself.

mod with_response;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use dxgk_host::FilePiece;
use kmt_calls::MappingId;
use kmt_calls::wire::encode;
use kmt_link::socket::{FILES_MAX, FileOf, Lost, PacketError, Packets, PieceOf, Placed, Push, Pushed, Said};
use rustix::io::Errno;
use shared_words::{ClientAccess, LentFile, LentPages, StoresElsewhere};
use wddm_types::PAGE_BYTES;

use self::with_response::WithResponse;
use crate::client::mappings::{Mappings, Placement};
use crate::limits::OfUser;
use crate::limits::user::{Place, User};

/// The sending thread's tasks, in order.
enum Item {
    Say(Message),
    /// Stores into a mapping are to be held.
    Hold(MappingId, Placement),
}

/// A message and the files that go with it.
struct Message {
    push: Pushed,
    files: Vec<FilePiece>,
    /// Among the messages that the clients of its user have not heard.
    _place: Place,
}

/// Messages to be sent, and changes that the client must answer for.
pub(crate) struct Stream {
    packets: Packets,
    state: Mutex<StreamState>,
    said: Condvar,
    user: Arc<User>,
    /// The daemon holds the client's stores through this, if the client has brought it.
    stores: Option<StoresElsewhere>,
}

#[derive(Default)]
struct StreamState {
    /// How many messages there have been.
    pushed: u64,
    waiting: VecDeque<Item>,
    with_response: WithResponse,
    /// The sending thread sleeps: the next message may be sent at once.
    idle: bool,
    /// When the sending thread next checks by itself whether the client has answered.
    looks_at: Option<Instant>,
    /// Files of these.
    waiting_files: u64,
    mappings: Mappings,
    /// The pages of words that the client has, and their files; this does not keep a file that is not lent any more.
    pages: BTreeMap<u64, Weak<LentFile>>,
    /// Its arenas by their numbers; `None`: it could not take the file, and is sent one again when it needs it.
    arenas: Vec<Option<Arc<LentFile>>>,
    /// Nothing more is said, for this reason.
    ended: Option<String>,
}

impl Stream {
    /// A stream to a client that leaves no more unheard, and takes no longer to answer, than its user's limits say.
    pub fn new(packets: Packets, user: Arc<User>, stores: Option<StoresElsewhere>) -> Stream {
        Stream { packets, state: Mutex::default(), said: Condvar::new(), user, stores }
    }

    fn state(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing more is said.
    pub fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Notes a message.
    pub fn push(&self, push: Push, files: Vec<FilePiece>) {
        self.push_locked(&mut self.state(), push, files);
    }

    fn push_locked(&self, state: &mut StreamState, push: Push, files: Vec<FilePiece>) {
        if state.ended.is_some() {
            return;
        }
        match self.room(state, files.len() as u64) {
            Err(reason) => {
                state.ended = Some(reason);
                state.waiting.clear();
                state.with_response.take();
                // The thread that reads this client's answers sees the closed stream, and ends the client.
                self.packets.close();
                self.said.notify_one();
            }
            Ok(place) => {
                let push = Pushed { before: state.pushed, push };
                state.pushed += 1;
                let message = Message { push, files, _place: place };
                let at_once = state.idle && state.waiting.is_empty();
                let unkept = if at_once { state.with_response.keep(message) } else { Some(message) };
                if let Some(message) = unkept {
                    let kept = state.with_response.take();
                    kept.into_iter().chain([message]).for_each(|message| self.send_or_queue(state, message));
                }
            }
        }
    }

    /// Sends a message now, or has the sending thread do it behind all that wait.
    fn send_or_queue(&self, state: &mut StreamState, message: Message) {
        if state.idle && state.waiting.is_empty() && self.is_sent(&message) {
            return;
        }
        state.waiting_files += message.files.len() as u64;
        state.waiting.push_back(Item::Say(message));
        self.said.notify_one();
    }

    /// Whether the client's socket has taken a message. Of one that has gone the thread that sends finds out.
    fn is_sent(&self, message: &Message) -> bool {
        let files: Vec<_> = message.files.iter().map(|piece| piece.file.as_fd()).collect();
        self.packets.send_at_once(&encode(&message.push, Vec::new()), &files).unwrap_or(false)
    }

    /// A place for another message with so many files, or the limit that it would be over.
    fn room(&self, state: &StreamState, files: u64) -> Result<Place, String> {
        let OfUser { process, user } = self.user.limits();
        let (unheard, named) = (state.waiting.len() as u64, state.waiting_files);
        if unheard >= process.unheard {
            return Err(format!(
                "limit of unheard messages: {unheard} wait for the process, which may leave {} unheard (process.unheard)",
                process.unheard
            ));
        }
        if named + files > process.descriptors {
            let most = process.descriptors;
            return Err(format!(
                "limit of descriptors: unheard messages name {} files, and the process may have {most} (process.descriptors)",
                named + files
            ));
        }
        let over = || {
            format!(
                "limit of unheard messages: the processes of its user leave all {} unheard that they may (user.unheard)",
                user.unheard
            )
        };
        self.user.unheard.take(user.unheard).ok_or_else(over)
    }

    /// Notes that a page of words may be mapped, unless the client has it.
    pub fn push_page(&self, page: u64, lent: LentPages) {
        let mut state = self.state();
        let LentPages { file, file_offset, offset: begins, .. } = lent;
        let now = Arc::downgrade(&file);
        if state.pages.insert(page, Weak::clone(&now)).is_some_and(|known| known.ptr_eq(&now)) {
            return;
        }
        let offset = file_offset + (page * PAGE_BYTES - begins);
        let writable = file.access() == ClientAccess::ReadWrite;
        let file_bytes = file.bytes();
        let (file, files) = match file.is_arena() {
            true => (self.arena(&mut state, &file), Vec::new()),
            false => (FileOf::Message(0), vec![FilePiece { file, offset, bytes: PAGE_BYTES }]),
        };
        self.push_locked(&mut state, Push::Page { page, file, file_bytes, offset, writable }, files);
    }

    /// Notes what a mapping shows, in as many messages as its files need. The client must answer for a mapping that showed something before.
    pub fn push_shows(&self, mapping: MappingId, size_bytes: u64, pieces: Vec<FilePiece>) {
        let mut state = self.state();
        if state.mappings.shows(mapping, size_bytes, Instant::now()) {
            self.expects(&state);
        }
        let mut rest = pieces.into_iter().peekable();
        loop {
            let (mut files, mut sizes, mut parts): (Vec<FilePiece>, Vec<u64>, Vec<PieceOf>) = Default::default();
            while let Some(piece) = rest.next_if(|_| files.len() < FILES_MAX && parts.len() < PARTS_MAX) {
                let file = if piece.file.is_arena() {
                    self.arena(&mut state, &piece.file)
                } else {
                    let known = files.iter().position(|known| Arc::ptr_eq(&known.file, &piece.file));
                    let place = known.unwrap_or_else(|| {
                        sizes.push(piece.file.bytes());
                        files.push(piece.clone());
                        files.len() - 1
                    });
                    // CAST: at most FILES_MAX.
                    FileOf::Message(place as u32)
                };
                parts.push(PieceOf { file, offset: piece.offset, bytes: piece.bytes });
            }
            let complete = rest.peek().is_none();
            let push = Push::Shows { mapping, size_bytes, files: sizes, pieces: parts, complete };
            self.push_locked(&mut state, push, files);
            if complete {
                return;
            }
        }
    }

    /// The name of an arena of the client's, which is told of it with the first use.
    fn arena(&self, state: &mut StreamState, file: &Arc<LentFile>) -> FileOf {
        let known = state.arenas.iter().position(|known| known.as_ref().is_some_and(|known| Arc::ptr_eq(known, file)));
        let place = known.unwrap_or_else(|| {
            let place = state.arenas.iter().position(Option::is_none).unwrap_or(state.arenas.len());
            // CAST: as below.
            let (number, file_bytes) = (place as u32, file.bytes());
            let writable = file.access() == ClientAccess::ReadWrite;
            let piece = FilePiece { file: Arc::clone(file), offset: 0, bytes: file_bytes };
            self.push_locked(state, Push::Arena { number, file_bytes, writable }, vec![piece]);
            state.arenas.resize(state.arenas.len().max(place + 1), None);
            state.arenas[place] = Some(Arc::clone(file));
            place
        });
        // CAST: one for each adapter, and one for all.
        FileOf::Arena(place as u32)
    }

    /// The client could not take these files. Names of others mean nothing.
    pub fn lost(&self, lost: &[Lost]) {
        if lost.is_empty() {
            return;
        }
        let mut state = self.state();
        for lost in lost {
            match lost {
                Lost::Arena(number) => {
                    // CAST: 32 bits fit.
                    state.arenas.get_mut(*number as usize).into_iter().for_each(|arena| *arena = None);
                }
                Lost::Page(page) => drop(state.pages.remove(page)),
            }
        }
    }

    /// Notes that no store of the client into a mapping gets through from now on.
    pub fn push_protected(&self, mapping: MappingId) {
        let mut state = self.state();
        let placement = state.mappings.protected(mapping, Instant::now()).filter(|_| self.stores.is_some());
        self.expects(&state);
        match placement {
            Some(placement) if state.ended.is_none() => {
                state.waiting.push_back(Item::Hold(mapping, placement));
                self.said.notify_one();
            }
            _ => self.push_locked(&mut state, Push::Protected(mapping), Vec::new()),
        }
    }

    /// Notes that a mapping is gone: the client need not answer for it any more.
    pub fn push_gone(&self, mapping: MappingId) {
        let mut state = self.state();
        state.mappings.gone(mapping, Instant::now());
        self.push_locked(&mut state, Push::Gone(mapping), Vec::new());
    }

    /// The client must answer in time: wakes the sending thread if that would look too late.
    fn expects(&self, state: &StreamState) {
        let now = Instant::now();
        let by = now + state.mappings.left(answer_within(&self.user), now);
        if state.looks_at.is_none_or(|looks| by < looks) {
            self.said.notify_one();
        }
    }

    /// The client says where it has mappings.
    pub fn placed(&self, placed: &[Placed]) {
        if !placed.is_empty() {
            let mut state = self.state();
            placed.iter().for_each(|Placed { mapping, address }| state.mappings.placed(*mapping, *address));
        }
    }

    /// The oldest change of a mapping is answered for.
    pub fn answered(&self, mapping: MappingId) {
        self.state().mappings.answered(mapping, Instant::now());
    }

    /// Holds the client's stores, or says why the daemon must end the client: the kernel could not move its memory any more.
    fn hold(&self, Placement { address, bytes }: Placement) -> Result<(), String> {
        let stores = self.stores.as_ref().expect("without them the client is asked");
        let held = stores.hold(address, bytes);
        // A client whose stream has ended releases all held stores, once: this releases stores that were held after it.
        if self.has_ended() || self.packets.has_ended() {
            // The process may have died.
            let _ = stores.release(address, bytes);
        }
        held.map_err(|error| {
            format!("the daemon cannot hold its stores at the address that it gave for a mapping: {error}")
        })
    }

    /// Sends until the client has gone or is over a limit; why it ended. `holds` is told of each mapping into which stores are held.
    pub fn send_all(&self, holds: &dyn Fn(MappingId)) -> String {
        let within = answer_within(&self.user);
        loop {
            let item = {
                let mut state = self.state();
                loop {
                    if let Some(reason) = &state.ended {
                        return reason.clone();
                    }
                    if let Some(item) = state.waiting.pop_front() {
                        if let Item::Say(message) = &item {
                            state.waiting_files -= message.files.len() as u64;
                        }
                        state.idle = false;
                        break item;
                    }
                    state.idle = true;
                    let Some(asked) = state.mappings.waited_for_since() else {
                        state.looks_at = None;
                        state = self.said.wait(state).unwrap_or_else(PoisonError::into_inner);
                        continue;
                    };
                    let may = state.mappings.left(within, Instant::now());
                    let left = may.saturating_sub(asked.elapsed());
                    if left.is_zero() {
                        return format!(
                            "it has not acknowledged a change of a mapping within {may:.0?}, of {within:?} in all (process.answer_ms)"
                        );
                    }
                    state.looks_at = Some(Instant::now() + left);
                    state = self.said.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            };
            let message = match item {
                Item::Say(message) => message,
                Item::Hold(mapping, placement) => match self.hold(placement) {
                    Ok(()) => {
                        self.answered(mapping);
                        holds(mapping);
                        continue;
                    }
                    Err(reason) => return reason,
                },
            };
            let files: Vec<_> = message.files.iter().map(|piece| piece.file.as_fd()).collect();
            // A client that reads nothing would block this thread in the middle of a message, where the thread cannot check for answers.
            match self.packets.send_within(within, &encode(&message.push, Vec::new()), &files) {
                Ok(()) => {}
                Err(PacketError::System(Errno::AGAIN)) => {
                    return format!("it has read no message for {:?} (process.answer_ms)", within);
                }
                Err(error) => return error.to_string(),
            }
        }
    }

    /// Reads the next message of the client.
    pub fn hear(&self) -> Result<Said, PacketError> {
        let (bytes, _) = self.packets.receive(ANSWER_BYTES_MAX, 0)?;
        kmt_calls::wire::decode(&bytes)
            .map_err(|_| PacketError::Malformed("neither `Holds` nor `Rung`, which alone a client sends on its stream"))
    }

    /// Says nothing more. Answers why it ended first.
    pub fn end(&self, reason: &str) -> String {
        let first = self.state().ended.get_or_insert_with(|| reason.to_owned()).clone();
        self.packets.close();
        self.said.notify_all();
        first
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.packets.as_fd()
    }
}

fn answer_within(user: &User) -> Duration {
    Duration::from_millis(user.limits().process.answer_ms)
}

/// Most parts of a message: some 100 KB.
const PARTS_MAX: usize = 4096;
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests;
