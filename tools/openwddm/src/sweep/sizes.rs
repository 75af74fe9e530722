//! Memory sizes as people type them for a sweep: one, or a range with a number of sizes: `0.3..1.0`, `30%..100%/8`, `8GiB..24GiB`. The
//! command line's parser calls it.

use std::str::FromStr;

use thiserror::Error;

use crate::size::{MemorySize, SizeProblem};

/// One size, or several at equal distances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    from: MemorySize,
    to: MemorySize,
    /// At least 2 of a range, 1 of one size.
    count: u32,
}

/// Why a text says no memory sizes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}; {REMEDY}")]
pub struct SizesError(Wrong);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum Wrong {
    #[error("\"{0}\": {1}")]
    Amount(String, SizeProblem),
    #[error("the range goes backwards, from {from} to {to}: write {to}..{from}")]
    Backwards { from: String, to: String },
    #[error("one end of the range is a share of the peak and the other a size")]
    Mixed,
    #[error("\"{0}\" is no number of sizes from 2 to {COUNT_MAX}")]
    Count(String),
}

const REMEDY: &str = "give shares of the peak or sizes, one or a range: 0.6, 60%, 12GiB, 0.3..1.0, 30%..100%/8 (eight sizes), 8GiB..24GiB";
/// The sizes of a range that says no number: from 0.3 to 1.0 a twentieth of the peak apart.
const COUNT: u32 = 15;
/// Most sizes of a range.
const COUNT_MAX: u32 = 1_000;

impl Sizes {
    /// The range between two sizes of one kind, the smaller first.
    ///
    /// # Panics
    /// If the kinds differ.
    pub fn between(from: MemorySize, to: MemorySize) -> Sizes {
        assert!(parts(from, to).is_some(), "both are shares, or both are sizes");
        Sizes { from, to, count: COUNT }
    }

    /// Each size, in order.
    pub fn each(&self) -> Vec<MemorySize> {
        let Some((from, to)) = parts(self.from, self.to).filter(|_| self.count > 1) else { return vec![self.from] };
        let steps = u128::from(self.count - 1);
        let at = |step| {
            // CAST: between the two.
            let part = (u128::from(to - from) * step / steps) as u64;
            match self.from {
                MemorySize::Bytes(bytes) => MemorySize::Bytes(bytes + part),
                MemorySize::OfPeak { millionths } => MemorySize::OfPeak { millionths: millionths + part },
            }
        };
        (0..=steps).map(at).collect()
    }
}

/// The numbers of two sizes of one kind.
fn parts(from: MemorySize, to: MemorySize) -> Option<(u64, u64)> {
    match (from, to) {
        (MemorySize::Bytes(from), MemorySize::Bytes(to)) => Some((from, to)),
        (MemorySize::OfPeak { millionths: from }, MemorySize::OfPeak { millionths: to }) => Some((from, to)),
        _ => None,
    }
}

fn size(text: &str) -> Result<MemorySize, Wrong> {
    let text = text.trim();
    text.parse::<MemorySize>().map_err(|error| Wrong::Amount(text.to_owned(), error.0))
}

impl FromStr for Sizes {
    type Err = SizesError;

    fn from_str(text: &str) -> Result<Sizes, SizesError> {
        let Some((from_text, rest)) = text.split_once("..") else {
            let one = size(text).map_err(SizesError)?;
            return Ok(Sizes { from: one, to: one, count: 1 });
        };
        let (to_text, count) = match rest.split_once('/') {
            None => (rest, COUNT),
            Some((to, count)) => {
                let number = count.trim().parse().ok().filter(|number| (2..=COUNT_MAX).contains(number));
                (to, number.ok_or_else(|| SizesError(Wrong::Count(count.to_owned())))?)
            }
        };
        let (from, to) = (size(from_text).map_err(SizesError)?, size(to_text).map_err(SizesError)?);
        match parts(from, to) {
            None => Err(SizesError(Wrong::Mixed)),
            Some((low, high)) if low > high => {
                let (from, to) = (from_text.trim().to_owned(), to_text.trim().to_owned());
                Err(SizesError(Wrong::Backwards { from, to }))
            }
            Some((low, high)) if low == high => Ok(Sizes { from, to, count: 1 }),
            Some(_) => Ok(Sizes { from, to, count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(text: &str) -> Vec<MemorySize> {
        text.parse::<Sizes>().unwrap().each()
    }

    #[test]
    fn a_range_has_both_its_ends_and_equal_distances() {
        let shares = |texts: &[u64]| -> Vec<MemorySize> {
            texts.iter().map(|percent| MemorySize::OfPeak { millionths: percent * 10_000 }).collect()
        };
        assert_eq!(each("0.3..1.0"), shares(&[30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100]));
        assert_eq!(each("0.3..1/8"), shares(&[30, 40, 50, 60, 70, 80, 90, 100]));
        assert_eq!(each(" 30% .. 90% / 3 "), shares(&[30, 60, 90]));
        assert_eq!(each("0.5..50%"), shares(&[50]));
        assert_eq!(each("60%"), shares(&[60]));
        assert_eq!(each("1KiB..2KiB/3"), [1024, 1536, 2048].map(MemorySize::Bytes));
        assert_eq!(each("4096"), [MemorySize::Bytes(4096)], "larger numbers are bytes");
        let all = each("4096..18446744073709551615/1000");
        assert_eq!((all.len(), all[999]), (1000, MemorySize::Bytes(u64::MAX)));
    }

    #[test]
    fn what_says_no_sizes_is_refused_with_what_would() {
        for (text, part) in [
            ("1.0..0.3", "backwards, from 1.0 to 0.3: write 0.3..1.0"),
            ("24GiB..8GiB", "write 8GiB..24GiB"),
            ("0.3..24GiB", "a share of the peak and the other a size"),
            ("0.3..1.0/1", "\"1\" is no number of sizes"),
            ("0.3..1.0/many", "\"many\""),
            ("0.3..1.0/1001", "\"1001\""),
            ("..1.0", "\"\": this is no number"),
            ("0.3..", "\"\": this is no number"),
            ("-0.3..1.0", "negative"),
            ("0", "less than one byte"),
            ("0.3..1.0..2.0", "\"1.0..2.0\""),
            ("much", "no number"),
            ("5Gi", "\"Gi\" is no unit"),
            ("60", "60% is that share"),
        ] {
            let error = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("0.3..1.0, "), "{text}: {error}");
        }
    }
}
