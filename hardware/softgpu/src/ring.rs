//! Fetching commands: from the ring, over its end, and from nested buffers. A page of the ring is translated once and then
//! read directly ([`Window`]); every word is read once, so that what was checked is what is executed. Called by the engine.

use std::sync::atomic::AtomicU64;

use shared_words::Word;
use softgpu_spec::Command;
use softgpu_spec::bus::PAGE_BYTES;
use softgpu_spec::command::WORDS_MAX;
use softgpu_spec::register::fault;

use crate::bus::{Bus, Fault, Site};
use crate::mmu::{Access, Mmu};
use crate::queue::QueueRun;

/// Words of a cache line.
const LINE_WORDS: u64 = 8;

/// Words of a completion.
const COMPLETION_WORDS: usize = 2;

/// A nested buffer, and how far it has been executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nested {
    /// Where it lies.
    pub(crate) va: u64,
    /// Its length.
    pub(crate) words: u64,
    /// Words executed.
    pub(crate) done: u64,
    /// Length in words of the Branch that leads to it, still at the head of the ring.
    pub(crate) branch_words: u64,
    /// `va` is a bus address.
    pub(crate) physical: bool,
}

/// One translated page.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    page: u64,
    generation: u64,
    site: Site,
}

impl Window {
    /// No page has this number.
    pub(crate) const CLOSED: Window = Window { page: u64::MAX, generation: 0, site: Site::Zero };
}

/// A command's words.
pub(crate) type Scratch = [u64; WORDS_MAX];

impl QueueRun {
    /// Copies the words of the command at the head into `scratch`. Returns how many.
    #[inline(always)]
    pub(crate) fn fetch(&mut self, bus: &Bus, mmu: &mut Mmu, scratch: &mut Scratch) -> Result<usize, Fault> {
        let available = self.available()?;
        if let Some(length) = self.near(bus, mmu, 0, available, scratch) {
            return Ok(length);
        }
        let head = self.address(0);
        let bad = |_| Fault { address: head, cause: fault::BAD_COMMAND, level: 0 };
        scratch[0] = Word::load(bus.read_word(self.site(bus, mmu, head)?));
        let length = Command::length(scratch[0]).map_err(bad)?;
        if length as u64 > available {
            return Err(Fault { address: head, cause: fault::BAD_COMMAND, level: 0 });
        }
        let mut done = 1;
        while done < length {
            // Words of a page lie in one piece, as far as the ring does not begin again.
            let address = self.address(done as u64);
            // CAST: at most a page.
            let words = ((PAGE_BYTES - address % PAGE_BYTES).min(self.begins_again(address)) / 8) as usize;
            let piece = words.min(length - done);
            let site = self.site(bus, mmu, address)?;
            for (index, place) in (0..).zip(&mut scratch[done..done + piece]) {
                *place = Word::load(bus.read_word(site.plus(index * 8)));
            }
            done += piece;
        }
        Ok(length)
    }

    /// Brings the lines behind the command of `words` words at the head near, while there is nothing better to do. The engine reads their
    /// content again when it is their turn.
    #[inline]
    pub(crate) fn look_ahead(&self, bus: &Bus, words: u64) {
        let window = if self.nested.is_some() { &self.nested_window } else { &self.ring_window };
        for ahead in [words, words + LINE_WORDS] {
            let address = self.address(ahead);
            if window.page == address / PAGE_BYTES {
                std::hint::black_box(Word::load(bus.read_word(window.site.plus(address % PAGE_BYTES))));
            }
        }
    }

    /// Copies the words of the command in the ring behind the one of `words` words at the head, if all of them were announced and lie
    /// in the page at hand, and if they find room in `scratch`. Returns how many.
    #[inline]
    pub(crate) fn fetch_behind(&self, bus: &Bus, mmu: &Mmu, words: u64, scratch: &mut [u64]) -> Option<usize> {
        if self.nested.is_some() {
            return None;
        }
        let available = self.available().ok()?.checked_sub(words)?;
        self.near(bus, mmu, words, available, scratch)
    }

    /// The value of the completion that stands behind the command of `words` words at the head of a ring of the driver's own.
    pub(crate) fn completion_behind(&self, bus: &Bus, words: u64) -> Option<u64> {
        if !self.ring_physical || self.nested.is_some() || self.available().ok()? < words + COMPLETION_WORDS as u64 {
            return None;
        }
        let mut behind = [0; COMPLETION_WORDS];
        for (index, word) in (words..).zip(&mut behind) {
            *word = Word::load(bus.read_word(bus.site(self.address(index)).ok()?));
        }
        match Command::decode(&behind) {
            Ok((Command::Complete { value }, _)) => Some(value),
            _ => None,
        }
    }

