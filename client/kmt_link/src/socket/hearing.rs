//! The messages that a process hears on its stream and with responses, and the changes of its memory that follow: the threads that hear
//! them carry them out in order, and tell the kernel when a change of a mapping holds.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use kmt_calls::wire::{decode, encode};
use kmt_calls::{DoorbellAddress, MappingId, Notification};
use shared_words::{AddressRange, Memory, ReadOnlyMemory};
use wddm_types::PAGE_BYTES;

use super::message::{FileOf, PieceOf, Placed, Push, Pushed, Said};
use super::packet::{FILES_MAX, PacketError};
use super::packets::{MESSAGE_MAX, Packets};
use crate::{CpuMapping, DoorbellPage, NoAddresses, Piece, tell};

/// The state that the stream's messages have made so far.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    heard: Mutex<Heard>,
    changed: Condvar,
    /// Whether a tool traces native fences. Looked at with each submission.
    traces: AtomicBool,
}

/// Under the lock.
#[derive(Debug, Default)]
struct Heard {
    /// How many messages have been carried out.
    messages: u64,
    /// Threads that wait for a change: without one nothing is to be woken.
    waiting: u64,
    /// The stream has ended.
    ended: bool,
    /// Why this process ended the stream itself. None: its kernel did.
    given_up: Option<String>,
    pages: BTreeMap<u64, Page>,
    /// The files that hold this process's memory, in the order in which they came.
    arenas: Vec<Arena>,
    mappings: BTreeMap<MappingId, Arc<CpuMapping>>,
    /// Those that have come since the kernel was told where such are.
    placed: Vec<Placed>,
    /// Mappings that this process has protected because the kernel said so, until they show other pieces. The process does not know which
    /// mappings the kernel holds itself.
    held: BTreeMap<MappingId, Arc<CpuMapping>>,
    doorbells: BTreeMap<DoorbellAddress, Arc<DoorbellPage>>,
    /// Parts of a change whose end has not been heard.
    parts: Vec<Piece>,
    notifications: VecDeque<Notification>,
}

/// A file that holds memory of this process, mapped whole.
#[derive(Debug)]
enum Arena {
    ReadOnly(ReadOnlyMemory),
    Writable(Arc<Memory>),
}

/// A page of words, and where in what was received it begins.
#[derive(Clone, Debug)]
pub(super) enum Page {
    /// One to look at.
    ReadOnly(ReadOnlyMemory, u64),
    /// One to write, too.
    Writable(Arc<Memory>, u64),
}

impl Hearing {
    /// Waits until so many messages have been heard; false: no more come.
    pub fn up_to(&self, messages: u64) -> bool {
        self.wait_while(|heard| heard.messages < messages && !heard.ended).messages >= messages
    }

    /// Carries out the messages that came with a response: the last of the first `pushed`. Waits until the stream has brought those before.
    ///
    /// # Errors
    /// The stream has ended, or one of them is malformed, which ends it.
    pub fn with_response(&self, pushes: Vec<Push>, pushed: u64, stream: &Arc<Packets>) -> Result<(), PacketError> {
        let count = pushes.len() as u64;
        let before = pushed.checked_sub(count).ok_or(PacketError::Malformed("more messages than there have been"));
        let carried = before.and_then(|before| {
            let mut numbered = pushes.into_iter().zip(before..);
            numbered.try_for_each(|(push, before)| self.in_order(Pushed { before, push }, Vec::new(), stream))
        });
        if let Err(why) = &carried {
            self.end(why);
            stream.close();
        }
        carried
    }

    /// The error of a call of this process: a stream that this process ended itself says why, in place of `Closed`.
    pub fn blamed(&self, error: PacketError) -> PacketError {
        match (&error, &self.heard().given_up) {
            (PacketError::Closed, Some(why)) => PacketError::GivenUp(why.clone()),
            _ => error,
        }
    }

    /// Whether a tool traces native fences.
    pub fn traces(&self) -> bool {
        self.traces.load(Ordering::Relaxed)
    }

