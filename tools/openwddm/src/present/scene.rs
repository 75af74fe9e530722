//! The pictures: a bar that moves over stripes. It is drawn from the bottom up, against the way in which a display reads, so that a picture
//! that is drawn while it is read has the bar in two places.

use softgpu_umd::{Lane, Surface, pitch_bytes};

/// Rows that are drawn together.
const STRIP_ROWS: u64 = 6;
/// Texels that the bar moves from picture to picture.
const STEP: u64 = 8;

/// Records the commands that draw a picture.
pub(super) fn draw(lane: &mut Lane, surface: &Surface, (width, height): (u16, u16), frame: u32) {
    let (width, height) = (u64::from(width), u64::from(height));
    let pitch = pitch_bytes(width as u32);
    // Fills are of whole words: two texels.
    let bar = (width / 12).max(2) / 2 * 2;
    let left = u64::from(frame) * STEP % (width - bar) / 2 * 2;
    for strip in (0..height.div_ceil(STRIP_ROWS)).rev() {
        let rows = strip * STRIP_ROWS..((strip + 1) * STRIP_ROWS).min(height);
        lane.fill(surface, rows.start * pitch, (rows.end - rows.start) * pitch, ground(strip, frame));
        for row in rows {
            lane.fill(surface, row * pitch + left * 4, bar * 4, 0x00ff_d75f);
        }
    }
}

/// Stripes, a little lighter from picture to picture.
fn ground(strip: u64, frame: u32) -> u32 {
    let light = frame % 64;
    let (red, green, blue) = if strip.is_multiple_of(2) { (24, 40, 72) } else { (32, 52, 88) };
    (red + light) << 16 | (green + light) << 8 | (blue + light)
}
