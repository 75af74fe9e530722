//! Processes that live by packets: contexts of different ranks whose buffers are patched or lie at addresses, memory that is
//! taken from them, locks of the first generation. They stand beside `process`, which lives by hardware queues, and have a
//! plan and a model like it.
//!
//! Every surface is one context's, so its content follows from that context's order alone, whichever context ran in between: a pattern, a
//! fill or a copy sets each word, and each touch since adds one. A packet that runs twice, not at all, in part, or before its turn leaves
//! another number.

mod answer;
mod client;
mod issue;
mod listing;
mod model;
mod plan;

use std::sync::Arc;

use dxgk_host::Host;

use crate::random::Random;
use crate::shape::Kind;
use client::Client;
pub use listing::Listing;

/// A violation: the checker, and the place.
pub type Broken = (&'static str, String);

/// Some processes.
pub struct Renderers {
    random: Random,
    clients: Vec<Client>,
}

impl Renderers {
    /// Two to four of them on a host, in a world of this kind.
    pub fn new(host: &Arc<Host>, mut random: Random, kind: Kind) -> Renderers {
        let count = 2 + random.below(3);
        let clients = (0..count)
            .map(|_| {
                let (own, steps) = (random.split(), 50 + random.below(80));
                Client::new(host, own, steps, kind)
            })
            .collect();
        Renderers { random, clients }
    }

    /// Whether all have come to their end.
    pub fn done(&self) -> bool {
        self.clients.iter().all(Client::is_dead)
    }

    /// Whether it is one of them, alive.
    pub fn owns(&self, process: u32) -> bool {
        self.clients.iter().any(|client| client.id.0 == process && !client.is_dead())
    }

    /// Calls of all of them.
    pub fn calls(&self) -> u64 {
        self.clients.iter().map(|client| client.calls).sum()
    }

    /// One of them does one thing, if it can.
    pub fn turn(&mut self, host: &Host) -> Result<(), Broken> {
        let who = self.random.index(self.clients.len());
        self.clients[who].turn(host)
    }

    /// Takes the answers that have come.
    pub fn look(&mut self, host: &Host) -> Result<(), Broken> {
        self.clients.iter_mut().try_for_each(|client| client.take_answer(host))
    }

    /// The hardware is at rest: checks that a client can go on.
    pub fn at_rest(&self) -> Result<(), Broken> {
        if self.done() || self.clients.iter().any(Client::is_able) {
            return Ok(());
        }
        let waits: Vec<String> = self.clients.iter().filter_map(Client::waits_for).collect();
        Err(("liveness", format!("nothing will ever happen; {}", waits.join("; "))))
    }
}
