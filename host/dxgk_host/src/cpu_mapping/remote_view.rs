//! A locked allocation as a process elsewhere sees it. The process has the allocation's system pages in its arena, for the allocation's life; the
//! kernel decides when the host lends it pages of a device's memory, with their content, and when the host takes them back.
//!
//! # The law of this boundary
//! - Copying content takes as long as the content is large: so an [`Order`] does it outside the machine's lock, one after the other, and
//!   the kernel's paging ring waits meanwhile. Only a thread that ends a mapping under that lock carries out the pending orders itself. In
//!   virtual time each order is carried out at once.
//! - The host takes pages that a mapping shows no longer back without their content, which the ring has moved; it takes the pages of a
//!   mapping that leaves back with it. The pages that the process still maps then belong to no other process; they hold the old content
//!   until the process has answered, and nothing after. So the ring need not wait for that answer, and goes on when the order is carried
//!   out. A process whose content moves on at once does not hear of the place in between, and sees the old pages until it has answered for
//!   the place where its content stays.
//! - A client answers once for each change that it has heard of, in their order; the host ignores further answers, and answers about an
//!   allocation that the client has unlocked.

use std::collections::VecDeque;
use std::sync::Arc;

use dxgkrnl::Heard;
use kmt_calls::MappingId;
use kmt_link::Piece;
use shared_words::{DetachedPages, LentPages, Memory};

use crate::arenas::ProcessArenas;
use crate::remote_process::{FilePiece, RemoteProcess};

/// Consecutive bytes of a device's memory.
#[derive(Clone)]
struct Part {
    memory: Arc<Memory>,
    offset: u64,
    bytes: u64,
}

/// A view of a process elsewhere.
pub(super) struct RemoteView {
    pub process: Arc<dyn RemoteProcess>,
    pub arenas: Arc<ProcessArenas>,
    size_bytes: u64,
    /// The parts of a device's memory that it shows, or is about to show.
    local: Vec<Part>,
    /// The process has heard of the first content that it shows.
    told: bool,
    /// Changes that the process has heard of and has not answered for, oldest first.
    asked: VecDeque<Asked>,
    /// The pages that the process still sees while its content passes through places that it does not hear of.
    passed: Vec<DetachedPages>,
    /// The process has unlocked it, by this change.
    closed: Option<u64>,
    /// Pages are being lent for it, or taken back.
    moving: bool,
}

/// A change that a process is to answer for.
struct Asked {
    number: u64,
    /// The pages that the process sees until then.
    _old: Vec<DetachedPages>,
}

impl RemoteView {
    pub fn new(process: Arc<dyn RemoteProcess>, arenas: Arc<ProcessArenas>, size_bytes: u64) -> RemoteView {
        let (asked, passed, closed) = (VecDeque::new(), Vec::new(), None);
        RemoteView { process, arenas, size_bytes, local: Vec::new(), told: false, asked, passed, closed, moving: false }
    }

    /// Asks the process to let no store through, which it will answer; a process that has unlocked it is not asked.
    pub fn protect(&mut self, mapping: MappingId, number: u64) -> Option<(u64, Heard)> {
        if self.closed.is_some() {
            return Some((number, Heard::Seen));
        }
        self.asked.push_back(Asked { number, _old: Vec::new() });
        self.process.protected(mapping);
        None
    }

    /// The process has answered for the oldest change: returns its number. `None`: no answer was due.
    pub fn hear(&mut self) -> Option<u64> {
        self.asked.pop_front().map(|asked| asked.number)
    }

    /// It shows these pieces; `system` is the memory that needs no lending. Returns the order that must be carried out first.
    pub fn show(&mut self, mapping: MappingId, number: u64, pieces: Vec<Piece>, system: &Arc<Memory>) -> Option<Order> {
        let local = local(&pieces, system);
        let old = std::mem::replace(&mut self.local, local);
        let (takes, lends) = (without(&old, &self.local), without(&self.local, &old));
        if takes.is_empty() && lends.is_empty() {
            return None;
        }
        self.moving = true;
        let arenas = Arc::clone(&self.arenas);
        Some(Order { mapping, number, what: What::Show { takes, lends, pieces, arenas } })
    }

    /// Its content passes through these pieces and moves on. Returns the order to take back the parts that it shows no longer; the host lends
    /// nothing, and the process does not hear of it.
    pub fn pass(&mut self, mapping: MappingId, number: u64, pieces: &[Piece], system: &Arc<Memory>) -> Option<Order> {
        let takes = without(&self.local, &local(pieces, system));
        self.local = without(&self.local, &takes);
        self.moving = !takes.is_empty();
        self.moving.then_some(Order { mapping, number, what: What::Pass(takes) })
    }

