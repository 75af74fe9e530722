//! Amounts of memory as people type them for a workload: `6GiB`, `1.5GB` as everywhere ([`dxgk_host::parse_bytes`]), and `60%` of its
//! peak. The command line's parser calls it.

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

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemorySize::Bytes(bytes) => f.write_str(&terminal_text::units::bytes(*bytes)),
            MemorySize::OfPeak { millionths } => {
                let (whole, part) = (millionths / 10_000, millionths % 10_000);
                let digits = format!("{part:04}");
                let digits = digits.trim_end_matches('0');
                let point = if digits.is_empty() { "" } else { "." };
                write!(f, "{whole}{point}{digits} % of the peak")
            }
        }
    }
}

/// Why a text is no amount of memory, with the amounts that are.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}; {REMEDY}")]
pub struct SizeError(pub AmountError);

const REMEDY: &str = "give bytes, or a number with KiB, MiB, GiB, TiB, KB, MB, GB, TB, or a percentage of the workload's peak: 6GiB, 1.5GB, 60%";
/// Millionths of a whole.
const WHOLE: u64 = 1_000_000;

impl FromStr for MemorySize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<MemorySize, SizeError> {
        let (number, unit) = split_amount(text).map_err(SizeError)?;
        if unit == "%" {
            let millionths = scaled(number, u128::from(WHOLE / 100)).map_err(SizeError)?;
            return Ok(MemorySize::OfPeak { millionths });
        }
        parse_bytes(text).map(MemorySize::Bytes).map_err(SizeError)
    }
}

#[cfg(test)]
mod tests;
