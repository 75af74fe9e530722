//! Tiles: how a surface may lie in local memory so that neighbours in both directions are near each other. A surface is
//! rows of `pitch` bytes; a **tile** is 8 rows of 512 bytes, one page of consecutive memory. Tiles follow each other from
//! left to right, and 8 rows of tiles make a **band**. The bytes of a band are those of its rows in another order, so a
//! surface of whole bands has the same size linear and tiled.
//!
//! ```text
//!   linear: row 0 ───────────▶ row 1 ───────────▶ …        tiled: tile 0          tile 1
//!           pitch bytes                                            row 0, 512 bytes  row 0, 512 bytes
//!                                                                  row 1, 512 bytes  row 1, 512 bytes
//!                                                                  …                 …
//! ```
//!
//! # Unswizzling ranges
//! The device shows tiled surfaces to the CPU in linear order: a **range** of bus addresses, of which the device has
//! [`RANGE_COUNT`], shows a surface of local memory as its rows follow each other ([`crate::register::RANGE_SELECT`] and
//! behind). A range may stand where the surface itself is seen, or anywhere in the CPU's window. Engines do not go
//! through ranges.

/// Bytes of a tile's row.
pub const ROW_BYTES: u64 = 512;
/// Rows of a tile.
pub const ROWS: u64 = 8;
/// Bytes of a tile.
pub const TILE_BYTES: u64 = ROW_BYTES * ROWS;
/// Most bytes of a surface's row.
pub const PITCH_MAX: u64 = 1 << 20;
/// Unswizzling ranges of the device.
pub const RANGE_COUNT: u32 = 4;

/// How a surface is tiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    pitch: u64,
}

impl Tiling {
    /// Tiling of a surface with rows of `pitch` bytes: a multiple of [`ROW_BYTES`], at most [`PITCH_MAX`], not 0.
    pub const fn of_pitch(pitch: u64) -> Option<Tiling> {
        if pitch != 0 && pitch.is_multiple_of(ROW_BYTES) && pitch <= PITCH_MAX { Some(Tiling { pitch }) } else { None }
    }

    /// Bytes of a row.
    pub const fn pitch(self) -> u64 {
        self.pitch
    }

    /// Bytes of a band: eight rows. Surfaces are whole bands.
    pub const fn band_bytes(self) -> u64 {
        self.pitch * ROWS
    }

    /// Where the byte `linear` of the surface lies in it, and how many follow it there in the same order.
    #[inline]
    pub const fn place(self, linear: u64) -> (u64, u64) {
        let (band, within) = (linear / self.band_bytes(), linear % self.band_bytes());
        let (row, x) = (within / self.pitch, within % self.pitch);
        let tile = x / ROW_BYTES;
        let tiled = band * self.band_bytes() + tile * TILE_BYTES + row * ROW_BYTES + x % ROW_BYTES;
        (tiled, ROW_BYTES - x % ROW_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_is_its_rows_in_another_order() {
        let tiling = Tiling::of_pitch(1536).expect("three tiles wide");
        let mut seen = vec![false; 2 * tiling.band_bytes() as usize];
        for linear in 0..seen.len() as u64 {
            let (tiled, room) = tiling.place(linear);
            assert_eq!(tiled / tiling.band_bytes(), linear / tiling.band_bytes(), "bands stay");
            assert!(!std::mem::replace(&mut seen[tiled as usize], true), "{linear} lands on another's place");
            assert!(room == 1 || tiling.place(linear + 1) == (tiled + 1, room - 1));
        }
        assert_eq!(tiling.place(512), (4096, 512), "the second tile");
        assert_eq!(tiling.place(1536), (512, 512), "the second row");
    }

    #[test]
    fn rows_are_whole_tiles_wide() {
        for wrong in [0, 1, 511, 513, PITCH_MAX + 512, u64::MAX] {
            assert_eq!(Tiling::of_pitch(wrong), None, "{wrong}");
        }
        assert_eq!(Tiling::of_pitch(512).map(|tiling| tiling.place(1000)), Some((1000, 24)), "one tile wide is linear");
    }
}
