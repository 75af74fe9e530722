//! The forms that values of a file have: each is read and written here, so that what is written reads back. Called by `keys`.

use toml::de::DeValue;

/// A number in a range.
pub(super) mod number {
    use super::{DeValue, integer, outside};

    pub fn read<T: TryFrom<u64>>(value: &DeValue<'_>, least: u64, most: u64) -> Result<T, String> {
        let found = integer(value).ok_or_else(|| outside(value, &format!("a number from {least} to {most}")))?;
        let fits = Some(found).filter(|found| (least..=most).contains(found)).and_then(|found| T::try_from(found).ok());
        fits.ok_or_else(|| format!("{found} is not from {least} to {most}"))
    }

    pub fn write<T: Copy + Into<u64>>(value: &T, _least: u64, _most: u64) -> String {
        (*value).into().to_string()
    }
}

/// A number that people write with so many hexadecimal digits.
pub(super) mod id {
    use super::{DeValue, integer, outside};

    pub fn read<T: TryFrom<u64>>(value: &DeValue<'_>, digits: usize, most: u64) -> Result<T, String> {
        let range = format!("from 0x{:0digits$x} to 0x{most:0digits$x}, which has {} bits", 0, digits * 4);
        let found = integer(value).ok_or_else(|| outside(value, &format!("a number {range}")))?;
        let fits = Some(found).filter(|found| *found <= most).and_then(|found| T::try_from(found).ok());
        fits.ok_or_else(|| format!("{found:#x} is not {range}"))
    }

    pub fn write<T: Copy + Into<u64>>(value: &T, digits: usize, _most: u64) -> String {
        format!("0x{:0digits$x}", (*value).into())
    }
}

/// A place on the bus, or none.
pub(super) mod place {
    use super::{DeValue, outside, quoted};
    use wddm_types::PciAddress;

    pub fn read(value: &DeValue<'_>) -> Result<Option<PciAddress>, String> {
        let wanted = "a bus to ff, a device to 1f and a function to 7 in hexadecimal digits, as \"01:00.0\", or \"\"";
        match value.as_str() {
            Some("") => Ok(None),
            text => text.and_then(|text| text.parse().ok()).map(Some).ok_or_else(|| outside(value, wanted)),
        }
    }

    pub fn write(value: &Option<PciAddress>) -> String {
        quoted(&value.map_or_else(String::new, |place| place.to_string()))
    }
}

/// An amount of memory in a range.
pub(super) mod bytes {
    use super::{DeValue, integer, outside};
    use crate::amount::parse_bytes;

    pub fn read(value: &DeValue<'_>, least: u64, most: u64) -> Result<u64, String> {
        let found = match value {
            DeValue::String(text) => {
                parse_bytes(text).map_err(|error| format!("{text:?}: {error}; give bytes, or \"8GiB\" or \"1.5GB\""))?
            }
            other => integer(other).ok_or_else(|| outside(other, "bytes, or text like \"8GiB\""))?,
        };
        if (least..=most).contains(&found) {
            return Ok(found);
        }
        Err(format!("{found} bytes are not from {} to {}", write(&least, 0, 0), write(&most, 0, 0)))
    }

    pub fn write(value: &u64, _least: u64, _most: u64) -> String {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let whole = units.iter().find(|(_, shift)| *value != 0 && value.is_multiple_of(1 << shift));
        whole.map_or_else(|| value.to_string(), |(unit, shift)| format!("\"{}{unit}\"", value >> shift))
    }
}

/// `true` or `false`.
pub(super) mod switch {
    use super::{DeValue, outside};

    pub fn read(value: &DeValue<'_>) -> Result<bool, String> {
        value.as_bool().ok_or_else(|| outside(value, "true or false"))
    }

    pub fn write(value: &bool) -> String {
        value.to_string()
    }
}

/// One word of a list.
pub(super) mod word {
    use super::{DeValue, outside, quoted};

    pub fn read<T: Copy>(value: &DeValue<'_>, words: &[(&str, T)]) -> Result<T, String> {
        let names: Vec<String> = words.iter().map(|(name, _)| quoted(name)).collect();
        let wanted = format!("one of {}", names.join(", "));
        let found = value.as_str().and_then(|text| words.iter().find(|(name, _)| *name == text));
        found.map(|(_, value)| *value).ok_or_else(|| outside(value, &wanted))
    }

