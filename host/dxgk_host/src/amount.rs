//! Amounts of memory as people type them: `6GiB`, `1.5GB`, `4096`. One reader for the command line, the daemon's configuration and the
//! environment of C programs; shares of a workload are the command line's own.
//!
//! Exact integer arithmetic: a text without a whole number of bytes is rounded down. Decimal units (KB, MB, GB, TB) and binary
//! ones (KiB, MiB, GiB, TiB) differ, and a bare number counts bytes.

/// Why a text is no amount of memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Nothing, or no number at its head.
    #[error("this is no number")]
    NoNumber,
    /// A sign.
    #[error("memory cannot be negative")]
    Negative,
    /// Zero, or so little that not even one byte is left.
    #[error("this is less than one byte, and a GPU without memory can hold nothing")]
    Zero,
    /// An unknown unit.
    #[error("\"{0}\" is no unit")]
    Unit(String),
    /// More than 64 bits can say.
    #[error("this is more than 16 EiB, the largest size there is")]
    Overflow,
}

/// Digits behind the point that count; more would not change a byte of any size that fits.
const FRACTION_DIGITS_MAX: usize = 18;

/// Reads an amount: its bytes, at least 1.
///
/// # Errors
/// See [`AmountError`].
pub fn parse_bytes(text: &str) -> Result<u64, AmountError> {
    let (number, unit) = split(text)?;
    scaled(number, multiplier(number, unit)?)
}

/// The number and the unit of an amount, neither of them judged.
///
/// # Errors
/// [`AmountError::Negative`].
pub fn split(text: &str) -> Result<(&str, &str), AmountError> {
    let text = text.trim();
    if text.starts_with(['-', '\u{2212}']) {
        return Err(AmountError::Negative);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Ok((number, unit.trim()))
}

/// `number × multiplier`, rounded down, refused unless it lies in 1 ..= 2⁶⁴ − 1. The multiplier is at most 2⁴⁰.
///
/// # Errors
/// See [`AmountError`].
pub fn scaled(number: &str, multiplier: u128) -> Result<u64, AmountError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    if !has_digits || fraction.contains('.') {
        return Err(AmountError::NoNumber);
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    // Only digits are left, so the one way to fail is size.
    let whole: u64 = whole.parse().map_err(|_| AmountError::Overflow)?;
    let digits = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let divisor = 10u128.pow(digits.len() as u32); // CAST: at most 18
    let part: u128 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| AmountError::NoNumber)? };
    // Below 2^64 × 2^40 and 10^18 × 2^40: neither leaves 128 bits.
    let value = u128::from(whole) * multiplier + part * multiplier / divisor;
    match u64::try_from(value) {
        Ok(0) => Err(AmountError::Zero),
        Ok(value) => Ok(value),
        Err(_) => Err(AmountError::Overflow),
    }
}

fn multiplier(number: &str, unit: &str) -> Result<u128, AmountError> {
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
        _ if number.is_empty() => Err(AmountError::NoNumber),
        _ => Err(AmountError::Unit(unit.to_string())),
    }
}