    /// The host has taken back the parts of the change of this number; the process still sees them, and does not hear of it.
    pub fn passed(&mut self, number: u64, old: Vec<DetachedPages>) -> (u64, Heard) {
        self.moving = false;
        match self.closed {
            Some(closed) => (closed.max(number), Heard::Seen),
            None => {
                self.passed.extend(old);
                (number, Heard::Done)
            }
        }
    }

    /// It has left: returns the order to take back the pages that are lent for it.
    pub fn leave(&mut self, mapping: MappingId, number: u64) -> Order {
        self.moving = true;
        Order { mapping, number, what: What::Leave(std::mem::take(&mut self.local)) }
    }

    /// It is gone, and no order for it is pending.
    pub fn end(self, mapping: MappingId) {
        for part in self.local {
            drop(detach(&part));
        }
        if self.closed.is_none() {
            self.process.gone(mapping);
        }
    }

    /// The process has unmapped it, and owes no answer any more. All changes hold at once, or when the order under way is carried out.
    pub fn close(&mut self, mapping: MappingId, number: u64) -> Option<(u64, Heard)> {
        self.closed = Some(number);
        self.asked.clear();
        self.passed.clear();
        self.process.gone(mapping);
        (!self.moving).then_some((number, Heard::Seen))
    }

    /// Tells the process what it shows, by the change of this number. The process sees its first content with the answer to its call, and
    /// owes no answer for that.
    pub fn tell(
        &mut self,
        mapping: MappingId,
        number: u64,
        shows: Result<Vec<FilePiece>, String>,
        old: Vec<DetachedPages>,
    ) -> (u64, Heard) {
        self.moving = false;
        let mut seen = std::mem::take(&mut self.passed);
        seen.extend(old);
        if let Some(closed) = self.closed {
            return (closed.max(number), Heard::Seen);
        }
        match shows {
            Ok(files) => self.process.shows(mapping, self.size_bytes, files),
            // The process ends, and its views with it.
            Err(reason) => self.process.lost(&reason),
        }
        if std::mem::replace(&mut self.told, true) {
            self.asked.push_back(Asked { number, _old: seen });
            return (number, Heard::Done);
        }
        (number, Heard::Seen)
    }
}

/// A task that moves pages between a device and a process.
pub(crate) struct Order {
    mapping: MappingId,
    /// The change that it carries out.
    number: u64,
    what: What,
}

enum What {
    Show { takes: Vec<Part>, lends: Vec<Part>, pieces: Vec<Piece>, arenas: Arc<ProcessArenas> },
    Pass(Vec<Part>),
    Leave(Vec<Part>),
}

/// The outcome of an order.
pub(crate) struct Moved {
    pub mapping: MappingId,
    pub number: u64,
    pub outcome: Outcome,
}

/// The outcome by kind of order.
pub(crate) enum Outcome {
    /// The files that the process is to map, or why there are none; the pages that it saw before.
    Shows(Result<Vec<FilePiece>, String>, Vec<DetachedPages>),
    /// The pages that the process saw before and still sees.
    Passed(Vec<DetachedPages>),
    /// The pages are back; or why their content is lost.
    Left(Result<(), String>),
}

impl Order {
    /// Carries it out, which takes as long as the content is large.
    pub fn carry_out(self) -> Moved {
        let Order { mapping, number, what } = self;
        let outcome = match what {
            What::Show { takes, lends, pieces, arenas } => {
                let old = takes.iter().map(detach).collect();
                Outcome::Shows(lend(&lends, &arenas).and_then(|()| files(&pieces, &arenas)), old)
            }
            What::Pass(takes) => Outcome::Passed(takes.iter().map(detach).collect()),
            What::Leave(parts) => {
                let kept: Vec<_> = parts.iter().map(take_content_back).collect();
                Outcome::Left(kept.into_iter().collect())
            }
        };
        Moved { mapping, number, outcome }
    }
}

#[cfg(test)]
impl Order {
    pub fn to_take_back(memory: &Arc<Memory>) -> Order {
        let part = Part { memory: Arc::clone(memory), offset: 0, bytes: memory.bytes() };
        Order { mapping: MappingId(0), number: 0, what: What::Leave(vec![part]) }
    }
}

/// The files that pieces lie in, in order, for the process of these arenas.
pub(super) fn files(pieces: &[Piece], arenas: &ProcessArenas) -> Result<Vec<FilePiece>, String> {
    let mut files = Vec::new();
    for Piece { memory, offset, bytes } in pieces {
        let lent = memory.lent(*offset, *bytes).ok_or("there was no file for memory that it has locked")?;
        if !lent.iter().all(|part| arenas.may_have(&part.file)) {
            return Err("memory that it has locked lies among another process's".into());
        }
        let piece = |part: LentPages| FilePiece { file: part.file, offset: part.file_offset, bytes: part.bytes };
        files.extend(lent.into_iter().map(piece));
    }
    Ok(files)
}

