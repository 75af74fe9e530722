//! The columns of the table of processes: title, width, text and sort key of each. A
//! column belongs to the page from some width on. It draws nothing.

use wddm_types::ProcessId;

use terminal_text::units::{bytes_narrow, count_narrow};

use super::rows::Row;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The process's number.
    Process,
    /// The name of its program.
    Name,
    /// Its number in the operating system.
    Pid,
    /// Its priority class.
    Class,
    /// The load of the node that it uses most.
    Load,
    /// Bytes that its lists require and that are there.
    Resident,
    /// Bytes that its content has in segments.
    Committed,
    /// Bytes outside the preferred segment of their allocation, for want of room.
    Demoted,
    /// Its budget of the local group.
    Budget,
    /// Paged in a second.
    PagedIn,
    /// Paged out a second.
    PagedOut,
    /// How much of the budget is used.
    Used,
    /// Command buffers a second.
    Buffers,
    /// Fences signalled a second.
    Fences,
    /// Bytes of its allocations.
    Allocated,
    /// Bytes that it has offered.
    Offered,
    /// Bytes that it has reserved of the local group.
    Reserved,
    /// How many allocations.
    Allocations,
    /// How many contexts.
    Contexts,
    /// How many hardware queues.
    Queues,
    /// How many devices.
    Devices,
}

impl Column {
    /// All of them, the more important ones first: a page shows as many as it has room for.
    pub const ALL: [Column; 21] = [
        Column::Process,
        Column::Name,
        Column::Load,
        Column::Resident,
        Column::Committed,
        Column::Demoted,
        Column::Budget,
        Column::PagedIn,
        Column::PagedOut,
        Column::Class,
        Column::Pid,
        Column::Used,
        Column::Buffers,
        Column::Fences,
        Column::Allocated,
        Column::Offered,
        Column::Reserved,
        Column::Allocations,
        Column::Contexts,
        Column::Queues,
        Column::Devices,
    ];

