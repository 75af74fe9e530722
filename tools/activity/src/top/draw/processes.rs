//! The table of processes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Ink, framed, left, right};
use crate::top::columns::Column;
use crate::top::page::{Asking, Page};
use crate::top::rows::Row;

/// Cells before the first column: the process's colour and a space.
const SWATCH: u16 = 2;

/// Heads and rows, from the first one that the page says.
pub fn draw(page: &Page, ink: Ink, area: Rect, out: &mut Buffer) {
    if area.height < 3 {
        return;
    }
    let rows = page.rows();
    let area_inside = framed(&title(page, rows.len()), ink, area, out);
    // The frame's own cells are enough room at the sides: the table begins beside it.
    let inside = Rect { x: area_inside.x - 1, width: area_inside.width + 2, ..area_inside };
    let columns = Column::within(inside.width.saturating_sub(SWATCH));
    heads(page, columns, ink, inside, out);
    let places = (inside.y + 1..inside.bottom()).zip(rows.iter().skip(page.first_row));
    for (y, row) in places {
        draw_row(row, columns, ink, Rect { y, height: 1, ..inside }, out);
    }
    if rows.is_empty() {
        let message = match page.order.filter.is_empty() {
            true => "no process has a device here".to_owned(),
            false => format!("no process matches \"{}\"", page.order.filter),
        };
        left(out, (inside.x + SWATCH, inside.y + 1), inside.width - SWATCH, &message, ink.quiet());
    }
    // CAST: fewer rows than a terminal has.
    let (seen, below) = (inside.height.saturating_sub(1) as usize, rows.len().saturating_sub(page.first_row));
    if below > seen {
        let more = format!(" {} more ↓ ", below - seen);
        right(out, (area.x + 2, area.bottom() - 1), area.width.saturating_sub(4), &more, ink.quiet());
    }
}

fn title(page: &Page, found: usize) -> String {
    let of = page.adapter().map_or(0, |seen| seen.now.processes.len());
    match (page.order.filter.as_str(), page.asking) {
        ("", Asking::Nothing | Asking::Help) => format!("processes {of}"),
        (filter, Asking::Filter) => format!("processes {found} of {of}, find: {filter}▏"),
        (filter, _) => format!("processes {found} of {of}, found by \"{filter}\""),
    }
}

fn heads(page: &Page, columns: &[Column], ink: Ink, area: Rect, out: &mut Buffer) {
    each(columns, area, |column, x| {
        let chosen = column == page.order.by;
        let (width, style) = (column.width(), ink.head(chosen));
        match column.is_text() {
            true => left(out, (x, area.y), width, column.title(), style),
            false => right(out, (x, area.y), width, column.title(), style),
        }
        if chosen {
            // The arrow stands in the free cell beside the title.
            let beside = if column.is_text() { x + width } else { x.saturating_sub(1) };
            let arrow = if page.order.descending { "▼" } else { "▲" };
            left(out, (beside, area.y), 1, arrow, style);
        }
    });
}

fn draw_row(row: &Row, columns: &[Column], ink: Ink, area: Rect, out: &mut Buffer) {
    left(out, (area.x, area.y), 1, "█", ink.process(row.process));
    each(columns, area, |column, x| {
        let (text, width, style) = (column.text(row), column.width(), style(row, column, ink));
        match column.is_text() {
            true => left(out, (x, area.y), width, &text, style),
            false => right(out, (x, area.y), width, &text, style),
        }
    });
    if row.is_lost() {
        left(out, (area.x + 1, area.y), 1, "!", ink.alarm());
    }
}

fn each(columns: &[Column], area: Rect, mut place: impl FnMut(Column, u16)) {
    let mut x = area.x + SWATCH;
    for column in columns {
        place(*column, x);
        x += column.width() + 1;
    }
}

fn style(row: &Row, column: Column, ink: Ink) -> Style {
    match column {
        _ if row.is_lost() => ink.alarm(),
        Column::Process => ink.process(row.process),
        Column::Demoted if row.memory.demoted_bytes > 0 => ink.warning(),
        Column::Used if row.used() > 1.0 => ink.warning(),
        // Zeros are quiet.
        _ if !matches!(column, Column::Class | Column::Name) && column.key(row) == 0.0 => ink.quiet(),
        _ => ink.figure(),
    }
}
