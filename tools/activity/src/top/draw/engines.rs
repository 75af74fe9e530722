//! Engines: how busy each is, which processes keep it busy, and its load over time.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::{Part, curve, stacked};
use super::{Ink, left, right};
use crate::top::page::Seen;
use terminal_text::units::count_narrow;

/// Rows of a curve under an engine, where there is room.
pub const CURVE_ROWS: u16 = 2;
/// Cells of a load, with its sign.
const LOAD: u16 = 6;
/// Cells of the buffers of a second, with their unit.
const BUFFERS: u16 = 7;

/// One row for each node, or as many as there is room for.
pub fn draw(seen: &Seen, ink: Ink, area: Rect, out: &mut Buffer) {
    // CAST: at most 64 nodes.
    let nodes = seen.now.nodes.len() as u16;
    let each = if nodes * (1 + CURVE_ROWS) <= area.height { 1 + CURVE_ROWS } else { 1 };
    let shown = if nodes * each <= area.height { nodes } else { area.height.saturating_sub(1) };
    // CAST: names are cut.
    let longest = seen.now.nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0) as u16;
    let name = longest.min(area.width / 4);
    for node in 0..shown {
        let row = Rect { y: area.y + node * each, height: each, ..area };
        draw_node(seen, node as usize, name, ink, row, out);
    }
    if shown < nodes {
        left(out, (area.x, area.y + shown), area.width, &format!("… and {} more", nodes - shown), ink.quiet());
    }
}

fn draw_node(seen: &Seen, node: usize, name: u16, ink: Ink, area: Rect, out: &mut Buffer) {
    left(out, (area.x, area.y), name, &seen.now.nodes[node].name, ink.quiet());
    let rates = seen.rates.as_ref().and_then(|rates| rates.nodes.get(node));
    let load = rates.map_or("–".to_owned(), |rates| format!("{:.1}%", rates.load * 100.0));
    let buffers = rates.map_or("–".to_owned(), |rates| format!("{}/s", count_narrow(rates.completed)));
    let buffers_at = area.right().saturating_sub(BUFFERS);
    right(out, (buffers_at, area.y), BUFFERS, &buffers, ink.quiet());
    let load_at = buffers_at.saturating_sub(LOAD + 1);
    right(out, (load_at, area.y), LOAD, &load, ink.figure());
    let from = area.x + name + 1;
    let bar = Rect { x: from, width: load_at.saturating_sub(from + 1), height: 1, ..area };
    stacked(&parts(seen, node, ink), 1.0, ink.free(), bar, out);
    if area.height > 1 {
        let below = Rect { y: area.y + 1, height: area.height - 1, ..bar };
        curve(&seen.loads[node], 1.0, ink.curve(), below, out);
    }
}

/// The node's load by process; the rest of the sum, which no process accounts for, comes last.
fn parts(seen: &Seen, node: usize, ink: Ink) -> Vec<Part> {
    let Some(rates) = &seen.rates else { return Vec::new() };
    let part = |amount, style| Part { amount, mark: '█', style };
    let mut parts: Vec<Part> = Vec::new();
    let mut rest = rates.nodes.get(node).map_or(0.0, |rates| rates.load);
    for process in &rates.processes {
        let load = process.nodes.get(node).map_or(0.0, |work| work.load).min(rest);
        rest -= load;
        parts.push(part(load, ink.process(process.process)));
    }
    parts.push(part(rest, ink.unaccounted()));
    parts
}
