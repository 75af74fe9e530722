//! A decoded argument: what a trace says of it, as text and as JSON, and what a replay reads back.

use std::borrow::Cow;
use std::fmt::Write;

/// A value of a C program, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A pointer that is NULL.
    Null,
    /// A number.
    Number(i128),
    /// A name, a handle with its kind (`device 0x40000001`), flags, an address, or text.
    Text(String),
    /// The elements of an array.
    List(Vec<Value>),
    /// The members of a structure by name, or of a pointer: where it points (`at`), and what stands there.
    Members(Vec<(Cow<'static, str>, Value)>),
}

impl Value {
    /// An address, or another number that people read in hexadecimal.
    pub(crate) fn hex(number: u64) -> Value {
        Value::Text(format!("{number:#x}"))
    }

    /// The member of a name.
    pub fn member(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Members(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text, of a value that is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, of a value that is one.
    pub fn number(&self) -> Option<i128> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether the value is a pointer, and the call has followed it.
    pub(crate) fn is_followed(&self) -> bool {
        ["list", "bytes", "text"].iter().any(|content| self.member(content).is_some())
    }

    /// Whether nothing is set: a text trace leaves such members out.
    pub(crate) fn is_nothing(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Number(number) => *number == 0,
            Value::Text(text) => text.is_empty() || text == "0" || text == "0x0" || text.ends_with(" 0x0"),
            Value::List(elements) => elements.is_empty(),
            Value::Members(members) => members.iter().all(|(_, value)| value.is_nothing()),
        }
    }

    /// As JSON, in one line.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        self.json(&mut text);
        text
    }

    pub(crate) fn json(&self, to: &mut String) {
        match self {
            Value::Null => to.push_str("null"),
            // PANIC: writing into a string does not fail.
            Value::Number(number) => write!(to, "{number}").expect("a string takes it"),
            Value::Text(text) => quote(text, to),
            Value::List(elements) => {
                to.push('[');
                for (nth, element) in elements.iter().enumerate() {
                    to.push_str(if nth > 0 { "," } else { "" });
                    element.json(to);
                }
                to.push(']');
            }
            Value::Members(members) => {
                to.push('{');
                for (nth, (name, value)) in members.iter().enumerate() {
                    to.push_str(if nth > 0 { "," } else { "" });
                    quote(name, to);
                    to.push(':');
                    value.json(to);
                }
                to.push('}');
            }
        }
    }

    /// As text, in one line, without the members of which nothing is set.
    pub(crate) fn plain(&self, to: &mut String) {
        match self {
            Value::Null => to.push_str("NULL"),
            // PANIC: as above.
            Value::Number(number) => write!(to, "{number}").expect("a string takes it"),
            Value::Text(text) => text.chars().for_each(|unit| match unit.is_control() {
                true => to.extend(unit.escape_unicode()),
                false => to.push(unit),
            }),
            Value::List(elements) => {
                to.push('[');
                for (nth, element) in elements.iter().enumerate() {
                    to.push_str(if nth > 0 { ", " } else { "" });
                    element.plain(to);
                }
                to.push(']');
            }
            Value::Members(members) => {
                to.push('{');
                let set = members.iter().filter(|(_, value)| !value.is_nothing());
                for (nth, (name, value)) in set.enumerate() {
                    to.push_str(if nth > 0 { ", " } else { "" });
                    to.push_str(name);
                    to.push_str(": ");
                    value.plain(to);
                }
                to.push('}');
            }
        }
    }

    /// The members that are otherwise than before the call, or whose memory the call has written.
    pub(crate) fn changed_since(self, before: &Value) -> Value {
        let (Value::Members(after), Value::Members(_)) = (self, before) else { return Value::Members(Vec::new()) };
        let is_changed = |name: &str, value: &Value| match before.member(name) {
            Some(was) => value.is_followed() || value.stripped() != was.stripped(),
            None => true,
        };
        Value::Members(after.into_iter().filter(|(name, value)| is_changed(name, value)).collect())
    }

    /// A pointer without what stands there; anything else as it is.
    fn stripped(&self) -> Cow<'_, Value> {
        match self.member("at") {
            Some(address) => Cow::Borrowed(address),
            None => Cow::Borrowed(self),
        }
    }
}

/// Text between quotes, as JSON has it.
pub fn quote(text: &str, to: &mut String) {
    to.push('"');
    for unit in text.chars() {
        match unit {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            // PANIC: writing into a string does not fail.
            unit if unit.is_control() => write!(to, "\\u{:04x}", u32::from(unit)).expect("a string takes it"),
            unit => to.push(unit),
        }
    }
    to.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(pairs: &[(&'static str, Value)]) -> Value {
        Value::Members(pairs.iter().map(|(name, value)| (Cow::Borrowed(*name), value.clone())).collect())
    }

    #[test]
    fn json_quotes_what_json_must_quote() {
        let value = members(&[("a\"b", Value::Text("\\x\n\u{85}".into())), ("n", Value::Null)]);
        assert_eq!(value.to_json(), r#"{"a\"b":"\\x\u000a\u0085","n":null}"#);
        let list = Value::List(vec![Value::Number(-1), Value::hex(255), Value::Members(Vec::new())]);
        assert_eq!(list.to_json(), r#"[-1,"0xff",{}]"#);
    }

    #[test]
    fn text_leaves_out_what_says_nothing_and_no_terminal_obeys_it() {
        let value = members(&[
            ("hDevice", Value::Text("device 0x0".into())),
            ("Flags", Value::Text("0".into())),
            ("Count", Value::Number(2)),
            ("Name", Value::Text("a\x1b[2J".into())),
        ]);
        let mut text = String::new();
        value.plain(&mut text);
        assert_eq!(text, "{Count: 2, Name: a\\u{1b}[2J}");
    }

    #[test]
    fn a_result_is_a_member_that_changed_or_memory_that_was_written() {
        let pointer = |content: &[(&'static str, Value)]| members(&[&[("at", Value::hex(16))], content].concat());
        let before = members(&[
            ("same", Value::Number(1)),
            ("other", Value::Number(1)),
            ("read", pointer(&[("list", Value::List(vec![]))])),
            ("written", pointer(&[])),
        ]);
        let after = members(&[
            ("same", Value::Number(1)),
            ("other", Value::Number(2)),
            ("read", pointer(&[])),
            ("written", pointer(&[("bytes", Value::Text("00".into()))])),
        ]);
        let Value::Members(changed) = after.changed_since(&before) else { panic!("members") };
        let names: Vec<&str> = changed.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["other", "written"]);
    }
}
