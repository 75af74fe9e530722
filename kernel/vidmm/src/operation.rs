//! Paging operations as values: one to one with a driver's (memory §3.3), but owned, and whole. One driver call may carry out only a part
//! of one ([`Operation::part`]). `residency`, `victim`, `mapping` and `system` make them; the kernel's paging ring carries them out.

mod view;

use ddi::{KmdAllocation, Pte};
use wddm_types::{CpuVa, GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use crate::slab::{AllocationId, DeviceId, SpaceId};
pub use view::{Form, HeldRange, RangeWish, WindowMap, WindowPages};

/// Which way a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// System memory to segment.
    In,
    /// Segment to system memory.
    Out,
}

/// A paging operation (memory §3.3), owned; one to one with a driver's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Copies between the backing store and a segment.
    Transfer {
        /// The allocation of the content; `None`: the kernel's own, as it lies.
        allocation: Option<KmdAllocation>,
        /// Byte offset of the range within the allocation.
        allocation_offset: u64,
        /// Bytes of the range.
        size_bytes: u64,
        /// The segment.
        segment: SegmentId,
        /// GPU address (base + offset) of the range's first byte; `allocation_offset` is already in it, because
        /// scattered content has no common origin.
        address: u64,
        /// The allocation lies in one run of the segment: then it has an origin, `address - allocation_offset`.
        contiguous: bool,
        /// System pages of the range: they begin at its first byte (MdlOffset 0).
        backing: Vec<PageRun>,
        /// Aperture and GPU address that show those pages for this transfer: both ends are in GPU space (memory §8.3).
        through: Option<(SegmentId, u64)>,
        /// Into the segment or out of it.
        direction: Direction,
        /// What the transfer does to the form of marked content.
        form: Form,
    },
    /// Copies within a segment: content makes way for a contiguous request.
    Relocate {
        /// The allocation of the content.
        allocation: KmdAllocation,
        /// Byte offset of the range within the allocation.
        allocation_offset: u64,
        /// Bytes of the range.
        size_bytes: u64,
        /// The segment.
        segment: SegmentId,
        /// GPU address of the range's first byte before.
        from: u64,
        /// GPU address of that byte afterwards.
        to: u64,
    },
    /// Fills a range of a segment with a pattern.
    Fill {
        /// The allocation of the content; `None` for free pages, and for the kernel's own.
        allocation: Option<KmdAllocation>,
        /// Byte offset of the range within the allocation.
        allocation_offset: u64,
        /// Bytes of the range.
        size_bytes: u64,
        /// The pattern.
        pattern: u32,
        /// The segment.
        segment: SegmentId,
        /// GPU address of the range's first byte.
        address: u64,
    },
    /// A range leaves its place without being copied (DISCARD_CONTENT).
    Discard {
        /// The allocation of the content.
        allocation: KmdAllocation,
        /// The segment.
        segment: SegmentId,
        /// GPU address of the range's first byte.
        address: u64,
    },
    /// Redirects aperture pages to system pages.
    MapAperture {
        /// The device of the allocation.
        device: Option<DeviceId>,
        /// `None` for the kernel's own pages.
        allocation: Option<KmdAllocation>,
        /// The aperture.
        segment: SegmentId,
        /// First aperture page.
        offset_in_pages: u64,
        /// The system pages; as many aperture pages.
        backing: Vec<PageRun>,
        /// Cacheable pages go into a coherent aperture.
        cache_coherent: bool,
        /// The driver wants to know where the CPU sees them (`MapApertureCpuVisible`): they are one run.
        cpu_visible: bool,
    },
    /// Redirects aperture pages to the dummy page.
    UnmapAperture {
        /// The device of the allocation.
        device: Option<DeviceId>,
        /// `None` for the kernel's own pages.
        allocation: Option<KmdAllocation>,
        /// The aperture.
        segment: SegmentId,
        /// First aperture page.
        offset_in_pages: u64,
        /// How many.
        number_of_pages: u64,
        /// System physical address of the dummy page.
        dummy_page: u64,
    },
    /// First content of a context allocation (INIT_CONTEXT_RESOURCE).
    InitContext {
        /// The driver's own handle.
        allocation: KmdAllocation,
        /// Where it is; 0: in system memory.
        segment: SegmentId,
        /// Its pages there.
        pages: Vec<PageRun>,
        /// The CPU may write it all its life (CpuVisible, Protected, aperture segments only).
        cpu_visible: bool,
    },
    /// The driver changes a context allocation (UPDATE_CONTEXT_ALLOCATION).
    UpdateContext {
        /// Where it is; 0: in system memory.
        segment: SegmentId,
        /// Its pages there.
        pages: Vec<PageRun>,
        /// The driver's data, unread.
        private_data: Vec<u8>,
    },
    /// Tells the driver that a range of an allocation with NotifyEviction is about to leave system memory.
    NotifyEviction {
        /// The allocation that leaves.
        allocation: KmdAllocation,
        /// Bytes of the range.
        size_bytes: u64,
        /// Its system pages.
        backing: Vec<PageRun>,
    },
    /// Tells the driver that an allocation with ExplicitResidencyNotification came or goes.
    NotifyResidency {
        /// The allocation that came or goes.
        allocation: KmdAllocation,
        /// Where it is; (0, 0) when it goes.
        address: PhysicalAddress,
        /// It came.
        resident: bool,
    },
    /// Tells the driver where the words of native fences are from here on: which they are, the kernel knows. Entries of the
    /// paging process that show them are written behind it.
    NotifyFenceResidency {
        /// Their storage.
        storage: AllocationId,
        /// Its first byte.
        address: PhysicalAddress,
    },
    /// Writes entries of one page table.
    UpdatePageTable {
        /// The space of the table.
        space: SpaceId,
        /// Level of the table, leaf 0.
        level: u32,
        /// The table.
        table: PhysicalAddress,
        /// First entry.
        start_index: u32,
        /// How many.
        count: u32,
        /// The first entry; each next one names the next 4-KB page unless `repeat`.
        first: Pte,
        /// With DualPteSupported the second half of the first entry, at level 1 only: the leaf table of 64-KB entries
        /// beside that of 4-KB ones.
        first_64kb: Option<Pte>,
        /// All entries are `first`.
        repeat: bool,
        /// First write into a fresh table.
        initial: bool,
        /// The table has 64-KB entries; index and count are of 4-KB ones all the same, whole groups of 16.
        use_64kb: bool,
        /// Address that the first entry translates.
        first_va: GpuVa,
        /// The allocation behind valid leaf entries, and the byte of it that the first one shows; pages follow one
        /// another in it.
        behind: Option<(KmdAllocation, u64)>,
        /// DriverProtection of the mapping; 0 above the leaf (memory §4.11).
        driver_protection: u64,
        /// Words of native fences lie there.
        native_fence: bool,
    },
    /// A table is about to leave its frame: all its entries become invalid (UPDATE_PAGE_TABLE with NotifyEviction).
    EvictTable {
        /// The space of the table.
        space: SpaceId,
        /// Level, leaf = 0.
        level: u32,
        /// The table.
        table: PhysicalAddress,
        /// Its entries, in 4 KB if it is a leaf table.
        count: u32,
        /// It has 64-KB entries.
        use_64kb: bool,
        /// Its entries have second halves; they become invalid, too.
        halves: bool,
        /// Address that the first entry translates.
        first_va: GpuVa,
    },
    /// Copies entries of one leaf table to another, or within one (COPY_PAGE_TABLE_ENTRIES).
    CopyEntries {
        /// The space of both tables.
        space: SpaceId,
        /// The table that is read.
        source: PhysicalAddress,
        /// The table that is written.
        target: PhysicalAddress,
        /// Pages of each.
        table_pages: u64,
        /// First entry read.
        source_start: u32,
        /// First entry written.
        target_start: u32,
        /// How many.
        count: u32,
    },
    /// Lets addresses lead elsewhere in the table that the platform keeps of a process: in the IoMmu model, instead of page
    /// tables (memory §4.1). Not for a paging buffer: the platform, which owns the process's CPU page tables, does it when the hardware is
    /// past all that stands before it. A [`Operation::FlushTlb`] of such a space is the platform's too.
    PlatformEntries {
        /// The space of the addresses.
        space: SpaceId,
        /// The first address.
        first: CpuVa,
        /// How many pages.
        count: Pages,
        /// The system pages from this one on; `None`: every access faults.
        shows: Option<u64>,
        /// They may be written.
        writable: bool,
    },
    /// Forgets translations from `start` to `end`, both inclusive; both 0: of the whole space.
    FlushTlb {
        /// The space of the translations.
        space: SpaceId,
        /// Its root.
        root: PhysicalAddress,
        /// First address.
        start: GpuVa,
        /// Last address.
        end: GpuVa,
    },
    /// All contexts of a process have this root from here on. Not for a paging buffer: when the hardware is past all that
    /// stands before it, the driver is told context by context (`DxgkDdiSetRootPageTable`, memory §4.6); nothing of the
    /// process runs then. Then [`VidMm::root_switched`](crate::VidMm::root_switched).
    SwitchRoot {
        /// The space that gets the root.
        space: SpaceId,
        /// The root.
        root: PhysicalAddress,
        /// Its entries.
        entries: u32,
    },
}

