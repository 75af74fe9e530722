//! Fences, interrupts, recoveries and displays: rates on the left, what should not happen on the right.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Ink, left, right};
use crate::top::page::Seen;
use terminal_text::units::count_narrow;

/// Two columns of five.
pub fn draw(seen: &Seen, ink: Ink, area: Rect, out: &mut Buffer) {
    let counts = &seen.now.counts;
    let rates = seen.rates.as_ref();
    let a_second = |value: Option<f64>| value.map_or("–".to_owned(), |rate| format!("{}/s", count_narrow(rate)));
    let interrupts = [
        ("interrupts", a_second(rates.map(|rates| rates.counts.interrupts))),
        ("of fences", a_second(rates.map(|rates| rates.counts.fence_interrupts))),
        ("in vain", a_second(rates.map(|rates| rates.counts.fence_interrupts_in_vain))),
        ("signals", a_second(rates.map(|rates| rates.counts.fences_signaled))),
        ("CPU waits", a_second(rates.map(|rates| rates.counts.cpu_waits))),
    ];
    let trouble = [
        ("engine resets", counts.engine_resets, true),
        ("adapter resets", counts.adapter_resets, true),
        ("devices lost", counts.devices_lost, true),
        ("refusals", counts.calls_refused, false),
        ("trims", counts.trims, false),
    ];
    // The counts on the right are small, and need a cell less.
    let half = area.width / 2;
    let second = area.x + half + 1;
    let rest = area.right().saturating_sub(second);
    for ((row, (name, text)), (what, count, bad)) in (area.y..area.bottom()).zip(interrupts).zip(trouble) {
        left(out, (area.x, row), half, name, ink.quiet());
        right(out, (area.x, row), half, &text, ink.figure());
        let style = match count {
            0 => ink.quiet(),
            _ if bad => ink.alarm(),
            _ => ink.figure(),
        };
        left(out, (second, row), rest, what, ink.quiet());
        right(out, (second, row), rest, &count_narrow(count as f64), style);
    }
    displays(seen, ink, area, out);
}

/// Where there are more rows: a display a row.
fn displays(seen: &Seen, ink: Ink, area: Rect, out: &mut Buffer) {
    let below = (area.y + super::COUNT_ROWS)..area.bottom();
    for (index, (row, source)) in below.zip(&seen.now.sources).enumerate() {
        let rate = seen.rates.as_ref().and_then(|rates| rates.sources.get(index));
        let shown = rate.map_or("–".to_owned(), |(shown, _)| format!("{}/s", count_narrow(*shown)));
        let name = format!("display {}", source.source.0);
        let (all, dropped) = (count_narrow(source.shown as f64), count_narrow(source.dropped as f64));
        left(out, (area.x, row), area.width, &name, ink.quiet());
        right(out, (area.x, row), area.width, &format!("{shown} · {all} shown · {dropped} dropped"), ink.figure());
    }
}
