//! One frame on its way to the monitor. At the blank the surface is read whole; then, band by band at the bands' times, what the
//! monitor gets. A band that is not what it was at the blank makes the frame torn.

use softgpu_spec::display::{BANDS, TEXEL_BYTES};

use crate::bus::Bus;

/// The memory that a display reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Surface {
    pub(super) address: u64,
    pub(super) pitch_bytes: u64,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Surface {
    /// The rows of a band.
    fn rows(&self, band: u64) -> std::ops::Range<u64> {
        let of = |band: u64| u64::from(self.height) * band / BANDS;
        of(band)..of(band + 1)
    }

    /// Reads rows. Missing memory is black.
    fn read(&self, bus: &Bus, rows: std::ops::Range<u64>) -> Vec<u32> {
        let width = self.width as usize;
        let mut texels = Vec::with_capacity((rows.end - rows.start) as usize * width);
        for row in rows {
            let first = texels.len();
            let mut at = self.address.wrapping_add(row * self.pitch_bytes);
            let end = at.wrapping_add((u64::from(self.width) * TEXEL_BYTES).next_multiple_of(8));
            while at < end && at.is_multiple_of(8) {
                let Ok(run) = bus.run(at, end - at) else { break };
                let words = run.bytes / 8;
                let Some((memory, offset)) = bus.memory(run.site).filter(|_| words > 0) else { break };
                memory.scan_words(offset, words, |_, word| {
                    // CAST: the two halves of a word.
                    texels.extend([word as u32, (word >> 32) as u32]);
                    true
                });
                at += words * 8;
            }
            texels.resize(first + width, 0);
        }
        texels
    }
}

/// A frame that is being read.
pub(super) struct Scan {
    number: u64,
    at_ns: u64,
    /// The next band.
    band: u64,
    surface: Surface,
    /// The surface's content when it was taken over; empty where there is no content.
    whole: Vec<u32>,
    /// The rows that the monitor has got.
    texels: Vec<u32>,
    torn: bool,
}

/// A frame that was read.
pub(super) struct Scanned {
    pub(super) display: u32,
    pub(super) number: u64,
    pub(super) at_ns: u64,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) texels: Vec<u32>,
    pub(super) torn: bool,
}

impl Scan {
    pub(super) fn begin(bus: &Bus, content: bool, surface: Surface, number: u64, at_ns: u64) -> Scan {
        let whole = if content { surface.read(bus, 0..u64::from(surface.height)) } else { Vec::new() };
        Scan { number, at_ns, band: 0, surface, whole, texels: Vec::new(), torn: false }
    }

    /// When the next band is read.
    pub(super) fn due(&self, period_ns: u64) -> u64 {
        self.at_ns + period_ns * (self.band + 1) / (BANDS + 1)
    }

    /// From the next band on another surface is shown.
    pub(super) fn replace(&mut self, bus: &Bus, address: u64) {
        self.torn |= self.band > 0 && address != self.surface.address;
        self.surface.address = address;
        if !self.whole.is_empty() {
            self.whole = self.surface.read(bus, 0..u64::from(self.surface.height));
        }
    }

    /// Reads the next band. Whether that was the last.
    pub(super) fn read_band(&mut self, bus: &Bus) -> bool {
        if !self.whole.is_empty() {
            let rows = self.surface.rows(self.band);
            let first = (rows.start * u64::from(self.surface.width)) as usize;
            let read = self.surface.read(bus, rows);
            self.torn |= self.whole[first..first + read.len()] != read[..];
            self.texels.extend(read);
        }
        self.band += 1;
        self.band == BANDS
    }

    pub(super) fn end(self, display: u32) -> Scanned {
        let Scan { number, at_ns, surface: Surface { width, height, .. }, texels, torn, .. } = self;
        Scanned { display, number, at_ns, width, height, texels, torn }
    }
}
