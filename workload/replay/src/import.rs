//! An importer's account beside the workload: how much of a recording became operations, and what did not, by reason.
//!
//! A derived workload is only as complete as its recording. This module counts work that the recording shows or
//! hints at and the importer cannot place, so that the command line can report it. Filled by `rrs` and `chakra`, read through
//! [`Workload::import`](crate::Workload::import); no decision is taken here.

use std::fmt;

/// How a recording became a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Import {
    /// Where the recording says that it comes from, if it does.
    pub source: Option<String>,
    /// Iterations of the program that the recording holds; all of them are one step of the workload.
    pub iterations: u32,
    /// Calls that move no bytes: views, allocations, questions about a tensor's description.
    pub no_work: u64,
    /// Work that did not become an operation, one entry a reason.
    pub left_out: Vec<LeftOut>,
    /// With recorded times: nanoseconds that each operation takes with memory enough, in order.
    pub op_ns: Option<Vec<u64>>,
}

/// Work of a recording that is not in the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The reason why it is left out.
    pub reason: Reason,
    /// Kernels; for [`Reason::NotRecorded`] the compiled graphs that they belong to.
    pub kernels: u64,
    /// With [`Reason::NotRecorded`]: storages that only they can have made.
    pub storages: u64,
    /// The bytes of those.
    pub bytes: u64,
}

/// Why work is not in a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The recording shows no tensor of the kernel.
    NoTensors,
    /// All tensors of the kernel stand on another device than the workload's.
    OtherDevice,
    /// The recorder has failed at the node: it wrote no id.
    Damaged,
    /// The recording shows what such kernels made and not the kernels, or a compiled graph without the kernels in it.
    NotRecorded,
}

impl Reason {
    /// A few words, stable: the JSON file has them.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::NoTensors => "no tensors",
            Reason::OtherDevice => "on another device",
            Reason::Damaged => "damaged by the recorder",
            Reason::NotRecorded => "not recorded",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

impl Import {
    /// The account of an exact recording of one step: nothing is left out.
    #[must_use]
    pub fn exact() -> Import {
        Import { iterations: 1, ..Import::default() }
    }

    /// Kernels that the recording shows and that are not in the workload.
    #[must_use]
    pub fn kernels_left_out(&self) -> u64 {
        let shown = self.left_out.iter().filter(|left| left.reason != Reason::NotRecorded);
        shown.map(|left| left.kernels).sum()
    }
}
