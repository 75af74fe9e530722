//! The rows of the table of processes: which processes are in it and in which order. It draws nothing.

use d3dkmt::{AdapterStatistics, ProcessMemory};
use terminal_text::printable;
use wddm_types::ProcessId;

use super::columns::{Column, class_name};
use super::rates::{ProcessRates, Rates};

/// A process on the page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The process's number.
    pub process: ProcessId,
    /// Its number in the operating system, where that is known.
    pub pid: Option<u32>,
    /// The name of its program, fit to be shown; empty: not known.
    pub name: String,
    /// Its priority class.
    pub class: u32,
    /// Devices that it has.
    pub devices: u32,
    /// Devices in error.
    pub devices_lost: u32,
    /// Contexts that it has.
    pub contexts: u32,
    /// Hardware queues.
    pub queues: u32,
    /// Its memory.
    pub memory: ProcessMemory,
    /// `None` before there are two answers.
    pub rates: Option<ProcessRates>,
}

impl Row {
    /// The load of the node that it uses most, 0 to 1.
    pub fn load(&self) -> Option<f64> {
        self.rates.as_ref().map(ProcessRates::load)
    }

    /// Command buffers a second, on all nodes.
    pub fn buffers(&self) -> Option<f64> {
        self.rates.as_ref().map(|rates| rates.nodes.iter().map(|node| node.completed).sum())
    }

    /// In all segments.
    pub fn resident_bytes(&self) -> u64 {
        self.memory.segments.iter().map(|segment| segment.resident_bytes).sum()
    }

    /// In all segments.
    pub fn committed_bytes(&self) -> u64 {
        self.memory.segments.iter().map(|segment| segment.committed_bytes).sum()
    }

    /// The share of its local budget that it uses; 0 without a budget.
    pub fn used(&self) -> f64 {
        match self.memory.local.budget_bytes {
            0 => 0.0,
            budget => self.memory.local.current_usage_bytes as f64 / budget as f64,
        }
    }

    /// Whether a device of it is in error.
    pub fn is_lost(&self) -> bool {
        self.devices_lost > 0
    }

    /// Whether the filter `text` matches its number, its number in the operating system, its name, its class, or `lost`, `demoted`, `kernel`.
    fn matches(&self, text: &str) -> bool {
        let text = text.trim().to_lowercase();
        let is = |word: &str| word.contains(&text);
        text.is_empty()
            || is(&self.process.0.to_string())
            || self.pid.is_some_and(|pid| is(&pid.to_string()))
            || is(&self.name.to_lowercase())
            || is(class_name(self.class))
            || (self.is_lost() && is("lost"))
            || (self.memory.demoted_bytes > 0 && is("demoted"))
            || (self.process == ProcessId::SYSTEM && is("kernel"))
    }
}

/// How the table is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// By what it is sorted.
    pub by: Column,
    /// The greatest first, else the smallest.
    pub descending: bool,
    /// Only those in which this is found.
    pub filter: String,
}

impl Default for Order {
    fn default() -> Order {
        Order { by: Column::Committed, descending: true, filter: String::new() }
    }
}

/// The processes of an adapter in this order; those that are equal by their numbers.
pub fn rows(statistics: &AdapterStatistics, rates: Option<&Rates>, order: &Order) -> Vec<Row> {
    let mut rows: Vec<Row> = statistics
        .processes
        .iter()
        .enumerate()
        .map(|(index, process)| Row {
            process: process.process,
            pid: process.identity.as_ref().map(|identity| identity.pid),
            name: process.identity.as_ref().map_or(String::new(), |identity| printable::line(&identity.name)),
            class: process.priority_class,
            devices: process.devices,
            devices_lost: process.devices_lost,
            contexts: process.contexts,
            queues: process.queues,
            memory: process.memory.clone(),
            rates: rates.and_then(|rates| rates.processes.get(index)).cloned(),
        })
        .filter(|row| row.matches(&order.filter))
        .collect();
    rows.sort_by(|left, right| {
        let by_key = match order.by {
            Column::Name => left.name.cmp(&right.name),
            by => by.key(left).total_cmp(&by.key(right)),
        };
        let by_key = if order.descending { by_key.reverse() } else { by_key };
        by_key.then(left.process.cmp(&right.process))
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::adapter;
    use crate::top::rates::rates;

    fn sorted(by: Column, descending: bool, filter: &str) -> Vec<u32> {
        let order = Order { by, descending, filter: filter.to_owned() };
        let mut now = adapter();
        now.now_ns += 1_000_000_000;
        now.processes[3].fences_signaled += 50;
        now.processes[2].nodes[1].running_ns += 500_000_000;
        let rates = rates(&adapter(), &now);
        rows(&now, rates.as_ref(), &order).iter().map(|row| row.process.0).collect()
    }

    #[test]
    fn rows_are_sorted_by_any_column_in_both_directions_and_equal_ones_by_number() {
        assert_eq!(sorted(Column::Committed, true, ""), [4, 12, 7, 0]);
        assert_eq!(sorted(Column::Committed, false, ""), [0, 7, 12, 4]);
        assert_eq!(sorted(Column::Pid, true, ""), [12, 7, 4, 0]);
        assert_eq!(sorted(Column::Name, false, ""), [0, 12, 4, 7], "train-12 before train-4, and none before any");
        assert_eq!(sorted(Column::Demoted, true, ""), [12, 4, 0, 7]);
        assert_eq!(sorted(Column::Class, true, ""), [7, 4, 0, 12]);
        assert_eq!(sorted(Column::Fences, true, ""), [12, 0, 4, 7]);
        assert_eq!(sorted(Column::Load, true, ""), [7, 0, 4, 12]);
        for column in Column::ALL {
            let (mut down, up) = (sorted(column, true, ""), sorted(column, false, ""));
            down.sort_unstable();
            assert_eq!((down.len(), up.len()), (4, 4), "sorting by {column:?} loses no row");
        }
    }

    #[test]
    fn a_filter_finds_numbers_classes_and_what_is_wrong() {
        assert_eq!(sorted(Column::Process, false, "lost"), [12]);
        assert_eq!(sorted(Column::Process, false, " HIGH "), [7]);
        assert_eq!(sorted(Column::Process, false, "demoted"), [4, 12]);
        assert_eq!(sorted(Column::Process, false, "kernel"), [0]);
        assert_eq!(sorted(Column::Process, false, "12"), [12]);
        assert_eq!(sorted(Column::Process, false, "4007"), [7], "by the operating system's number");
        assert_eq!(sorted(Column::Process, false, "Train-1"), [12], "by its name");
        assert!(sorted(Column::Process, false, "no such name").is_empty());
    }
}
