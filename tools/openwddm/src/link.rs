//! The rate of a link as people type it: `15.754GB/s`, with the units of [`dxgk_host::parse_bytes`], in whole megabytes; fractions of
//! a byte are dropped. The command line's parser calls it.

use std::str::FromStr;

use dxgk_host::{AmountError, parse_bytes};
use thiserror::Error;

/// How fast the bus to system memory is, each way and both ways at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRate {
    /// Bytes in a microsecond; at least 1.
    pub bytes_per_us: u64,
}

/// Why a text is no rate, with the rates that are.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}; {REMEDY}")]
pub struct LinkError(pub Wrong);

/// The part of a rate that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Wrong {
    /// It does not say "a second".
    #[error("\"/s\" is missing behind \"{0}\"")]
    NotASecond(String),
    /// A number without a unit.
    #[error("there is no unit behind \"{0}\"")]
    NoUnit(String),
    /// Below zero.
    #[error("a rate cannot be negative")]
    Negative,
    /// The amount before "/s".
    #[error("\"{0}\": {1}")]
    Amount(String, AmountError),
    /// Zero, or so little that not even one byte is left.
    #[error("nothing ever arrives over a link of \"{0}\" a second")]
    Nothing(String),
    /// Not a whole number of megabytes.
    #[error("\"{0}\" is {1} bytes, no whole number of megabytes (1,000,000 bytes)")]
    NotWhole(String, u64),
}

const REMEDY: &str = "give a number with KiB, MiB, GiB, TiB, KB, MB, GB or TB and /s, in whole megabytes: 15.754GB/s is PCIe 3.0 with 16 lanes";
const BYTES_PER_US: u64 = 1_000_000;

impl FromStr for LinkRate {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<LinkRate, LinkError> {
        let text = text.trim();
        let amount = text.strip_suffix("/s").ok_or_else(|| LinkError(Wrong::NotASecond(text.to_owned())))?.trim_end();
        let named = || amount.to_owned();
        if amount.ends_with(|end: char| end.is_ascii_digit() || end == '.') {
            return Err(LinkError(Wrong::NoUnit(named())));
        }
        let bytes = parse_bytes(amount).map_err(|error| {
            LinkError(match error {
                AmountError::Negative => Wrong::Negative,
                AmountError::Zero => Wrong::Nothing(named()),
                error => Wrong::Amount(named(), error),
            })
        })?;
        match bytes % BYTES_PER_US {
            0 => Ok(LinkRate { bytes_per_us: bytes / BYTES_PER_US }),
            _ => Err(LinkError(Wrong::NotWhole(named(), bytes))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_whole_megabytes_a_second() {
        for (text, bytes_per_us) in [
            ("15.754GB/s", 15_754),
            ("25 GB/s", 25_000),
            ("1MB/s", 1),
            (" 0.5 TB/s ", 500_000),
            ("1000kb/s", 1),
            ("1.0000000000001MB/s", 1),
        ] {
            assert_eq!(text.parse(), Ok(LinkRate { bytes_per_us }), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_the_part_that_is_wrong() {
        for (text, part) in [
            ("15.754GB", "\"/s\" is missing behind \"15.754GB\""),
            ("15.754", "\"/s\" is missing"),
            ("15754/s", "no unit behind \"15754\""),
            ("1000000./s", "no unit behind \"1000000.\""),
            ("1000000. /s", "no unit behind \"1000000.\""),
            ("-1GB/s", "negative"),
            ("0GB/s", "nothing ever arrives"),
            ("fastGB/s", "\"fastGB\": this is no number"),
            ("15.754Gbit/s", "\"Gbit\" is no unit"),
            ("1.5KB/s", "1500 bytes, no whole number of megabytes"),
            ("15.7540001GB/s", "15754000100 bytes"),
            ("1GiB/s", "1073741824 bytes"),
            ("99999999TB/s", "more than 16 EiB"),
            ("/s", "this is no number"),
        ] {
            let error = text.parse::<LinkRate>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("15.754GB/s is"), "{text}: {error}");
        }
    }
}
