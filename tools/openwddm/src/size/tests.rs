//! Tests of the sizes that people type.

use super::*;

fn parsed(text: &str) -> Result<MemorySize, SizeError> {
    text.parse()
}

#[test]
fn units_decimal_and_binary_differ() {
    let cases = [
        ("4096", 4096),
        ("1B", 1),
        ("1KiB", 1024),
        ("1 kb", 1000),
        ("3MiB", 3 << 20),
        ("3MB", 3_000_000),
        ("1.5GiB", 3 << 29),
        ("1.5gb", 1_500_000_000),
        (".5KiB", 512),
        ("2.TiB", 2 << 40),
        ("0.0000000001TB", 100),
        ("18446744073709551615", u64::MAX),
    ];
    for (text, bytes) in cases {
        assert_eq!(parsed(text), Ok(MemorySize::Bytes(bytes)), "{text}");
    }
}

#[test]
fn percentages_are_of_the_peak() {
    assert_eq!(parsed("60%").unwrap().bytes(1000), 600);
    assert_eq!(parsed("12.5 %").unwrap().bytes(1000), 125);
    assert_eq!(parsed("150%").unwrap().bytes(1000), 1500);
    assert_eq!(parsed("60%").unwrap().bytes(u64::MAX), (u128::from(u64::MAX) * 6 / 10) as u64);
    assert_eq!(parsed("1%").unwrap().bytes(10), 1, "never nothing");
    assert_eq!(parsed("12.5%").unwrap().to_string(), "12.5 % of the peak");
    assert_eq!(
        (parsed("0.125").unwrap().as_argument().as_str(), parsed("4KiB").unwrap().as_argument().as_str()),
        ("12.5%", "4096")
    );
}

#[test]
fn bare_numbers_are_shares_up_to_ten_and_bytes_from_where_they_can_be_meant_so() {
    for (text, percent) in [("0.6", 60), ("1", 100), ("1.5", 150), ("10", 1000)] {
        assert_eq!(parsed(text), Ok(MemorySize::OfPeak { millionths: percent * 10_000 }), "{text}");
    }
    assert_eq!(parsed("1001"), Ok(MemorySize::Bytes(1001)));
    assert_eq!(parsed("60B"), Ok(MemorySize::Bytes(60)), "a unit says that bytes are meant");
    for text in ["11", "60", "100", "1000"] {
        let error = parsed(text).unwrap_err();
        assert_eq!(error, SizeError(SizeProblem::Bare(text.to_owned())));
        assert!(error.to_string().contains(&format!("{text}% is that share")), "{error}");
    }
}

#[test]
fn nonsense_is_refused_with_its_reason() {
    for text in ["", "GiB", "NaN", "inf", "abc", ".", "1.2.3", "%"] {
        assert_eq!(parsed(text), Err(SizeError(AmountError::NoNumber.into())), "{text}");
    }
    for text in ["-1", "-60%", "-0", "−5GiB"] {
        assert_eq!(parsed(text), Err(SizeError(AmountError::Negative.into())), "{text}");
    }
    for text in ["0", "0%", "0.0GiB", "0.0000001", "0.00001%"] {
        assert_eq!(parsed(text), Err(SizeError(AmountError::Zero.into())), "{text}");
    }
    for text in ["16777216TiB", "18446744073709551616", "99999999999999999999999999999999999999999999TB"] {
        assert_eq!(parsed(text), Err(SizeError(AmountError::Overflow.into())), "{text}");
    }
    for (text, unit) in [("5Gi", "Gi"), ("1e9", "e9"), ("5PB", "PB"), ("1,5GiB", ",5GiB"), ("60%%", "%%")] {
        assert_eq!(parsed(text), Err(SizeError(AmountError::Unit(unit.to_string()).into())), "{text}");
    }
}
