//! The messages that a process hears on its stream and with responses, and the changes of its memory that follow: the threads that hear
//! them carry them out in order, and tell the kernel when a change of a mapping holds.
//!
//! # A process without descriptors
//! The limit of the process, or its address space, may keep out a file that comes with a message. The process notes what it has lost and goes
//! on: the call whose answer names that is taken back and refused ([`Hearing::lacks`]), and the next request tells the kernel which files to
//! send again ([`Lost`]). A change of a mapping that the process has has no call to refuse: without its files the connection ends.

mod arenas;
mod received;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use kmt_calls::wire::{decode, encode};
use kmt_calls::{DoorbellAddress, MappingId, Notification, Reply};
use wddm_types::PAGE_BYTES;

use super::message::{FileOf, Lost, Placed, Push, Pushed, Said};
use super::packet::{FILES_MAX, Files, PacketError};
use super::packets::Packets;
use crate::{CpuMapping, DoorbellPage, Piece, tell};

use arenas::Arenas;
pub(super) use received::Page;
use received::{is_scarce, only, page_of, parts_of, received_doorbell, shown};

/// The state that the stream's messages have made so far.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    heard: Mutex<Heard>,
    changed: Condvar,
    /// Whether a tool traces native fences. Looked at with each submission.
    traces: AtomicBool,
    /// Whether the process has ever lost a file. Looked at with each answer.
    has_lost: AtomicBool,
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
    /// The files that hold this process's memory.
    arenas: Arenas,
    mappings: BTreeMap<MappingId, Arc<CpuMapping>>,
    /// Those that have come since the kernel was told where such are.
    placed: Vec<Placed>,
    /// Files that the process could not take since the kernel was told of such.
    lost: Vec<Lost>,
    /// Mappings of which this process could not take a file, until they show files that it can take or are gone.
    lost_mappings: BTreeSet<MappingId>,
    /// Mappings that this process has protected because the kernel said so, until they show other pieces. The process does not know which
    /// mappings the kernel holds itself.
    held: BTreeMap<MappingId, Arc<CpuMapping>>,
    doorbells: BTreeMap<DoorbellAddress, Arc<DoorbellPage>>,
    /// Parts of a change whose end has not been heard.
    parts: Vec<Piece>,
    /// The process could not take one of these.
    lacks_part: bool,
    notifications: VecDeque<Notification>,
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
            numbered.try_for_each(|(push, before)| self.in_order(Pushed { before, push }, Files::default(), stream))
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

    /// What the kernel is to be told with a request: where mappings are that have come since this was asked last, and which files were lost.
    pub fn take_untold(&self) -> (Vec<Placed>, Vec<Lost>) {
        let mut heard = self.heard();
        (std::mem::take(&mut heard.placed), std::mem::take(&mut heard.lost))
    }

    /// The request did not go: the next one is to tell it. A mapping that is gone meanwhile has no place.
    pub fn tell_later(&self, placed: Vec<Placed>, lost: Vec<Lost>) {
        let mut heard = self.heard();
        let known = placed.into_iter().filter(|placed| heard.mappings.contains_key(&placed.mapping));
        let known: Vec<_> = known.collect();
        heard.placed.splice(0..0, known);
        heard.lost.splice(0..0, lost);
    }

    /// Whether an answer names memory of which this process has lost the file: its call is to be taken back.
    pub fn lacks(&self, reply: &Reply) -> bool {
        if !self.has_lost.load(Ordering::Acquire) {
            return false;
        }
        let heard = self.heard();
        let lost = |page: u64| matches!(heard.pages.get(&page), Some(Page::Lost));
        let doorbell = match reply {
            Reply::Doorbell(created) => !heard.doorbells.contains_key(&created.address),
            _ => false,
        };
        doorbell
            || reply.words().iter().any(|word| lost(word.0 / PAGE_BYTES))
            || reply.mapping().is_some_and(|mapping| heard.lost_mappings.contains(&mapping))
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
    fn in_order(&self, pushed: Pushed, files: Files, stream: &Arc<Packets>) -> Result<(), PacketError> {
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
    fn carry_out(&self, push: Push, files: Files, stream: &Arc<Packets>) -> Result<Option<MappingId>, PacketError> {
        let files = files.all().map_err(PacketError::System);
        let mut heard = self.heard();
        match push {
            Push::Arena { number, file_bytes, writable } => {
                if !heard.arenas.keep(number, files.map(only), file_bytes, writable)? {
                    self.lose(&mut heard, Lost::Arena(number));
                }
                Ok(None)
            }
            Push::Page { page, file, file_bytes, offset, writable } => {
                let page_of = match file {
                    FileOf::Arena(number) => heard.arenas.page(number, offset)?,
                    FileOf::Message(_) => page_of(files.map(only), file_bytes, offset, writable)?,
                };
                if matches!(page_of, Page::Lost) {
                    self.lose(&mut heard, Lost::Page(page));
                }
                heard.pages.insert(page, page_of);
                Ok(None)
            }
            Push::Shows { mapping, size_bytes, files: sizes, pieces, complete } => {
                match files.and_then(|files| parts_of(&heard.arenas, files, &sizes, pieces)) {
                    Ok(parts) => heard.parts.extend(parts),
                    // A mapping that the process has would show what it must not, and no call could be refused for that.
                    Err(error) if is_scarce(&error) && !heard.mappings.contains_key(&mapping) => {
                        heard.lacks_part = true;
                    }
                    Err(error) => return Err(error),
                }
                if !complete {
                    return Ok(None);
                }
                let pieces = std::mem::take(&mut heard.parts);
                if std::mem::take(&mut heard.lacks_part) {
                    self.has_lost.store(true, Ordering::Release);
                    // The kernel waits for an answer where it has shown something by it before.
                    return Ok((!heard.lost_mappings.insert(mapping)).then_some(mapping));
                }
                if pieces.iter().map(|piece| piece.bytes).sum::<u64>() != size_bytes {
                    return Err(PacketError::Malformed("the pieces of a mapping do not add up to its size"));
                }
                Ok(show(heard, mapping, size_bytes, pieces))
            }
            Push::Protected(mapping) => Hearing::protected(heard, mapping),
            Push::Gone(mapping) => Hearing::gone(heard, mapping),
            Push::Doorbell { address, rare_pays } => {
                match files.and_then(|files| received_doorbell(only(files), address, rare_pays, stream)) {
                    Ok(doorbell) => drop(heard.doorbells.insert(address, Arc::new(doorbell))),
                    Err(error) if is_scarce(&error) => self.has_lost.store(true, Ordering::Release),
                    Err(error) => return Err(error),
                }
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

    fn protected(mut heard: MutexGuard<'_, Heard>, mapping: MappingId) -> Result<Option<MappingId>, PacketError> {
        if heard.lost_mappings.contains(&mapping) {
            return Ok(Some(mapping));
        }
        let known = heard.mappings.get(&mapping).cloned();
        let known = known.ok_or(PacketError::Malformed("it names no mapping of this process"))?;
        heard.held.insert(mapping, Arc::clone(&known));
        drop(heard);
        known.protect();
        Ok(Some(mapping))
    }

    fn gone(mut heard: MutexGuard<'_, Heard>, mapping: MappingId) -> Result<Option<MappingId>, PacketError> {
        if heard.lost_mappings.remove(&mapping) {
            return Ok(None);
        }
        let known = heard.mappings.remove(&mapping);
        heard.held.remove(&mapping);
        heard.placed.retain(|placed| placed.mapping != mapping);
        drop(heard);
        known.ok_or(PacketError::Malformed("it names no mapping of this process"))?.end();
        Ok(None)
    }

    /// The process could not take a file: the next request tells the kernel.
    fn lose(&self, heard: &mut Heard, lost: Lost) {
        heard.lost.push(lost);
        self.has_lost.store(true, Ordering::Release);
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
        let message = stream.receive(usize::MAX, FILES_MAX);
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
    // The kernel waits for an answer where it has shown something by it that this process could not take.
    let was_lost = heard.lost_mappings.remove(&mapping);
    let shown = shown(size_bytes, pieces);
    if let Ok(range) = shown.range() {
        heard.placed.push(Placed { mapping, address: range.base().as_ptr() as u64 });
    }
    heard.mappings.insert(mapping, Arc::new(shown));
    was_lost.then_some(mapping)
}

#[cfg(test)]
mod tests;
