//! Why a workload is refused: what is wrong, where in the file, and what to do about it.
//!
//! This module judges nothing: `source`, `rrs`, `chakra` and `workload` judge and return a [`Fault`];
//! [`Workload::open`](crate::Workload::open) puts the file's name to it. The blame for every fault here lies with
//! the file or with the user who named it.

use std::io;
use std::path::PathBuf;

use crate::source::EXPANDED_BYTES_MAX;

/// A refused workload file. Its text is one line: file, fault with its place, remedy.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}; {}", .file.display(), .fault.remedy())]
pub struct WorkloadError {
    /// The file as it was named by the caller.
    pub file: PathBuf,
    /// The fault in it.
    pub fault: Fault,
}

/// A fault in a workload, with the place. Lines and columns count from 1 and refer to the text after
/// decompression; events and storages count from 0, nodes are named by their id in the trace.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file could not be read at all.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file, or what it expands to, is larger than the limit.
    #[error("holds more than {limit} bytes after expansion")]
    TooLarge {
        /// The limit that was passed, in bytes.
        limit: u64,
    },
    /// The gzip stream ends before its end mark.
    #[error("the gzip stream is cut off after {bytes} compressed bytes")]
    CutGzip {
        /// Compressed bytes in the file.
        bytes: u64,
    },
    /// The gzip stream contradicts itself (header, code or checksum).
    #[error("the gzip stream is damaged, {expanded} bytes into the expanded text: {what}")]
    BrokenGzip {
        /// Bytes that expanded well before the damage.
        expanded: u64,
        /// The decoder's words.
        what: String,
    },
    /// The JSON text ends in the middle of a value.
    #[error("{}", if (*.line, *.column) == (1, 0) { "the file is empty".to_owned() } else {
        format!("the JSON text is cut off at line {line}, column {column}")
    })]
    CutJson {
        /// Line of the end.
        line: usize,
        /// Column of the end.
        column: usize,
    },
    /// The text is not JSON.
    #[error("not JSON at line {line}, column {column}: {what}")]
    BrokenJson {
        /// Line of the first wrong character.
        line: usize,
        /// Its column.
        column: usize,
        /// The parser's words.
        what: String,
    },
    /// JSON, but a value has the wrong kind or range: a negative id, a missing field, a fraction.
    #[error("wrong value at line {line}, column {column}: {what}")]
    WrongValue {
        /// Line where the value ends.
        line: usize,
        /// Its column.
        column: usize,
        /// The parser's words: the value found and the one expected.
        what: String,
    },
    /// JSON of no known workload format.
    #[error("neither a reference string nor an execution trace ({found})")]
    UnknownFormat {
        /// The content of the fields by which formats are recognised.
        found: String,
    },
    /// An execution trace of a schema that this importer does not know.
    #[error("execution trace of schema \"{found}\", known are {}", crate::chakra::SCHEMAS.join(", "))]
    UnknownSchema {
        /// The schema that the trace names.
        found: String,
    },
    /// Two nodes of a trace bear one id.
    #[error("node {node} occurs twice")]
    NodeTwice {
        /// The id.
        node: u64,
    },
    /// A node claims a parent that began after it.
    #[error("node {node} names the younger node {parent} as its parent")]
    YoungerParent {
        /// The child.
        node: u64,
        /// The parent that it names.
        parent: u64,
    },
    /// Tensors on the `meta` device: all of them share one storage id, so the trace does not tell them apart.
    #[error("node {node} ({name}) uses a tensor on the \"meta\" device, where all storages share one id")]
    MetaDevice {
        /// The first such node.
        node: u64,
        /// Its name.
        name: String,
    },
    /// Tensors on more than one accelerator.
    #[error("the trace uses several accelerators: {}", .devices.join(", "))]
    SeveralDevices {
        /// Their names as in the trace.
        devices: Vec<String>,
    },
    /// A reference string has times, but not one for each operation.
    #[error("\"op_ns\" has {times} times, but there are {ops} operations: {}", first_without(*.times, *.ops))]
    TimesOfOthers {
        /// How many times there are.
        times: usize,
        /// How many operations.
        ops: usize,
    },
    /// A value in "op_ns" is no time, or longer than an operation can take.
    #[error("operation {op}: its time in \"op_ns\" is {value}: {rule}")]
    WrongTime {
        /// The operation's number in the step, from 0.
        op: usize,
        /// The value as JSON means it, cut where it is long.
        value: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// More storages or names than an index can hold.
    #[error("{count} {what} are more than an index holds")]
    TooMany {
        /// How many there are.
        count: usize,
        /// Their kind: storages or names.
        what: &'static str,
    },
    /// The sizes of all storages together exceed 64 bits.
    #[error("the sizes up to storage {storage} add up to more than 2^64 bytes")]
    BytesOverflow {
        /// The storage at which the sum overflows.
        storage: u32,
    },
    /// No operation at all.
    #[error("the workload has no operation")]
    NoOps,
    /// A trace has kernels, and none of them can be imported.
    #[error("no kernel of the trace can be imported: {}", .reasons.join(", "))]
    AllLeftOut {
        /// How many, and why.
        reasons: Vec<String>,
    },
    /// An operation names a name that does not exist.
    #[error("event {event}: operation name {name}, but there are {names}")]
    NameOutOfRange {
        /// The event.
        event: usize,
        /// The index of the name.
        name: u32,
        /// How many names there are.
        names: usize,
    },
    /// An event names a storage that does not exist.
    #[error("event {event}: storage {storage}, but there are {storages}")]
    StorageOutOfRange {
        /// The event.
        event: usize,
        /// The index of the storage.
        storage: u32,
        /// How many storages there are.
        storages: usize,
    },
    /// An operation that reads and writes nothing.
    #[error("event {event}: an operation without storages")]
    OpWithoutStorages {
        /// The event.
        event: usize,
    },
    /// An operation uses a storage that died earlier in the step.
    #[error("event {event}: storage {storage} is used after its death")]
    UseAfterDeath {
        /// The event.
        event: usize,
        /// The storage.
        storage: u32,
    },
    /// A storage dies that was never alive in the step.
    #[error("event {event}: death of storage {storage}, which was never alive")]
    DeathOfUnborn {
        /// The event.
        event: usize,
        /// The storage.
        storage: u32,
    },
    /// A storage dies twice.
    #[error("event {event}: death of storage {storage}, which is already dead")]
    DeathOfDead {
        /// The event.
        event: usize,
        /// The storage.
        storage: u32,
    },
}

