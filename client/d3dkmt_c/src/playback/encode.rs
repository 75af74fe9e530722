//! From decoded members back to the bytes of a structure, with memory for what its pointers lead to: the other way round of
//! `trace::decode`, by the same declarations.

use d3dkmt_abi::{Field, Flag, Item, NumberKind, Shape, WCHAR};

use super::arena::Arena;
use crate::trace::{Type, Value, fields, is_nameless};

/// Most bytes behind one pointer, as the border has it; of memory that a program gives more.
const BLOCK_MAX: usize = 1 << 24;
const GIVEN_MAX: usize = 1 << 30;

/// Why a value is none of its type: the member, and what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub struct Misfit(pub String);

type Encoded = Result<(), Misfit>;

fn misfit<T>(name: &str, why: impl std::fmt::Display) -> Result<T, Misfit> {
    Err(Misfit(format!("{name}: {why}")))
}

/// Fills in a structure.
pub fn structure(of: &'static [Field], value: &Value, bytes: &mut [u8], arena: &mut Arena) -> Encoded {
    let Value::Members(members) = value else { return misfit("in", "it is no list of members") };
    let known = names(of);
    if let Some((name, _)) = members.iter().find(|(name, _)| !name.ends_with(".bytes") && !known.contains(&&**name)) {
        return misfit(name, "the structure has no such member");
    }
    all_members(of, value, bytes, arena)
}

