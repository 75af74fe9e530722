//! The paging buffers of an adapter (memory §1.11): their pages, where the driver is told that they are, and what it writes
//! into them. They are made when the adapter starts and used in turn.

use vidmm::Operation;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, SegmentId};

use super::PagingRing;

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

/// A paging buffer that the GPU is shown.
pub struct NewBuffer {
    /// The operation that shows it through the aperture, if the driver wants that.
    pub shown: Option<Operation>,
    /// Segment and GPU address of its start; in system memory segment 0 and the physical address.
    pub place: (SegmentId, u64),
    /// Its address in the paging process; NULL where buffers run in no address space.
    pub va: GpuVa,
    /// Its pages.
    pub run: PageRun,
    /// The driver's private data for it.
    pub private_bytes: usize,
}

impl PagingRing {
    /// The ring has another buffer.
    pub fn add_buffer(&mut self, buffer: NewBuffer) {
        let NewBuffer { shown, place, va, run, private_bytes } = buffer;
        let content = Content {
            words: vec![0; (run.count.bytes() / 8) as usize],
            private_data: vec![0; private_bytes],
            ..Content::default()
        };
        self.buffers.push(Buffer { shown, place, va, address: run.first * PAGE_BYTES, content, busy_until: 0 });
    }

    /// The operations that show the buffers through the aperture.
    pub fn buffer_maps(&self) -> Vec<Operation> {
        self.buffers.iter().filter_map(|buffer| buffer.shown.clone()).collect()
    }
}
