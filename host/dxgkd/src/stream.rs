//! What a client is told on its stream, in order. It is told under the kernel's lock, where nobody waits for a client: what its socket takes
//! at once is sent at once, and the rest is noted, and sent by a thread of the client's own, which also looks whether it answers in time.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use dxgk_host::FilePiece;
use kmt_calls::MappingId;
use kmt_calls::wire::encode;
use kmt_link::socket::{FILES_MAX, PacketError, Packets, PieceOf, Push, Said};
use rustix::io::Errno;
use shared_words::{ClientAccess, LentFile, LentPages};
use wddm_types::PAGE_BYTES;

use crate::kept_waiting::KeptWaiting;
use crate::limits::OfUser;
use crate::user::{Place, User};

/// A message and the files that go with it.
struct Message {
    push: Push,
    files: Vec<FilePiece>,
    /// Among the messages that the clients of its user have not heard.
    _place: Place,
}

/// What is to be said, and what must be answered.
pub(crate) struct Stream {
    packets: Packets,
    state: Mutex<State>,
    said: Condvar,
    user: Arc<User>,
}

#[derive(Default)]
struct State {
    /// How many messages there have been.
    pushed: u64,
    waiting: VecDeque<Message>,
    /// The thread that sends is there, and sends nothing: what is said now may be sent at once.
    idle: bool,
    /// When it looks by itself whether the client has answered.
    looks_at: Option<Instant>,
    /// Files of these.
    waiting_files: u64,
    /// Changes that the kernel waits for, of each mapping the oldest first, and since when.
    unanswered: BTreeMap<MappingId, VecDeque<Instant>>,
    /// How long it has waited before.
    kept_waiting: KeptWaiting,
    /// Which page of words the client has, and in which file; one that is not lent any more is not kept for that.
    pages: BTreeMap<u64, Weak<LentFile>>,
    /// Nothing more is said, for this reason.
    ended: Option<String>,
}