/// The names of members as C sees them: those of nameless parts are the structure's own.
fn names(of: &'static [Field]) -> Vec<&'static str> {
    let each = of.iter().flat_map(|field| match Type::named(field.of) {
        Type::Declared(inner) if is_nameless(field) => match inner.shape {
            Shape::Flags(..) => vec!["Value"],
            _ => names(fields(inner)),
        },
        _ => vec![field.name],
    });
    each.collect()
}

fn all_members(of: &'static [Field], value: &Value, bytes: &mut [u8], arena: &mut Arena) -> Encoded {
    for field in of {
        let part = &mut bytes[field.offset..field.offset + field.size];
        match Type::named(field.of) {
            Type::Declared(inner) if is_nameless(field) => nameless(field, inner, value, part, arena)?,
            Type::Declared(inner) if matches!(inner.shape, Shape::Union(_)) => {
                if let Some(arms) = value.member(field.name) {
                    union(field, inner, arms, part, arena)?;
                }
            }
            _ => {
                // A member that is left out is 0.
                if let Some(value) = value.member(field.name) {
                    one(field.of, field.name, value, part, arena)?;
                }
            }
        }
    }
    Ok(())
}

fn nameless(field: &Field, inner: &'static Item, value: &Value, part: &mut [u8], arena: &mut Arena) -> Encoded {
    match inner.shape {
        Shape::Union(_) => union(field, inner, value, part, arena),
        Shape::Flags(_, bits) => match value.member("Value") {
            Some(value) => number("Value", flags(bits, value)?, part),
            None => Ok(()),
        },
        _ => all_members(fields(inner), value, part, arena),
    }
}

/// The bytes that stand beside the arm, then the arm that is there.
fn union(field: &Field, union: &'static Item, value: &Value, part: &mut [u8], arena: &mut Arena) -> Encoded {
    if let Some(bytes) = value.member(&format!("{}.bytes", field.name)) {
        fill(field.name, &hex(field.name, bytes)?, part)?;
    }
    for arm in fields(union) {
        match Type::named(arm.of) {
            Type::Declared(inner) if is_nameless(arm) => {
                let named = match inner.shape {
                    Shape::Flags(..) => vec!["Value"],
                    _ => names(fields(inner)),
                };
                if named.iter().any(|name| value.member(name).is_some()) {
                    return nameless(arm, inner, value, &mut part[..arm.size], arena);
                }
            }
            _ => {
                if let Some(value) = value.member(arm.name) {
                    return one(arm.of, arm.name, value, &mut part[..arm.size], arena);
                }
            }
        }
    }
    Ok(())
}

/// A value of a type.
fn one(of: &str, name: &str, value: &Value, part: &mut [u8], arena: &mut Arena) -> Encoded {
    match Type::named(of) {
        Type::Array(element) => array(element, name, value, part, arena),
        Type::Pointer(element) => pointer(element, name, value, part, arena),
        Type::Callback => {
            let place = if *value == Value::Null { 0 } else { super::callback::of_type(of) };
            number(name, place as i128, part)
        }
        Type::Declared(item) => declared(item, name, value, part, arena),
        Type::Number(size, _) => {
            let size = size.min(part.len());
            number(name, numeric(name, value)?, &mut part[..size])
        }
        Type::Untyped => fill(name, &hex(name, value)?, part),
    }
}

fn declared(item: &'static Item, name: &str, value: &Value, part: &mut [u8], arena: &mut Arena) -> Encoded {
    let size = item.size.min(part.len());
    match item.shape {
        _ if item.name == "LUID" => number(name, numeric(name, value)?, part),
        Shape::Flags(_, bits) => number(name, flags(bits, value)?, &mut part[..size]),
        Shape::Enum(values) => {
            let named = value.text().and_then(|text| values.iter().find(|known| known.name == text));
            let is = match named {
                Some(known) => known.is.into(),
                None => numeric(name, value)?,
            };
            number(name, is, &mut part[..size])
        }
        Shape::Union(_) => fill(name, &hex(name, value)?, part),
        Shape::Struct(_) | Shape::Packed(_) => structure(fields(item), value, part, arena),
    }
}

fn array(element: &str, name: &str, value: &Value, part: &mut [u8], arena: &mut Arena) -> Encoded {
    let of = Type::named(element);
    match (of, value) {
        (Type::Number(1, _), value) => fill(name, &hex(name, value)?, part),
        (Type::Number(_, NumberKind::Wide), Value::Text(text)) => fill(name, &wide(text), part),
        _ => elements(element, name, value, part, arena),
    }
}

fn elements(element: &str, name: &str, value: &Value, part: &mut [u8], arena: &mut Arena) -> Encoded {
    let Value::List(all) = value else { return misfit(name, "it is no list") };
    let size = Type::named(element).size();
    if all.len() * size > part.len() {
        return misfit(name, format_args!("{} elements, and there is room for {}", all.len(), part.len() / size));
    }
    let each = all.iter().zip(part.chunks_exact_mut(size));
    each.into_iter().try_for_each(|(value, part)| one(element, name, value, part, arena))
}

/// Where it points: into memory that is made for what stands there, or, where the call did not look, to where it pointed.
fn pointer(element: &str, name: &str, value: &Value, part: &mut [u8], arena: &mut Arena) -> Encoded {
    let members = match value {
        Value::Null => return number(name, 0, part),
        Value::Members(_) => value,
        text => return number(name, numeric(name, text)?, part),
    };
    let at = members.member("at").map_or(Ok(0), |at| numeric(name, at))?;
    let count =
        |of: &str| match members.member(of).map(|value| value.number().and_then(|number| number.try_into().ok())) {
            None => Ok(0),
            Some(Some(count)) => Ok(count),
            Some(None) => misfit(name, format_args!("{of} is no count")),
        };
    let (of, room, given): (usize, usize, usize) = (count("of")?, count("room")?, count("given")?);
    if given > 0 {
        if given > GIVEN_MAX {
            return misfit(name, format_args!("{given} bytes of the program's memory; at most {GIVEN_MAX} are made"));
        }
        // Where it begins in its page is what the call looks at.
        let within = at.rem_euclid(4096);
        let place = arena.pages(given.saturating_add(4096));
        return number(name, place as i128 + within, part);
    }
    let size = Type::named(element).size();
    let mut bytes = Vec::new();
    if let Some(content) = members.member("bytes") {
        bytes = hex(name, content)?;
    } else if let Some(Value::Text(text)) = members.member("text") {
        bytes = wide(text);
    }
    let listed = match members.member("list") {
        Some(Value::List(list)) => list.len(),
        Some(_) => return misfit(name, "it is no list"),
        None => 0,
    };
    let needed = bytes.len().max(room).max(of.max(listed).saturating_mul(size));
    if needed > BLOCK_MAX {
        return misfit(name, format_args!("{needed} bytes; a pointer leads to at most {BLOCK_MAX}"));
    }
    if needed == 0 {
        return number(name, at, part);
    }
    bytes.resize(needed, 0);
    if let Some(list) = members.member("list") {
        elements(element, name, list, &mut bytes, arena)?;
    }
    let place = arena.block(&bytes);
    number(name, place as i128, part)
}

/// Names of bits with bars between, parts of several bits with their number, and bits without a name as a number.
fn flags(bits: &[Flag], value: &Value) -> Result<i128, Misfit> {
    let Value::Text(text) = value else { return numeric("flags", value) };
    text.split('|').try_fold(0, |word, part| {
        let (name, number) = part.split_once('=').map_or((part, None), |(name, number)| (name, Some(number)));
        match (bits.iter().find(|flag| flag.name == name), number) {
            (Some(flag), None) => Ok(word | 1 << flag.bit),
            (Some(flag), Some(number)) => Ok(word | parsed(name, number)? << flag.bit),
            (None, None) => Ok(word | parsed("flags", part)?),
            (None, Some(_)) => misfit(name, "there is no such flag"),
        }
    })
}

/// A number, or the one that stands last in a text (`device 0x40000001`).
fn numeric(name: &str, value: &Value) -> Result<i128, Misfit> {
    match value {
        Value::Number(number) => Ok(*number),
        Value::Text(text) => parsed(name, text.rsplit(' ').next().unwrap_or(text)),
        Value::Null => Ok(0),
        _ => misfit(name, "it is no number"),
    }
}

fn parsed(name: &str, text: &str) -> Result<i128, Misfit> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(i128::from),
        None => text.parse::<i64>().ok().map(i128::from),
    };
    number.map_or_else(|| misfit(name, format_args!("\"{text}\" is no number, and no name of a value")), Ok)
}

