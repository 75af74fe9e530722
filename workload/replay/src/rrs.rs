//! Parser of the residency reference string: one recorded step, exact.
//!
//! JSON: `storages` is a list of `[bytes, alive before the step]`, `op_names` a list of texts, `events` in order
//! either `[name index, [storages read], [storages written]]` or `[-1, [storage]]`, the death of a storage. An operation may name
//! its adapter, counted from 0, as a fourth part. `model` is
//! the workload's name if present; other fields are ignored. `residency-reference-string/2` adds two fields that may be
//! absent: `op_ns`, nanoseconds that each operation takes with memory enough, one whole number for each event that is not a
//! death, and `source`, words. This module checks kinds and ranges of numbers, with line
//! and column; [`Workload::new`] checks their meaning, with the event. Called by `source`.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::Value;

use crate::{Event, Fault, Import, SourceKind, Storage, Workload};

/// Values of the field `format` of such a file; the second has times.
pub(crate) const FORMATS: [&str; 2] = ["residency-reference-string/1", "residency-reference-string/2"];

/// The longest time of one operation, a day: what is longer was counted in another unit.
pub(crate) const OP_NS_MAX: u64 = 24 * 60 * 60 * 1_000_000_000;

/// Parses the expanded text of a file that one of [`FORMATS`] marks.
pub(crate) fn parse(name: &str, text: &[u8], format: &str) -> Result<Workload, Fault> {
    let document: Document = serde_json::from_slice(text).map_err(|e| Fault::from_json(&e))?;
    let has_times = format == FORMATS[1];
    let times =
        if has_times { serde_json::from_slice(text).map_err(|e| Fault::from_json(&e))? } else { Times::default() };
    let storages =
        document.storages.into_iter().map(|(bytes, Flag(persistent))| Storage { bytes, persistent }).collect();
    let events = document.events.into_iter().map(|Row(event)| event).collect();
    let name = document.model.unwrap_or_else(|| name.to_owned());
    let workload = Workload::new(name, SourceKind::ReferenceString, storages, document.op_names, events)?;
    let op_ns = times.op_ns.map(|values| judged(&values, workload.ops())).transpose()?;
    Ok(workload.with_import(Import { source: times.source, op_ns, ..Import::exact() }))
}

/// The times of as many operations as there are.
fn judged(values: &[Value], ops: usize) -> Result<Vec<u64>, Fault> {
    let mut sum = 0u64;
    let mut times = Vec::with_capacity(values.len());
    for (op, value) in values.iter().enumerate() {
        let wrong = |rule| Fault::WrongTime { op, value: shown(value), rule };
        // Also what no 64 bits hold, which is a floating-point number to the parser. A day is exact as one.
        if value.as_f64().is_some_and(|ns| ns > OP_NS_MAX as f64) {
            return Err(wrong("it is more than a day"));
        }
        let ns = value.as_u64().ok_or_else(|| wrong("it is not written as a whole number (digits alone)"))?;
        sum = sum.checked_add(ns).ok_or_else(|| wrong("with it the times no longer fit 64 bits"))?;
        times.push(ns);
    }
    match times.len() {
        count if count == ops => Ok(times),
        count => Err(Fault::TimesOfOthers { times: count, ops }),
    }
}

/// A value as JSON means it, cut where it is long.
fn shown(value: &Value) -> String {
    const SHOWN_MAX: usize = 40;
    let whole = value.to_string();
    match whole.char_indices().nth(SHOWN_MAX) {
        None => whole,
        Some((end, _)) => format!("{}…", &whole[..end]),
    }
}

/// Fields that only the second format has.
#[derive(Default, serde::Deserialize)]
struct Times {
    source: Option<String>,
    op_ns: Option<Vec<Value>>,
}

#[derive(serde::Deserialize)]
struct Document {
    model: Option<String>,
    op_names: Vec<String>,
    storages: Vec<(u64, Flag)>,
    events: Vec<Row>,
}

/// 0 or 1, as the recorder writes it, or a JSON truth value.
struct Flag(bool);

/// One element of `events`.
struct Row(Event);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Flag, D::Error> {
        struct FlagVisitor;
        impl Visitor<'_> for FlagVisitor {
            type Value = Flag;
            fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
                to.write_str("0 or 1 (alive before the step)")
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Flag, E> {
                Ok(Flag(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Flag, E> {
                match value {
                    0 | 1 => Ok(Flag(value == 1)),
                    _ => Err(E::invalid_value(de::Unexpected::Unsigned(value), &self)),
                }
            }
        }
        from.deserialize_any(FlagVisitor)
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Row, D::Error> {
        struct RowVisitor;
        impl<'de> Visitor<'de> for RowVisitor {
            type Value = Row;
            fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
                to.write_str(
                    "[name index, [storages read], [storages written]], with an adapter behind it, or [-1, [storage]]",
                )
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<Row, A::Error> {
                let first: i64 = row.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let lengths = |n| de::Error::invalid_length(n, &RowVisitor);
                let event = if first == -1 {
                    let dead: Vec<u32> = row.next_element()?.ok_or_else(|| lengths(1))?;
                    let [storage] = dead[..] else { return Err(lengths(dead.len())) };
                    Event::Death(storage)
                } else {
                    let name = u32::try_from(first)
                        .map_err(|_| de::Error::invalid_value(de::Unexpected::Signed(first), &self))?;
                    let reads = row.next_element()?.ok_or_else(|| lengths(1))?;
                    let writes = row.next_element()?.ok_or_else(|| lengths(2))?;
                    let adapter: Option<u8> = row.next_element()?;
                    Event::Op { adapter: adapter.map(u32::from), name, reads, writes }
                };
                match row.next_element::<de::IgnoredAny>()? {
                    None => Ok(Row(event)),
                    Some(_) => Err(de::Error::custom("an event with too many parts")),
                }
            }
        }
        from.deserialize_seq(RowVisitor)
    }
}
