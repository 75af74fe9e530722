//! System memory used as a ring: positions only rise. The offset of the current position is kept beside it, which saves each submission
//! several divisions by the ring's size. Used by streams and kernel-fed queues.

use d3dkmt::Lock;
use softgpu_spec::private_data::Kind;
use wddm_types::GpuVa;

use crate::gpu::{Gpu, Surface, UmdError};

/// A ring.
pub(crate) struct RingMemory {
    lock: Lock,
    surface: Surface,
    /// Bytes written and skipped so far.
    written: u64,
    /// Where the next one goes.
    at: u64,
    /// Position up to which the bytes may be written over.
    pub(crate) freed: u64,
}

impl RingMemory {
    pub(crate) fn create(gpu: &Gpu, bytes: u64) -> Result<RingMemory, UmdError> {
        let surface = gpu.create_surface(Kind::System, bytes)?;
        gpu.pin(&surface)?;
        let lock = surface.lock()?;
        Ok(RingMemory { lock, surface, written: 0, at: 0, freed: 0 })
    }

    /// The surface that the ring lies in.
    pub(crate) fn surface(&self) -> &Surface {
        &self.surface
    }

    /// Bytes written and skipped so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.written + bytes - self.freed <= self.surface.bytes()
    }

    /// Bytes that a piece takes which may not wrap: itself and what it skips at the ring's end.
    pub(crate) fn needed_whole(&self, bytes: u64) -> u64 {
        let before_end = self.surface.bytes() - self.at;
        if bytes > before_end { bytes + before_end } else { bytes }
    }

    pub(crate) fn put_whole(&mut self, words: &[u64]) -> GpuVa {
        let bytes = words.len() as u64 * 8;
        self.go_on(self.needed_whole(bytes) - bytes);
        let at = self.at;
        if !words.is_empty() {
            self.lock.write_words(at, words);
        }
        self.go_on(bytes);
        self.surface.va().offset(at)
    }

    pub(crate) fn put_wrapping(&mut self, words: &[u64]) {
        // CAST: a ring is far below 2^32 words.
        let before_end = ((self.surface.bytes() - self.at) / 8) as usize;
        let (head, tail) = words.split_at(before_end.min(words.len()));
        self.lock.write_words(self.at, head);
        if !tail.is_empty() {
            self.lock.write_words(0, tail);
        }
        self.go_on(words.len() as u64 * 8);
    }

    /// No piece is longer than the ring.
    fn go_on(&mut self, bytes: u64) {
        self.written += bytes;
        self.at += bytes;
        if self.at >= self.surface.bytes() {
            self.at -= self.surface.bytes();
        }
    }
}
