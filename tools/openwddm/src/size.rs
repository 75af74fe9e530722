//! Amounts of memory as people type them for a workload: `6GiB`, `1.5GB` as everywhere ([`dxgk_host::parse_bytes`]), and shares of its
//! peak: `60%`, `0.6`. The command line's parser calls it, and that of a sweep's ranges.

use std::fmt;
use std::str::FromStr;

use dxgk_host::{AmountError, parse_bytes, scaled, split_amount};
use thiserror::Error;

/// How much video memory a run gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySize {
    /// This many bytes; at least 1.
    Bytes(u64),
    /// A share of the workload's peak, in millionths; at least 1.
    OfPeak {
        /// Millionths of the peak: 600 000 is 60 %.
        millionths: u64,
    },
}

impl MemorySize {
    /// The bytes that it means for a workload with this peak, at least 1; saturates.
    pub fn bytes(self, peak_bytes: u64) -> u64 {
        match self {
            MemorySize::Bytes(bytes) => bytes,
            MemorySize::OfPeak { millionths } => {
                let bytes = u128::from(peak_bytes) * u128::from(millionths) / u128::from(WHOLE);
                u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
            }
        }
    }
}

impl MemorySize {
    /// A text that means the same as an argument: `60%`, `4096`. The text that a user typed may be another one.
    pub fn as_argument(self) -> String {
        match self {
            MemorySize::Bytes(bytes) => bytes.to_string(),
            MemorySize::OfPeak { millionths } => format!("{}%", percent(millionths)),
        }
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemorySize::Bytes(bytes) => f.write_str(&terminal_text::units::bytes(*bytes)),
            MemorySize::OfPeak { millionths } => write!(f, "{} % of the peak", percent(*millionths)),
        }
    }
}

/// Millionths as a percentage, without zeros behind the point.
fn percent(millionths: u64) -> String {
    let (whole, part) = (millionths / 10_000, millionths % 10_000);
    let digits = format!("{part:04}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{whole}{point}{digits}")
}

/// Why a text is no amount of memory, with the amounts that are.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}; {REMEDY}")]
pub struct SizeError(pub SizeProblem);

/// The fault in a text that is no amount of memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeProblem {
    /// It is none of any kind.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// A bare number that no one means in bytes.
    #[error("{0} without a unit counts bytes, which hold not even a page: {0}% is that share of the peak")]
    Bare(String),
}

const REMEDY: &str = "give a share of the workload's peak (60%, 0.6), or a number with KiB, MiB, GiB, TiB, KB, MB, GB, TB (6GiB, 1.5GB), or bytes";
/// Millionths of a whole.
const WHOLE: u64 = 1_000_000;
/// A bare number up to this is a share of the peak, in millionths; above, it counts bytes.
const SHARE_MAX: u64 = 10 * WHOLE;
/// A bare number up to this would be a percentage: as bytes it is less than any adapter's page.
const PERCENT_MAX: u64 = 1_000;

impl FromStr for MemorySize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<MemorySize, SizeError> {
        let wrong = |error: AmountError| SizeError(error.into());
        let (number, unit) = split_amount(text).map_err(wrong)?;
        if unit == "%" {
            let millionths = scaled(number, u128::from(WHOLE / 100)).map_err(wrong)?;
            return Ok(MemorySize::OfPeak { millionths });
        }
        if unit.is_empty()
            && let Ok(millionths) = scaled(number, u128::from(WHOLE))
            && millionths <= SHARE_MAX
        {
            return Ok(MemorySize::OfPeak { millionths });
        }
        match parse_bytes(text).map_err(wrong)? {
            ..=PERCENT_MAX if unit.is_empty() => Err(SizeError(SizeProblem::Bare(number.trim().to_owned()))),
            bytes => Ok(MemorySize::Bytes(bytes)),
        }
    }
}

#[cfg(test)]
mod tests;
