//! Further members of an allocation request: those of an allocation's description as a kernel-mode driver passes them on. The kernel
//! knows their rules; the driver does not check them.

/// The version of private data with details.
pub const VERSION_DETAILED: u16 = 2;
/// Bytes of the details.
pub const BYTES: usize = 56;

/// Details of a request; 0 leaves each of them to the driver. Names and bits are those of the kernel's own description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Allocation flags, beside those of the request.
    pub flags: u32,
    /// More allocation flags.
    pub flags2: u32,
    /// Order of preference.
    pub preferred_segment: u32,
    /// Bank order.
    pub hinted_bank: u32,
    /// Supported segments.
    pub supported_segments: u32,
    /// Aperture segments that it may be evicted through.
    pub eviction_segments: u32,
    /// Starting priority.
    pub priority: u32,
    /// Bytes of a row of a tiled surface ([`crate::tile`]); 0: the content is linear.
    pub tile_pitch: u32,
    /// Bytes in a segment that aligns pitches.
    pub pitch_aligned_size_bytes: u64,
    /// Alignment, if larger than the driver's own.
    pub alignment_bytes: u64,
    /// Bytes of a row of content where pitches are aligned: as many, longer rows share the PitchAlignedSize there.
    pub row_bytes: u32,
    /// Texels of a row, of a surface that a display shows; 0: none does. They have 32 bits, and a row is followed by the next at a
    /// multiple of [`crate::display::PITCH_ALIGNMENT_BYTES`].
    pub display_width: u16,
    /// Rows of it.
    pub display_height: u16,
}

impl Details {
    /// The bytes behind a request.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let words = [
            self.flags,
            self.flags2,
            self.preferred_segment,
            self.hinted_bank,
            self.supported_segments,
            self.eviction_segments,
            self.priority,
            self.tile_pitch,
        ];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[32..40].copy_from_slice(&self.pitch_aligned_size_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.alignment_bytes.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.row_bytes.to_le_bytes());
        bytes[52..54].copy_from_slice(&self.display_width.to_le_bytes());
        bytes[54..56].copy_from_slice(&self.display_height.to_le_bytes());
        bytes
    }

    /// Reads them; every value is possible, most are refused by the kernel.
    pub fn decode(bytes: &[u8; BYTES]) -> Details {
        let four = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;
        Details {
            flags: four(0),
            flags2: four(4),
            preferred_segment: four(8),
            hinted_bank: four(12),
            supported_segments: four(16),
            eviction_segments: four(20),
            priority: four(24),
            tile_pitch: four(28),
            pitch_aligned_size_bytes: eight(32),
            alignment_bytes: eight(40),
            row_bytes: four(48),
            display_width: u16::from_le_bytes([bytes[52], bytes[53]]),
            display_height: u16::from_le_bytes([bytes[54], bytes[55]]),
        }
    }
}
