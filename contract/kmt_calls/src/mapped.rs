//! Memory that a lock gives.

use serde::{Deserialize, Serialize};
use wddm_types::CpuRun;

/// Names a locked allocation's place in its process: its address, which stays the same while the content moves
/// (memory §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MappingId(pub u64);

/// A lock's answer to its caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// The mapping, the same for all nested locks of an allocation.
    pub mapping: MappingId,
    /// Where the bytes lay when the lock was decided, in their order. They may move; the mapping follows.
    pub runs: Vec<CpuRun>,
    /// Size in bytes.
    pub size_bytes: u64,
}
