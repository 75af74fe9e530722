//! Calls on sections, which are the operating system's and not `D3DKMT`'s: memory that a process has before any allocation lies over it
//! (memory §2.7).

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

/// A call on a section of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SectionCall {
    /// `CreateSection` → `Section`.
    Create {
        /// The adapter whose share of system memory it comes from, or a device on it.
        adapter: RawHandle,
        /// Bytes, a multiple of the page.
        size_bytes: u64,
    },
    /// The same over a file that the process has handed over: the section has the file's content, and stores into either reach both →
    /// `Section`.
    CreateOver {
        /// As of `Create`.
        adapter: RawHandle,
        /// Bytes, as many as were handed over.
        size_bytes: u64,
        /// The file, by the number that the link gave it.
        given: u64,
    },
    /// `CloseHandle`. Allocations over it keep its pages.
    Close {
        /// The section.
        section: RawHandle,
    },
    /// Asks whether allocations lie over a section → `InUse`: destroyed ones do while queued work may still touch them.
    IsInUse {
        /// The section.
        section: RawHandle,
    },
}

impl SectionCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            SectionCall::Create { .. } | SectionCall::CreateOver { .. } => "CreateSection",
            SectionCall::Close { .. } => "CloseHandle",
            SectionCall::IsInUse { .. } => "SectionInUse",
        }
    }
}