    pub fn write<T: Copy + PartialEq>(value: &T, words: &[(&str, T)]) -> String {
        let name = words.iter().find(|(_, of)| of == value).map(|(name, _)| *name);
        quoted(name.expect("the list has each value that an adapter may have"))
    }
}

/// Words of a list, in brackets.
pub(super) mod words {
    use super::{DeValue, outside, quoted, word};
    use std::ops::BitOr;

    pub fn read<T: Copy + Default + BitOr<Output = T>>(value: &DeValue<'_>, words: &[(&str, T)]) -> Result<T, String> {
        let list = value.as_array().ok_or_else(|| outside(value, "a list of words"))?;
        let mut found = list.iter().map(|one| word::read(one.get_ref(), words));
        found.try_fold(T::default(), |all, one| Ok(all | one?))
    }

    pub fn write<T: Copy + PartialEq + BitOr<Output = T>>(value: &T, words: &[(&str, T)]) -> String {
        let held = words.iter().filter(|(_, one)| *value | *one == *value).map(|(name, _)| quoted(name));
        format!("[{}]", held.collect::<Vec<_>>().join(", "))
    }
}

/// Numbers in brackets.
pub(super) mod numbers {
    use super::{DeValue, number, outside};

    pub fn read(value: &DeValue<'_>, least: u64, most: u64) -> Result<Vec<u32>, String> {
        let list = value.as_array().ok_or_else(|| outside(value, "a list of numbers"))?;
        list.iter().map(|one| number::read(one.get_ref(), least, most)).collect()
    }

    pub fn write(value: &[u32], _least: u64, _most: u64) -> String {
        format!("{value:?}")
    }
}

/// A name: letters, digits, `-`, `_` and `.`.
pub(super) mod name {
    use super::{DeValue, outside, quoted};

    pub fn read(value: &DeValue<'_>, longest: usize) -> Result<String, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let text = value.as_str().filter(|text| !text.is_empty() && text.len() <= longest && text.chars().all(allowed));
        let wanted = format!("1 to {longest} letters, digits, '-', '_' and '.'");
        text.map(str::to_owned).ok_or_else(|| outside(value, &wanted))
    }

    pub fn write(value: &str, _longest: usize) -> String {
        quoted(value)
    }
}

/// A line of text.
pub(super) mod line {
    use super::{DeValue, outside, quoted};

    pub fn read(value: &DeValue<'_>, longest: usize) -> Result<String, String> {
        let text = value.as_str().filter(|text| text.len() <= longest && !text.chars().any(char::is_control));
        text.map(str::to_owned).ok_or_else(|| outside(value, &format!("one line of {longest} bytes at most")))
    }

    pub fn write(value: &str, _longest: usize) -> String {
        quoted(value)
    }
}

/// A choice of the memory manager, which reads its own text.
pub(super) mod choice {
    use super::{DeValue, integer, outside, quoted};

    pub fn read(value: &DeValue<'_>) -> Result<String, String> {
        match value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Boolean(on) => Ok(if *on { "on" } else { "off" }.to_owned()),
            other => {
                let number = integer(other).map(|number| number.to_string());
                number.ok_or_else(|| outside(other, "a number, true, false or a word"))
            }
        }
    }

    pub fn write(value: &str) -> String {
        match value {
            "on" => "true".to_owned(),
            "off" => "false".to_owned(),
            number if number.parse::<i64>().is_ok() => number.to_owned(),
            other => quoted(other),
        }
    }
}

/// A whole number from 0 on.
fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn quoted(text: &str) -> String {
    let escaped: String =
        text.chars().flat_map(|c| ['"', '\\'].contains(&c).then_some('\\').into_iter().chain([c])).collect();
    format!("\"{escaped}\"")
}

/// The fault of a value that has another form.
fn outside(value: &DeValue<'_>, wanted: &str) -> String {
    let found = match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(on) => on.to_string(),
        other => other.type_str().to_owned(),
    };
    format!("it cannot be {found}; give {wanted}")
}
