//! The help over the page: keys and marks.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Clear, Widget};

use super::{Ink, framed, left};

const KEYS: [(&str, &str); 10] = [
    ("← →  s S", "sort by another column"),
    ("r", "the other way round"),
    ("/", "find: a number, a class, lost, demoted, kernel"),
    ("↑ ↓  j k", "other rows; pages, Home and End too"),
    ("tab", "the next adapter"),
    ("space  p", "pause, and go on"),
    ("+ -", "look less often, more often"),
    ("q  esc", "leave"),
    ("█ ▒ ─", "memory: required now, could leave, free"),
    ("LOAD", "of the engine that a process uses most"),
];

/// In the middle of the page.
pub fn draw(ink: Ink, area: Rect, out: &mut Buffer) {
    // CAST: ten lines.
    let (width, height) = (58.min(area.width), (KEYS.len() as u16 + 2).min(area.height));
    let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
    let over = Rect { x, y, width, height };
    Clear.render(over, out);
    let inside = framed("keys", ink, over, out);
    for (y, (key, meaning)) in (inside.y..inside.bottom()).zip(KEYS) {
        left(out, (inside.x, y), 8, key, ink.key());
        left(out, (inside.x + 9, y), inside.width.saturating_sub(9), meaning, ink.figure());
    }
}