fn number(name: &str, number: i128, part: &mut [u8]) -> Encoded {
    let bits = 8 * part.len().min(8) as u32;
    if number >= 1 << bits || number < -(1 << (bits - 1)) {
        return misfit(name, format_args!("{number} has no room in {} bytes", part.len()));
    }
    let size = part.len().min(8);
    part[..size].copy_from_slice(&number.to_le_bytes()[..size]);
    Ok(())
}

fn fill(name: &str, bytes: &[u8], part: &mut [u8]) -> Encoded {
    if bytes.len() > part.len() {
        return misfit(name, format_args!("{} bytes, and there is room for {}", bytes.len(), part.len()));
    }
    part[..bytes.len()].copy_from_slice(bytes);
    Ok(())
}

fn hex(name: &str, value: &Value) -> Result<Vec<u8>, Misfit> {
    let digits = match value.text() {
        Some(text) if text.is_ascii() && text.len().is_multiple_of(2) => text,
        _ => return misfit(name, "these are no bytes of two digits each"),
    };
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16);
    let bytes: Result<Vec<u8>, _> = (0..digits.len()).step_by(2).map(byte).collect();
    bytes.or_else(|_| misfit(name, "these are no bytes of two digits each"))
}

/// Wide characters, with a 0 behind them.
fn wide(text: &str) -> Vec<u8> {
    let units = |text: &str| -> Vec<WCHAR> {
        #[cfg(not(feature = "wsl"))]
        return text.encode_utf16().collect();
        #[cfg(feature = "wsl")]
        return text.chars().map(u32::from).collect();
    };
    let ended = units(text).into_iter().chain([0]);
    ended.flat_map(|unit| unit.to_le_bytes()).collect()
}
