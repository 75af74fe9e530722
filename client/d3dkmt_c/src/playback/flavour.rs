//! Recordings of the flavour of the Linux subsystem, for a library of the other one. Both have the same members; there a wide character has 4
//! bytes, and here 2, so that lengths of names and sizes of answers that have names in them are others. Descriptors are not looked at here.

use std::borrow::Cow;

use d3dkmt_abi::{Item, WCHAR};

use crate::trace::{Type, Value, fields, item};

/// The flavour of this library, as the first line of a trace names it.
pub const FLAVOUR: &str = if cfg!(feature = "wsl") { "wsl" } else { "windows" };

/// Bytes of a wide character of the flavour of the Linux subsystem.
const THEIRS: i128 = 4;
/// Bytes of one of the other flavour.
const OURS: i128 = 2;
/// A unit that is no text: the half of a pair.
const NO_TEXT: u16 = 0xd800;

/// Arguments of a recorded call of the flavour of the Linux subsystem, as the other flavour has them.
pub fn from_wsl(function: &str, given: &Value) -> Value {
    match function {
        "D3DKMTQueryAdapterInfo" => question(given),
        _ => translated(given),
    }
}

fn translated(value: &Value) -> Value {
    match value {
        Value::Members(_) if value.member("Buffer").is_some() && value.member("Length").is_some() => string(value),
        Value::Members(all) => {
            Value::Members(all.iter().map(|(name, value)| (name.clone(), member(name, value))).collect())
        }
        Value::List(all) => Value::List(all.iter().map(translated).collect()),
        _ => value.clone(),
    }
}

fn member(name: &str, value: &Value) -> Value {
    match (name, value) {
        // What is no text stands there as a list of units.
        ("DeviceName", Value::List(all)) => units_of(all).map_or(value.clone(), listed),
        ("pDeviceName", Value::Members(_)) => match value.member("list") {
            Some(Value::List(all)) => {
                units_of(all).map_or(value.clone(), |units| with(value, &[("list", listed(units))]))
            }
            _ => value.clone(),
        },
        _ => translated(value),
    }
}

/// `UNICODE_STRING`: its lengths are bytes. A length that is no whole number of characters stays none.
fn string(value: &Value) -> Value {
    let length = value.member("Length").and_then(Value::number).unwrap_or(0);
    let buffer = value.member("Buffer").cloned().unwrap_or(Value::Null);
    let units = match (buffer.member("text").and_then(Value::text), buffer.member("list")) {
        (Some(text), _) => {
            // Zeros behind the text belong to the name.
            let zeros = (length / THEIRS - text.chars().count() as i128).max(0);
            Some(text.encode_utf16().chain((0..zeros).map(|_| 0)).collect())
        }
        (None, Some(Value::List(all))) => units_of(all),
        _ => None,
    };
    let is_whole = length % THEIRS == 0;
    let bytes = match (&units, is_whole) {
        (Some(units), true) => OURS * units.len() as i128,
        (None, true) => length / THEIRS * OURS,
        (_, false) => length / THEIRS * OURS + 1,
    };
    let most = value.member("MaximumLength").and_then(Value::number).unwrap_or(0) / THEIRS * OURS;
    let buffer = match units {
        Some(units) => with(&buffer, &[("list", listed(units))]),
        None => buffer,
    };
    with(
        value,
        &[("Length", Value::Number(bytes)), ("MaximumLength", Value::Number(most.max(bytes))), ("Buffer", buffer)],
    )
}

/// Units of 4 bytes as units of 2; one that is no character becomes one that is none here. `None`: these are no numbers.
fn units_of(all: &[Value]) -> Option<Vec<u16>> {
    let mut units = Vec::with_capacity(all.len());
    for unit in all {
        let unit = u32::try_from(unit.number()?).ok()?;
        match char::from_u32(unit) {
            Some(character) => units.extend_from_slice(character.encode_utf16(&mut [0; 2])),
            None => units.push(NO_TEXT),
        }
    }
    Some(units)
}

fn listed(units: Vec<u16>) -> Value {
    Value::List(units.into_iter().map(|unit| Value::Number(unit.into())).collect())
}

