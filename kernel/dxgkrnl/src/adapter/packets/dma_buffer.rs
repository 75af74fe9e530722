//! DMA buffers made and ended (memory §7.1): pages of the kernel's, shown through an aperture or in a process's space. The pool of each
//! context is `packet::dma_buffer`'s.

use events::Event;
use vidmm::SpaceId;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, ProcessId, SegmentId};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::PacketContextNumber;
use crate::packet::{BufferPlace, DmaBufferNumber, Pooled, dma_buffer_segments};
use crate::store::ObjectNumber;

impl Adapter {
    /// Takes a free buffer, or makes one if there is none and the pool may grow.
    pub(super) fn take_dma_buffer(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) -> Option<DmaBufferNumber> {
        match self.packets.take_buffer(context) {
            Pooled::Taken(number) => Some(number),
            Pooled::MayGrow => self.create_dma_buffer(cx, context),
            Pooled::Full => None,
        }
    }

    fn create_dma_buffer(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) -> Option<DmaBufferNumber> {
        let info = self.packets[context].info;
        let bytes = u64::from(info.dma_buffer_bytes);
        let count = Pages::holding(bytes);
        let segments = dma_buffer_segments(self.vidmm.segments(), info.dma_buffer_segment_set);
        let segments = segments.expect("checked when it was created");
        let by_address = self.packets[context].addresses;
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
            let shown_after = if by_address { self.memory.ring.queued() } else { 0 };
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
            let process = self.owners.process_of(self.packets[context].device);
            self.queue_operations(cx, process, vec![map.clone()]);
            (pages, Some((segment, first, map)), (segment, address), self.memory.ring.queued())
        };
        self.clear_pages(cx, &pages);
        let place = BufferPlace { pages, shown, told: at, va, shown_after };
        let number = self.packets.add_buffer(context, place);
        cx.emit(self.index, Event::DmaBufferCreated { context: context.raw(), bytes, segment: at.0.0 });
        Some(number)
    }

    fn space_of_context(&self, context: PacketContextNumber) -> SpaceId {
        self.owners.space_of(self.owners.process_of(self.packets[context].device))
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
    pub(super) fn release_dma_buffer(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        number: DmaBufferNumber,
    ) {
        if let Some(gone) = self.packets.release_buffer(context, number) {
            self.destroy_dma_buffer(cx, context, gone);
        }
    }

    /// Shows all DMA buffers again through an aperture that has lost them. Queued packets wait for that.
    // spec: memory §7.1, memory §8.4
    pub(in crate::adapter) fn show_dma_buffers_again(&mut self, cx: &mut Cx<'_>) {
        let contexts: Vec<_> = self.packets.contexts().map(|(number, _)| number).collect();
        for context in contexts {
            let maps = self.packets.buffer_maps(context);
            self.queue_operations(cx, ProcessId::SYSTEM, maps);
            self.packets.buffers_shown_again(context, self.memory.ring.queued());
        }
    }

    /// Ends a buffer that the hardware does not read any more.
    pub(super) fn destroy_dma_buffer(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber, gone: BufferPlace) {
        let count = gone.count();
        if let Some((segment, first, _)) = gone.shown {
            let unmap = self.vidmm.unmap_dma_buffer(segment, first, count);
            self.queue_operations(cx, ProcessId::SYSTEM, vec![unmap]);
        }
        if !gone.va.is_null() {
            let space = self.space_of_context(context);
            self.unmap_pages(cx, space, gone.va, count);
        }
        for run in gone.pages {
            self.defer_pages(run);
        }
        cx.emit(self.index, Event::DmaBufferDestroyed { context: context.raw() });
    }
}
