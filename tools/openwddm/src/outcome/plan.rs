//! Planned against actual: what the planner of evictions foresaw, and what came of it. Plain data, and the words for it.

use serde::Serialize;
use terminal_text::units::{bytes, bytes_exact, grouped, percent};

/// The plan of one memory segment. Bytes are bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlanSummary {
    /// The adapter's number.
    pub adapter: u32,
    /// The segment's number.
    pub segment: u8,
    /// Copied into it.
    pub paged_in_bytes: u64,
    /// Copied out of it.
    pub paged_out_bytes: u64,
    /// Read where it lay, in system memory, instead of being copied into it.
    pub read_in_place_bytes: u64,
    /// Written there, against the forecast.
    pub written_in_place_bytes: u64,
    /// What a least recently used policy would have copied into it.
    pub lru_paged_in_bytes: u64,
    /// And out of it.
    pub lru_paged_out_bytes: u64,
    /// Copied out, and not back before its allocation was destroyed.
    pub unread_bytes: u64,
    /// What may yet have to be copied, and LRU would not copy.
    pub at_stake_bytes: u64,
    /// How far the copies and what is at stake may pass LRU's copies and one part in a hundred of them.
    pub lent_bytes: u64,
    /// By how much they do pass them since a forecast failed.
    pub owed_bytes: u64,
    /// Left by the forecast where LRU would have kept it.
    pub deviated_bytes: u64,
    /// Left as LRU's account said where the forecast would have kept it.
    pub followed_bytes: u64,
    /// How the victims are chosen of which nothing is foreseen: `recency`, or `frequency` with its half-life.
    pub unknown_by: &'static str,
    /// What is known of each process's operations.
    pub streams: Vec<StreamSummary>,
}

/// What is known of one process's operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamSummary {
    /// The process's number; 0 if it has ended.
    pub process: u32,
    /// Whether it has ended.
    pub ended: bool,
    /// Operations so far.
    pub operations: u64,
    /// How many operations ago the present one was done before; null: nothing repeats.
    pub repeats_after: Option<u64>,
    /// Operations that came as foreseen.
    pub foreseen: u64,
    /// Operations that came otherwise than foreseen.
    pub otherwise: u64,
    /// How often the repetition was lost.
    pub lost: u64,
}

impl PlanSummary {
    /// In and out, and in place: what the link carried.
    pub fn moved_bytes(&self) -> u64 {
        self.paged_in_bytes + self.paged_out_bytes + self.in_place_bytes()
    }

    /// Read and written where it lay.
    pub fn in_place_bytes(&self) -> u64 {
        self.read_in_place_bytes + self.written_in_place_bytes
    }

    /// In and out under LRU.
    pub fn lru_bytes(&self) -> u64 {
        self.lru_paged_in_bytes + self.lru_paged_out_bytes
    }

    /// Names and values for a table.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows: Vec<(&'static str, String)> = Vec::new();
        for stream in &self.streams {
            rows.push(("planner", stream.sentence(self.streams.len() > 1)));
        }
        let (moved, lru) = (self.moved_bytes(), self.lru_bytes());
        let (paged_in, paged_out) = (bytes(self.lru_paged_in_bytes), bytes(self.lru_paged_out_bytes));
        rows.push(("  LRU would have moved", format!("{}: in {paged_in}, out {paged_out}", bytes_exact(lru))));
        rows.push(match moved <= lru {
            true => ("  saved", format!("{}, {} of it", bytes_exact(lru - moved), percent(lru - moved, lru))),
            false => ("  moved more", format!("{}, {} of it", bytes_exact(moved - lru), percent(moved - lru, lru))),
        });
        if self.in_place_bytes() > 0 {
            let (all, written) = (self.in_place_bytes(), bytes(self.written_in_place_bytes));
            let share = percent(all, moved);
            let said = format!("{}, {share} of what moved; {written} of it written", bytes_exact(all));
            rows.push(("  used in place", said));
        }
        let (deviated, followed) = (bytes(self.deviated_bytes), bytes(self.followed_bytes));
        rows.push((
            "  against LRU's order",
            format!("{deviated} left by the forecast, {followed} by the account that keeps it near LRU"),
        ));
        rows.push(("  at stake", self.stake()));
        rows.push(("  nothing foreseen", format!("goes by {}", self.unknown_by)));
        if self.unread_bytes > 0 {
            let share = percent(self.unread_bytes, self.paged_out_bytes);
            let unread = bytes(self.unread_bytes);
            rows.push((
                "  paged out in vain",
                format!(
                    "{unread}, {share} of what was: destroyed before it came back; an offer in time saves the copy"
                ),
            ));
        }
        rows
    }

    fn stake(&self) -> String {
        let stake = bytes(self.at_stake_bytes);
        match (self.lent_bytes, self.owed_bytes) {
            (0, 0) => stake,
            (0, owed) => format!("{stake}, {} too much since a forecast failed", bytes(owed)),
            (lent, _) => format!("{stake}, {} lent", bytes(lent)),
        }
    }
}

