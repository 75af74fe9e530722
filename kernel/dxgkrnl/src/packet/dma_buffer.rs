//! DMA buffers (memory §7.1): system memory that only the kernel and the driver write and the GPU reads. Each context has a
//! pool that grows as buffers are queued, up to a limit, and shrinks to one when they are done.
//!
//! | DmaBufferSegmentSet | pages | what the driver is told at submission |
//! |---|---|---|
//! | empty | contiguous | segment 0, the system physical address |
//! | apertures | any, shown by the first of them that has room | that aperture, base + offset |
//! | a memory segment | – | the device or the context is not created |
//!
//! A context with addresses has them for presents only: contiguous pages, shown read-only in the process's space.

use std::ops::Range;

use events::Event;
use vidmm::{Operation, SpaceId};
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::packet::PacketContextNumber;
use crate::packet::info::dma_buffer_segments;
use crate::store::ObjectNumber;

/// Buffers of one context at most: policy, more than a client has ahead of its engine.
pub const BUFFERS_MAX: usize = 32;

/// A DMA buffer.
pub struct DmaBuffer {
    /// Its number on the adapter.
    pub number: u64,
    /// Its pages.
    pages: Vec<PageRun>,
    /// The aperture that shows it, its first page there, and what makes it show it.
    shown: Option<(SegmentId, u64, Operation)>,
    /// Its place as the driver is told at submission.
    pub segment: SegmentId,
    pub physical_address: u64,
    /// Where it is shown in the space of a context with addresses; NULL elsewhere.
    pub va: GpuVa,
    /// The paging work after which the aperture, or the process's space, shows it.
    pub shown_after: u64,
    /// Its content as the driver writes it.
    pub words: Vec<u64>,
    /// Zeroed once, here; then the driver's.
    pub private_data: Vec<u8>,
    pub busy: bool,
}

impl Adapter {
    /// Takes a free buffer, or makes one if there is none and the pool may grow.
    pub(super) fn take_dma_buffer(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) -> Option<u64> {
        let pool = &mut self.packet_contexts[context].buffers;
        if let Some(free) = pool.iter_mut().find(|buffer| !buffer.busy) {
            free.busy = true;
            return Some(free.number);
        }
        if pool.len() >= BUFFERS_MAX {
            return None;
        }
        self.create_dma_buffer(cx, context)
    }

    fn create_dma_buffer(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) -> Option<u64> {
        let info = self.packet_contexts[context].info;
        let bytes = u64::from(info.dma_buffer_bytes);
        let count = Pages::holding(bytes);
        let segments = dma_buffer_segments(self.vidmm.segments(), info.dma_buffer_segment_set);
        let segments = segments.expect("checked when it was created");
        let by_address = self.packet_contexts[context].addresses;
        let mut va = GpuVa::NULL;
        let (pages, shown, at, shown_after) = if segments.is_empty() || by_address {
            let run = self.take_kernel_pages(cx, count)?;
            if by_address {
                let space = self.space_of_context(context);
                let Ok(mapped) = self.map_pages(cx, space, run, false) else {
                    self.driver.pages().give_back(cx.platform(self.index).clients(), run);
                    return None;
                };
                va = mapped;
            }
            let shown_after = if by_address { self.ring.queued() } else { 0 };
            (vec![run], None, (SegmentId::SYSTEM, run.first * PAGE_BYTES), shown_after)
        } else {
            let pages = self.take_scattered(cx, count)?;
            let mapped = segments.into_iter().find_map(|segment| {
                let (first, address, map) = self.vidmm.map_dma_buffer(segment, &pages).ok()?;
                Some((segment, first, address, map))
            });
            let Some((segment, first, address, map)) = mapped else {
                pages.into_iter().for_each(|run| self.driver.pages().give_back(cx.platform(self.index).clients(), run));
                return None;
            };
            // Through the ring, like everything in the aperture: the pages shown there before leave it first.
            self.queue_operations(cx, vec![map.clone()]);
            (pages, Some((segment, first, map)), (segment, address), self.ring.queued())
        };
        self.clear_pages(cx, &pages);
        self.packets.buffers_made += 1;
        let number = self.packets.buffers_made;
        cx.emit(self.index, Event::DmaBufferCreated { context: context.raw(), bytes, segment: at.0.0 });
        self.packet_contexts[context].buffers.push(DmaBuffer {
            number,
            pages,
            shown,
            segment: at.0,
            physical_address: at.1,
            va,
            shown_after,
            words: vec![0; (bytes / 8) as usize],
            private_data: vec![0; info.dma_buffer_private_data_bytes as usize],
            busy: true,
        });
        Some(number)
    }

