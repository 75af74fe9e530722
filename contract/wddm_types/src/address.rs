//! Addresses: where the GPU's programs look ([`GpuVa`]), where a process's do ([`CpuVa`]), where a segment keeps a page ([`PhysicalAddress`]), where the
//! kernel's shared words lie ([`WordAddress`]).

use crate::size::PAGE_BYTES;
use serde::{Deserialize, Serialize};

/// A GPU virtual address (`D3DGPU_VIRTUAL_ADDRESS`). 0 is never valid (memory §0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GpuVa(pub u64);

impl GpuVa {
    /// `D3DGPU_NULL`.
    pub const NULL: GpuVa = GpuVa(0);

    /// The address `bytes` further on.
    pub const fn offset(self, bytes: u64) -> GpuVa {
        GpuVa(self.0 + bytes)
    }

    /// Whether this is `D3DGPU_NULL`.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Display for GpuVa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// An address of a process as its CPU page tables translate it. On adapters of the IoMmu model the GPU uses it too (memory
/// §4.1). 0 is never valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CpuVa(pub u64);

impl CpuVa {
    /// No address.
    pub const NULL: CpuVa = CpuVa(0);

    /// Whether this is nowhere.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The number that a GPU of the IoMmu model is given: the same.
    // spec: memory §4.1
    pub const fn for_gpu(self) -> GpuVa {
        GpuVa(self.0)
    }
}

/// A segment's number: 1-based index into the descriptors that the driver returned; 0 is system memory (memory §0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SegmentId(pub u8);

impl SegmentId {
    /// No segment: system memory.
    pub const SYSTEM: SegmentId = SegmentId(0);
    /// The largest id that a five-bit field can name.
    pub const MAX: SegmentId = SegmentId(31);

    /// Whether this names system memory.
    pub const fn is_system(self) -> bool {
        self.0 == 0
    }
}

/// A set of segments, bit n−1 for segment n (memory §0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SegmentSet(pub u32);

impl SegmentSet {
    /// The empty set.
    pub const NONE: SegmentSet = SegmentSet(0);

    /// The set that holds just `id`.
    ///
    /// # Panics
    /// For segment 0 (a set has no bit for system memory) and for ids above 31.
    pub const fn only(id: SegmentId) -> SegmentSet {
        assert!(id.0 >= 1 && id.0 <= 31, "a segment set has bits for the ids 1 to 31");
        SegmentSet(1 << (id.0 - 1))
    }

    /// Both sets together.
    pub const fn with(self, other: SegmentSet) -> SegmentSet {
        SegmentSet(self.0 | other.0)
    }

    /// Whether `id` is in the set. Segment 0 never is.
    pub const fn contains(self, id: SegmentId) -> bool {
        id.0 >= 1 && id.0 <= 32 && self.0 & (1 << (id.0 - 1)) != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The ids in ascending order.
    pub fn iter(self) -> impl Iterator<Item = SegmentId> {
        (1..=32u8).map(SegmentId).filter(move |id| self.contains(*id))
    }
}

/// A place in a segment, or in system memory when the segment is 0 (`D3DGPU_PHYSICAL_ADDRESS`, memory §0). The offset
/// does not contain the segment's base address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PhysicalAddress {
    /// The segment.
    pub segment: SegmentId,
    /// Bytes from the segment's start; for system memory the system physical address.
    pub offset: u64,
}

/// A page of system memory by its number: system physical address / 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SystemPage(pub u64);

impl SystemPage {
    /// The system physical address of the page's first byte.
    pub const fn address(self) -> u64 {
        self.0 * PAGE_BYTES
    }
}

/// The system physical address of a 64-bit word that several parties share; a multiple of 8. A link turns it into a
/// mapping with the access that its holder is entitled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WordAddress(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_n_is_bit_n_minus_one() {
        // spec: memory §0
        let set = SegmentSet::only(SegmentId(1)).with(SegmentSet::only(SegmentId(3)));
        assert_eq!(set.0, 0b101);
        assert_eq!(set.iter().collect::<Vec<_>>(), [SegmentId(1), SegmentId(3)]);
        assert!(!set.contains(SegmentId::SYSTEM));
    }
}
