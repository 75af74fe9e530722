//! The paging buffers of an adapter (memory §1.11): their pages, where the driver is told that they are, and what it writes
//! into them. They are made when the adapter starts and used in turn.

use ddi::PagingBufferInfo;
use vidmm::Operation;
use wddm_types::{GpuVa, PAGE_BYTES, Pages, ProcessId, SegmentId};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::start::StartError;

/// A paging buffer.
pub(super) struct Buffer {
    /// The operation that shows it through the aperture, if the driver wants that.
    pub shown: Option<Operation>,
    /// Segment and GPU address of its start; in system memory segment 0 and the physical address.
    pub place: (SegmentId, u64),
    /// Its address in the paging process; NULL where buffers run in no address space.
    pub va: GpuVa,
    /// System physical address of its start.
    pub address: u64,
    /// Elsewhere while the buffer is built.
    pub content: Content,
    /// Progress of the ring after which no work reads it.
    pub busy_until: u64,
}

/// The driver's output: the commands, and the data that the hardware never sees.
#[derive(Default)]
pub(super) struct Content {
    pub words: Vec<u64>,
    /// Zeroed once, when the buffer was made; then the driver's.
    // spec: memory §1.4, memory §3.1
    pub private_data: Vec<u8>,
    /// Words and private bytes that are written, while the buffer is built.
    pub used: usize,
    pub private_used: usize,
}

impl Content {
    /// The buffer is fresh again. Its old content stays.
    pub fn begin(&mut self) {
        (self.used, self.private_used) = (0, 0);
    }
}

impl Adapter {
    pub(super) fn add_paging_buffer(&mut self, cx: &mut Cx<'_>, info: PagingBufferInfo) -> Result<(), StartError> {
        let pages = Pages::holding(u64::from(info.size_bytes));
        let run = self.driver.pages().take(pages).ok_or(StartError::Memory("paging buffers"))?;
        let address = run.first * PAGE_BYTES;
        let (mut shown, mut place) = (None, (SegmentId::SYSTEM, address));
        if !info.segment.is_system() {
            let (at, map) = self
                .vidmm
                .aperture_map_system(info.segment, run)
                .map_err(|_| StartError::Memory("aperture space of paging buffers"))?;
            place = (at.segment, self.vidmm.address_of(at.segment, at.offset / PAGE_BYTES));
            shown = Some(map.clone());
            self.execute_now(cx, vec![map]).map_err(|()| StartError::Rule("an aperture map by the CPU failed"))?;
        }
        let va = if !self.ring.has_addresses {
            GpuVa::NULL
        } else {
            let space = self.owners.space_of(ProcessId::SYSTEM);
            self.map_pages(cx, space, run, false).map_err(|_| StartError::Memory("addresses of paging buffers"))?
        };
        let content = Content {
            words: vec![0; (pages.bytes() / 8) as usize],
            private_data: vec![0; info.private_data_bytes as usize],
            ..Content::default()
        };
        self.ring.buffers.push(Buffer { shown, place, va, address, content, busy_until: 0 });
        Ok(())
    }

    /// Shows the paging buffers through the aperture again, which has lost them.
    pub fn show_buffers_again(&mut self, cx: &Cx<'_>) -> Result<(), ()> {
        let maps = self.ring.buffers.iter().filter_map(|buffer| buffer.shown.clone()).collect();
        self.execute_now(cx, maps)
    }
}
