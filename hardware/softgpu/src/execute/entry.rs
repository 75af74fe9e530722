//! An entry of a queue's log: its words are found first, so that nothing of a command is done when they are not there, and written when the
//! command is. Called by the commands that are logged.

use std::sync::atomic::AtomicU64;

use device_port::Unit;
use shared_words::log::entry::{END, FENCE_VALUE, HANDLE_AND_OPERATION, OBSERVED};
use shared_words::{Word, log};
use softgpu_spec::LogSlot;
use softgpu_spec::bus::PAGE_BYTES;

use super::Execution;
use crate::bus::Fault;
use crate::device::SoftGpu;
use crate::mmu::{Access, Target};

/// Words of an entry, and of a header.
const ENTRY_WORDS: usize = (log::ENTRY_BYTES / 8) as usize;
const HEADER_WORDS: usize = (log::HEADER_BYTES / 8) as usize;

/// What an engine writes of an entry.
const ENTRY_FIELDS: [u64; 4] = [FENCE_VALUE, HANDLE_AND_OPERATION, OBSERVED, END];

/// Where an entry of a log goes, and what the command says of it.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    handle: u32,
    header: Piece<'a, HEADER_WORDS>,
    entry: Piece<'a, ENTRY_WORDS>,
}

/// A piece of memory that an engine writes: on one page, or on two.
#[derive(Clone, Copy)]
struct Piece<'a, const N: usize> {
    first: Target<'a>,
    /// The offset of the first of its fields that lies on the next page, and the place of that field.
    next: Option<(u64, Target<'a>)>,
    /// All of its words, if they lie in one piece.
    words: Option<&'a [AtomicU64; N]>,
}

impl<'a> Execution<'a> {
    /// The words of a log slot, found before anything is stored. Words inside one page are translated once.
    #[inline(always)]
    pub(super) fn entry(&mut self, slot: LogSlot) -> Result<Entry<'a>, Fault> {
        let header = self.piece(slot.header_va, &[log::ENTRIES_OFFSET])?;
        let entry = self.piece(slot.entry_va, &ENTRY_FIELDS)?;
        Ok(Entry { handle: slot.handle, header, entry })
    }

    /// A piece of memory with fields at its begin and at these offsets.
    #[inline(always)]
    fn piece<const N: usize>(&mut self, va: u64, fields: &[u64]) -> Result<Piece<'a, N>, Fault> {
        let first = self.word(va, Access::Write)?;
        let on_page = PAGE_BYTES - va % PAGE_BYTES;
        if N as u64 * 8 <= on_page {
            let gpu: &'a SoftGpu = self.gpu;
            let memory = gpu.bus.memory(first.site);
            let words = memory.and_then(|(memory, offset)| memory.words(offset, N as u64).try_into().ok());
            return Ok(Piece { first, next: None, words });
        }
        let next = match fields.iter().find(|field| **field >= on_page) {
            Some(field) => Some((*field, self.word(va.wrapping_add(*field), Access::Write)?)),
            None => None,
        };
        Ok(Piece { first, next, words: None })
    }
}

impl Entry<'_> {
    /// Writes the entry (its value, when the command was met unresolved, when it was over) and then advances the header, by one word. There is
    /// no barrier between: the reader has the entries committed before it looks at them. The caller puts one behind the header.
    // spec: sync §3.14
    #[inline(never)]
    pub(super) fn write(&self, gpu: &SoftGpu, unit: Unit, [value, observed, end]: [u64; 3], operation: u32) {
        let fields = [value, u64::from(self.handle) | u64::from(operation) << 32, observed, end];
        match (self.header.words, self.entry.words, gpu.buffers_stores()) {
            (Some(header), Some(entry), false) => {
                let at = |offset: u64| (offset / 8) as usize;
                let (position, entries) = (&header[at(log::POSITION_OFFSET)], &header[at(log::ENTRIES_OFFSET)]);
                let next = log::advanced(Word::load(position), Word::load(entries));
                log::write_entry(&ENTRY_FIELDS.map(|offset| &entry[at(offset)]), position, fields, next);
            }
            _ => {
                let ordered = |target| gpu.ordered(unit, target);
                let position = ordered(self.header.at(gpu, log::POSITION_OFFSET));
                let entries = ordered(self.header.at(gpu, log::ENTRIES_OFFSET));
                let next = log::advanced(Word::load(&position), Word::load(&entries));
                let words = ENTRY_FIELDS.map(|offset| ordered(self.entry.at(gpu, offset)));
                log::write_entry(&words, &position, fields, next);
            }
        }
    }
}

impl<'a, const N: usize> Piece<'a, N> {
    /// The word at an offset.
    fn at(&self, gpu: &'a SoftGpu, offset: u64) -> Target<'a> {
        let site = match self.next {
            Some((field, next)) if offset >= field => next.site.plus(offset - field),
            _ => self.first.site.plus(offset),
        };
        Target { site, word: gpu.bus.write_word(site) }
    }
}
