//! Bars of several parts, and curves of one or more rows.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::top::history::History;

/// A part of a bar.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// How much of the whole.
    pub amount: f64,
    /// Its mark.
    pub mark: char,
    /// Its colour.
    pub style: Style,
}

/// Where each part ends, in cells of so many: parts are rounded together, so that the sum is right whatever the parts are.
fn ends(amounts: impl Iterator<Item = f64>, whole: f64, cells: u16) -> Vec<u16> {
    let mut sum = 0.0;
    amounts
        .map(|amount| {
            sum += amount.max(0.0);
            // CAST: at most `cells`.
            if whole > 0.0 { (sum / whole * f64::from(cells)).round().min(f64::from(cells)) as u16 } else { 0 }
        })
        .collect()
}

/// Draws parts of a whole one after the other, and the rest of the row as free.
pub fn stacked(parts: &[Part], whole: f64, free: Style, area: Rect, out: &mut Buffer) {
    let mut at = 0;
    for (part, end) in parts.iter().zip(ends(parts.iter().map(|part| part.amount), whole, area.width)) {
        for cell in at..end {
            out[(area.x + cell, area.y)].set_char(part.mark).set_style(part.style);
        }
        at = at.max(end);
    }
    for cell in at..area.width {
        out[(area.x + cell, area.y)].set_char('─').set_style(free);
    }
}

/// Eighths of a cell, from the bottom.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a curve that ends at the right, `greatest` being as high as the area.
pub fn curve(history: &History, greatest: f64, style: Style, area: Rect, out: &mut Buffer) {
    let values = history.last(area.width as usize);
    // CAST: no more values than cells.
    let first = area.width - values.len() as u16;
    for (column, value) in (first..).zip(values) {
        let full = u32::from(area.height) * 8;
        let share = if greatest > 0.0 { (value / greatest).clamp(0.0, 1.0) } else { 0.0 };
        let mut eighths = (share * f64::from(full)).round() as u32;
        if value > 0.0 && eighths == 0 {
            // A value above 0 has a mark, however small it is.
            eighths = 1;
        }
        for row in (0..area.height).rev() {
            let here = eighths.min(8);
            eighths -= here;
            out[(area.x + column, area.y + row)].set_char(EIGHTHS[here as usize]).set_style(style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(out: &Buffer) -> Vec<String> {
        let width = out.area.width as usize;
        out.content.chunks(width).map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    #[test]
    fn parts_are_rounded_together() {
        let thirds = [1.0, 1.0, 1.0];
        assert_eq!(ends(thirds.into_iter(), 3.0, 10), [3, 7, 10]);
        assert_eq!(ends(thirds.into_iter(), 0.0, 10), [0, 0, 0]);
        assert_eq!(ends([5.0, 9.0].into_iter(), 10.0, 8), [4, 8], "more than the whole is the whole");
    }

    #[test]
    fn a_bar_shows_its_parts_and_what_is_free() {
        let area = Rect::new(0, 0, 10, 1);
        let mut out = Buffer::empty(area);
        let part = |amount, mark| Part { amount, mark, style: Style::new() };
        stacked(&[part(40.0, '█'), part(20.0, '▒')], 100.0, Style::new(), area, &mut out);
        assert_eq!(text(&out), ["████▒▒────"]);
    }

    #[test]
    fn a_curve_ends_at_the_right_and_shows_what_is_small() {
        let area = Rect::new(0, 0, 6, 2);
        let mut out = Buffer::empty(area);
        let mut history = History::default();
        [0.0, 1e-9, 0.5, 0.75, 1.0].into_iter().for_each(|value| history.push(value));
        curve(&history, 1.0, Style::new(), area, &mut out);
        assert_eq!(text(&out), ["    ▄█", "  ▁███"]);
    }
}
