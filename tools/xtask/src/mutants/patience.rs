//! How long a run of tests may take on a machine that has other work.
//!
//! A run that waits for a processor is not slow: only the time in which it computes, or in which all its threads sleep, counts.
//! So a loop without end and a waiter that sleeps for ever both end their run, and a busy machine ends none.

use std::time::{Duration, Instant};

/// Ticks of a second in `/proc`; Linux has told programs no other number for two decades.
const TICKS: u64 = 100;

/// What is left of the time of one run.
#[derive(Debug)]
pub struct Patience {
    left: Duration,
    looked: Instant,
    computed: Duration,
}

/// A process as `/proc` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// Processor time since its begin, of all its threads.
    computed: Duration,
    /// Whether a thread computes or waits for a processor.
    runs: bool,
}

impl Patience {
    /// A run that begins now may take this long.
    pub fn new(within: Duration) -> Patience {
        Patience { left: within, looked: Instant::now(), computed: Duration::ZERO }
    }

    /// The rest of it.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// Counts the time since the last look at the process; false: its time is over.
    pub fn lasts(&mut self, process: u32) -> bool {
        let passed = std::mem::replace(&mut self.looked, Instant::now()).elapsed();
        self.count(passed, look(process))
    }

    fn count(&mut self, passed: Duration, look: Option<Look>) -> bool {
        let spent = match look {
            Some(Look { computed, runs: true }) => {
                computed.saturating_sub(std::mem::replace(&mut self.computed, computed))
            }
            Some(Look { computed, runs: false }) => {
                self.computed = computed;
                passed
            }
            // The system does not say, so all time counts.
            None => passed,
        };
        self.left = self.left.saturating_sub(spent);
        !self.left.is_zero()
    }
}

fn look(process: u32) -> Option<Look> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let runs = stats.filter_map(|stat| fields(&stat)?.next().map(|state| state == "R")).any(|runs| runs);
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let ticks: u64 = fields(&stat)?.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap_or(0)).sum();
    Some(Look { computed: Duration::from_millis(ticks * 1_000 / TICKS), runs })
}

/// From the state on: the name before it may hold spaces and parentheses.
fn fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_process_that_waits_for_a_processor_is_not_slow() {
        let mut patience = Patience::new(3 * SECOND);
        let runs = |computed| Some(Look { computed, runs: true });
        assert!(patience.count(600 * SECOND, runs(SECOND)), "it has computed for one second of ten minutes");
        assert!(patience.count(600 * SECOND, runs(SECOND)), "and then not at all");
        assert!(!patience.count(5 * SECOND, runs(3 * SECOND)), "its third second was the last");
    }

    #[test]
    fn a_process_that_sleeps_is_slow_and_so_is_one_that_cannot_be_seen() {
        let sleeps = |computed| Some(Look { computed, runs: false });
        let mut patience = Patience::new(3 * SECOND);
        assert!(patience.count(2 * SECOND, sleeps(SECOND)));
        assert!(!patience.count(SECOND, sleeps(SECOND)));
        let mut patience = Patience::new(3 * SECOND);
        assert!(patience.count(2 * SECOND, None) && !patience.count(SECOND, None));
    }

    #[test]
    fn this_process_runs_and_its_processor_time_grows() {
        let begun = look(std::process::id()).expect("the system shows its processes");
        assert!(begun.runs, "this thread computes");
        let mut sum = 0_u64;
        while look(std::process::id()).is_some_and(|seen| seen.computed == begun.computed) {
            sum = (0..100_000_u64).fold(sum, |sum, one| sum.rotate_left(1) ^ one);
        }
        assert!(look(std::process::id()).is_some_and(|seen| seen.computed > begun.computed), "{sum}");
        assert_eq!(look(0), None, "no process");
    }

    #[test]
    fn the_name_of_a_process_is_no_field() {
        let mut fields = fields("7 (a ) R b) S 1 7 7").expect("a line");
        assert_eq!(fields.next(), Some("S"));
    }
}
