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
}

#[test]
fn nonsense_is_refused_with_its_reason() {
    for text in ["", "GiB", "NaN", "inf", "abc", ".", "1.2.3", "%"] {
        assert_eq!(parsed(text), Err(SizeError(AmountError::NoNumber)), "{text}");
    }
    for text in ["-1", "-60%", "-0", "−5GiB"] {
        assert_eq!(parsed(text), Err(SizeError(AmountError::Negative)), "{text}");
    }
    for text in ["0", "0%", "0.0GiB", "0.4", "0.00001%"] {
        assert_eq!(parsed(text), Err(SizeError(AmountError::Zero)), "{text}");
    }
    for text in ["16777216TiB", "18446744073709551616", "99999999999999999999999999999999999999999999TB"] {
        assert_eq!(parsed(text), Err(SizeError(AmountError::Overflow)), "{text}");
    }
    for (text, unit) in [("5Gi", "Gi"), ("1e9", "e9"), ("5PB", "PB"), ("1,5GiB", ",5GiB"), ("60%%", "%%")] {
        assert_eq!(parsed(text), Err(SizeError(AmountError::Unit(unit.to_string()))), "{text}");
    }
}
