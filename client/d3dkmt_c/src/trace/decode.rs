//! From the bytes of a structure to its members: names of flags and of values, handles with their kinds, lists behind pointers. All of it
//! is written by the declarations of `d3dkmt_abi`; nothing here knows a function.

use std::borrow::Cow;

use d3dkmt_abi::{Arm, Field, Flag, Item, NumberKind, Shape};

use super::kind::kind_of;
use super::schema::{Type, adapter_answer, arm, fields, is_nameless, item, number, signed};
use super::value::Value;
use super::watched::Watched;

/// Named values.
type Members = Vec<(Cow<'static, str>, Value)>;

/// Which side of the call is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What the program gave: lists as the call has read them.
    Given,
    /// What it got back: lists as the call has written them.
    Answered,
}

/// The most of a list that is told; a list that is longer says its length, too.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Elements of an array that is no bytes.
    pub elements: usize,
    /// Bytes of data without a declaration, such as a driver's private data.
    pub bytes: usize,
}

/// Decodes the arguments of one call.
pub struct Decoder<'call> {
    /// The function's name.
    pub function: &'call str,
    /// What the call did with the program's memory.
    pub watched: &'call Watched,
    pub side: Side,
    pub bounds: Bounds,
}

/// A structure around a member, for unions whose arm another member chooses.
#[derive(Clone, Copy)]
struct Around<'call> {
    of: &'static [Field],
    bytes: &'call [u8],
}