impl StreamSummary {
    fn sentence(&self, named: bool) -> String {
        let whose = match (named, self.ended) {
            (false, _) => String::new(),
            (true, false) => format!("process {}: ", self.process),
            (true, true) => "an ended process: ".to_owned(),
        };
        let lost = match self.lost {
            0 => String::new(),
            times => format!(", lost {}", count(times, "time")),
        };
        let repeats = match self.repeats_after {
            Some(operations) => format!("repeats after {}", count(operations, "operation")),
            None if self.foreseen == 0 => return format!("{whose}nothing repeats{lost}"),
            None => "nothing repeats now".to_owned(),
        };
        let (foreseen, all) = (grouped(self.foreseen), count(self.operations, "operation"));
        format!("{whose}{repeats}: {foreseen} of {all} came as foreseen, {} otherwise{lost}", grouped(self.otherwise))
    }
}

fn count(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> PlanSummary {
        let stream = StreamSummary { process: 1, operations: 400, ..StreamSummary::default() };
        PlanSummary { unknown_by: "recency", streams: vec![stream], ..PlanSummary::default() }
    }

    fn value(plan: &PlanSummary, name: &str) -> String {
        let rows = plan.rows();
        let row = rows.iter().find(|(found, _)| found.trim_start() == name);
        row.unwrap_or_else(|| panic!("{name} is missing in {rows:?}")).1.clone()
    }

    #[test]
    fn what_repeats_and_what_it_saved_are_said() {
        let mut plan = plan();
        assert_eq!(value(&plan, "planner"), "nothing repeats");
        let stream = &mut plan.streams[0];
        (stream.repeats_after, stream.foreseen, stream.otherwise, stream.lost) = (Some(100), 297, 3, 1);
        assert_eq!(
            value(&plan, "planner"),
            "repeats after 100 operations: 297 of 400 operations came as foreseen, 3 otherwise, lost 1 time"
        );
        (plan.paged_in_bytes, plan.paged_out_bytes) = (3 << 20, 0);
        (plan.lru_paged_in_bytes, plan.lru_paged_out_bytes) = (3 << 20, 1 << 20);
        assert_eq!(value(&plan, "saved"), "1.00 MiB (1,048,576 bytes), 25.0 % of it");
        plan.paged_out_bytes = 2 << 20;
        assert_eq!(value(&plan, "moved more"), "1.00 MiB (1,048,576 bytes), 25.0 % of it");
        plan.unread_bytes = 1 << 20;
        assert!(value(&plan, "paged out in vain").starts_with("1.00 MiB, 50.0 % of what was"));
        (plan.paged_out_bytes, plan.read_in_place_bytes, plan.written_in_place_bytes) = (0, 3 << 19, 1 << 19);
        assert_eq!(
            value(&plan, "moved more"),
            "1.00 MiB (1,048,576 bytes), 25.0 % of it",
            "what is read in place moves, too"
        );
        let said = "2.00 MiB (2,097,152 bytes), 40.0 % of what moved; 512.00 KiB of it written";
        assert_eq!(value(&plan, "used in place"), said);
    }

    #[test]
    fn of_several_processes_each_is_named_and_one_that_has_ended_has_no_number() {
        let mut plan = plan();
        let ended = StreamSummary { ended: true, operations: 7, ..StreamSummary::default() };
        plan.streams.push(ended);
        let rows = plan.rows();
        let said: Vec<&str> = rows[..2].iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(said, ["process 1: nothing repeats", "an ended process: nothing repeats"]);
        plan.streams.remove(0);
        assert_eq!(value(&plan, "planner"), "nothing repeats");
    }

    #[test]
    fn a_loan_and_what_is_owed_of_a_lost_one_are_told_apart() {
        let mut plan = plan();
        plan.at_stake_bytes = 1 << 20;
        assert_eq!(value(&plan, "at stake"), "1.00 MiB");
        plan.lent_bytes = 4 << 20;
        assert_eq!(value(&plan, "at stake"), "1.00 MiB, 4.00 MiB lent");
        (plan.lent_bytes, plan.owed_bytes) = (0, 2 << 20);
        assert_eq!(value(&plan, "at stake"), "1.00 MiB, 2.00 MiB too much since a forecast failed");
    }
}
