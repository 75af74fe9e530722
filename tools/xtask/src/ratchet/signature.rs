//! Objects named by bare integers in signatures: `device: u64` takes a fence's number as readily, and the compiler says nothing.
//!
//! A parameter counts if its name is one of [`OBJECTS`], alone or as its last word, and its type has a bare integer in it (`Option<u64>`,
//! `&[u64]`, `(u64, FenceValue)`). So does a result, by the name of its function. Several objects are several names, in a collection; a
//! lone integer with a name in the plural is a number of them. Names that begin with `_` are those of a contract's unused parameters, and
//! a method `number` says what stands for its own value outside.

use super::function::functions;
use super::source::{Sources, parts, words};
use super::{Measure, Measured};
use crate::report::Finding;

/// What the kernel has numbers for.
const OBJECTS: [&str; 27] = [
    "adapter",
    "allocation",
    "body",
    "context",
    "cross",
    "device",
    "doorbell",
    "fence",
    "group",
    "handle",
    "index",
    "mutex",
    "node",
    "number",
    "object",
    "open",
    "packet",
    "peer",
    "process",
    "queue",
    "resource",
    "section",
    "source",
    "space",
    "token",
    "waiting",
    "work",
];
/// Their types.
const INTEGERS: [&str; 5] = ["u8", "u16", "u32", "u64", "usize"];

/// The places in signatures of a crate.
pub fn bare_names(sources: &Sources<'_>, folder: &str) -> Measured {
    let mut places = Vec::new();
    for source in sources.of_crate(folder) {
        for function in functions(&source.code()) {
            let mut place = |text: String| places.push(Finding::new(source.path, function.line, text));
            for (name, kind) in function.parameters.iter().filter(|(name, kind)| names_object(name, kind)) {
                place(format!("{}: {name}: {kind}", function.name));
            }
            if function.name != "number" && names_object(&function.name, &function.result) {
                place(format!("{} -> {}", function.name, function.result));
            }
        }
    }
    Ok(Measure::of(places))
}

/// Whether the name, or one of the names of a pattern, is an object's, and the type a bare integer's.
fn names_object(pattern: &str, kind: &str) -> bool {
    let is_list = kind.contains(['[', '<', '(']);
    let is_integer = INTEGERS.iter().any(|integer| words(kind, integer).next().is_some());
    let mut names = pattern.split(|c: char| !c.is_alphanumeric() && c != '_');
    if let (Some(names), Some(kinds)) = (tuple(pattern), tuple(kind)) {
        return names.into_iter().zip(kinds).any(|(name, kind)| names_object(name, kind));
    }
    is_integer && names.any(|name| !name.starts_with('_') && is_of_object(name, is_list))
}

/// The parts of a tuple.
fn tuple(text: &str) -> Option<Vec<&str>> {
    text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).map(parts)
}

fn is_of_object(name: &str, is_list: bool) -> bool {
    let last = name.trim_end_matches("_id").rsplit('_').next().unwrap_or(name);
    let is_object = |word: &str| OBJECTS.contains(&word);
    let plural = || last.strip_suffix("es").is_some_and(is_object) || last.strip_suffix('s').is_some_and(is_object);
    is_object(last) || is_list && plural()
}
