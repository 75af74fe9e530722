//! The state of the page, and the effects of keys on it: a value without a terminal, a clock or a link. Answers of the kernel go in at
//! [`Page::told`], keys at [`Page::pressed`]; `draw` turns it into cells.

use std::collections::BTreeMap;

use d3dkmt::AdapterStatistics;
use wddm_types::Luid;

use super::columns::Column;
use super::history::History;
use super::rates::{Rates, rates};
use super::rows::{Order, Row, rows};

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// The Enter key.
    Enter,
    /// The Escape key.
    Escape,
    /// The Backspace key.
    Backspace,
    /// The Tab key.
    Tab,
    /// The Ctrl-C key ends the display.
    Interrupt,
    /// So many rows down; up where it is negative.
    Rows(i32),
    /// So many pages.
    Pages(i32),
    /// To the first row.
    Home,
    /// To the last.
    End,
    /// The column on the left.
    Left,
    /// The column on the right.
    Right,
}

/// The effect of a key on the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The page may look different.
    Stay,
    /// The end.
    Quit,
}

/// The mode in which the page takes keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// Nothing: keys are commands.
    #[default]
    Nothing,
    /// The text of the filter.
    Filter,
    /// To read the keys' meanings.
    Help,
}

/// One adapter: the last answer, what has changed since the one before, and the curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The last answer.
    pub now: AdapterStatistics,
    /// Since the one before.
    pub rates: Option<Rates>,
    /// Load of each node.
    pub loads: Vec<History>,
    /// Committed bytes of each segment.
    pub committed: Vec<History>,
    /// Bytes paged a second: in, out.
    pub paged: [History; 2],
    /// An engine or adapter was reset, or a device lost, since the previous answer.
    pub alarm: bool,
}

/// The page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The socket that it is connected to.
    pub socket: String,
    /// Time between two answers, in milliseconds.
    pub interval_ms: u64,
    /// By LUID.
    pub adapters: BTreeMap<Luid, Seen>,
    /// The adapter that is shown, as its place among them.
    pub shown: usize,
    /// How the processes are sorted and which are shown.
    pub order: Order,
    /// The first row of the table.
    pub first_row: usize,
    /// No answers are taken over.
    pub paused: bool,
    /// The mode in which the page takes keys.
    pub asking: Asking,
}

/// The shortest time between two answers, and the longest.
pub const INTERVALS_MS: std::ops::RangeInclusive<u64> = 100..=60_000;
/// Characters of a filter.
const FILTER_MAX: usize = 32;
/// Rows of a page, for keys that go by pages.
const PAGE_ROWS: i32 = 10;

impl Page {
    /// A page that has seen nothing yet.
    pub fn new(socket: String, interval_ms: u64) -> Page {
        Page { socket, interval_ms, ..Page::default() }
    }

    /// The kernel has answered. While the page is paused nothing changes.
    pub fn told(&mut self, answers: Vec<AdapterStatistics>) {
        if self.paused {
            return;
        }
        // The page shows no adapter that was removed.
        self.adapters.retain(|luid, _| answers.iter().any(|now| now.adapter == *luid));
        for now in answers {
            let before = self.adapters.remove(&now.adapter);
            self.adapters.insert(now.adapter, Seen::after(before, now));
        }
        self.shown = self.shown.min(self.adapters.len().saturating_sub(1));
        self.first_row = self.first_row.min(self.last_row());
    }

    /// The adapter that is shown.
    pub fn adapter(&self) -> Option<&Seen> {
        self.adapters.values().nth(self.shown)
    }

    /// Its processes, as the table has them.
    pub fn rows(&self) -> Vec<Row> {
        self.adapter().map_or_else(Vec::new, |seen| rows(&seen.now, seen.rates.as_ref(), &self.order))
    }