/// The operation at which the times of a string end, or the time at which its operations do.
fn first_without(times: usize, ops: usize) -> String {
    match times < ops {
        true => format!("operation {times} has no time"),
        false => format!("time {ops} belongs to no operation"),
    }
}

impl Fault {
    /// The user's remedy for the fault.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Fault::Unreadable(_) => "check the path and the permissions".into(),
            Fault::TooLarge { .. } => {
                format!("record fewer steps; at most {EXPANDED_BYTES_MAX} bytes are expanded")
            }
            Fault::CutGzip { .. } | Fault::CutJson { .. } => {
                "copy the file again, or end the recording properly before reading it".into()
            }
            Fault::BrokenGzip { .. } => "copy the file again; it was damaged on the way".into(),
            Fault::BrokenJson { .. } | Fault::WrongValue { .. } => {
                "correct that place, or record the file again".into()
            }
            Fault::UnknownFormat { .. } => format!(
                "give a file with \"format\": \"{}\" or \"{}\", or a PyTorch execution trace with \"schema\" and \"nodes\"",
                crate::rrs::FORMATS[0],
                crate::rrs::FORMATS[1]
            ),
            Fault::UnknownSchema { .. } => {
                "record the trace with a PyTorch that writes one of these schemas, or record a reference string".into()
            }
            Fault::NodeTwice { .. } | Fault::YoungerParent { .. } => {
                "record the trace again; merged or edited traces cannot be ordered".into()
            }
            Fault::MetaDevice { .. } => {
                "record the step exactly, as a reference string, with a dispatch-mode recorder".into()
            }
            Fault::SeveralDevices { .. } => "record one trace for each device".into(),
            Fault::TimesOfOthers { .. } => {
                "give one time for each event that is not a death, or leave \"op_ns\" out".into()
            }
            Fault::WrongTime { .. } => {
                "check the unit of the times; give whole nanoseconds from 0 to a day, or leave \"op_ns\" out".into()
            }
            Fault::TooMany { .. } | Fault::BytesOverflow { .. } => {
                "check the recorder; no machine has run such a step".into()
            }
            Fault::AllLeftOut { .. } => {
                "record with shapes (record_shapes=True) on the device that runs the kernels, or record a reference string".into()
            }
            Fault::NoOps => "record a step that runs at least one operation".into(),
            Fault::NameOutOfRange { .. }
            | Fault::StorageOutOfRange { .. }
            | Fault::OpWithoutStorages { .. }
            | Fault::UseAfterDeath { .. }
            | Fault::DeathOfUnborn { .. }
            | Fault::DeathOfDead { .. } => "correct that event, or record the file again".into(),
        }
    }

    /// Sorts a JSON parser's error into cut, broken and wrong value, and keeps its place.
    pub(crate) fn from_json(error: &serde_json::Error) -> Fault {
        let (line, column) = (error.line(), error.column());
        let mut what = error.to_string();
        if let Some(at) = what.rfind(" at line ") {
            what.truncate(at); // the place is kept apart from the words
        }
        match error.classify() {
            serde_json::error::Category::Eof => Fault::CutJson { line, column },
            serde_json::error::Category::Data => Fault::WrongValue { line, column, what },
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => {
                Fault::BrokenJson { line, column, what }
            }
        }
    }
}