/// The same members with other values; the text of a list that is there now is not.
fn with(value: &Value, changed: &[(&'static str, Value)]) -> Value {
    let Value::Members(all) = value else { return value.clone() };
    let is_other = |name: &str| name == "text" || changed.iter().any(|(other, _)| *other == name);
    let kept = all.iter().filter(|(name, _)| !is_other(name)).cloned();
    let changed = changed.iter().map(|(name, value)| (Cow::Borrowed(*name), value.clone()));
    Value::Members(kept.chain(changed).collect())
}

/// A question whose answer has names in it: its size is the flavour's. A size that is wrong there is wrong here.
fn question(given: &Value) -> Value {
    let answer = match given.member("Type").and_then(Value::text) {
        Some("KMTQAITYPE_ADAPTERREGISTRYINFO" | "KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER") => {
            "D3DKMT_ADAPTERREGISTRYINFO"
        }
        Some("KMTQAITYPE_NODEMETADATA") => "D3DKMT_NODEMETADATA",
        _ => return given.clone(),
    };
    let Some(answer) = item(answer) else { return given.clone() };
    let (ours, theirs) = (answer.size as i128, wsl_size(answer));
    let other = |size: i128| match size {
        size if size == theirs => ours,
        size if size == ours => theirs,
        size => size,
    };
    let number = |of: &Value, name| of.member(name).and_then(Value::number).map(other);
    let size = number(given, "PrivateDriverDataSize").unwrap_or(0);
    let data = given.member("pPrivateDriverData").cloned().unwrap_or(Value::Null);
    let mut changed = Vec::new();
    if let Some(room) = number(&data, "room") {
        changed.push(("room", Value::Number(room)));
    }
    if let Some(bytes) = data.member("bytes").and_then(Value::text) {
        let digits = usize::try_from(2 * size).map_or(bytes.len(), |most| bytes.len().min(most));
        changed.push(("bytes", Value::Text(bytes[..digits].to_owned())));
    }
    let data = with(&data, &changed);
    with(given, &[("PrivateDriverDataSize", Value::Number(size)), ("pPrivateDriverData", data)])
}

/// The size of a structure in the flavour of the Linux subsystem. No structure has a gap that a longer name would fill.
fn wsl_size(of: &'static Item) -> i128 {
    of.size as i128 + (THEIRS - size_of::<WCHAR>() as i128) * characters(of)
}

fn characters(of: &'static Item) -> i128 {
    let of_field = |field: &d3dkmt_abi::Field| match Type::named(field.of) {
        Type::Array("WCHAR") => (field.size / size_of::<WCHAR>()) as i128,
        Type::Declared(inner) => characters(inner),
        _ => 0,
    };
    fields(of).iter().map(of_field).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(all: &[(&'static str, Value)]) -> Value {
        Value::Members(all.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    }

    fn text(of: &str) -> Value {
        Value::Text(of.to_owned())
    }

    fn name(length: i128, buffer: Value) -> Value {
        members(&[
            ("Length", Value::Number(length)),
            ("MaximumLength", Value::Number(length + 4)),
            ("Buffer", members(&[("at", text("0x10")), buffer_of(buffer)])),
        ])
    }

    fn buffer_of(content: Value) -> (&'static str, Value) {
        if matches!(content, Value::List(_)) { ("list", content) } else { ("text", content) }
    }

    /// Length, MaximumLength, and the units.
    fn found(value: &Value) -> (i128, i128, Vec<i128>) {
        let number = |name| value.member(name).and_then(Value::number).expect("a number");
        let Some(Value::List(all)) = value.member("Buffer").and_then(|buffer| buffer.member("list")) else {
            panic!("{}", value.to_json())
        };
        (number("Length"), number("MaximumLength"), all.iter().map(|unit| unit.number().expect("a unit")).collect())
    }

    #[test]
    fn a_name_has_half_the_bytes_and_pairs_where_it_must() {
        let attributes = members(&[(
            "pObjAttrib",
            members(&[(
                "list",
                Value::List(vec![members(&[(
                    "ObjectName",
                    members(&[("list", Value::List(vec![name(12, text("a\u{1f600}b"))]))]),
                )])]),
            )]),
        )]);
        let translated = from_wsl("D3DKMTOpenNtHandleFromName", &attributes).to_json();
        assert!(translated.contains("\"Length\":8,\"MaximumLength\":8"), "{translated}");
        assert_eq!(found(&string(&name(12, text("a\u{1f600}b")))), (8, 8, vec![97, 0xd83d, 0xde00, 98]));
        // Zeros behind the text belong to it; a length that is no whole number of characters stays one.
        assert_eq!(found(&string(&name(12, text("a")))), (6, 8, vec![97, 0, 0]));
        assert_eq!(found(&string(&name(7, text("a")))).0 % 2, 1);
        // What is no text stays none.
        let list = Value::List([97, 0x11_0000].map(Value::Number).to_vec());
        assert_eq!(found(&string(&name(8, list))).2, [97, 0xd800]);
    }

    #[test]
    fn an_answer_with_names_has_the_size_of_this_flavour() {
        if FLAVOUR == "wsl" {
            return;
        }
        for (kind, theirs, ours) in [
            ("KMTQAITYPE_ADAPTERREGISTRYINFO", 4160, 2080),
            ("KMTQAITYPE_NODEMETADATA", 142, 78),
            ("KMTQAITYPE_NODEMETADATA", 78, 142),
            ("KMTQAITYPE_NODEMETADATA", 9, 9),
        ] {
            let data =
                members(&[("at", text("0x10")), ("bytes", text(&"01".repeat(142))), ("room", Value::Number(theirs))]);
            let given = members(&[
                ("Type", text(kind)),
                ("pPrivateDriverData", data),
                ("PrivateDriverDataSize", Value::Number(theirs)),
            ]);
            let now = from_wsl("D3DKMTQueryAdapterInfo", &given);
            assert_eq!(now.member("PrivateDriverDataSize"), Some(&Value::Number(ours)), "{kind}");
            let data = now.member("pPrivateDriverData").expect("it is there");
            assert_eq!(data.member("room"), Some(&Value::Number(ours)), "{kind}");
            let digits = data.member("bytes").and_then(Value::text).expect("bytes").len();
            assert_eq!(digits, 2 * 142.min(ours as usize), "{kind}");
        }
    }
}
