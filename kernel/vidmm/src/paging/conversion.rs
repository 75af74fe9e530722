//! Leaf tables that change their form, for events (memory §4.5).

use wddm_types::GpuVa;

use crate::slab::SpaceId;

/// A leaf table gets 4-KB entries instead of 64-KB ones (memory §4.5), or with dual entries 64 KB of it, for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The space that the table translates.
    pub space: SpaceId,
    /// The first address that it translates.
    pub va: GpuVa,
    /// Bytes of address that it covers.
    pub size_bytes: u64,
    /// The change that its 64-KB entries could not express.
    pub cause: ConversionCause,
}

/// A change that a leaf table of 64-KB entries cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversionCause {
    /// Pages of system memory.
    SystemMemory,
    /// Part of a 64-KB page, there or not there any more.
    PartOfPage,
    /// Pages of a segment of 4-KB pages.
    SmallPages,
}
