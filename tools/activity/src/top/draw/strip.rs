//! The first line and the last one, and the message in place of a page that cannot be drawn.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Ink, SMALLEST, left, right};
use crate::top::page::{Asking, Page, Seen};

/// The head: the adapter, its kernel, and its state.
pub fn head(page: &Page, ink: Ink, area: Rect, out: &mut Buffer) {
    let (state, style) = match page.adapter() {
        None => (String::new(), ink.quiet()),
        Some(Seen { now, .. }) if now.stopped.is_some() => {
            (format!("stopped: {}", now.stopped.as_deref().unwrap_or_default()), ink.alarm())
        }
        Some(Seen { alarm: true, .. }) => ("recovered a moment ago".to_owned(), ink.alarm()),
        Some(Seen { now, .. }) if !now.awake => ("asleep".to_owned(), ink.quiet()),
        Some(_) => (String::new(), ink.quiet()),
    };
    let mut x = area.x + 1;
    let mut say = |text: &str, style| {
        let cells = area.right().saturating_sub(x);
        left(out, (x, area.y), cells, text, style);
        // CAST: cut to the terminal's width.
        x += (text.chars().count() as u16).min(cells);
    };
    say("openwddm top", ink.title());
    for (index, seen) in page.adapters.values().enumerate() {
        say("  ", ink.quiet());
        let style = if index == page.shown { ink.key() } else { ink.quiet() };
        say(&seen.now.name, style);
    }
    say("  ", ink.quiet());
    say(&state, style);
    let used = x.saturating_sub(area.x);
    let pace = if page.paused { "paused".to_owned() } else { every(page.interval_ms) };
    let whole = format!("{}  {pace} ", page.socket);
    let room = area.width.saturating_sub(used + 2);
    // A long path gives way.
    let text = if whole.chars().count() <= room as usize { whole } else { format!("{pace} ") };
    if text.chars().count() <= room as usize {
        right(out, (x, area.y), area.right().saturating_sub(x), &text, ink.quiet());
    }
}

fn every(interval_ms: u64) -> String {
    // Intervals are doubled and halved: a tenth is exact enough.
    format!("every {:.1} s", interval_ms as f64 / 1000.0)
}

/// The foot: the keys and their meanings.
pub fn foot(page: &Page, ink: Ink, area: Rect, out: &mut Buffer) {
    let commands: &[(&str, &str)] = match page.asking {
        Asking::Filter => &[("enter", "keep"), ("esc", "clear"), ("", "a number, a class, lost, demoted, kernel")],
        _ if page.adapters.len() > 1 => &[
            ("q", "quit"),
            ("tab", "adapter"),
            ("←→", "sort"),
            ("r", "reverse"),
            ("/", "find"),
            ("space", "pause"),
            ("?", "help"),
        ],
        _ => &[("q", "quit"), ("←→", "sort"), ("r", "reverse"), ("/", "find"), ("space", "pause"), ("?", "help")],
    };
    let mut x = area.x + 1;
    for (key, meaning) in commands {
        for (text, style, gap) in [(key, ink.key(), 1), (meaning, ink.quiet(), 3)] {
            if text.is_empty() {
                continue;
            }
            left(out, (x, area.y), area.right().saturating_sub(x), text, style);
            // CAST: a few words.
            x = (x + text.chars().count() as u16 + gap).min(area.right());
        }
    }
}

/// There is no adapter.
pub fn nothing(ink: Ink, area: Rect, out: &mut Buffer) {
    let text = "this kernel has no adapter";
    left(out, (area.x + 1, area.y + area.height / 2), area.width.saturating_sub(1), text, ink.quiet());
}

/// The terminal is too small for a page.
pub fn too_small(area: Rect, ink: Ink, out: &mut Buffer) {
    let (width, height) = SMALLEST;
    let lines = [format!("{}×{} is too small", area.width, area.height), format!("{width}×{height} at least")];
    for (y, line) in (area.y..area.bottom()).zip(&lines) {
        left(out, (area.x, y), area.width, line, ink.figure());
    }
}