    /// A page of words.
    pub fn page(&self, page: u64) -> Option<Page> {
        self.heard().pages.get(&page).cloned()
    }

    /// The mapping of a lock.
    pub fn mapping(&self, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        self.heard().mappings.get(&mapping).cloned()
    }

    /// Where mappings are that have come since this was asked last.
    pub fn take_placed(&self) -> Vec<Placed> {
        std::mem::take(&mut self.heard().placed)
    }

    /// A doorbell.
    pub fn doorbell(&self, address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        self.heard().doorbells.get(&address).cloned()
    }

    /// The oldest notification; `block`: waits for one, until none will come any more.
    pub fn notification(&self, block: bool) -> Option<Notification> {
        self.wait_while(|heard| block && heard.notifications.is_empty() && !heard.ended).notifications.pop_front()
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, condition: impl Fn(&Heard) -> bool) -> MutexGuard<'_, Heard> {
        let mut heard = self.heard();
        while condition(&heard) {
            heard.waiting += 1;
            heard = self.changed.wait(heard).unwrap_or_else(PoisonError::into_inner);
            heard.waiting -= 1;
        }
        heard
    }

    /// Carries a message out when all before it have been, and tells the kernel if it waits to know.
    fn in_order(&self, pushed: Pushed, files: Vec<OwnedFd>, stream: &Arc<Packets>) -> Result<(), PacketError> {
        let Pushed { before, push } = pushed;
        let heard = self.wait_while(|heard| heard.messages < before && !heard.ended);
        match heard.messages.cmp(&before) {
            std::cmp::Ordering::Less => return Err(PacketError::Closed),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => return Err(PacketError::Malformed("a message that has been heard already")),
        }
        drop(heard);
        if let Some(holds) = self.carry_out(push, files, stream)? {
            stream.send(&encode(&Said::Holds(holds), Vec::new()), &[])?;
        }
        let mut heard = self.heard();
        heard.messages += 1;
        if heard.waiting > 0 {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Carries one message out. Returns which mapping's change holds now, if the kernel waits to know.
    fn carry_out(
        &self,
        push: Push,
        files: Vec<OwnedFd>,
        stream: &Arc<Packets>,
    ) -> Result<Option<MappingId>, PacketError> {
        let mut heard = self.heard();
        match push {
            Push::Arena { file_bytes, writable } => {
                heard.keep_arena(only(files), file_bytes, writable)?;
                Ok(None)
            }
            Push::Page { page, file: FileOf::Arena(number), offset, .. } => {
                let page_of = heard.page_of_arena(number, offset)?;
                heard.pages.insert(page, page_of);
                Ok(None)
            }
            Push::Page { page, file: FileOf::Message(_), file_bytes, offset, writable } => {
                heard.pages.insert(page, page_of(only(files), file_bytes, offset, writable)?);
                Ok(None)
            }
            Push::Shows { mapping, size_bytes, files: sizes, pieces, complete } => {
                let parts = parts_of(&heard.arenas, files, &sizes, pieces)?;
                heard.parts.extend(parts);
                if !complete {
                    return Ok(None);
                }
                let pieces = std::mem::take(&mut heard.parts);
                if pieces.iter().map(|piece| piece.bytes).sum::<u64>() != size_bytes {
                    return Err(PacketError::Malformed("the pieces of a mapping do not add up to its size"));
                }
                Ok(show(heard, mapping, size_bytes, pieces))
            }
            Push::Protected(mapping) => {
                let known = heard.mappings.get(&mapping).cloned();
                let known = known.ok_or(PacketError::Malformed("it names no mapping of this process"))?;
                heard.held.insert(mapping, Arc::clone(&known));
                drop(heard);
                known.protect();
                Ok(Some(mapping))
            }
            Push::Gone(mapping) => {
                let known = heard.mappings.remove(&mapping);
                heard.held.remove(&mapping);
                heard.placed.retain(|placed| placed.mapping != mapping);
                drop(heard);
                known.ok_or(PacketError::Malformed("it names no mapping of this process"))?.end();
                Ok(None)
            }
            Push::Doorbell { address, rare_pays } => {
                let file =
                    only(files).ok_or(PacketError::Malformed("a doorbell without exactly one descriptor, its page"))?;
                let doorbell = received_doorbell(file, address, rare_pays, stream)?;
                heard.doorbells.insert(address, Arc::new(doorbell));
                Ok(None)
            }
            Push::DoorbellGone(address) => {
                heard.doorbells.remove(&address);
                Ok(None)
            }
            Push::Notify(notification) => {
                tell(&mut heard.notifications, notification);
                Ok(None)
            }
            Push::Traces(on) => {
                self.traces.store(on, Ordering::Relaxed);
                Ok(None)
            }
        }
    }

    /// No more messages are carried out, for this reason. The first reason stands.
    pub fn end(&self, why: &PacketError) {
        let mut heard = self.heard();
        if std::mem::replace(&mut heard.ended, true) {
            return;
        }
        heard.given_up = (!matches!(why, PacketError::Closed)).then(|| why.to_string());
        heard.held.clear();
        let mappings: Vec<_> = heard.mappings.values().cloned().collect();
        drop(heard);
        self.changed.notify_all();
        // The kernel will show these no other pieces: their memory stays what it is, and held stores go on there. The kernel has not told
        // which of them it holds itself. It holds no more of them once it sees that the stream has ended.
        // spec: memory §6.3
        mappings.iter().for_each(|mapping| mapping.release());
    }
}

/// Hears until the kernel or the process has gone; then wakes every thread that waits for the stream.
pub(super) fn listen(stream: &Arc<Packets>, hearing: &Weak<Hearing>) {
    loop {
        let message = stream.receive(MESSAGE_MAX, FILES_MAX);
        let Some(hearing) = hearing.upgrade() else { return };
        let heard = message.and_then(|(bytes, files)| {
            let pushed = decode(&bytes)
                .map_err(|_| PacketError::Malformed("it cannot be decoded; both programs must have one version"))?;
            hearing.in_order(pushed, files, stream)
        });
        if let Err(why) = heard {
            // The reason stands there before the lanes hear that the stream is closed.
            hearing.end(&why);
            return stream.close();
        }
    }
}

/// Has a mapping show these pieces; its name, if it was there before: the kernel waits to know that the change holds.
fn show(
    mut heard: MutexGuard<'_, Heard>,
    mapping: MappingId,
    size_bytes: u64,
    pieces: Vec<Piece>,
) -> Option<MappingId> {
    if let Some(known) = heard.mappings.get(&mapping).cloned() {
        heard.held.remove(&mapping);
        drop(heard);
        known.show(pieces);
        return Some(mapping);
    }
    let shown = shown(size_bytes, pieces);
    if let Ok(range) = shown.range() {
        heard.placed.push(Placed { mapping, address: range.base().as_ptr() as u64 });
    }
    heard.mappings.insert(mapping, Arc::new(shown));
    None
}

impl Heard {
    /// An arena of the process has come.
    fn keep_arena(&mut self, came: Option<OwnedFd>, file_bytes: u64, writable: bool) -> Result<(), PacketError> {
        let file = came.ok_or(PacketError::Malformed("an arena without exactly one descriptor, its file"))?;
        if self.arenas.len() == ARENAS_MAX {
            return Err(PacketError::Malformed("more arenas than any kernel has for a process"));
        }
        self.arenas.push(match writable {
            true => Arena::Writable(Memory::from_file(file, file_bytes)?),
            false => Arena::ReadOnly(ReadOnlyMemory::from_file(file, file_bytes)?),
        });
        Ok(())
    }

    /// A page of words in an arena.
    fn page_of_arena(&self, number: u32, offset: u64) -> Result<Page, PacketError> {
        let end = offset.checked_add(PAGE_BYTES);
        match (self.arenas.get(number as usize), end) {
            (Some(Arena::ReadOnly(memory)), Some(end)) if end <= memory.bytes() => {
                Ok(Page::ReadOnly(memory.clone(), offset))
            }
            (Some(Arena::Writable(memory)), Some(end)) if end <= memory.bytes() => {
                Ok(Page::Writable(Arc::clone(memory), offset))
            }
            _ => Err(PacketError::Malformed("a page of no arena")),
        }
    }
}

/// A page of words in a file that came with its message.
fn page_of(came: Option<OwnedFd>, file_bytes: u64, offset: u64, writable: bool) -> Result<Page, PacketError> {
    let file = came.ok_or(PacketError::Malformed("a page of words without exactly one descriptor, its file"))?;
    Ok(match writable {
        true => Page::Writable(Memory::from_file(file, file_bytes)?, offset),
        false => Page::ReadOnly(ReadOnlyMemory::from_file(file, file_bytes)?, offset),
    })
}

/// The one file that came with a message.
fn only(files: Vec<OwnedFd>) -> Option<OwnedFd> {
    <[OwnedFd; 1]>::try_from(files).ok().map(|[file]| file)
}

/// The parts that a message shows, each of an arena or of one of the files that came with it.
fn parts_of(
    arenas: &[Arena],
    files: Vec<OwnedFd>,
    sizes: &[u64],
    pieces: Vec<PieceOf>,
) -> Result<Vec<Piece>, PacketError> {
    if sizes.len() != files.len() {
        return Err(PacketError::Malformed("files without sizes"));
    }
    let received = files.into_iter().zip(sizes).map(|(file, bytes)| Memory::from_file(file, *bytes));
    let memories = received.collect::<Result<Vec<_>, _>>()?;
    let part = |PieceOf { file, offset, bytes }| {
        let known = match file {
            FileOf::Message(place) => memories.get(place as usize),
            FileOf::Arena(number) => match arenas.get(number as usize) {
                Some(Arena::Writable(memory)) => Some(memory),
                Some(Arena::ReadOnly(_)) | None => None,
            },
        };
        let memory = known.filter(|memory| memory.contains(offset, bytes));
        let memory = memory.ok_or(PacketError::Malformed("a part of no file"))?;
        Ok(Piece { memory: Arc::clone(memory), offset, bytes })
    };
    pieces.into_iter().map(part).collect()
}

/// A doorbell's page, whose rings are said to the kernel where its engine sleeps.
fn received_doorbell(
    file: OwnedFd,
    address: DoorbellAddress,
    rare_pays: bool,
    stream: &Arc<Packets>,
) -> Result<DoorbellPage, PacketError> {
    let stream = Arc::clone(stream);
    let wake = move |_| {
        // A kernel that has gone has no engine to wake.
        let _ = stream.send(&encode(&Said::Rung(address), Vec::new()), &[]);
    };
    Ok(DoorbellPage::received(Memory::from_file(file, PAGE_BYTES)?, rare_pays, Box::new(wake)))
}

/// A lock's bytes: at addresses of their own where the operating system holds stores while content moves.
fn shown(size_bytes: u64, pieces: Vec<Piece>) -> CpuMapping {
    let whole = pieces.iter().all(|piece| (piece.offset | piece.bytes).is_multiple_of(4096));
    if !whole {
        return CpuMapping::new(size_bytes, pieces, None, NoAddresses::RowsBelowPages);
    }
    let parts = pieces.iter().map(|piece| (&*piece.memory, piece.offset, piece.bytes));
    match AddressRange::showing(size_bytes, parts) {
        Ok(range) => CpuMapping::at_addresses(size_bytes, range),
        Err(error) => CpuMapping::new(size_bytes, pieces, None, NoAddresses::System(error.to_string())),
    }
}

/// Most arenas of a process: one of system memory to write and one to read, and one of each adapter's own.
const ARENAS_MAX: usize = 256;

#[cfg(test)]
mod tests;
