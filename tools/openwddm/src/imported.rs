//! How each recording became a workload: operations, work left out and why, times and whether the run uses them.
//!
//! The importer counts ([`replay::Import`]); here the counts become fields of the JSON and sentences, the same for the table, the
//! report and a run elsewhere. Called by `run` and `connected` (making), `table` and `report` (telling).

use replay::{LeftOut, Reason, SourceKind, Workload};
use serde::Serialize;

use terminal_text::units::{bytes, duration, grouped};

/// One recording, imported. The names are a promise, explained in `JSON.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Name of the workload.
    pub workload: String,
    /// `execution trace` or `reference string`.
    pub kind: &'static str,
    /// Where the recording says that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Iterations of the program in the recording; together they are one step.
    pub iterations: u32,
    /// Operations of one step.
    pub operations: u64,
    /// Kernels that the recording shows: those that became operations, and those left out.
    pub kernels: u64,
    /// Calls that move no bytes: views, allocations, questions.
    pub no_work: u64,
    /// Work that is not in the workload, by reason.
    pub left_out: Vec<Omission>,
    /// Time of all operations as the recording has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_ns: Option<u64>,
    /// With recorded times: whether the run uses them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_times_used: Option<bool>,
    /// Whether the run is one against a server elsewhere (`--connect`), which has no virtual time.
    #[serde(skip)]
    pub is_elsewhere: bool,
}

/// Work that is not in the workload, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Omission {
    /// `no tensors`, `on another device`, `damaged by the recorder`, `not recorded`.
    pub reason: &'static str,
    /// Kernels; with `not recorded` the compiled graphs that they belong to.
    pub kernels: u64,
    /// With `not recorded`: storages that only such kernels can have made.
    pub storages: u64,
    /// The bytes of those.
    pub bytes: u64,
}

impl Imported {
    /// The account of a workload, of whose times the run has use or not; `None`: it is exactly what its recording says.
    #[must_use]
    pub fn of(workload: &Workload, uses_times: bool) -> Option<Imported> {
        let import = workload.import();
        let is_derived = workload.source() == SourceKind::ExecutionTrace;
        if !is_derived && import.source.is_none() && import.op_ns.is_none() {
            return None;
        }
        let operations = workload.ops() as u64;
        Some(Imported {
            workload: workload.name().to_owned(),
            kind: if is_derived { "execution trace" } else { "reference string" },
            source: import.source.clone(),
            iterations: import.iterations,
            operations,
            kernels: operations + import.kernels_left_out(),
            no_work: import.no_work,
            left_out: import.left_out.iter().map(Omission::of).collect(),
            // The importer has refused times whose sum does not fit.
            recorded_ns: import.op_ns.as_ref().map(|times| times.iter().sum()),
            recorded_times_used: import.op_ns.as_ref().map(|_| uses_times),
            is_elsewhere: false,
        })
    }

    /// The account in sentences, without the workload's name.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.kind == "execution trace" {
            let iterations = match self.iterations {
                1 => String::new(),
                count => format!(" of {} iterations, imported as one step", grouped(u64::from(count))),
            };
            let operations = counted(self.operations, "operation", "operations");
            let no_work = counted(self.no_work, "call moves no bytes", "calls move no bytes");
            sentences.push(format!("derived from an execution trace: {operations}{iterations}; {no_work}"));
        }
        sentences.extend(self.source.as_ref().map(|source| format!("recorded by its own account: {source}")));
        sentences.extend(self.left_out.iter().map(|omission| omission.sentence(self.kernels)));
        sentences.extend(self.recorded_ns.map(|ns| {
            let used = match self.recorded_times_used {
                Some(true) => "are those of this run",
                _ if self.is_elsewhere => {
                    "are not used: in real time operations take what they take, a run here with --virtual-time uses them"
                }
                _ => "are not used: in real time operations take what they take, --virtual-time uses them",
            };
            format!("its times, {} for all operations of a step, {used}", duration(ns))
        }));
        sentences
    }
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { several })
}

impl Omission {
    fn of(left: &LeftOut) -> Omission {
        Omission { reason: left.reason.name(), kernels: left.kernels, storages: left.storages, bytes: left.bytes }
    }

    fn sentence(&self, kernels: u64) -> String {
        if self.reason != Reason::NotRecorded.name() {
            return format!("{} of {} kernels left out: {}", grouped(self.kernels), grouped(kernels), self.reason);
        }
        let whose = match self.kernels {
            0 => String::new(),
            graphs => format!(" of {}", counted(graphs, "compiled graph", "compiled graphs")),
        };
        let made = match self.storages {
            0 => "what they use is unknown".to_owned(),
            storages => {
                let come = counted(storages, "storage comes", "storages come");
                format!("at least {come} from them, {}", bytes(self.bytes))
            }
        };
        format!("kernels{whose} left out: not in the recording; {made}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_say_what_is_left_out_and_of_how_many() {
        let omission =
            |reason: Reason, kernels, storages, bytes| Omission { reason: reason.name(), kernels, storages, bytes };
        let imported = Imported {
            kind: "execution trace",
            iterations: 3,
            operations: 790,
            kernels: 812,
            no_work: 1_200,
            left_out: vec![
                omission(Reason::NoTensors, 17, 0, 0),
                omission(Reason::OtherDevice, 5, 0, 0),
                omission(Reason::NotRecorded, 2, 9, 2 << 20),
            ],
            recorded_ns: Some(7_285_465_648),
            ..Imported::default()
        };
        let used = Imported { recorded_times_used: Some(true), ..imported.clone() };
        let last = "its times, 7.29 s for all operations of a step, are those of this run";
        assert_eq!(used.sentences().last().map(String::as_str), Some(last));
        let elsewhere = Imported { is_elsewhere: true, ..imported.clone() };
        let last = elsewhere.sentences().pop().unwrap();
        assert!(last.ends_with("take what they take, a run here with --virtual-time uses them"), "{last}");
        assert_eq!(
            imported.sentences(),
            [
                "derived from an execution trace: 790 operations of 3 iterations, imported as one step; 1,200 calls move no bytes",
                "17 of 812 kernels left out: no tensors",
                "5 of 812 kernels left out: on another device",
                "kernels of 2 compiled graphs left out: not in the recording; at least 9 storages come from them, 2.00 MiB",
                "its times, 7.29 s for all operations of a step, are not used: in real time operations take what they take, --virtual-time uses them",
            ]
        );
    }
}
