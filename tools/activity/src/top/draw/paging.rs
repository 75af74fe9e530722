//! Paging: bytes a second, how that has been, and all bytes since the adapter's start.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::curve;
use super::{Ink, left, right};
use crate::top::page::Seen;
use terminal_text::units::bytes_narrow;

/// Cells of a name.
const NAME: u16 = 6;
/// Cells of a rate: `1.50 GiB/s`.
const RATE: u16 = 10;
/// Cells of a sum: `1.50 GiB`.
const SUM: u16 = 8;

/// In and out with their curves, and the other moves. Rows left below make the curves higher.
pub fn draw(seen: &Seen, ink: Ink, area: Rect, out: &mut Buffer) {
    let (sums, rates) = (&seen.now.paging, seen.rates.as_ref().map(|rates| rates.paging));
    let more = area.height.saturating_sub(super::COUNT_ROWS) / 2;
    // Both curves have one scale, so that they can be compared.
    let cells = area.width.saturating_sub(NAME + RATE + SUM + 4);
    let greatest = seen.paged.iter().map(|history| history.greatest(cells as usize)).fold(0.0, f64::max);
    let rows = [
        ("in", sums.in_bytes, rates.map(|rates| rates.paged_in), Some(0)),
        ("out", sums.out_bytes, rates.map(|rates| rates.paged_out), Some(1)),
        ("zeroed", sums.filled_bytes, rates.map(|rates| rates.filled), None),
        ("moved", sums.relocated_bytes, rates.map(|rates| rates.relocated), None),
        ("let go", sums.discarded_bytes, rates.map(|rates| rates.discarded), None),
    ];
    let mut y = area.y;
    for (name, sum, rate, history) in rows {
        let height = if history.is_some() { 1 + more } else { 1 };
        if y + height > area.bottom() {
            return;
        }
        let line = y + height - 1;
        left(out, (area.x, line), NAME, name, ink.quiet());
        let sum_at = area.right() - SUM;
        right(out, (sum_at, line), SUM, &bytes_narrow(sum), ink.quiet());
        let rate_at = sum_at.saturating_sub(RATE + 2);
        let rate = rate.map_or("–".to_owned(), |rate| format!("{}/s", bytes_narrow(rate.round() as u64)));
        right(out, (rate_at, line), RATE, &rate, ink.figure());
        if let Some(which) = history {
            let chart = Rect { x: area.x + NAME + 1, y, width: cells, height };
            curve(&seen.paged[which], greatest, ink.curve(), chart, out);
        }
        y += height;
    }
}