impl Stream {
    /// A stream to a client that leaves no more unheard, and takes no longer to answer, than its user's limits say.
    pub fn new(packets: Packets, user: Arc<User>) -> Stream {
        Stream { packets, state: Mutex::default(), said: Condvar::new(), user }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing more is said.
    pub fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// How many messages there have been.
    pub fn pushed(&self) -> u64 {
        self.state().pushed
    }

    /// Notes a message.
    pub fn push(&self, push: Push, files: Vec<FilePiece>) {
        self.push_locked(&mut self.state(), push, files);
    }

    fn push_locked(&self, state: &mut State, push: Push, files: Vec<FilePiece>) {
        if state.ended.is_some() {
            return;
        }
        match self.room(state, files.len() as u64) {
            Err(reason) => {
                state.ended = Some(reason);
                state.waiting.clear();
                // Whoever hears for this client finds out, and ends it.
                self.packets.close();
            }
            Ok(place) => {
                state.pushed += 1;
                if state.idle && state.waiting.is_empty() && self.is_sent(&push, &files) {
                    return;
                }
                state.waiting_files += files.len() as u64;
                state.waiting.push_back(Message { push, files, _place: place });
            }
        }
        self.said.notify_one();
    }

    /// Whether the client's socket has taken a message. Of one that has gone the thread that sends finds out.
    fn is_sent(&self, push: &Push, files: &[FilePiece]) -> bool {
        let files: Vec<_> = files.iter().map(|piece| piece.file.as_fd()).collect();
        self.packets.send_at_once(&encode(push, Vec::new()), &files).unwrap_or(false)
    }

    /// A place for another message with so many files, or the limit that it would be over.
    fn room(&self, state: &State, files: u64) -> Result<Place, String> {
        let OfUser { process, user } = &self.user.limits;
        let (unheard, named) = (state.waiting.len() as u64, state.waiting_files);
        if unheard >= process.unheard {
            return Err(format!("limit of unheard messages: the process has {unheard} of {}", process.unheard));
        }
        if named + files > process.descriptors {
            let most = process.descriptors;
            return Err(format!("limit of descriptors: the process has not heard of {} of {most}", named + files));
        }
        let over = || format!("limit of unheard messages: the processes of its user have {} of them", user.unheard);
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
        let push = Push::Page { page, file_bytes: file.bytes(), offset, writable };
        self.push_locked(&mut state, push, vec![FilePiece { file, offset, bytes: PAGE_BYTES }]);
    }

    /// Notes what a mapping shows, in as many messages as its files need.
    pub fn push_shows(&self, mapping: MappingId, size_bytes: u64, pieces: Vec<FilePiece>) {
        let mut state = self.state();
        let mut rest = pieces.into_iter().peekable();
        loop {
            let (mut files, mut sizes, mut parts): (Vec<FilePiece>, Vec<u64>, Vec<PieceOf>) = Default::default();
            while let Some(piece) = rest.next_if(|_| files.len() < FILES_MAX && parts.len() < PARTS_MAX) {
                let known = files.iter().position(|known| Arc::ptr_eq(&known.file, &piece.file));
                let file = known.unwrap_or_else(|| {
                    sizes.push(piece.file.bytes());
                    files.push(piece.clone());
                    files.len() - 1
                });
                // CAST: at most FILES_MAX.
                parts.push(PieceOf { file: file as u32, offset: piece.offset, bytes: piece.bytes });
            }
            let complete = rest.peek().is_none();
            let push = Push::Shows { mapping, size_bytes, files: sizes, pieces: parts, complete };
            self.push_locked(&mut state, push, files);
            if complete {
                return;
            }
        }
    }

    /// The client is to answer for a change of a mapping.
    pub fn expects(&self, mapping: MappingId) {
        let mut state = self.state();
        let now = Instant::now();
        state.unanswered.entry(mapping).or_default().push_back(now);
        let by = now + state.kept_waiting.left(answer_within(&self.user), now);
        if state.looks_at.is_none_or(|looks| by < looks) {
            self.said.notify_one();
        }
    }

    /// It has answered for the oldest.
    pub fn answered(&self, mapping: MappingId) {
        let mut state = self.state();
        let Some(asked) = state.unanswered.get_mut(&mapping) else { return };
        let oldest = asked.pop_front();
        if asked.is_empty() {
            state.unanswered.remove(&mapping);
        }
        if let Some(asked) = oldest {
            state.kept_waiting.add(asked, Instant::now());
        }
    }

    /// It need not answer for this mapping any more.
    pub fn expects_nothing(&self, mapping: MappingId) {
        let mut state = self.state();
        for asked in state.unanswered.remove(&mapping).into_iter().flatten() {
            state.kept_waiting.add(asked, Instant::now());
        }
    }

    /// Sends until the client has gone or is over a limit; why it ended.
    pub fn send_all(&self) -> String {
        let within = answer_within(&self.user);
        loop {
            let message = {
                let mut state = self.state();
                loop {
                    if let Some(reason) = &state.ended {
                        return reason.clone();
                    }
                    if let Some(message) = state.waiting.pop_front() {
                        state.waiting_files -= message.files.len() as u64;
                        state.idle = false;
                        break message;
                    }
                    state.idle = true;
                    let oldest = state.unanswered.values().flatten().min().copied();
                    let Some(asked) = oldest else {
                        state.looks_at = None;
                        state = self.said.wait(state).unwrap_or_else(PoisonError::into_inner);
                        continue;
                    };
                    let may = state.kept_waiting.left(within, Instant::now());
                    let left = may.saturating_sub(asked.elapsed());
                    if left.is_zero() {
                        return format!("it has not answered for a mapping within {may:.0?}, of {within:?} in all");
                    }
                    state.looks_at = Some(Instant::now() + left);
                    state = self.said.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            };
            let files: Vec<_> = message.files.iter().map(|piece| piece.file.as_fd()).collect();
            // One that hears nothing would keep this thread in the middle of a message, where nobody looks whether it has answered.
            match self.packets.send_within(within, &encode(&message.push, Vec::new()), &files) {
                Ok(()) => {}
                Err(PacketError::System(Errno::AGAIN)) => {
                    return format!("it has heard nothing for {:?}", within);
                }
                Err(error) => return error.to_string(),
            }
        }
    }

    /// The next that the client says.
    pub fn hear(&self) -> Result<Said, PacketError> {
        let (bytes, _) = self.packets.receive(ANSWER_BYTES_MAX, 0)?;
        kmt_calls::wire::decode(&bytes).map_err(|_| PacketError::Malformed("nothing that a client says"))
    }

    /// Says nothing more. Answers why it ended first.
    pub fn end(&self, reason: &str) -> String {
        let first = self.state().ended.get_or_insert_with(|| reason.to_owned()).clone();
        self.packets.close();
        self.said.notify_all();
        first
    }
}

fn answer_within(user: &User) -> Duration {
    Duration::from_millis(user.limits.process.answer_ms)
}

/// Most parts of a message: some 100 KB.
const PARTS_MAX: usize = 4096;
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::limits::{Limits, ProcessLimits, UNLIMITED, UserLimits};
    use crate::user::Users;

    const SHORT: Duration = Duration::from_millis(20);

    fn user(unheard: u64, together: u64) -> Arc<User> {
        let process = ProcessLimits { unheard, answer_ms: SHORT.as_millis() as u64, ..ProcessLimits::default() };
        let user = UserLimits { unheard: together, ..UserLimits::default() };
        Users::default().find(1000, &Limits { process, user, ..Limits::default() })
    }

    fn stream_of(user: &Arc<User>) -> (Stream, Packets) {
        let (ours, theirs) = Packets::pair().expect("two descriptors");
        (Stream::new(ours, Arc::clone(user)), Packets::new(theirs))
    }

    /// A stream, and the client's end of it.
    fn stream(unheard: u64) -> (Stream, Packets) {
        stream_of(&user(unheard, UNLIMITED))
    }

    #[test]
    fn who_does_not_answer_for_a_mapping_is_ended() {
        let (stream, _client) = stream(8);
        stream.expects(MappingId(1));
        stream.push(Push::Protected(MappingId(1)), Vec::new());
        assert!(stream.send_all().contains("has not answered for a mapping within 20ms, of 20ms in all"));
    }

    #[test]
    fn who_answers_for_one_of_two_changes_is_ended_for_the_other() {
        let (stream, _client) = stream(8);
        stream.expects(MappingId(1));
        stream.expects(MappingId(1));
        stream.answered(MappingId(1));
        assert!(stream.send_all().contains("has not answered for a mapping"));
    }

    #[test]
    fn who_answers_is_not() {
        let (stream, client) = stream(8);
        stream.expects(MappingId(1));
        stream.answered(MappingId(1));
        stream.expects(MappingId(2));
        stream.expects(MappingId(2));
        stream.expects_nothing(MappingId(2));
        std::thread::scope(|scope| {
            let sends = scope.spawn(|| stream.send_all());
            std::thread::sleep(3 * SHORT);
            assert!(!sends.is_finished());
            drop(client);
            stream.end("over");
            assert_eq!(sends.join().expect("no panic"), "over");
        });
    }

    #[test]
    fn whoever_hears_slowly_hears_all_in_order() {
        let process = ProcessLimits { unheard: UNLIMITED, ..ProcessLimits::default() };
        let user = UserLimits { unheard: UNLIMITED, ..UserLimits::default() };
        let user = Users::default().find(1000, &Limits { process, user, ..Limits::default() });
        let (stream, client) = stream_of(&user);
        std::thread::scope(|scope| {
            let sends = scope.spawn(|| stream.send_all());
            // Some are sent at once; of the others there are more than any socket takes.
            for part in 0..4 {
                let mappings = part * 5_000..(part + 1) * 5_000;
                mappings.clone().for_each(|mapping| stream.push(Push::Gone(MappingId(mapping)), Vec::new()));
                for mapping in mappings {
                    let (bytes, _) = client.receive(64, 0).expect("a message");
                    assert_eq!(kmt_calls::wire::decode::<Push>(&bytes).ok(), Some(Push::Gone(MappingId(mapping))));
                }
            }
            stream.end("over");
            assert_eq!(sends.join().expect("no panic"), "over");
        });
        assert_eq!(stream.pushed(), 20_000);
    }

    #[test]
    fn who_leaves_too_much_unheard_is_ended_and_nothing_more_is_kept_for_it() {
        let (stream, _client) = stream(3);
        for mapping in 0..4 {
            stream.push(Push::Gone(MappingId(mapping)), Vec::new());
        }
        assert_eq!(stream.pushed(), 3);
        assert!(stream.has_ended() && stream.state().waiting.is_empty());
        assert!(stream.send_all().contains("limit of unheard messages: the process has 3 of 3"));
    }

    #[test]
    fn who_hears_nothing_keeps_no_thread() {
        let (stream, _client) = stream(UNLIMITED);
        // More than any socket takes.
        for mapping in 0..100_000 {
            stream.push(Push::Gone(MappingId(mapping)), Vec::new());
        }
        assert!(stream.send_all().contains("has heard nothing"));
    }

    #[test]
    fn the_clients_of_a_user_share_what_they_may_leave_unheard() {
        let user = user(UNLIMITED, 5);
        let ((first, _first), (second, _second)) = (stream_of(&user), stream_of(&user));
        (0..3).for_each(|mapping| first.push(Push::Gone(MappingId(mapping)), Vec::new()));
        (0..2).for_each(|mapping| second.push(Push::Gone(MappingId(mapping)), Vec::new()));
        assert!(!first.has_ended() && !second.has_ended());
        second.push(Push::Gone(MappingId(2)), Vec::new());
        assert!(second.send_all().contains("the processes of its user have 5"));
        // What it had is the other's.
        (0..2).for_each(|mapping| first.push(Push::Gone(MappingId(mapping)), Vec::new()));
        assert!(!first.has_ended());
    }
}
