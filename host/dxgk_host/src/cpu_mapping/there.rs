//! What a process elsewhere sees of a locked allocation. System pages are its own, in files, as long as the allocation is; pages of a
//! device's memory are lent to it when the kernel says so, with what they hold, and taken back.
//!
//! # The law of this boundary
//! - Content is copied, which takes as long as it is large: so it is done by an [`Order`], outside the machine's lock, one after the
//!   other, and the kernel's ring stands meanwhile. Only who ends a mapping under that lock, and needs what was ordered before, carries out
//!   himself what is not begun. In virtual time it is done at once.
//! - What was shown and is shown no longer is taken back without its content, which the ring has moved; what leaves, with it. What the
//!   process still maps then is nobody else's; it holds what it did until the process has answered, and nothing after. So the ring need not
//!   wait for that answer, and goes on when an order is carried out. A process whose content moves on at once is not told in between, and
//!   sees that until it has answered for where its content stays.
//! - A client answers once for each change that it was told of, in their order; what it says beyond that, or of what it has unlocked, is
//!   not heard.

use std::collections::VecDeque;
use std::sync::Arc;

use dxgkrnl::Heard;
use kmt_calls::MappingId;
use kmt_link::Piece;
use shared_words::{DetachedPages, LentPages, Memory};

use crate::elsewhere::{Elsewhere, FilePiece};

/// Consecutive bytes of a device's memory.
#[derive(Clone)]
struct Part {
    memory: Arc<Memory>,
    offset: u64,
    bytes: u64,
}

/// A view of a process elsewhere.
pub(super) struct There {
    pub process: Arc<dyn Elsewhere>,
    size_bytes: u64,
    /// What it shows, or is about to show, of a device's memory.
    local: Vec<Part>,
    /// The process has been told what it shows.
    told: bool,
    /// Changes that its process was told of and has not answered for, oldest first.
    asked: VecDeque<Asked>,
    /// What it sees since its content moves on without its being told.
    passed: Vec<DetachedPages>,
    /// It has unlocked it, by this change.
    closed: Option<u64>,
    /// Pages are being lent for it, or taken back.
    moving: bool,
}

/// A change that a process is to answer for.
struct Asked {
    number: u64,
    /// What it sees until then.
    _old: Vec<DetachedPages>,
}

impl There {
    pub fn new(process: Arc<dyn Elsewhere>, size_bytes: u64) -> There {
        let (asked, passed, closed) = (VecDeque::new(), Vec::new(), None);
        There { process, size_bytes, local: Vec::new(), told: false, asked, passed, closed, moving: false }
    }

    /// No store of its process gets through, which it will say; of one that has unlocked it nobody asks.
    pub fn protect(&mut self, mapping: MappingId, number: u64) -> Option<(u64, Heard)> {
        if self.closed.is_some() {
            return Some((number, Heard::Seen));
        }
        self.asked.push_back(Asked { number, _old: Vec::new() });
        self.process.protected(mapping);
        None
    }

    /// Its process says that it sees what it was told: which change. `None`: that is not heard.
    pub fn hear(&mut self) -> Option<u64> {
        self.asked.pop_front().map(|asked| asked.number)
    }

    /// It shows these; `system`: which memory is lent already. An order: what has to be done first.
    pub fn show(&mut self, mapping: MappingId, number: u64, pieces: Vec<Piece>, system: &Arc<Memory>) -> Option<Order> {
        let local = local(&pieces, system);
        let old = std::mem::replace(&mut self.local, local);
        let (takes, lends) = (without(&old, &self.local), without(&self.local, &old));
        if takes.is_empty() && lends.is_empty() {
            return None;
        }
        self.moving = true;
        Some(Order { mapping, number, what: What::Show { takes, lends, pieces } })
    }

