//! Amounts of memory as people type them: `6GiB`, `1.5GB`, `60%`.
//!
//! Exact integer arithmetic: what has no whole number of bytes is rounded down. Decimal units (KB, MB, GB, TB) and binary
//! ones (KiB, MiB, GiB, TiB) differ, and a bare number counts bytes. The command line's parser calls it.

use std::fmt;
use std::str::FromStr;

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
            MemorySize::Bytes(bytes) => f.write_str(&crate::units::bytes(*bytes)),
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

/// Why a text is no amount of memory. Each says what to type instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Nothing, or no number at its head.
    #[error("this is no number; {REMEDY}")]
    NoNumber,
    /// A sign.
    #[error("memory cannot be negative; {REMEDY}")]
    Negative,
    /// Zero, or so little that not even one byte is left.
    #[error("this is less than one byte, and a GPU without memory can hold nothing; {REMEDY}")]
    Zero,
    /// An unknown unit.
    #[error("\"{0}\" is no unit; {REMEDY}")]
    Unit(String),
    /// More than 64 bits can say.
    #[error("this is more than 16 EiB, the largest size there is; {REMEDY}")]
    Overflow,
}

const REMEDY: &str = "give bytes, or a number with KiB, MiB, GiB, TiB, KB, MB, GB, TB, or a percentage of the workload's peak: 6GiB, 1.5GB, 60%";
/// Millionths of a whole.
const WHOLE: u64 = 1_000_000;
/// Digits behind the point that count; more would not change a byte of any size that fits.
const FRACTION_DIGITS_MAX: usize = 18;

impl FromStr for MemorySize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<MemorySize, SizeError> {
        let text = text.trim();
        if text.starts_with(['-', '\u{2212}']) {
            return Err(SizeError::Negative);
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.trim();
        if unit == "%" {
            let millionths = scaled(number, u128::from(WHOLE / 100))?;
            return Ok(MemorySize::OfPeak { millionths });
        }
        Ok(MemorySize::Bytes(scaled(number, multiplier(number, unit)?)?))
    }
}

/// `number × multiplier`, rounded down, refused unless it lies in 1 ..= 2⁶⁴ − 1.
fn scaled(number: &str, multiplier: u128) -> Result<u64, SizeError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    if !has_digits || fraction.contains('.') {
        return Err(SizeError::NoNumber);
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    // Only digits are left, so the one way to fail is size.
    let whole: u64 = whole.parse().map_err(|_| SizeError::Overflow)?;
    let digits = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let divisor = 10u128.pow(digits.len() as u32); // CAST: at most 18
    let part: u128 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| SizeError::NoNumber)? };
    // Below 2^64 × 2^40 and 10^18 × 2^40: neither leaves 128 bits.
    let value = u128::from(whole) * multiplier + part * multiplier / divisor;
    match u64::try_from(value) {
        Ok(0) => Err(SizeError::Zero),
        Ok(value) => Ok(value),
        Err(_) => Err(SizeError::Overflow),
    }
}

fn multiplier(number: &str, unit: &str) -> Result<u128, SizeError> {
    let power = |base: u128, exponent: u32| Ok(base.pow(exponent));
    match unit.to_ascii_lowercase().as_str() {
        "" | "b" => Ok(1),
        "kib" => power(1024, 1),
        "mib" => power(1024, 2),
        "gib" => power(1024, 3),
        "tib" => power(1024, 4),
        "kb" => power(1000, 1),
        "mb" => power(1000, 2),
        "gb" => power(1000, 3),
        "tb" => power(1000, 4),
        _ if number.is_empty() => Err(SizeError::NoNumber),
        _ => Err(SizeError::Unit(unit.to_string())),
    }
}

#[cfg(test)]
mod tests;