impl Decoder<'_> {
    /// A structure.
    pub fn structure(&self, of: &'static [Field], bytes: &[u8]) -> Value {
        let mut members = Vec::new();
        self.members(of, bytes, &mut members);
        Value::Members(members)
    }

    fn members(&self, of: &'static [Field], bytes: &[u8], to: &mut Members) {
        let around = Around { of, bytes };
        for field in of {
            let part = &bytes[field.offset..field.offset + field.size];
            match Type::named(field.of) {
                Type::Declared(inner) if is_nameless(field) => self.nameless(field, inner, part, around, to),
                Type::Declared(inner) if matches!(inner.shape, Shape::Union(_)) => {
                    let mut arms = Vec::new();
                    self.union(field, inner, part, around, &mut arms);
                    to.push((field.name.into(), Value::Members(arms)));
                }
                _ => to.push((field.name.into(), self.value(field.of, field.name, part, around))),
            }
        }
    }

    /// A member without a name in C: what it has belongs to the structure around it.
    fn nameless(&self, field: &Field, inner: &'static Item, part: &[u8], around: Around<'_>, to: &mut Members) {
        match inner.shape {
            Shape::Union(_) => self.union(field, inner, part, around, to),
            Shape::Flags(_, bits) => to.push(("Value".into(), flags(bits, number(part)))),
            _ => self.members(fields(inner), part, to),
        }
    }

    /// The arm that counts; of bytes that it does not have, and that are not 0, all.
    fn union(&self, field: &Field, union: &'static Item, part: &[u8], around: Around<'_>, to: &mut Members) {
        let chosen = self.chosen(&arm(union.name), part, around);
        let of = fields(union).iter().find(|field| field.name == chosen).expect("the row names an arm");
        match Type::named(of.of) {
            Type::Declared(inner) if is_nameless(of) => self.nameless(of, inner, &part[..of.size], around, to),
            _ => to.push((of.name.into(), self.value(of.of, of.name, &part[..of.size], around))),
        }
        if part[of.size..].iter().any(|byte| *byte != 0) {
            to.push((format!("{}.bytes", field.name).into(), Value::Text(hex(part))));
        }
    }

    fn chosen(&self, arm: &Arm, part: &[u8], around: Around<'_>) -> &'static str {
        let of_member = |name: &str| {
            let field = around.of.iter().find(|field| field.name == name).expect("the row names a member");
            &around.bytes[field.offset..field.offset + field.size]
        };
        match *arm {
            Arm::Always(one) => one,
            Arm::ByValue(member, rows, otherwise) => {
                let is = signed(of_member(member));
                rows.iter().find(|(value, _)| *value == is).map_or(otherwise, |(_, arm)| arm)
            }
            Arm::ByFlag(member, bit, one, otherwise) => match number(of_member(member)) & bit != 0 {
                true => one,
                false => self.chosen(otherwise, part, around),
            },
            Arm::ByFunction(function, one, other) => {
                if self.function == function {
                    one
                } else {
                    other
                }
            }
            Arm::Followed(pointer, other) => {
                // CAST: a pointer has 64 bits.
                let address = number(&part[..size_of::<usize>()]) as usize;
                let followed = self.watched.bytes_read(address, false).is_some();
                if followed || self.watched.given_at(address).is_some() { pointer } else { other }
            }
        }
    }

    fn value(&self, of: &str, name: &str, bytes: &[u8], around: Around<'_>) -> Value {
        match Type::named(of) {
            Type::Array(element) => self.array(element, name, bytes),
            Type::Pointer(element) => self.pointer(element, name, bytes, around),
            Type::Callback if number(bytes) == 0 => Value::Null,
            Type::Callback => Value::Text(format!("function {:#x}", number(bytes))),
            Type::Declared(item) => self.declared(item, bytes),
            Type::Number(size, kind) => scalar(kind, name, &bytes[..size.min(bytes.len())]),
            Type::Untyped => Value::Text(hex(bytes)),
        }
    }

    fn declared(&self, item: &'static Item, bytes: &[u8]) -> Value {
        match item.shape {
            _ if item.name == "LUID" => Value::Text(format!("luid {:#x}", number(&bytes[..8]))),
            Shape::Flags(_, bits) => flags(bits, number(&bytes[..item.size])),
            Shape::Enum(values) => {
                let is = signed(&bytes[..item.size]);
                let named = values.iter().find(|value| value.is == is);
                named.map_or(Value::Number(is.into()), |value| Value::Text(value.name.to_owned()))
            }
            Shape::Union(_) => Value::Text(hex(bytes)),
            Shape::Struct(_) | Shape::Packed(_) => self.structure(fields(item), bytes),
        }
    }

    /// Zeros at the end are left out.
    fn array(&self, element: &str, name: &str, bytes: &[u8]) -> Value {
        let of = Type::named(element);
        let size = of.size();
        match of {
            Type::Number(1, _) => return Value::Text(hex(trimmed(bytes))),
            Type::Number(_, NumberKind::Wide) => {
                if let Some(text) = wide(bytes, size) {
                    return Value::Text(text);
                }
            }
            _ => {}
        }
        let whole = trimmed(bytes).len().div_ceil(size) * size;
        self.elements(element, name, &bytes[..whole])
    }

    fn elements(&self, element: &str, name: &str, bytes: &[u8]) -> Value {
        let size = Type::named(element).size();
        let nothing = Around { of: &[], bytes: &[] };
        let each = bytes.chunks_exact(size).take(self.bounds.elements);
        Value::List(each.map(|one| self.value(element, name, one, nothing)).collect())
    }

    /// Where it points, and what the call has read or written there.
    fn pointer(&self, element: &str, name: &str, bytes: &[u8], around: Around<'_>) -> Value {
        let address = number(bytes);
        if address == 0 {
            return Value::Null;
        }
        if let (true, Some(kind)) = (name == "Handle", kind_of(name, NumberKind::Unsigned)) {
            return Value::Text(format!("{kind} {address:#x}"));
        }
        let of = Type::named(element);
        let is_text = matches!(of, Type::Number(_, NumberKind::Wide));
        // CAST: a pointer has 64 bits.
        let at = address as usize;
        let content = match self.side {
            Side::Given => self.watched.bytes_read(at, is_text),
            Side::Answered => self.watched.bytes_written(at),
        };
        let mut told: Members = vec![("at".into(), Value::hex(address))];
        if let Some(content) = content {
            self.content((element, name), &content, is_text, &mut told);
            if let Some(answer) = answer_of(around, name).filter(|answer| answer.size == content.len()) {
                told.push(("is".into(), self.declared(answer, &content)));
            }
        }
        if self.side == Side::Given {
            let room = self.watched.room_at(at).map(|bytes| ("room".into(), Value::Number(bytes as i128)));
            let given = self.watched.given_at(at).map(|bytes| ("given".into(), Value::Number(bytes.into())));
            told.extend(room.into_iter().chain(given));
        }
        Value::Members(told)
    }

    fn content(&self, (element, name): (&str, &str), content: &[u8], is_text: bool, told: &mut Members) {
        let size = Type::named(element).size();
        if is_text && let Some(text) = wide(content, size).filter(|_| content.len() / size <= self.bounds.elements) {
            told.push(("text".into(), Value::Text(text)));
            return;
        }
        let most = if size == 1 { self.bounds.bytes } else { self.bounds.elements };
        match size {
            1 => told.push(("bytes".into(), Value::Text(hex(&content[..content.len().min(most)])))),
            _ => told.push(("list".into(), self.elements(element, name, content))),
        }
        if content.len() / size > most {
            told.push(("of".into(), Value::Number((content.len() / size) as i128)));
        }
    }
}