    /// Its content is at these and moves on. An order: what it shows no longer is to be taken back; nothing is lent, and nobody told.
    pub fn pass(&mut self, mapping: MappingId, number: u64, pieces: &[Piece], system: &Arc<Memory>) -> Option<Order> {
        let takes = without(&self.local, &local(pieces, system));
        self.local = without(&self.local, &takes);
        self.moving = !takes.is_empty();
        self.moving.then_some(Order { mapping, number, what: What::Pass(takes) })
    }

    /// What it showed is taken back, by the change of this number; its process, which sees it, is not told.
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

    /// It has left: an order to take back what is lent for it.
    pub fn leave(&mut self, mapping: MappingId, number: u64) -> Order {
        self.moving = true;
        Order { mapping, number, what: What::Leave(std::mem::take(&mut self.local)) }
    }

    /// It is gone; nobody moves anything for it.
    pub fn end(self, mapping: MappingId) {
        for part in self.local {
            drop(detach(&part));
        }
        if self.closed.is_none() {
            self.process.gone(mapping);
        }
    }

    /// Its process has it no more. That, and all that it has not answered for, holds at once, or when what is on its way is done.
    pub fn close(&mut self, mapping: MappingId, number: u64) -> Option<(u64, Heard)> {
        self.closed = Some(number);
        self.asked.clear();
        self.passed.clear();
        self.process.gone(mapping);
        (!self.moving).then_some((number, Heard::Seen))
    }

    /// Its process is told what it shows, by the change of this number. The first that it is told it sees with the answer to its call.
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

/// Something that moves pages between a device and a process.
pub(crate) struct Order {
    mapping: MappingId,
    /// The change that it carries out.
    number: u64,
    what: What,
}

enum What {
    Show { takes: Vec<Part>, lends: Vec<Part>, pieces: Vec<Piece> },
    Pass(Vec<Part>),
    Leave(Vec<Part>),
}

/// What came of an order.
pub(crate) struct Moved {
    pub mapping: MappingId,
    pub number: u64,
    pub outcome: Outcome,
}

/// Of each kind.
pub(crate) enum Outcome {
    /// The files that a process is to be shown, or why there are none; what was shown before.
    Shows(Result<Vec<FilePiece>, String>, Vec<DetachedPages>),
    /// What was shown before, and its process sees on.
    Passed(Vec<DetachedPages>),
    /// It has left; or why without its content.
    Left(Result<(), String>),
}

impl Order {
    /// Carries it out, which takes as long as the content is large.
    pub fn carry_out(self) -> Moved {
        let Order { mapping, number, what } = self;
        let outcome = match what {
            What::Show { takes, lends, pieces } => {
                let old = takes.iter().map(detach).collect();
                Outcome::Shows(lend(&lends).and_then(|()| files(&pieces)), old)
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

/// The files that pieces lie in, in order.
pub(super) fn files(pieces: &[Piece]) -> Result<Vec<FilePiece>, String> {
    let mut files = Vec::new();
    for Piece { memory, offset, bytes } in pieces {
        let lent = memory.lent(*offset, *bytes).ok_or("there was no file for memory that it has locked")?;
        let piece = |part: LentPages| FilePiece { file: part.file, offset: part.file_offset, bytes: part.bytes };
        files.extend(lent.into_iter().map(piece));
    }
    Ok(files)
}

/// Lends parts, those of one memory in one file.
fn lend(parts: &[Part]) -> Result<(), String> {
    for same in parts.chunk_by(|one, other| Arc::ptr_eq(&one.memory, &other.memory)) {
        let runs: Vec<(u64, u64)> = same.iter().map(|part| (part.offset, part.bytes)).collect();
        let lent = same[0].memory.lend_content(&runs);
        lent.map_err(|error| format!("video memory that it has locked cannot be lent: {error}"))?;
    }
    Ok(())
}

fn detach(part: &Part) -> DetachedPages {
    // PANIC: without a mapping less than before there is no memory for whoever is given the pages next, and going on would show the one
    // process what the other has.
    part.memory.detach(part.offset, part.bytes).expect("a mapping of ours in place of another")
}

/// If that cannot be, without what it holds: its process has lost it.
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
    use super::*;

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
}