    /// The words from `ahead` words behind the head on that were announced, as far as they lie in the page at hand. Nothing is translated for
    /// it.
    #[inline]
    pub(crate) fn at_hand<'a>(&self, bus: &'a Bus, mmu: &Mmu, ahead: u64) -> &'a [AtomicU64] {
        let announced = self.available().ok().and_then(|available| available.checked_sub(ahead));
        announced.and_then(|available| self.in_window(bus, mmu, ahead, available)).unwrap_or_default()
    }

    /// At most `available` words from `ahead` words behind the head on, as far as they lie in the page at hand.
    #[inline(always)]
    fn in_window<'a>(&self, bus: &'a Bus, mmu: &Mmu, ahead: u64, available: u64) -> Option<&'a [AtomicU64]> {
        let window = if self.nested.is_some() { &self.nested_window } else { &self.ring_window };
        let address = self.address(ahead);
        if window.page != address / PAGE_BYTES || window.generation != mmu.generation() || !address.is_multiple_of(8) {
            return None;
        }
        let within = address % PAGE_BYTES;
        let left = available.min((PAGE_BYTES - within).min(self.begins_again(address)) / 8);
        let (memory, offset) = bus.memory(window.site)?;
        Some(memory.words(offset + within, left))
    }

    /// Copies the words of the command `ahead` words behind the head, of which `available` may be read, if all of them lie in the
    /// page at hand and find room in `scratch`. Nothing is translated for it.
    #[inline(always)]
    fn near(&self, bus: &Bus, mmu: &Mmu, ahead: u64, available: u64, scratch: &mut [u64]) -> Option<usize> {
        let at_hand = self.in_window(bus, mmu, ahead, available)?;
        let left = at_hand.len();
        let mut words = at_hand.iter().map(Word::load);
        let first = words.next()?;
        let length = Command::length(first).ok().filter(|length| *length <= left && *length <= scratch.len())?;
        scratch[0] = first;
        scratch[1..length].iter_mut().zip(words).for_each(|(place, word)| *place = word);
        Some(length)
    }

    /// The command of `words` words at the head is done. True when that moved the read pointer.
    #[inline(always)]
    pub(crate) fn retire(&mut self, words: u64) -> bool {
        let consumed = match &mut self.nested {
            None => words,
            Some(nested) => {
                nested.done += words;
                if nested.done < nested.words {
                    return false;
                }
                if nested.physical {
                    // The next nested buffer may mean another page by the same number.
                    self.nested_window = Window::CLOSED;
                }
                nested.branch_words
            }
        };
        self.nested = None;
        self.read += consumed * 8;
        true
    }

    /// Words done of the nested buffer that is being executed.
    pub(crate) fn nested_words(&self) -> u64 {
        self.nested.map_or(0, |nested| nested.done)
    }

    /// The address of the command at the head, which a fault of the command itself names.
    pub(crate) fn head(&self) -> u64 {
        self.address(0)
    }

    /// The address of the word `index` words behind the head.
    #[inline]
    fn address(&self, index: u64) -> u64 {
        match &self.nested {
            Some(nested) => nested.va.wrapping_add((nested.done + index) * 8),
            None => self.ring.wrapping_add((self.read + index * 8) & (self.ring_bytes - 1)),
        }
    }

    /// How many bytes from an address on lie in one piece, as far as the ring does not begin again.
    #[inline]
    fn begins_again(&self, address: u64) -> u64 {
        match &self.nested {
            Some(_) => u64::MAX,
            None => self.ring_bytes - address.wrapping_sub(self.ring),
        }
    }

    /// How many words there are to read. A write pointer that no producer could have reached is a fault.
    fn available(&self) -> Result<u64, Fault> {
        if let Some(nested) = &self.nested {
            return Ok(nested.words - nested.done);
        }
        let bytes = self.write.wrapping_sub(self.read);
        if bytes > self.ring_bytes || !bytes.is_multiple_of(8) {
            return Err(Fault { address: self.address(0), cause: fault::BAD_COMMAND, level: 0 });
        }
        Ok(bytes / 8)
    }

    /// Where a word lies.
    #[inline]
    fn site(&mut self, bus: &Bus, mmu: &mut Mmu, address: u64) -> Result<Site, Fault> {
        let physical = self.nested.map_or(self.ring_physical, |nested| nested.physical);
        let window = if self.nested.is_some() { &mut self.nested_window } else { &mut self.ring_window };
        if window.page != address / PAGE_BYTES || window.generation != mmu.generation() {
            if !address.is_multiple_of(8) {
                return Err(Fault { address, cause: fault::BAD_ADDRESS, level: 0 });
            }
            let start = address - address % PAGE_BYTES;
            let found = if physical { bus.site(start) } else { mmu.site(bus, self.root, start, Access::Read) };
            let site = found.map_err(|fault| Fault { address, ..fault })?;
            *window = Window { page: address / PAGE_BYTES, generation: mmu.generation(), site };
        }
        Ok(window.site.plus(address % PAGE_BYTES))
    }
}
