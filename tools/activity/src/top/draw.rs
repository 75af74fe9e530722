//! The page as cells: where each part stands, for any size of a terminal. It reads a [`Page`] and writes a buffer; it keeps nothing, and
//! knows no terminal.
//!
//! One colour is one process, everywhere: in the bars of the engines, which show the processes that run, in the bars of the segments, which show whose
//! bytes are there, and before its row. The kernel's own work is grey.

mod bar;
mod counts;
mod engines;
mod help;
mod ink;
mod memory;
mod paging;
mod processes;
mod strip;
#[cfg(test)]
mod tests;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, BorderType, Widget};

pub use self::ink::Ink;
use super::page::{Asking, Page, Seen};

/// The smallest terminal that has a page.
pub const SMALLEST: (u16, u16) = (60, 10);
/// From this height on there is the box of paging and counts.
const WITH_COUNTS: u16 = 20;
/// From this height on engines and paging have curves of several rows.
const WITH_CURVES: u16 = 34;
/// Rows of the box of paging and counts, without its frame.
const COUNT_ROWS: u16 = 5;

/// Draws the page into an area.
pub fn draw(page: &Page, ink: Ink, area: Rect, out: &mut Buffer) {
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return strip::too_small(area, ink, out);
    }
    let mut rest = area;
    strip::head(page, ink, cut_top(&mut rest, 1), out);
    strip::foot(page, ink, cut_bottom(&mut rest, 1), out);
    match page.adapter() {
        None => strip::nothing(ink, rest, out),
        Some(seen) => {
            let upper = cut_top(&mut rest, upper_rows(seen, area.height) + 2);
            let (left, right) = halves(upper);
            engines::draw(seen, ink, framed("engines", ink, left, out), out);
            memory::draw(seen, ink, framed("memory", ink, right, out), out);
            if area.height >= WITH_COUNTS {
                let curve = if area.height >= WITH_CURVES { 4 } else { 0 };
                let (left, right) = halves(cut_top(&mut rest, COUNT_ROWS + curve + 2));
                paging::draw(seen, ink, framed("paging", ink, left, out), out);
                counts::draw(seen, ink, framed("fences · interrupts · recoveries", ink, right, out), out);
            }
            processes::draw(page, ink, rest, out);
        }
    }
    if page.asking == Asking::Help {
        help::draw(ink, area, out);
    }
}

/// Rows for engines and segments: as many as the longer of the two needs, and never more than a third of the page.
fn upper_rows(seen: &Seen, height: u16) -> u16 {
    // CAST: the kernel has at most 64 nodes and 32 segments.
    let (nodes, segments) = (seen.now.nodes.len() as u16, seen.now.segments.len() as u16);
    let for_each_node = if height >= WITH_CURVES { 1 + engines::CURVE_ROWS } else { 1 };
    (nodes * for_each_node).max(segments * memory::ROWS).clamp(1, (height / 3).max(2))
}

fn cut_top(rest: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(rest.height);
    let top = Rect { height: rows, ..*rest };
    (rest.y, rest.height) = (rest.y + rows, rest.height - rows);
    top
}

fn cut_bottom(rest: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(rest.height);
    rest.height -= rows;
    Rect { y: rest.y + rest.height, height: rows, ..*rest }
}

fn halves(area: Rect) -> (Rect, Rect) {
    let left = area.width / 2;
    (Rect { width: left, ..area }, Rect { x: area.x + left, width: area.width - left, ..area })
}

/// Draws a frame with a title; returns the area inside it, one cell from its sides.
fn framed(title: &str, ink: Ink, area: Rect, out: &mut Buffer) -> Rect {
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(ink.frame());
    let inside = block.inner(area);
    block.render(area, out);
    if area.height > 0 {
        out.set_stringn(area.x + 2, area.y, format!(" {title} "), area.width.saturating_sub(4) as usize, ink.title());
    }
    Rect { x: inside.x + 1, width: inside.width.saturating_sub(2), ..inside }
}

/// Writes a text that ends at the right end of so many cells; one that is longer loses its end.
fn right(out: &mut Buffer, (x, y): (u16, u16), cells: u16, text: &str, style: ratatui::style::Style) {
    // CAST: nothing here is longer than a terminal is wide.
    let length = (text.chars().count() as u16).min(cells);
    out.set_stringn(x + cells - length, y, text, cells as usize, style);
}

/// Writes a text from the left of so many cells; one that is longer loses its end.
fn left(out: &mut Buffer, (x, y): (u16, u16), cells: u16, text: &str, style: ratatui::style::Style) {
    out.set_stringn(x, y, text, cells as usize, style);
}