/// The structure of the answer that a question of D3DKMTQueryAdapterInfo has.
fn answer_of(around: Around<'_>, name: &str) -> Option<&'static Item> {
    let question = item("D3DKMT_QUERYADAPTERINFO").map(fields)?;
    if name != "pPrivateDriverData" || !std::ptr::eq(around.of, question) {
        return None;
    }
    let kind = question.iter().find(|field| field.name == "Type")?;
    adapter_answer(signed(&around.bytes[kind.offset..kind.offset + kind.size]))
}

fn scalar(kind: NumberKind, name: &str, bytes: &[u8]) -> Value {
    if let Some(kind) = kind_of(name, kind) {
        return Value::Text(format!("{kind} {:#x}", number(bytes)));
    }
    match kind {
        NumberKind::Signed => Value::Number(signed(bytes).into()),
        NumberKind::GpuVa | NumberKind::Handle => Value::hex(number(bytes)),
        NumberKind::Unsigned | NumberKind::Wide => Value::Number(number(bytes).into()),
    }
}

/// Names of the bits that are set, with bars between; a part of several bits has its number behind it.
fn flags(bits: &[Flag], word: u64) -> Value {
    let (mut names, mut rest) = (Vec::new(), word);
    for Flag { name, bit, width, .. } in bits {
        let mask = (u64::MAX >> (64 - width)) << bit;
        let part = (word & mask) >> bit;
        rest &= !mask;
        match (part, width) {
            (0, _) => {}
            (_, 1) => names.push((*name).to_owned()),
            (part, _) => names.push(format!("{name}={part:#x}")),
        }
    }
    if rest != 0 || names.is_empty() {
        names.push(if rest == 0 { "0".to_owned() } else { format!("{rest:#x}") });
    }
    Value::Text(names.join("|"))
}

/// The text of wide characters up to the 0 behind it; `None` where they are no text, or something stands behind the 0.
fn wide(bytes: &[u8], size: usize) -> Option<String> {
    let units: Vec<u64> = bytes.chunks_exact(size).map(number).collect();
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    if units[end..].iter().any(|unit| *unit != 0) {
        return None;
    }
    match size {
        // CAST: a unit of two bytes, and one of four.
        2 => String::from_utf16(&units[..end].iter().map(|unit| *unit as u16).collect::<Vec<_>>()).ok(),
        _ => units[..end].iter().map(|unit| char::from_u32(*unit as u32)).collect(),
    }
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..end]
}

/// Two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // PANIC: writing into a string does not fail.
        write!(text, "{byte:02x}").expect("a string takes it");
        text
    })
}