    fn space_of_context(&self, context: PacketContextNumber) -> SpaceId {
        self.processes[&self.devices[self.packet_contexts[context].device].process].space
    }

    /// Pageable memory has no order: page by page, wherever there is one.
    fn take_scattered(&mut self, cx: &Cx<'_>, count: Pages) -> Option<Vec<PageRun>> {
        let mut pages = Vec::new();
        for _ in 0..count.0 {
            match self.take_kernel_pages(cx, Pages(1)) {
                Some(run) => pages.push(run),
                None => {
                    pages
                        .into_iter()
                        .for_each(|run| self.driver.pages().give_back(cx.platform(self.index).clients(), run));
                    return None;
                }
            }
        }
        Some(pages)
    }

    /// A buffer is done with. One free one is kept, the others go.
    pub(super) fn release_dma_buffer(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber, number: u64) {
        let pool = &mut self.packet_contexts[context].buffers;
        let spare = pool.iter().any(|buffer| !buffer.busy);
        let at = pool.iter().position(|buffer| buffer.number == number).expect("a buffer in use is in its pool");
        if !spare {
            pool[at].busy = false;
            return;
        }
        let gone = pool.swap_remove(at);
        self.destroy_dma_buffer(cx, context, gone);
    }

    /// Shows all DMA buffers again through an aperture that has lost them. Queued packets wait for that.
    // spec: memory §7.1, memory §8.4
    pub fn show_dma_buffers_again(&mut self, cx: &mut Cx<'_>) {
        let contexts: Vec<_> = self.packet_contexts.iter().map(|(number, _)| number).collect();
        for context in contexts {
            let shown = |buffer: &DmaBuffer| buffer.shown.as_ref().map(|(_, _, map)| map.clone());
            let maps: Vec<Operation> = self.packet_contexts[context].buffers.iter().filter_map(shown).collect();
            self.queue_operations(cx, maps);
            let after = self.ring.queued();
            for buffer in self.packet_contexts[context].buffers.iter_mut().filter(|buffer| buffer.shown.is_some()) {
                buffer.shown_after = after;
            }
        }
    }

    /// Ends a buffer that the hardware does not read any more.
    pub(super) fn destroy_dma_buffer(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber, gone: DmaBuffer) {
        if let Some((segment, first, _)) = gone.shown {
            let count = Pages(gone.pages.iter().map(|run| run.count.0).sum());
            let unmap = self.vidmm.unmap_dma_buffer(segment, first, count);
            self.queue_operations(cx, vec![unmap]);
        }
        if !gone.va.is_null() {
            let space = self.space_of_context(context);
            self.unmap_pages(cx, space, gone.va, Pages(gone.pages.iter().map(|run| run.count.0).sum()));
        }
        for run in gone.pages {
            self.defer_pages(run);
        }
        cx.emit(self.index, Event::DmaBufferDestroyed { context: context.raw() });
    }

    /// Brings words of a buffer to where the GPU reads them: the words of a portion, so that running portions are left alone.
    pub(super) fn store_dma_buffer(&self, cx: &Cx<'_>, context: PacketContextNumber, number: u64, words: Range<usize>) {
        let buffer = self.dma_buffer(context, number);
        let mut run_start = 0usize;
        for run in &buffer.pages {
            let run_end = run_start + (run.count.bytes() / 8) as usize;
            let (from, to) = (words.start.max(run_start), words.end.min(run_end));
            if from < to {
                let part = &buffer.words[from..to];
                let at = run.first * PAGE_BYTES + (from - run_start) as u64 * 8;
                cx.memory.store_words(at, part.len() as u64, |index| part[index as usize]);
            }
            run_start = run_end;
        }
    }

    pub(super) fn dma_buffer(&self, context: PacketContextNumber, number: u64) -> &DmaBuffer {
        let pool = &self.packet_contexts[context].buffers;
        pool.iter().find(|buffer| buffer.number == number).expect("a buffer in use is in its pool")
    }
}
