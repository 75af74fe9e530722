//! The newest messages of a stream, kept for the response to the call that caused them: the client's thread that made the call carries them
//! out, and the client's listening thread does not have to wake. Called by the stream, under its lock.
//!
//! # The law of this file
//! - Kept are the newest messages and no others: one that cannot be kept goes on the stream, and those that are kept go there before it.
//! - A message is kept only if a thread that serves a lane of this client pushes it: that thread sends a response soon, or lets the messages
//!   go before it sleeps ([`Stream::let_go`]).
//! - Descriptors go on the stream alone.

use std::thread::ThreadId;

use kmt_link::socket::Push;

use super::{Message, Stream};

/// Most messages that go with a response, and most parts of memory that one of them names: a response stays a packet.
const MESSAGES_MAX: usize = 16;
const PARTS_MAX: usize = 32;

/// The messages of one client that are kept.
#[derive(Default)]
pub(super) struct WithResponse {
    messages: Vec<Message>,
    /// Threads that serve lanes of the client.
    lanes: Vec<ThreadId>,
}

impl WithResponse {
    /// Keeps a message, behind which there is none; else it is the caller's again.
    pub fn keep(&mut self, message: Message) -> Option<Message> {
        let short = match &message.push.push {
            Push::Shows { pieces, .. } => pieces.len() <= PARTS_MAX,
            _ => true,
        };
        let here = std::thread::current().id();
        if !short || !message.files.is_empty() || self.messages.len() == MESSAGES_MAX || !self.lanes.contains(&here) {
            return Some(message);
        }
        let follows = self.messages.last().is_none_or(|last| last.push.before + 1 == message.push.before);
        debug_assert!(follows, "message {} is kept behind another that it does not follow", message.push.before);
        self.messages.push(message);
        None
    }

    /// Those that are kept, the oldest first: they go some other way.
    pub fn take(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }
}

impl Stream {
    /// The calling thread serves a lane of this client from now on: it sends responses.
    pub fn serves_here(&self) {
        self.state().with_response.lanes.push(std::thread::current().id());
    }

    /// How many messages there have been; and the last of them, if they are to go `with` the response that says so. Without them it says
    /// how many went before them.
    pub fn pushed(&self, with: bool) -> (u64, Vec<Push>) {
        let mut state = self.state();
        if !with {
            let kept = state.with_response.messages.len() as u64;
            return (state.pushed - kept, Vec::new());
        }
        let kept = state.with_response.take();
        (state.pushed, kept.into_iter().map(|message| message.push.push).collect())
    }

    /// The calling thread sends no response soon: what is kept goes on the stream.
    pub fn let_go(&self) {
        let mut state = self.state();
        for message in state.with_response.take() {
            self.send_or_queue(&mut state, message);
        }
    }
}

#[cfg(test)]
mod tests;
