//! Parts of surfaces.

use serde::{Deserialize, Serialize};

/// A part that a blt copies: a rectangle of the source, and the place of its left upper corner in the destination. Of `SrcRect`, `DstRect` and
/// one of the sub-rectangles, which say the same three times (memory §5.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BltRectangle {
    /// The first column that is read.
    pub source_left: u32,
    /// The first row that is read.
    pub source_top: u32,
    /// The first column that is written.
    pub destination_left: u32,
    /// The first row that is written.
    pub destination_top: u32,
    /// Columns, in texels.
    pub width: u32,
    /// Rows of the part.
    pub height: u32,
}
