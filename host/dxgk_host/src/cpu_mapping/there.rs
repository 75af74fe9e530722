//! What a process elsewhere sees of a locked allocation. System pages are its own, in files, as long as the allocation is; pages of a
//! device's memory are lent to it when the kernel says so, with what they hold, and taken back.
//!
//! # The law of this boundary
//! - Content is copied, which takes as long as it is large: so it is done by an [`Order`], outside the machine's lock, one after the
//!   other, and the kernel's ring stands meanwhile. Only who ends a mapping under that lock, and needs what was ordered before, carries out
//!   himself what is not begun. In virtual time it is done at once.
//! - What was shown and is shown no longer is taken back without its content, which the ring has moved; what leaves, with it. What the
//!   process still maps then is nobody else's; it holds what it did until the process has answered, and nothing after. So the ring need not
//!   wait for that answer, and goes on when an order is carried out.
//! - A client answers once for each change that it was told of, in their order; what it says beyond that, or of what it has unlocked, is
//!   not heard.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
        let (asked, closed) = (VecDeque::new(), None);
        There { process, size_bytes, local: Vec::new(), told: false, asked, closed, moving: false }
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
        let part = |piece: &Piece| Part { memory: Arc::clone(&piece.memory), offset: piece.offset, bytes: piece.bytes };
        let local: Vec<Part> = pieces.iter().filter(|piece| !Arc::ptr_eq(&piece.memory, system)).map(part).collect();
        let old = std::mem::replace(&mut self.local, local);
        let (takes, lends) = (without(&old, &self.local), without(&self.local, &old));
        if takes.is_empty() && lends.is_empty() {
            return None;
        }
        self.moving = true;
        Some(Order { mapping, number, what: What::Show { takes, lends, pieces } })
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
        if let Some(closed) = self.closed {
            return (closed.max(number), Heard::Seen);
        }
        match shows {
            Ok(files) => self.process.shows(mapping, self.size_bytes, files),
            // The process ends, and its views with it.
            Err(reason) => self.process.lost(&reason),
        }
        if std::mem::replace(&mut self.told, true) {
            self.asked.push_back(Asked { number, _old: old });
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
    Leave(Vec<Part>),
}

/// What came of an order: the files that a process is to be shown, none when it leaves; or why there are none.
pub(crate) struct Moved {
    pub mapping: MappingId,
    pub number: u64,
    pub shows: Result<Vec<FilePiece>, String>,
    /// What was shown before.
    pub old: Vec<DetachedPages>,
    pub leaves: bool,
}

impl Order {
    fn carry_out(self) -> Moved {
        let Order { mapping, number, what } = self;
        match what {
            What::Show { takes, lends, pieces } => {
                let old = takes.iter().map(detach).collect();
                let shows = lend(&lends).and_then(|()| files(&pieces));
                Moved { mapping, number, shows, old, leaves: false }
            }
            What::Leave(parts) => {
                let kept: Vec<_> = parts.iter().map(take_content_back).collect();
                let shows = kept.into_iter().collect::<Result<(), String>>().map(|()| Vec::new());
                Moved { mapping, number, shows, old: Vec::new(), leaves: true }
            }
        }
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

/// Who carries orders out.
pub(super) enum Mover {
    /// Whoever gives them, at once.
    AtOnce,
    /// A thread, in their order; or who waits for them.
    Thread(Given),
}

/// What that thread has to do.
enum Item {
    CarryOut(Order),
    /// Who has waited for it has carried it out, and told nobody.
    Tell(Moved),
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    items: VecDeque<Item>,
    /// The thread is in the middle of an order.
    under_way: bool,
    /// There will be no more.
    over: bool,
    /// There is no thread.
    abandoned: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, condition: impl Fn(&QueueState) -> bool) -> MutexGuard<'_, QueueState> {
        self.changed.wait_while(self.state(), |state| condition(state)).unwrap_or_else(PoisonError::into_inner)
    }
}

/// The orders of a host, for whoever gives them. Dropped, there will be no more.
pub(super) struct Given(Arc<Queue>);

impl Drop for Given {
    fn drop(&mut self) {
        self.0.state().over = true;
        self.0.changed.notify_all();
    }
}

/// The same for the thread that carries them out. Dropped, it carries none out any more.
pub(crate) struct Orders(Arc<Queue>);

impl Drop for Orders {
    fn drop(&mut self) {
        self.0.state().abandoned = true;
        self.0.changed.notify_all();
    }
}

impl Orders {
    /// Carries out the next, if nobody has, and answers what the kernel is to be told. `None`: there will be no more.
    pub fn next(&self) -> Option<Moved> {
        let mut state = self.0.wait_while(|state| state.items.is_empty() && !state.over);
        match state.items.pop_front()? {
            Item::Tell(moved) => Some(moved),
            Item::CarryOut(order) => {
                state.under_way = true;
                drop(state);
                let moved = order.carry_out();
                self.0.state().under_way = false;
                self.0.changed.notify_all();
                Some(moved)
            }
        }
    }
}

impl Mover {
    /// One that a thread has to serve.
    pub fn thread() -> (Mover, Orders) {
        let queue = Arc::new(Queue::default());
        (Mover::Thread(Given(Arc::clone(&queue))), Orders(queue))
    }

    /// Gives an order; what came of it, if that is known already.
    pub fn give(&mut self, order: Order) -> Option<Moved> {
        match self {
            Mover::AtOnce => Some(order.carry_out()),
            Mover::Thread(Given(queue)) => {
                // Without the thread the host is going, or the kernel is about to fail, and nobody is told of anything any more.
                queue.state().items.push_back(Item::CarryOut(order));
                queue.changed.notify_all();
                None
            }
        }
    }

    /// Sees to it that every order is carried out: what the thread has not begun is carried out here, and it tells the kernel of it as of
    /// what it has done itself. So the thread may wait for the kernel's lock, and whoever holds that for the thread's order.
    ///
    /// # Panics
    /// When the thread has died of a defect: what it was to take back is still shown, and whoever is given the pages next would be seen.
    pub fn finish(&self) {
        let Mover::Thread(Given(queue)) = self else { return };
        let mut state = queue.wait_while(|state| state.under_way && !state.abandoned);
        let left = state.items.iter().filter(|item| matches!(item, Item::CarryOut(_))).count();
        let died = state.abandoned && (state.under_way || left > 0);
        assert!(!died, "who lends memory has died, and {left} orders are not begun");
        for item in std::mem::take(&mut state.items) {
            let moved = match item {
                Item::CarryOut(order) => order.carry_out(),
                Item::Tell(moved) => moved,
            };
            state.items.push_back(Item::Tell(moved));
        }
    }
}

#[cfg(test)]
impl Mover {
    pub fn has_begun(&self) -> bool {
        !matches!(self, Mover::Thread(Given(queue)) if !queue.state().items.is_empty())
    }
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
