//! Describes files that are no recording: their kind, and for the kinds that users most often take for a recording, how to
//! get one. Called by `source` once nothing was recognised; it reads no more than the outline.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Describes a JSON text that is no recording.
pub(crate) fn describe(text: &[u8]) -> String {
    match serde_json::from_slice::<Outline>(text) {
        Ok(Outline::Object(fields)) => object(&fields),
        Ok(Outline::List(0)) => "an empty JSON list".into(),
        Ok(Outline::List(count)) => format!("a JSON list of {count} elements, not an object"),
        Ok(Outline::Single(kind)) => format!("a single JSON {kind}, not an object"),
        Err(_) => "JSON, not an object".into(),
    }
}

fn object(fields: &[String]) -> String {
    const NAMED_MAX: usize = 5;
    let has = |name: &str| fields.iter().any(|field| field == name);
    if has("traceEvents") {
        return "a Chrome trace with \"traceEvents\", as torch.profiler's export_chrome_trace writes it: it has times \
                and no storages; record with torch.profiler.ExecutionTraceObserver beside it"
            .into();
    }
    if has("segments") && has("device_traces") {
        return "a memory snapshot of PyTorch: it has allocations and no operations; `python -m openwddm snapshot FILE STRING` writes \
                a reference string of them"
            .into();
    }
    if has("nodes") {
        return "a JSON object with \"nodes\" and no \"schema\"".into();
    }
    if has("schema") {
        return "a JSON object with a \"schema\" and no \"nodes\"".into();
    }
    if has("name") && has("version") {
        return "a package description with \"name\" and \"version\"".into();
    }
    if fields.is_empty() {
        return "an empty JSON object".into();
    }
    let mut named: Vec<String> = fields.iter().take(NAMED_MAX).map(|field| format!("{field:?}")).collect();
    if fields.len() > NAMED_MAX {
        named.push(format!("and {} others", fields.len() - NAMED_MAX));
    }
    format!("a JSON object with the fields {}: no \"format\" and no \"schema\"", named.join(", "))
}

/// Names the format of a file that is no JSON by its first bytes, and what to do with it.
pub(crate) fn by_first_bytes(raw: &[u8]) -> Option<&'static str> {
    const PICKLE: &str = "this is a Python pickle; of a memory snapshot of PyTorch `python -m openwddm snapshot FILE STRING` writes a \
                          reference string";
    const KINDS: [(&[u8], &str); 11] = [
        (b"PK\x03\x04", "this is a zip archive (PyTorch's torch.save writes one, too); give the JSON file in it"),
        (b"\x28\xb5\x2f\xfd", "this is compressed with zstd; expand it first"),
        (b"\xfd7zXZ\0", "this is compressed with xz; expand it first"),
        (b"BZh", "this is compressed with bzip2; expand it first"),
        (b"\xff\xfe", "this is text in UTF-16; UTF-8 is needed"),
        (b"\xfe\xff", "this is text in UTF-16; UTF-8 is needed"),
        (b"\x80\x02", PICKLE),
        (b"\x80\x03", PICKLE),
        (b"\x80\x04", PICKLE),
        (b"\x80\x05", PICKLE),
        (b"<", "this is HTML or XML"),
    ];
    KINDS.iter().find(|(magic, _)| raw.starts_with(magic)).map(|(_, words)| *words)
}

/// The outermost level of a JSON text.
enum Outline {
    /// Names of the fields.
    Object(Vec<String>),
    /// How many elements.
    List(usize),
    /// A text, a number, a truth value, null.
    Single(&'static str),
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Outline, D::Error> {
        struct OutlineVisitor;
        impl<'de> Visitor<'de> for OutlineVisitor {
            type Value = Outline;
            fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
                to.write_str("any JSON")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outline, A::Error> {
                let mut fields = Vec::new();
                while let Some((field, _)) = map.next_entry::<String, IgnoredAny>()? {
                    fields.push(field);
                }
                Ok(Outline::Object(fields))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Outline, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Outline::List(count))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Outline, E> {
                Ok(Outline::Single("truth value"))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Outline, E> {
                Ok(Outline::Single("number"))
            }
            fn visit_u64<E>(self, _: u64) -> Result<Outline, E> {
                Ok(Outline::Single("number"))
            }
            fn visit_f64<E>(self, _: f64) -> Result<Outline, E> {
                Ok(Outline::Single("number"))
            }
            fn visit_str<E>(self, _: &str) -> Result<Outline, E> {
                Ok(Outline::Single("text"))
            }
            fn visit_unit<E>(self) -> Result<Outline, E> {
                Ok(Outline::Single("null"))
            }
        }
        from.deserialize_any(OutlineVisitor)
    }
}
