//! How faithfully a program is served: by function, flag, member, escape and GPU command, how often the kernel did what was asked, accepted it
//! without effect, or refused it. `OPENWDDM_FIDELITY=FILE` has the table written, and a trace ends with it. docs/calls.md is the page; `table`
//! names everything that is accepted without effect.

mod table;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;

use d3dkmt_abi::{Field, Shape};
use kmt_link::{CommandUses, OwnCommands};
use wddm_types::NtStatus;

use crate::trace::{Type, Value, fields, is_nameless, item, quote};

pub use table::{WITHOUT_EFFECT, WithoutEffect};

/// What a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Function,
    Flag,
    Member,
    Escape,
    GpuCommand,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Function => "function",
            Kind::Flag => "flag",
            Kind::Member => "member",
            Kind::Escape => "escape",
            Kind::GpuCommand => "GPU command",
        }
    }
}

/// How a use ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Done,
    Idle(&'static str),
    Refused,
    Failed,
}

/// Uses of one thing.
#[derive(Debug, Default)]
struct Uses {
    done: u64,
    without_effect: u64,
    refused: u64,
    failed: u64,
    /// The number of the first call, or of the first command, and when, in nanoseconds since the first call.
    first: u64,
    first_ns: u128,
    /// Why it has no effect, or was refused at first.
    why: String,
}

/// The table as it grows.
#[derive(Default)]
pub struct Fidelity {
    rows: Mutex<BTreeMap<(Kind, String), Uses>>,
}

/// A call that has returned, as the table needs it.
pub struct Use<'call> {
    pub function: &'call str,
    pub given: &'call Value,
    pub status: NtStatus,
    pub reason: Option<&'call str>,
    /// Which call of the program it is.
    pub number: u64,
    pub at_ns: u128,
}

impl Fidelity {
    /// Counts a call; true: a row is new.
    pub fn count(&self, call: &Use<'_>) -> bool {
        let ending = match call.status {
            status if status.is_success() => Ending::Done,
            NtStatus::NOT_SUPPORTED | NtStatus::NOT_IMPLEMENTED => Ending::Refused,
            _ => Ending::Failed,
        };
        let of_function = match table::why_idle(call.function, "", "") {
            Some(why) if ending == Ending::Done => Ending::Idle(why),
            _ => ending,
        };
        let mut found = vec![(Kind::Function, call.function.to_owned(), of_function)];
        if let Some(argument) = structure_of(call.function) {
            walk(argument, call.given, &mut |kind, of, member, flag| {
                let idle = table::why_idle(of, member, flag);
                let ending = match idle {
                    Some(why) if ending == Ending::Done => Ending::Idle(why),
                    _ => ending,
                };
                match kind {
                    Kind::Member if idle.is_none() => {}
                    Kind::Escape => found.push((kind, flag.to_owned(), ending)),
                    _ => {
                        let behind = if flag.is_empty() { String::new() } else { format!(": {flag}") };
                        found.push((kind, format!("{} {of}.{member}{behind}", call.function), ending));
                    }
                }
            });
        }
        let mut rows = crate::session::lock(&self.rows);
        let before = rows.len();
        for (kind, name, ending) in found {
            enter(&mut rows, (kind, name), ending, (call.number, call.at_ns), call.reason);
        }
        rows.len() > before
    }

    /// The commands of the program's queues and contexts until now, in place of those that were told before.
    pub fn commands_are(&self, commands: OwnCommands, now_ns: u128) {
        let mut rows = crate::session::lock(&self.rows);
        for CommandUses { kind, done, failed, first, first_age_ns, why } in commands.kinds {
            let uses = rows.entry((Kind::GpuCommand, kind)).or_default();
            let first_ns = match uses.first {
                0 => now_ns.saturating_sub(first_age_ns.into()),
                _ => uses.first_ns,
            };
            *uses = Uses { done, failed, first, first_ns, why, ..Uses::default() };
        }
    }

    /// The table for people.
    pub fn text(&self) -> String {
        let mut text =
            format!("{:<12}{:>9}{:>9}{:>9}{:>9}{:>9}  what\n", "kind", "done", "idle", "refused", "failed", "first");
        for ((kind, name), uses) in crate::session::lock(&self.rows).iter() {
            let Uses { done, without_effect, refused, failed, first, first_ns, why } = uses;
            // PANIC: writing into a string does not fail.
            write!(
                text,
                "{:<12}{done:>9}{without_effect:>9}{refused:>9}{failed:>9}{:>9}  ",
                kind.name(),
                format!("#{first}")
            )
            .expect("a string takes it");
            text.push_str(name);
            write!(text, " (first at {:.6} s)", *first_ns as f64 / 1e9).expect("a string takes it");
            if !why.is_empty() {
                text.push_str(": ");
                Value::Text(why.clone()).plain(&mut text);
            }
            text.push('\n');
        }
        text
    }

