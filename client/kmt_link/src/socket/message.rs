//! The messages between a process and its kernel, besides the calls themselves.

use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, QueuedFence, Refusal, Reply};
use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

use crate::{CallOrder, OwnCommands, OwnEvents};

/// The version of everything here and of the calls; a kernel speaks one.
pub const VERSION: u32 = 18;

/// The first message on a connection to a kernel, with the other end of what becomes the stream; and, if the operating system holds stores
/// here, that by which the kernel can have them held ([`shared_words::StoresElsewhere`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`Hello::MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
}

impl Hello {
    /// A first message with another number comes from no client.
    pub const MAGIC: [u8; 8] = *b"openwddm";
    /// The first message of this library.
    pub const OURS: Hello = Hello { magic: Hello::MAGIC, version: VERSION };
}

/// Most calls of one [`Request::Calls`].
pub const CALLS_MAX: usize = 16;

/// Most waits and signals of one [`Request::FencesQueued`].
pub const QUEUED_MAX: usize = 1024;

/// A process's message on a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The kernel looks at this request when so many posted calls of the process are over, on whatever lane they came.
    pub after: u64,
    /// Where it has mappings that it was shown since it asked last.
    pub placed: Vec<Placed>,
    /// What it was sent since it asked last, and could not take.
    pub lost: Vec<Lost>,
    /// The request.
    pub request: Request,
}

impl Asked {
    /// A request with which nothing else is said.
    pub fn only(request: Request) -> Asked {
        Asked { after: 0, placed: Vec::new(), lost: Vec::new(), request }
    }
}

/// A file that the process was sent and could not take, because it has no descriptor left for it: the kernel sends it again when an answer needs it.
/// A mapping or a doorbell is not named here: the process takes back the call that it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lost {
    /// The arena of this number.
    Arena(u32),
    /// The page of words of this number.
    Page(u64),
}

/// A mapping that the process has at an address of its own, from which it does not go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The mapping.
    pub mapping: MappingId,
    /// The first byte's address.
    pub address: u64,
}

/// A process's request on a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// A call → `Answer`.
    Call(Call),
    /// A call whose place in the kernel's order the process wants to know → `Waits` once the kernel has taken a call that it answers later;
    /// then `AnswerInOrder`.
    CallInOrder(Call),
    /// Calls that are made one after the other, at most [`CALLS_MAX`] → `Answers`.
    Calls(Vec<Call>),
    /// A call whose answer the process does not read → nothing.
    Post(Call),
    /// One lane more, whose other end comes with the message → `Done`.
    Lane,
    /// The kernel's clock → `Now`.
    Now,
    /// The waits and signals that the process submits next on a queue that it feeds, for a tool, at most [`QUEUED_MAX`] → `Done`.
    FencesQueued {
        /// The queue.
        queue: RawHandle,
        /// Its waits and signals, in their order.
        queued: Vec<QueuedFence>,
    },
    /// The kernel's events about this process since it looked last; the first look begins to keep them → `OwnEvents`.
    OwnEvents,
    /// The commands that engines have begun for this process since it asked first → `OwnCommands`.
    OwnCommands,
    /// A descriptor for an NT handle → `Answer`, with which it comes.
    Descriptor(u64),
    /// A question: the NT handle that the descriptor that comes with the message stands for → `Answer`.
    Described,
    /// A section over bytes of the file that comes with the message → `Answer`.
    SectionOver {
        /// The adapter, or a device on it.
        adapter: RawHandle,
        /// First byte in the file.
        offset_bytes: u64,
        /// How many.
        size_bytes: u64,
    },
}

/// The kernel's response to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// Done; of the first message: the process is known to the kernel.
    Done,
    /// Of a call.
    Answer(Result<Reply, Refusal>),
    /// The kernel has taken the call, and answers later.
    Waits,
    /// Of a call, and its place; `None`: the kernel has not taken it.
    AnswerInOrder(Result<Reply, Refusal>, Option<CallOrder>),
    /// Of several, in their order.
    Answers(Vec<Result<Reply, Refusal>>),
    /// The kernel's time in nanoseconds.
    Now(u64),
    /// Events about the process.
    OwnEvents(OwnEvents),
    /// Commands of the process.
    OwnCommands(OwnCommands),
    /// This is no client, for this reason; the connection ends.
    Refused(String),
}

/// A response, and how far the stream was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// How many messages the kernel had for the process when it answered.
    pub pushed: u64,
    /// The last of them, which come with the response and not on the stream.
    pub pushes: Vec<Push>,
    /// The response.
    pub response: Response,
}

/// A file in which the kernel shows a process memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileOf {
    /// One that comes with the message, by its place among those.
    Message(u32),
    /// One that the process has kept: the number of the [`Push::Arena`] that it came with.
    Arena(u32),
}

/// Consecutive bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceOf {
    /// The file.
    pub file: FileOf,
    /// First byte in it.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// A message on the stream, and its place among all that the kernel has for the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pushed {
    /// How many came before it. The process carries them out in order, those that come with responses too.
    pub before: u64,
    /// The message.
    pub push: Push,
}

/// The kernel's message about memory and news of the process: on the stream, or with the response to the call that caused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Push {
    /// An arena of the process, in the file that comes with this: pages of it are named later, for as long as the process lives.
    Arena {
        /// Its number: the next one, or that of an arena that the process has lost.
        number: u32,
        /// Bytes of the file.
        file_bytes: u64,
        /// The process may write there, too.
        writable: bool,
    },
    /// The process may map a page of words of system memory.
    Page {
        /// The page's number, which addresses of words tell.
        page: u64,
        /// The file: the only one that comes with this, or an arena.
        file: FileOf,
        /// Bytes of a file that comes with this.
        file_bytes: u64,
        /// Where in it the page begins.
        offset: u64,
        /// The process may write there, too.
        writable: bool,
    },
    /// A locked allocation shows these pieces from now on; to be answered with the mapping's name, if it was there before.
    Shows {
        /// The mapping.
        mapping: MappingId,
        /// Bytes of all of it.
        size_bytes: u64,
        /// Bytes of each file that comes with this.
        files: Vec<u64>,
        /// The parts behind those of earlier messages about this change.
        pieces: Vec<PieceOf>,
        /// No more parts follow.
        complete: bool,
    },
    /// No store into it gets through until it shows something; to be answered with the mapping's name. Not said where the kernel can see
    /// to that itself.
    Protected(MappingId),
    /// It is gone.
    Gone(MappingId),
    /// The process has a doorbell; its page is in the file that comes with this.
    Doorbell {
        /// The doorbell's address.
        address: DoorbellAddress,
        /// The kernel's process has run on every processor since this one spoke to it, and has the rare half of the asymmetric barrier.
        rare_pays: bool,
    },
    /// It has it no more.
    DoorbellGone(DoorbellAddress),
    /// The kernel tells the process something.
    Notify(Notification),
    /// A tool traces native fences from now on, or none does: whether it wants to hear of [`Request::FencesQueued`].
    Traces(bool),
}

/// A process's message on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// The kernel's last change of this mapping holds.
    Holds(MappingId),
    /// It has rung this doorbell, whose engine slept.
    Rung(DoorbellAddress),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_another_form_travel_under_another_version() {
        let form = events::Event::FORM;
        let says = "the declarations of events have changed: raise VERSION, then write both numbers here";
        assert_eq!((VERSION, form), (18, 375_405_104_227_904_549), "{says}");
    }
}