/// Lends parts of devices' memory to the process of these arenas.
fn lend(parts: &[Part], arenas: &ProcessArenas) -> Result<(), String> {
    for same in parts.chunk_by(|one, other| Arc::ptr_eq(&one.memory, &other.memory)) {
        let runs: Vec<(u64, u64)> = same.iter().map(|part| (part.offset, part.bytes)).collect();
        let memory = &same[0].memory;
        let lent = arenas.local(memory).and_then(|arena| memory.lend_content(&arena, &runs));
        lent.map_err(|error| format!("video memory that it has locked cannot be lent: {error}"))?;
    }
    Ok(())
}

fn detach(part: &Part) -> DetachedPages {
    // PANIC: if the process's pages cannot be replaced here, the pages' next owner would share them with this process.
    part.memory.detach(part.offset, part.bytes).expect("a mapping of ours in place of another")
}

/// Takes a part back with its content. On failure takes it back without: the process has lost its content.
fn take_content_back(part: &Part) -> Result<(), String> {
    part.memory.take_content_back(part.offset, part.bytes).map_err(|error| {
        drop(detach(part));
        format!("video memory that it had locked could not be had back with what it held: {error}")
    })
}

/// Those parts of pieces that are a device's memory.
fn local(pieces: &[Piece], system: &Arc<Memory>) -> Vec<Part> {
    let part = |piece: &Piece| Part { memory: Arc::clone(&piece.memory), offset: piece.offset, bytes: piece.bytes };
    pieces.iter().filter(|piece| !Arc::ptr_eq(&piece.memory, system)).map(part).collect()
}

/// Parts without others.
fn without(parts: &[Part], others: &[Part]) -> Vec<Part> {
    let mut left = Vec::new();
    for part in parts {
        let end = part.offset + part.bytes;
        let mut cuts: Vec<(u64, u64)> = others
            .iter()
            .filter(|other| Arc::ptr_eq(&other.memory, &part.memory))
            .map(|other| (other.offset.max(part.offset), (other.offset + other.bytes).min(end)))
            .filter(|(from, to)| from < to)
            .collect();
        cuts.sort_unstable();
        cuts.push((end, end));
        let mut at = part.offset;
        for (from, to) in cuts {
            if at < from {
                left.push(Part { memory: Arc::clone(&part.memory), offset: at, bytes: from - at });
            }
            at = at.max(to);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use shared_words::ClientAccess;
    use wddm_types::ProcessId;

    use super::*;
    use crate::arenas::Arenas;
    use crate::arenas::tests::Heard;

    #[test]
    fn what_is_shown_no_longer_is_what_was_shown_without_what_is() {
        let memories = [0, 1].map(|_| Memory::reserve(4096).expect("a page"));
        let part = |memory: usize, offset, bytes| Part { memory: Arc::clone(&memories[memory]), offset, bytes };
        let old = [part(0, 10, 10), part(0, 30, 10), part(1, 0, 5)];
        let new = [part(0, 34, 2), part(0, 0, 12), part(0, 15, 1), part(1, 5, 9)];
        let left: Vec<_> = without(&old, &new).into_iter().map(|part| (part.offset, part.bytes)).collect();
        assert_eq!(left, [(12, 3), (16, 4), (30, 4), (36, 4), (0, 5)]);
        assert!(without(&old, &old).is_empty() && without(&[], &new).is_empty());
    }

    #[test]
    fn a_process_is_told_of_no_page_that_lies_in_another_s_arena() {
        let system = Memory::reserve_file(4 * 4096).expect("a memory file");
        let arenas = Arenas::default();
        let [one, other] = [1, 2].map(|number| {
            arenas.process_comes(ProcessId(number), Arc::new(Heard::default()), &system);
            arenas.of(ProcessId(number)).expect("it has come")
        });
        system
            .lend_from(&one.system(ClientAccess::ReadWrite).expect("a descriptor"), &[(4096, 2 * 4096)])
            .expect("a mapping");
        let piece = |offset| [Piece { memory: Arc::clone(&system), offset, bytes: 4096 }];
        let told = files(&piece(2 * 4096), &one).expect("its own");
        assert_eq!(told.iter().map(|piece| (piece.offset, piece.bytes)).collect::<Vec<_>>(), [(2 * 4096, 4096)]);
        assert!(files(&piece(2 * 4096), &other).expect_err("not its own").contains("another process's"));
        assert!(files(&piece(0), &one).expect_err("not lent").contains("no file"));
    }
}
