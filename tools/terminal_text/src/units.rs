//! Numbers as people read them. The exact bytes always stand beside the short form where it matters.

/// `1.50 GiB`, `37 bytes`: three digits at least, binary units.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.995 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2} {}", UNITS[unit])
}

/// `1.50 GiB`, `15.0 MiB`, `1023 KiB`, `37 B`: never more than 8 characters, for columns.
pub fn bytes_narrow(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match (unit, value) {
        (0, _) => format!("{bytes} B"),
        (_, ..9.995) => format!("{value:.2} {}", UNITS[unit]),
        (_, ..99.95) => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// `0`, `4.2`, `417`, `12.1k`, `3.40M`: never more than 5 characters, for columns of counts.
pub fn count_narrow(count: f64) -> String {
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    let (mut value, mut unit) = (count, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match value {
        _ if unit == 0 && value.fract() == 0.0 => format!("{value:.0}"),
        ..9.995 if unit != 0 => format!("{value:.2}{}", UNITS[unit]),
        ..99.95 => format!("{value:.1}{}", UNITS[unit]),
        _ => format!("{value:.0}{}", UNITS[unit]),
    }
}

/// `1.50 GiB (1,610,612,736 bytes)`.
pub fn bytes_exact(count: u64) -> String {
    if count < 1024 { bytes(count) } else { format!("{} ({} bytes)", bytes(count), grouped(count)) }
}

/// `1,610,612,736`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `850 ns`, `12.3 µs`, `4.56 ms`, `7.89 s`.
pub fn duration(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

/// `part` of `whole` in percent, `–` without a whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_string() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes((1 << 20) - 1), "1.00 MiB");
        assert_eq!(bytes(u64::MAX), "16.00 EiB");
        assert_eq!(bytes_exact(3 << 29), "1.50 GiB (1,610,612,736 bytes)");
        assert_eq!((grouped(0), grouped(999), grouped(1000)), ("0".into(), "999".into(), "1,000".into()));
        assert_eq!(
            (duration(999), duration(1500), duration(2_500_000)),
            ("999 ns".into(), "1.5 µs".into(), "2.50 ms".into())
        );
        let narrow = [0, 1023, 1024, 15 << 20, (1 << 20) - 1, 1023 << 10, 3 << 29, u64::MAX].map(bytes_narrow);
        let expected = ["0 B", "1023 B", "1.00 KiB", "15.0 MiB", "1.00 MiB", "1023 KiB", "1.50 GiB", "16.0 EiB"];
        assert_eq!(narrow.each_ref().map(String::as_str), expected);
        let narrow = [0.0, 4.24, 17.0, 417.3, 999.5, 12_100.0, 3.4e6].map(count_narrow);
        assert_eq!(narrow.each_ref().map(String::as_str), ["0", "4.2", "17", "417", "1.00k", "12.1k", "3.40M"]);
        assert_eq!((percent(1, 2), percent(1, 0)), ("50.0 %".into(), "–".into()));
    }
}