/// The part of an operation that one driver call carries out: a sub-transfer, or all of an operation that is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Bytes of the operation before this part. In pages it is the MDL's offset.
    pub offset_bytes: u64,
    /// Bytes of the part.
    pub size_bytes: u64,
    /// It is the first (TransferStart).
    pub first: bool,
    /// It is the last (TransferEnd).
    pub last: bool,
}

impl Operation {
    /// The part that follows the first `done_bytes` of the operation. Transfers are cut at `transfer_max`; what is shown
    /// in the scratch area is cut at a window of it besides. Everything else is one part, and so is a transfer of nothing.
    // spec: memory §3.2, memory §4.7
    pub fn part(&self, done_bytes: u64, transfer_max: Pages, window: Option<Pages>) -> Part {
        let whole = Pages(u64::MAX / PAGE_BYTES);
        let (size, most) = match self {
            Operation::Transfer { size_bytes, .. } => (*size_bytes, transfer_max.min(window.unwrap_or(whole))),
            Operation::Relocate { size_bytes, .. } => (*size_bytes, transfer_max.min(window.unwrap_or(whole))),
            Operation::Fill { size_bytes, .. } => (*size_bytes, window.unwrap_or(whole)),
            Operation::NotifyEviction { size_bytes, .. } => (*size_bytes, window.unwrap_or(whole)),
            _ => (0, whole),
        };
        let left = size.checked_sub(done_bytes).expect("no more is done than there is");
        let size_bytes = left.min(most.bytes().max(PAGE_BYTES));
        debug_assert!(size_bytes > 0 || left == 0, "a part of 0 bytes of {left}");
        Part { offset_bytes: done_bytes, size_bytes, first: done_bytes == 0, last: size_bytes == left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(pages: u64) -> Operation {
        Operation::Transfer {
            allocation: Some(KmdAllocation(1)),
            allocation_offset: 0,
            size_bytes: pages * PAGE_BYTES,
            segment: SegmentId(1),
            address: 0,
            contiguous: true,
            backing: Vec::new(),
            through: None,
            direction: Direction::In,
            form: Form::Kept,
        }
    }

    /// Parts as pages: offset, size, first, last.
    fn parts(operation: &Operation, pages_max: u64) -> Vec<(u64, u64, bool, bool)> {
        let (mut done, mut parts) = (0, Vec::new());
        loop {
            let part = operation.part(done, Pages(pages_max), None);
            parts.push((part.offset_bytes / PAGE_BYTES, part.size_bytes / PAGE_BYTES, part.first, part.last));
            done += part.size_bytes;
            if part.last {
                return parts;
            }
        }
    }

    #[test]
    fn a_transfer_is_cut_and_starts_and_ends_once() {
        // spec: memory §3.2
        assert_eq!(parts(&transfer(7), 3), [(0, 3, true, false), (3, 3, false, false), (6, 1, false, true)]);
        assert_eq!(parts(&transfer(6), 3), [(0, 3, true, false), (3, 3, false, true)]);
        assert_eq!(parts(&transfer(3), 3), [(0, 3, true, true)], "a one-shot transfer has both");
        assert_eq!(parts(&transfer(0), 3), [(0, 0, true, true)], "nothing is one transfer too");
        let part = transfer(9).part(4 * PAGE_BYTES, Pages(3), Some(Pages(2)));
        assert_eq!(
            (part.size_bytes, part.first, part.last),
            (2 * PAGE_BYTES, false, false),
            "the smaller limit counts"
        );
    }
}