    /// As many of them as there is room for in so many cells, with one cell between two.
    pub fn within(cells: u16) -> &'static [Column] {
        let mut used = 0;
        let fit = Column::ALL.iter().take_while(|column| {
            used += column.width() + u16::from(used > 0);
            used <= cells
        });
        &Column::ALL[..fit.count()]
    }

    /// Its head.
    pub fn title(self) -> &'static str {
        match self {
            Column::Process => "PROCESS",
            Column::Name => "NAME",
            Column::Pid => "PID",
            Column::Class => "CLASS",
            Column::Load => "LOAD",
            Column::Resident => "RESIDENT",
            Column::Committed => "COMMITTED",
            Column::Demoted => "DEMOTED",
            Column::Budget => "BUDGET",
            Column::PagedIn => "IN/s",
            Column::PagedOut => "OUT/s",
            Column::Used => "USED",
            Column::Buffers => "BUFFERS/s",
            Column::Fences => "FENCES/s",
            Column::Allocated => "ALLOCATED",
            Column::Offered => "OFFERED",
            Column::Reserved => "RESERVED",
            Column::Allocations => "ALLOCATIONS",
            Column::Contexts => "CONTEXTS",
            Column::Queues => "QUEUES",
            Column::Devices => "DEVICES",
        }
    }

    /// Its width in cells, which no text of it exceeds.
    pub fn width(self) -> u16 {
        match self {
            Column::Name => NAME_CELLS,
            Column::Class => 6,
            Column::Load | Column::Used => 6,
            // CAST: titles are short.
            _ => (self.title().len() as u16).max(if self == Column::Process { 7 } else { 8 }),
        }
    }

    /// Words begin at the left, numbers end at the right.
    pub fn is_text(self) -> bool {
        matches!(self, Column::Process | Column::Name | Column::Class)
    }

    /// The text of a cell.
    pub fn text(self, row: &Row) -> String {
        let rate = |value: Option<f64>, text: fn(f64) -> String| value.map_or("–".to_owned(), text);
        let bytes_a_second = |value: f64| bytes_narrow(value.round() as u64);
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let memory = &row.memory;
        match self {
            Column::Process if row.process == ProcessId::SYSTEM => "kernel".to_owned(),
            Column::Process => row.process.0.to_string(),
            Column::Name if row.name.is_empty() => "–".to_owned(),
            Column::Name => cut(&row.name, NAME_CELLS),
            Column::Pid => row.pid.map_or("–".to_owned(), |pid| pid.to_string()),
            Column::Class if row.process == ProcessId::SYSTEM => "–".to_owned(),
            Column::Class => class_name(row.class).to_owned(),
            Column::Load => rate(row.load(), percent),
            Column::Resident => bytes_narrow(row.resident_bytes()),
            Column::Committed => bytes_narrow(row.committed_bytes()),
            Column::Demoted => bytes_narrow(memory.demoted_bytes),
            Column::Budget if memory.local.budget_bytes == 0 => "–".to_owned(),
            Column::Budget => bytes_narrow(memory.local.budget_bytes),
            Column::PagedIn => rate(row.rates.as_ref().map(|rates| rates.paging.paged_in), bytes_a_second),
            Column::PagedOut => rate(row.rates.as_ref().map(|rates| rates.paging.paged_out), bytes_a_second),
            Column::Used if memory.local.budget_bytes == 0 => "–".to_owned(),
            Column::Used => percent(row.used()),
            Column::Buffers => rate(row.buffers(), count_narrow),
            Column::Fences => rate(row.rates.as_ref().map(|rates| rates.fences_signaled), count_narrow),
            Column::Allocated => bytes_narrow(memory.allocated_bytes),
            Column::Offered => bytes_narrow(memory.offered_bytes),
            Column::Reserved => bytes_narrow(memory.local.current_reservation_bytes),
            Column::Allocations => memory.allocations.to_string(),
            Column::Contexts => row.contexts.to_string(),
            Column::Queues => row.queues.to_string(),
            Column::Devices => row.devices.to_string(),
        }
    }

    /// The number by which rows are sorted.
    pub fn key(self, row: &Row) -> f64 {
        let rate = |value: Option<f64>| value.unwrap_or(0.0);
        match self {
            Column::Process => f64::from(row.process.0),
            // Rows compare names as text.
            Column::Name => f64::from(u8::from(!row.name.is_empty())),
            Column::Pid => row.pid.map_or(0.0, f64::from),
            Column::Class => f64::from(row.class),
            Column::Load => rate(row.load()),
            Column::Resident => row.resident_bytes() as f64,
            Column::Committed => row.committed_bytes() as f64,
            Column::Demoted => row.memory.demoted_bytes as f64,
            Column::Budget => row.memory.local.budget_bytes as f64,
            Column::PagedIn => rate(row.rates.as_ref().map(|rates| rates.paging.paged_in)),
            Column::PagedOut => rate(row.rates.as_ref().map(|rates| rates.paging.paged_out)),
            Column::Used => row.used(),
            Column::Buffers => rate(row.buffers()),
            Column::Fences => rate(row.rates.as_ref().map(|rates| rates.fences_signaled)),
            Column::Allocated => row.memory.allocated_bytes as f64,
            Column::Offered => row.memory.offered_bytes as f64,
            Column::Reserved => row.memory.local.current_reservation_bytes as f64,
            Column::Allocations => f64::from(row.memory.allocations),
            Column::Contexts => f64::from(row.contexts),
            Column::Queues => f64::from(row.queues),
            Column::Devices => f64::from(row.devices),
        }
    }
}

/// Cells of a name: Linux gives programs at most 15 characters.
const NAME_CELLS: u16 = 15;

/// A text in so many cells, with an end that says that there is more.
fn cut(text: &str, cells: u16) -> String {
    let fits = |text: &str| unicode_cells(text) <= usize::from(cells);
    if fits(text) {
        return text.to_owned();
    }
    let mut short = text.to_owned();
    while !fits(&short) || unicode_cells(&short) == usize::from(cells) {
        short.pop();
    }
    short + "…"
}

fn unicode_cells(text: &str) -> usize {
    ratatui::text::Span::raw(text).width()
}

/// The short name of a `D3DKMT_SCHEDULINGPRIORITYCLASS`.
pub fn class_name(class: u32) -> &'static str {
    match class {
        0 => "idle",
        1 => "below",
        2 => "normal",
        3 => "above",
        4 => "high",
        5 => "real",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_columns_as_there_is_room_for_and_the_smallest_page_has_what_matters_most() {
        // 80 cells less the frame, the swatch and the space behind it.
        assert_eq!(Column::within(76).last(), Some(&Column::PagedIn));
        assert_eq!(Column::within(75).last(), Some(&Column::Budget));
        assert_eq!((Column::within(6), Column::within(9999).len()), (&[][..], Column::ALL.len()));
    }

    #[test]
    fn a_long_name_is_cut_and_says_so_in_cells_not_in_characters() {
        assert_eq!(
            (cut("python3.13", 15).as_str(), cut("fifteen-letters", 15).as_str()),
            ("python3.13", "fifteen-letters")
        );
        assert_eq!(cut("sixteen--letters", 15), "sixteen--lette…");
        // Each of these takes two cells.
        assert_eq!(cut("訓練訓練訓練訓練", 15), "訓練訓練訓練訓…");
    }
}
