//! A hostile process: what it knows, what it waits for, and what it writes into memory that it has locked.

use std::collections::VecDeque;
use std::sync::Arc;

use dxgk_host::{Host, Pending, ProcessLink};
use kmt_calls::{Call, LockCall, Reply};
use kmt_link::{Link, MappedBytes};
use wddm_types::{Luid, ProcessId};

use crate::dice::Dice;
use crate::generate::Generator;
use crate::known::Known;
use crate::rings::Rings;

/// Programs of hostile processes are smaller.
const PROGRAM_BYTES_MAX: u64 = 4096;

/// A hostile process.
pub struct Hostile {
    pub id: ProcessId,
    /// Its way to the kernel; dropping it is its death.
    link: Arc<ProcessLink>,
    pub known: Known,
    /// Calls that wait for their answers.
    pub pending: VecDeque<(Call, Pending)>,
    pub dice: Dice,
    rings: Rings,
}

impl Hostile {
    /// A new process.
    pub fn new(host: &Arc<Host>, dice: Dice, endless: bool) -> Hostile {
        let link = ProcessLink::new(Arc::clone(host));
        let known = Known::new(endless);
        Hostile { id: link.process(), link, known, pending: VecDeque::new(), dice, rings: Rings::default() }
    }

    /// Writes anything to where it can: its rings, its doorbells, what it has locked. Says what it wrote.
    pub fn store(&mut self, seed: u64) -> String {
        let mut dice = self.dice.seeded(seed);
        self.rings.store(&mut dice, self.link.as_ref())
    }

    /// Writes commands to the beginning of what it has just locked, for the GPU to execute.
    pub fn program(&mut self, call: &Call, reply: Reply) {
        self.rings.answered(call, &reply);
        let (Call::Lock(LockCall::Lock2 { allocation, .. }), Reply::Mapped(mapped)) = (call, reply) else { return };
        if self.link.mapping(mapped.mapping).is_none() || mapped.size_bytes < PROGRAM_BYTES_MAX {
            return;
        }
        let mut dice = self.dice.seeded(mapped.mapping.0);
        let (luid, endless, old, queues) = (Luid(0), self.known.endless, false, true);
        let known = &self.known;
        let (shows, escapes, reported_pages) = (false, false, 0);
        let words =
            Generator { dice: &mut dice, known, luid, endless, old, queues, shows, escapes, reported_pages }.program();
        self.rings.locked(&mapped);
        MappedBytes::new(self.link.as_ref(), mapped).write_words(0, &words);
        // CAST: a few commands.
        self.known.has_written(*allocation, words.len() as u32 * 8);
    }
}
