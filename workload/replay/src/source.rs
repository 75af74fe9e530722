//! From a path to a workload: reads the file, expands gzip within a limit, recognises the format by its content.
//!
//! Not a parser of either format; `rrs` and `chakra` are. Called by programs that open a recording.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::{Fault, Workload, WorkloadError, chakra, gzip, rrs, stranger};

/// The most bytes that a workload file may hold after expansion. A gzip file of two megabytes can claim to be this
/// large; the limit keeps a hostile or damaged file from taking the machine's memory.
pub const EXPANDED_BYTES_MAX: u64 = 2 << 30;

/// The mark that some editors and tools of Windows put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Workload {
    /// Reads a recorded workload from a file: a residency reference string or a PyTorch execution trace, plain or
    /// gzipped, recognised by content and not by name.
    ///
    /// # Errors
    /// [`WorkloadError`] with the file, the place and a remedy, if the file cannot be read, is cut, damaged, of an
    /// unknown format, larger than [`EXPANDED_BYTES_MAX`], or contradicts itself.
    pub fn open(path: impl AsRef<Path>) -> Result<Workload, WorkloadError> {
        let path = path.as_ref();
        let named = |fault| WorkloadError { file: path.to_owned(), fault };
        let raw = File::open(path)
            .map_err(Fault::Unreadable)
            .and_then(|file| read_whole(file, EXPANDED_BYTES_MAX))
            .map_err(named)?;
        Workload::from_bytes(&short_name(path), &raw).map_err(named)
    }

    /// Reads a recorded workload from bytes in memory; `name` is its name unless the recording has one.
    ///
    /// # Errors
    /// The [`Fault`] that [`Workload::open`] would put the file's name to.
    pub fn from_bytes(name: &str, raw: &[u8]) -> Result<Workload, Fault> {
        let expanded;
        let text = if raw.starts_with(&gzip::MAGIC) {
            expanded = gzip::expand(raw, EXPANDED_BYTES_MAX)?;
            &expanded[..]
        } else {
            raw
        };
        recognise(name, text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text))
    }
}

/// The fields by which a format is recognised; everything else is skipped.
#[derive(Deserialize)]
struct Head {
    format: Option<Value>,
    schema: Option<Value>,
    nodes: Option<IgnoredAny>,
}

fn recognise(name: &str, text: &[u8]) -> Result<Workload, Fault> {
    let head: Head = match serde_json::from_slice(text) {
        Ok(head) => head,
        // A list or a single value has no fields at all: well-formed, and no recording.
        Err(e) if e.is_data() => return Err(Fault::UnknownFormat { found: stranger::describe(text) }),
        Err(e) => return Err(not_json(text, &e)),
    };
    match (&head.format, &head.schema, &head.nodes) {
        (Some(Value::String(format)), _, _) if rrs::FORMATS.contains(&format.as_str()) => {
            rrs::parse(name, text, format)
        }
        (Some(format), _, _) => Err(Fault::UnknownFormat { found: format!("\"format\": {format}") }),
        (None, Some(Value::String(schema)), Some(_)) if chakra::knows(schema) => chakra::parse(name, text),
        (None, Some(Value::String(schema)), Some(_)) => Err(Fault::UnknownSchema { found: schema.clone() }),
        (None, Some(schema), Some(_)) => Err(Fault::UnknownFormat { found: format!("\"schema\": {schema}") }),
        (None, _, _) => Err(Fault::UnknownFormat { found: stranger::describe(text) }),
    }
}

/// The parser's fault, with the name of what lies there if the first bytes tell it.
fn not_json(text: &[u8], error: &serde_json::Error) -> Fault {
    match (Fault::from_json(error), stranger::by_first_bytes(text)) {
        (Fault::BrokenJson { line, column, .. }, Some(words)) => {
            Fault::BrokenJson { line, column, what: words.to_owned() }
        }
        (fault, _) => fault,
    }
}

/// Reads at most `limit` bytes, and refuses a source that holds more.
fn read_whole(from: impl Read, limit: u64) -> Result<Vec<u8>, Fault> {
    let mut raw = Vec::new();
    let read = from.take(limit + 1).read_to_end(&mut raw).map_err(Fault::Unreadable)?;
    if read as u64 > limit { Err(Fault::TooLarge { limit }) } else { Ok(raw) }
}

/// The file's name up to its first dot that ends a known suffix: `gpt2m.meta.rrs.json.gz` is `gpt2m.meta`.
fn short_name(path: &Path) -> String {
    let mut name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for suffix in [".gz", ".json", ".rrs"] {
        if let Some(shorter) = name.strip_suffix(suffix) {
            name.truncate(shorter.len());
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_large_is_refused_while_it_is_read() {
        assert!(matches!(read_whole(&[0; 11][..], 10), Err(Fault::TooLarge { limit: 10 })));
        assert_eq!(read_whole(&[0; 10][..], 10).unwrap().len(), 10);
    }

    #[test]
    fn names_lose_their_suffixes_only() {
        assert_eq!(short_name(Path::new("/a/gpt2m.meta.rrs.json.gz")), "gpt2m.meta");
        assert_eq!(short_name(Path::new("trace.json")), "trace");
        assert_eq!(short_name(Path::new("/")), "");
    }
}