    /// The table as one line of JSON.
    pub fn json(&self) -> String {
        let mut text = String::from("{\"fidelity\":[");
        for (nth, ((kind, name), uses)) in crate::session::lock(&self.rows).iter().enumerate() {
            text.push_str(if nth > 0 { ",{\"kind\":" } else { "{\"kind\":" });
            quote(kind.name(), &mut text);
            text.push_str(",\"what\":");
            quote(name, &mut text);
            let Uses { done, without_effect, refused, failed, first, first_ns, why } = uses;
            write!(
                text,
                ",\"done\":{done},\"without_effect\":{without_effect},\"refused\":{refused},\"failed\":{failed},\"first\":{first},\"first_ns\":{first_ns},\"why\":"
            )
            // PANIC: writing into a string does not fail.
            .expect("a string takes it");
            quote(why, &mut text);
            text.push('}');
        }
        text.push_str("]}\n");
        text
    }
}

fn enter(
    rows: &mut BTreeMap<(Kind, String), Uses>,
    row: (Kind, String),
    ending: Ending,
    (number, at_ns): (u64, u128),
    reason: Option<&str>,
) {
    let uses = rows.entry(row).or_insert_with(|| Uses { first: number, first_ns: at_ns, ..Uses::default() });
    let why = match ending {
        Ending::Done => {
            uses.done += 1;
            None
        }
        Ending::Idle(why) => {
            uses.without_effect += 1;
            Some(why)
        }
        Ending::Refused => {
            uses.refused += 1;
            reason
        }
        Ending::Failed => {
            uses.failed += 1;
            reason
        }
    };
    if let (true, Some(why)) = (uses.why.is_empty(), why) {
        uses.why = why.to_owned();
    }
}

/// The type of a function's argument.
fn structure_of(function: &str) -> Option<&'static str> {
    let known = crate::function::FUNCTIONS.iter().find(|known| known.name == function);
    match known {
        Some(known) => item(known.parameters.trim_start_matches("CONST ").trim_end_matches('*')).map(|item| item.name),
        None => (function == "D3DKMTShareObjects").then_some("D3DKMTShareObjects"),
    }
}

/// Tells each flag that is set, each member that is, and the type of an escape: kind, structure, member, flag.
fn walk(of: &'static str, value: &Value, found: &mut impl FnMut(Kind, &'static str, &'static str, &str)) {
    let members = match item(of) {
        Some(item) => fields(item),
        None => crate::parameter::arguments_of(of).map(|(fields, _)| fields).unwrap_or_default(),
    };
    parts(of, members, value, found);
}

fn parts(
    of: &'static str,
    members: &'static [Field],
    value: &Value,
    found: &mut impl FnMut(Kind, &'static str, &'static str, &str),
) {
    for field in members {
        if let Type::Declared(inner) = Type::named(field.of)
            && is_nameless(field)
        {
            match (inner.shape, value.member("Value").and_then(Value::text)) {
                (Shape::Flags(..), Some(text)) => flags(text, |flag| found(Kind::Flag, of, field.name, flag)),
                _ => parts(of, fields(inner), value, found),
            }
            continue;
        }
        let Some(value) = value.member(field.name) else { continue };
        if !value.is_nothing() {
            found(Kind::Member, of, field.name, "");
        }
        match (Type::named(field.of), value.text()) {
            (Type::Declared(inner), Some(text)) if matches!(inner.shape, Shape::Flags(..)) => {
                flags(text, |flag| found(Kind::Flag, of, field.name, flag));
            }
            (Type::Declared(inner), Some(text)) if inner.name == "D3DKMT_ESCAPETYPE" => {
                found(Kind::Escape, of, field.name, text);
            }
            (Type::Declared(inner), _) => walk(inner.name, value, found),
            (Type::Pointer(element) | Type::Array(element), _) => {
                let list = value.member("list").unwrap_or(value);
                if let (Value::List(all), Some(inner)) = (list, item(element)) {
                    all.iter().for_each(|value| walk(inner.name, value, found));
                }
            }
            _ => {}
        }
    }
}

fn flags(text: &str, mut each: impl FnMut(&str)) {
    text.split('|').filter(|flag| *flag != "0").for_each(|flag| each(flag.split('=').next().unwrap_or(flag)));
}
