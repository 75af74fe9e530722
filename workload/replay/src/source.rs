//! From a path to a workload: reads the file, expands gzip within a limit, recognises the format by its content.
//!
//! Not a parser of either format; `rrs` and `chakra` are. Called by everybody who opens a recording.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::{Fault, Workload, WorkloadError, chakra, rrs};

/// The most bytes that a workload file may hold after expansion. A gzip file of two megabytes can claim to be this
/// large; the limit keeps a hostile or damaged file from taking the machine's memory.
pub const EXPANDED_BYTES_MAX: u64 = 2 << 30;

/// The first bytes of every gzip member.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

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

    /// The same for bytes that are already in memory; `name` is what the workload is called if it does not say
    /// itself.
    ///
    /// # Errors
    /// The [`Fault`] that [`Workload::open`] would put the file's name to.
    pub fn from_bytes(name: &str, raw: &[u8]) -> Result<Workload, Fault> {
        let expanded;
        let text = if raw.starts_with(&GZIP_MAGIC) {
            expanded = expand(raw, EXPANDED_BYTES_MAX)?;
            &expanded[..]
        } else {
            raw
        };
        recognise(name, text)
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
    let head: Head = serde_json::from_slice(text).map_err(|e| Fault::from_json(&e))?;
    match (&head.format, &head.schema, &head.nodes) {
        (Some(Value::String(format)), _, _) if format == rrs::FORMAT => rrs::parse(name, text),
        (Some(format), _, _) => Err(Fault::UnknownFormat { found: format!("\"format\": {format}") }),
        (None, Some(Value::String(schema)), Some(_)) if chakra::knows(schema) => chakra::parse(name, text),
        (None, Some(Value::String(schema)), Some(_)) => Err(Fault::UnknownSchema { found: schema.clone() }),
        (None, Some(schema), _) => Err(Fault::UnknownFormat { found: format!("\"schema\": {schema}") }),
        (None, None, _) => Err(Fault::UnknownFormat { found: "no \"format\" and no \"schema\"".into() }),
    }
}

/// Reads at most `limit` bytes, and refuses a source that holds more.
fn read_whole(from: impl Read, limit: u64) -> Result<Vec<u8>, Fault> {
    let mut raw = Vec::new();
    let read = from.take(limit + 1).read_to_end(&mut raw).map_err(Fault::Unreadable)?;
    if read as u64 > limit { Err(Fault::TooLarge { limit }) } else { Ok(raw) }
}

/// Expands a gzip stream of one or several members into at most `limit` bytes.
fn expand(raw: &[u8], limit: u64) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    match MultiGzDecoder::new(raw).take(limit + 1).read_to_end(&mut text) {
        Ok(read) if read as u64 > limit => Err(Fault::TooLarge { limit }),
        Ok(_) => Ok(text),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(Fault::CutGzip { bytes: raw.len() as u64 }),
        Err(e) => Err(Fault::BrokenGzip { expanded: text.len() as u64, what: e.to_string() }),
    }
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
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        to.write_all(text).unwrap();
        to.finish().unwrap()
    }

    #[test]
    fn a_gzip_bomb_stops_at_the_limit() {
        let bomb = gzip(&vec![b' '; 1 << 20]);
        assert!(bomb.len() < 4096, "the bomb is small");
        assert!(matches!(expand(&bomb, 1 << 16), Err(Fault::TooLarge { limit: 0x10000 })));
        assert_eq!(expand(&bomb, 1 << 20).unwrap().len(), 1 << 20, "exactly the limit still fits");
        assert!(matches!(read_whole(&bomb[..], 10), Err(Fault::TooLarge { limit: 10 })));
    }

    #[test]
    fn cut_and_damaged_gzip_are_told_apart() {
        let whole = gzip(br#"{"format": "none"}"#);
        assert!(matches!(expand(&whole[..whole.len() - 3], 100), Err(Fault::CutGzip { .. })));
        let mut damaged = whole;
        let checksum = damaged.len() - 8;
        damaged[checksum] ^= 1;
        assert!(matches!(expand(&damaged, 100), Err(Fault::BrokenGzip { .. })));
    }

    #[test]
    fn names_lose_their_suffixes_only() {
        assert_eq!(short_name(Path::new("/a/gpt2m.meta.rrs.json.gz")), "gpt2m.meta");
        assert_eq!(short_name(Path::new("trace.json")), "trace");
        assert_eq!(short_name(Path::new("/")), "");
    }
}
