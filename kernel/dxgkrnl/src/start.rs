//! A starting driver's answers, asked once and held to the rules (sync §3.1, memory §1.3, §4.7): its capabilities, nodes, segments,
//! addresses, fences and displays. The adapter is built from them by `adapter::start`; nothing here knows it.

mod caps;
mod describe;
mod segments;

use ddi::DriverStatus;

pub use caps::paging_tables;
pub use describe::{Computer, Description, describe};

/// Why an adapter does not start. Each names the rule.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The driver refused.
    #[error("the driver did not start its device: {0}")]
    Driver(#[from] DriverStatus),
    /// A rule of the contract.
    #[error("the driver broke a rule at adapter start: {0}")]
    Rule(&'static str),
    /// A rule of the segments.
    #[error("the driver's segments break a rule: {0}")]
    Segment(#[from] vidmm::SegmentError),
    /// Something that this kernel does not have yet.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// The host gave too little memory.
    #[error("too little memory for the adapter: {0}")]
    Memory(&'static str),
}