    /// A key was pressed.
    pub fn pressed(&mut self, key: Key) -> Next {
        match (self.asking, key) {
            (_, Key::Interrupt) => return Next::Quit,
            (Asking::Filter, _) => self.edit_filter(key),
            (Asking::Help, _) => self.asking = Asking::Nothing,
            (Asking::Nothing, Key::Char('q') | Key::Escape) => return Next::Quit,
            (Asking::Nothing, _) => self.command(key),
        }
        self.first_row = self.first_row.min(self.last_row());
        Next::Stay
    }

    fn command(&mut self, key: Key) {
        let row = |rows: i32| self.first_row.saturating_add_signed(rows as isize);
        match key {
            Key::Char('s' | '>') | Key::Right => self.sort_by_next(1),
            Key::Char('S' | '<') | Key::Left => self.sort_by_next(Column::ALL.len() - 1),
            Key::Char('r') => self.order.descending = !self.order.descending,
            Key::Char('/' | 'f') => self.asking = Asking::Filter,
            Key::Char('?' | 'h') => self.asking = Asking::Help,
            Key::Char('p' | ' ') => self.paused = !self.paused,
            Key::Char('+') => self.change_interval(self.interval_ms.saturating_mul(2)),
            Key::Char('-') => self.change_interval(self.interval_ms / 2),
            Key::Tab if !self.adapters.is_empty() => {
                self.shown = (self.shown + 1) % self.adapters.len();
                self.first_row = 0;
            }
            Key::Char('j') => self.first_row = row(1),
            Key::Char('k') => self.first_row = row(-1),
            Key::Rows(rows) => self.first_row = row(rows),
            Key::Pages(pages) => self.first_row = row(pages.saturating_mul(PAGE_ROWS)),
            Key::Home => self.first_row = 0,
            Key::End => self.first_row = self.last_row(),
            _ => {}
        }
    }

    fn edit_filter(&mut self, key: Key) {
        match key {
            Key::Char(typed) if self.order.filter.chars().count() < FILTER_MAX && !typed.is_control() => {
                self.order.filter.push(typed);
            }
            Key::Backspace => _ = self.order.filter.pop(),
            Key::Enter => self.asking = Asking::Nothing,
            Key::Escape => {
                self.order.filter.clear();
                self.asking = Asking::Nothing;
            }
            _ => {}
        }
    }

    fn sort_by_next(&mut self, step: usize) {
        let at = Column::ALL.iter().position(|column| *column == self.order.by).unwrap_or(0);
        self.order.by = Column::ALL[(at + step) % Column::ALL.len()];
        // Names rise, quantities fall.
        self.order.descending = self.order.by != Column::Process;
    }

    fn change_interval(&mut self, interval_ms: u64) {
        self.interval_ms = interval_ms.clamp(*INTERVALS_MS.start(), *INTERVALS_MS.end());
    }

    fn last_row(&self) -> usize {
        self.rows().len().saturating_sub(1)
    }
}

impl Seen {
    fn after(before: Option<Seen>, now: AdapterStatistics) -> Seen {
        let Some(mut seen) = before else {
            let loads = vec![History::default(); now.nodes.len()];
            let committed = vec![History::default(); now.segments.len()];
            return Seen { now, rates: None, loads, committed, paged: Default::default(), alarm: false };
        };
        if let Some(rates) = rates(&seen.now, &now) {
            seen.loads.resize(now.nodes.len(), History::default());
            for (history, node) in seen.loads.iter_mut().zip(&rates.nodes) {
                history.push(node.load);
            }
            seen.committed.resize(now.segments.len(), History::default());
            for (history, segment) in seen.committed.iter_mut().zip(&now.segments) {
                history.push(segment.committed_bytes as f64);
            }
            seen.paged[0].push(rates.paging.paged_in);
            seen.paged[1].push(rates.paging.paged_out);
            seen.rates = Some(rates);
        }
        let bad = |of: &AdapterStatistics| {
            let counts = &of.counts;
            (counts.engine_resets, counts.adapter_resets, counts.devices_lost, of.stopped.is_some())
        };
        seen.alarm = bad(&seen.now) != bad(&now);
        seen.now = now;
        seen
    }
}

#[cfg(test)]
mod tests;
