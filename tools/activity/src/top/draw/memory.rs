//! Segments: how full each is, and whose content is there. Content that lists of devices require is drawn full, content that could leave
//! lighter.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::{Part, curve, stacked};
use super::{Ink, left, right};
use crate::top::page::Seen;
use d3dkmt::SegmentStatistics;
use terminal_text::units::bytes_narrow;

/// Rows of a segment: its figures and its bar.
pub const ROWS: u16 = 2;
/// Most rows of the curve of what has been committed.
const CURVE_ROWS: u16 = 3;

/// Two rows for each segment where there is room, and a curve where there is more; else one.
pub fn draw(seen: &Seen, ink: Ink, area: Rect, out: &mut Buffer) {
    // CAST: at most 32 segments.
    let segments = seen.now.segments.len() as u16;
    if segments == 0 {
        return left(out, (area.x, area.y), area.width, "no segments: system memory only", ink.quiet());
    }
    let each = (area.height / segments).clamp(1, ROWS + CURVE_ROWS);
    let shown = if segments * each <= area.height { segments } else { area.height.saturating_sub(1) };
    for (row, segment) in (0..shown).zip(&seen.now.segments) {
        let at = area.y + row * each;
        figures(segment, ink, Rect { y: at, height: 1, ..area }, out);
        if each > 1 {
            let bar = Rect { y: at + 1, height: 1, ..area };
            let whole = segment.capacity_bytes as f64;
            stacked(&parts(seen, segment, ink), whole, ink.free(), bar, out);
            let below = Rect { y: at + ROWS, height: each - ROWS, ..area };
            curve(&seen.committed[row as usize], whole, ink.curve(), below, out);
        }
    }
    if shown < segments {
        left(out, (area.x, area.y + shown), area.width, &format!("… and {} more", segments - shown), ink.quiet());
    }
}

fn figures(segment: &SegmentStatistics, ink: Ink, area: Rect, out: &mut Buffer) {
    let kind = match (segment.aperture, segment.local) {
        (true, _) => "aperture",
        (false, true) => "local",
        (false, false) => "non-local",
    };
    left(out, (area.x, area.y), area.width, &format!("{} {kind}", segment.segment.0), ink.quiet());
    let full = segment.committed_bytes >= segment.capacity_bytes && segment.capacity_bytes > 0;
    let committed = bytes_narrow(segment.committed_bytes);
    let of = format!("{committed} of {}", bytes_narrow(segment.capacity_bytes));
    right(out, (area.x, area.y), area.width, &of, if full { ink.warning() } else { ink.figure() });
}

fn parts(seen: &Seen, segment: &SegmentStatistics, ink: Ink) -> Vec<Part> {
    let mut rest = segment.committed_bytes;
    let mut parts = Vec::new();
    for process in &seen.now.processes {
        let mine = process.memory.segments.iter().find(|mine| mine.segment == segment.segment);
        let committed = mine.map_or(0, |mine| mine.committed_bytes).min(rest);
        let required = mine.map_or(0, |mine| mine.resident_bytes).min(committed);
        rest -= committed;
        let style = ink.process(process.process);
        parts.push(Part { amount: required as f64, mark: '█', style });
        parts.push(Part { amount: (committed - required) as f64, mark: '▒', style });
    }
    parts.push(Part { amount: rest as f64, mark: '▒', style: ink.unaccounted() });
    parts
}
