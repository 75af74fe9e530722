//! A hostile process: what it knows, what it waits for, and what it writes into memory that it has locked.

use std::collections::VecDeque;
use std::sync::Arc;

use dxgk_host::{Host, Pending, ProcessLink};
use kmt_calls::{Call, Reply};
use kmt_link::{Link, MappedBytes};
use wddm_types::{Luid, ProcessId};

use crate::dice::Dice;
use crate::generate::Generator;
use crate::known::Known;

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
}

impl Hostile {
    /// A new process.
    pub fn new(host: &Arc<Host>, dice: Dice, endless: bool) -> Hostile {
        let link = ProcessLink::new(Arc::clone(host));
        let known = Known::new(endless);
        Hostile { id: link.process(), link, known, pending: VecDeque::new(), dice }
    }

    /// Writes commands to the beginning of what it has just locked, for the GPU to execute.
    pub fn program(&mut self, call: &Call, reply: Reply) {
        let (Call::Lock2 { allocation, .. }, Reply::Mapped(mapped)) = (call, reply) else { return };
        if self.link.mapping(mapped.mapping).is_none() || mapped.size_bytes < PROGRAM_BYTES_MAX {
            return;
        }
        let mut dice = self.dice.seeded(mapped.mapping.0);
        let (luid, endless, old) = (Luid(0), self.known.endless, false);
        let words = Generator { dice: &mut dice, known: &self.known, luid, endless, old }.program();
        MappedBytes::new(self.link.as_ref(), mapped).write_words(0, &words);
        // CAST: a few commands.
        self.known.has_written(*allocation, words.len() as u32 * 8);
    }
}
