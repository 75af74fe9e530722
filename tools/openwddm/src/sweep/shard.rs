//! One of several equal parts of a sweep: `2/4`. Parts are disjoint, and all of them together are the sweep.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The part `number` of `of`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: u32,
    of: u32,
}

/// Why a text is no part.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{problem}; give I/N with I from 1 to N, and N at most {PARTS_MAX}: 1/4, 2/4, 3/4, 4/4")]
pub struct ShardError {
    problem: String,
}

/// Most parts.
const PARTS_MAX: u32 = 10_000;

impl Shard {
    /// Whether the run of this number, counted from 0 over the whole sweep, belongs to it. Neighbours, which take about the same time,
    /// lie in different parts.
    pub(super) fn has(self, run: usize) -> bool {
        run % self.of as usize == self.number as usize - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Shard, ShardError> {
        let refused = |problem: String| Err(ShardError { problem });
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            None => refused("this is no part of a sweep".to_owned()),
            Some((_, 0)) => refused("a sweep has at least one part".to_owned()),
            Some((_, of)) if of > PARTS_MAX => refused(format!("{of} parts are too many")),
            Some((number, of)) if number == 0 || number > of => refused(format!("there is no part {number} of {of}")),
            Some((number, of)) => Ok(Shard { number, of }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_disjoint_and_are_all() {
        for of in 1..6 {
            let parts: Vec<Shard> = (1..=of).map(|number| format!("{number}/{of}").parse().unwrap()).collect();
            for run in 0..40 {
                assert_eq!(parts.iter().filter(|part| part.has(run)).count(), 1, "run {run} of {of} parts");
            }
        }
    }

    #[test]
    fn what_is_no_part_is_refused_with_what_would_be_one() {
        for (text, part) in [
            ("0/4", "no part 0 of 4"),
            ("5/4", "no part 5 of 4"),
            ("1/0", "at least one part"),
            ("2", "no part of a sweep"),
            ("-1/4", "no part of a sweep"),
            ("1/10001", "too many"),
        ] {
            let error = text.parse::<Shard>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("I from 1 to N"), "{text}: {error}");
        }
    }
}
