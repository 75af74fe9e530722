//! DMA buffers (memory §7.1): system memory that only the kernel and the driver write and the GPU reads. Each context has a
//! pool that grows as buffers are queued, up to a limit, and shrinks to one when they are done. `adapter::packets::dma_buffer` makes and
//! ends them.
//!
//! | DmaBufferSegmentSet | pages | what the driver is told at submission |
//! |---|---|---|
//! | empty | contiguous | segment 0, the system physical address |
//! | apertures | any, shown by the first of them that has room | that aperture, base + offset |
//! | a memory segment | – | the device or the context is not created |
//!
//! A context with addresses has them for presents only: contiguous pages, shown read-only in the process's space.

use std::ops::Range;

use ddi::ContextInfo;
use shared_words::Memory;
use vidmm::Operation;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, SegmentId};

use super::{DmaBufferNumber, Packets};
use crate::number::PacketContextNumber;
use crate::store::ObjectNumber;

/// Buffers of one context at most: policy, more than a client has ahead of its engine.
const BUFFERS_MAX: usize = 32;

/// Where a DMA buffer lies.
pub struct BufferPlace {
    /// Its pages.
    pub pages: Vec<PageRun>,
    /// The aperture that shows it, its first page there, and what makes it show it.
    pub shown: Option<(SegmentId, u64, Operation)>,
    /// Its place as the driver is told at submission.
    pub told: (SegmentId, u64),
    /// Where it is shown in the space of a context with addresses; NULL elsewhere.
    pub va: GpuVa,
    /// The paging work after which the aperture, or the process's space, shows it.
    pub shown_after: u64,
}

/// A DMA buffer.
pub(super) struct DmaBuffer {
    /// Its number on the adapter.
    pub number: DmaBufferNumber,
    pub place: BufferPlace,
    /// Its content as the driver writes it.
    pub words: Vec<u64>,
    /// Zeroed once, here; then the driver's.
    pub private_data: Vec<u8>,
    busy: bool,
}

/// A pool's answer to the wish for a buffer.
pub enum Pooled {
    /// This one was free, and is in use now.
    Taken(DmaBufferNumber),
    /// None is free, and there may be one more.
    MayGrow,
    /// All that there may be are in use.
    Full,
}

impl DmaBuffer {
    /// Whether a packet has it.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }
}

impl Packets {
    /// Takes a free buffer of a context.
    pub fn take_buffer(&mut self, context: PacketContextNumber) -> Pooled {
        let pool = &mut self.contexts[context].buffers;
        if let Some(free) = pool.iter_mut().find(|buffer| !buffer.busy) {
            free.busy = true;
            return Pooled::Taken(free.number);
        }
        if pool.len() >= BUFFERS_MAX { Pooled::Full } else { Pooled::MayGrow }
    }

    /// A new buffer of a context, which is in use. Answers with its number.
    pub fn add_buffer(&mut self, context: PacketContextNumber, place: BufferPlace) -> DmaBufferNumber {
        self.buffers_made += 1;
        let number = DmaBufferNumber::from_raw(self.buffers_made);
        let known = &mut self.contexts[context];
        debug_assert!(known.buffers.len() < BUFFERS_MAX, "a pool of {} buffers does not grow", known.buffers.len());
        let ContextInfo { dma_buffer_bytes: bytes, dma_buffer_private_data_bytes: private_bytes, .. } =
            known.facts.info;
        known.buffers.push(DmaBuffer {
            number,
            place,
            words: vec![0; (bytes / 8) as usize],
            private_data: vec![0; private_bytes as usize],
            busy: true,
        });
        number
    }

    /// A buffer is done with. One free one is kept; of another the place is to be given back.
    pub fn release_buffer(&mut self, context: PacketContextNumber, number: DmaBufferNumber) -> Option<BufferPlace> {
        let pool = &mut self.contexts[context].buffers;
        let spare = pool.iter().any(|buffer| !buffer.busy);
        let at = pool.iter().position(|buffer| buffer.number == number).expect("a buffer in use is in its pool");
        debug_assert!(pool[at].busy, "a packet is done with its buffer once: {number:?}");
        if !spare {
            pool[at].busy = false;
            return None;
        }
        Some(pool.swap_remove(at).place)
    }

    /// A context goes: all its buffers, whose places are to be given back.
    pub fn take_buffers(&mut self, context: PacketContextNumber) -> Vec<BufferPlace> {
        let buffers = std::mem::take(&mut self.contexts[context].buffers);
        buffers.into_iter().map(|buffer| buffer.place).collect()
    }

    /// The operations that show a context's buffers through apertures.
    pub fn buffer_maps(&self, context: PacketContextNumber) -> Vec<Operation> {
        let shown = |buffer: &DmaBuffer| buffer.place.shown.as_ref().map(|(_, _, map)| map.clone());
        self.contexts[context].buffers.iter().filter_map(shown).collect()
    }

    /// The apertures show a context's buffers again, behind this point of the ring. Queued packets wait for that.
    pub fn buffers_shown_again(&mut self, context: PacketContextNumber, shown_after: u64) {
        let shown = self.contexts[context].buffers.iter_mut().filter(|buffer| buffer.place.shown.is_some());
        shown.for_each(|buffer| buffer.place.shown_after = shown_after);
    }

    /// Where a buffer in use lies.
    pub fn buffer_place(&self, context: PacketContextNumber, number: DmaBufferNumber) -> &BufferPlace {
        &self.dma_buffer(context, number).place
    }

    /// Brings words of a buffer to where the GPU reads them: the words of a portion, so that running portions are left alone.
    pub(super) fn store_buffer(
        &self,
        memory: &Memory,
        context: PacketContextNumber,
        number: DmaBufferNumber,
        words: Range<usize>,
    ) {
        let buffer = self.dma_buffer(context, number);
        let mut run_start = 0usize;
        for run in &buffer.place.pages {
            let run_end = run_start + (run.count.bytes() / 8) as usize;
            let (from, to) = (words.start.max(run_start), words.end.min(run_end));
            if from < to {
                let part = &buffer.words[from..to];
                let at = run.first * PAGE_BYTES + (from - run_start) as u64 * 8;
                memory.store_words(at, part.len() as u64, |index| part[index as usize]);
            }
            run_start = run_end;
        }
    }

    pub(super) fn dma_buffer(&self, context: PacketContextNumber, number: DmaBufferNumber) -> &DmaBuffer {
        let pool = &self.contexts[context].buffers;
        pool.iter().find(|buffer| buffer.number == number).expect("a buffer in use is in its pool")
    }
}

impl BufferPlace {
    /// How many pages it has.
    pub fn count(&self) -> Pages {
        Pages(self.pages.iter().map(|run| run.count.0).sum())
    }
}
