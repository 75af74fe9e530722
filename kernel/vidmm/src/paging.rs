//! Paging work as values: what is to be done with memory, after which fence points, and why. It performs nothing:
//! the kernel's paging ring turns each [`Operation`] into a driver call and queues the work. `operation` defines the operations, `batch`
//! puts a work together, `sequence` numbers the works, `unqueued` sees to it that none gets lost.

mod batch;
mod conversion;
mod sequence;
mod unqueued;

use ddi::KmdAllocation;
use wddm_types::{CpuRun, FencePoint, PageRun, SegmentId};

use crate::extent::{Extent, PageSet};
use crate::operation::HeldRange;
use crate::operation::WindowPages;
pub(crate) use crate::operation::{Direction, Operation};
use crate::slab::{AllocationId, DeviceId, SpaceId};
pub(crate) use batch::{Batch, Hull, Section};
pub use conversion::{Conversion, ConversionCause};
pub(crate) use sequence::WorkSequence;
pub use unqueued::Unqueued;

/// One piece of paging work. Works enter the adapter's one paging ring in the order in which VidMm returned them.
#[must_use = "the logical state has already moved on; dropped work makes the hardware differ from it"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work<F> {
    /// 1, 2, 3 … in the order of return. When the work with this number has completed on the hardware, say so with
    /// [`VidMm::completed`](crate::VidMm::completed). 0 for immediate work.
    pub serial: u64,
    /// The work concerns the paging process's tables only: the CPU executes it now, it does not enter the ring
    /// (memory §4.7).
    pub immediate: bool,
    /// Devices that are suspended for this work: once the points of `after` are reached (their queues run until then),
    /// their contexts are stopped, and idle before the first operation starts.
    /// They run again when [`VidMm::next_to_resume`](crate::VidMm::next_to_resume) has named them and the work of
    /// [`VidMm::resume`](crate::VidMm::resume) is done.
    pub suspends: Vec<DeviceId>,
    /// Devices that quiesce for this work, because content of their lists moves within its segment. The kernel stops their contexts like
    /// those of `suspends`, and resumes them when the work is done.
    pub quiesced: Vec<DeviceId>,
    /// Spaces whose page tables change so that nothing may run in them meanwhile (memory §4.2, §4.5): the kernel stops all contexts of the
    /// process, which are idle from before the first operation until the last one is done.
    pub idle_spaces: Vec<SpaceId>,
    /// To be reached before the first operation starts.
    pub after: Vec<FencePoint<F>>,
    /// Content that leaves its place and is in use until points of `after`, or of an earlier work.
    pub used: Vec<UsedContent<F>>,
    /// System pages that the CPU fills with the clear pattern before the work is queued: they have no content yet, and the GPU is about to
    /// see them (memory §3.3: FILL never goes to an aperture).
    pub clear: Vec<PageRun>,
    /// In this order.
    pub operations: Vec<Operation>,
    /// Where the ring has to stop within the operations until the CPU sees locked content at its new place, in the order of the operations.
    pub departures: Vec<Departure>,
    /// The moves of allocations, for events: one entry per allocation and kind.
    pub moves: Vec<Move>,
    /// Page tables that left or came, for events.
    pub tables: Vec<TableMove>,
    /// Leaf tables that get another form, for events.
    pub conversions: Vec<Conversion>,
    /// Locked allocations that the CPU sees elsewhere afterwards (memory §6.3), in the order of the operations: one that leaves in parts may
    /// be there several times.
    pub rotations: Vec<Rotation>,
    /// Pages of host apertures that the driver is to unmap at once, before the work is queued (memory §6.6).
    pub unmap: Vec<WindowPages>,
    /// Swizzling ranges that the driver is to release at once, before the work is queued (memory §6.5).
    pub ranges: Vec<HeldRange>,
    /// The work is still to be carried out.
    pub unqueued: Unqueued,
}

/// A place among the operations of a work: locked content leaves before it, and other content comes behind it, perhaps to where that was.
/// Until the CPU is shown the new medium it reads the old one (memory §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// How many operations stand before it.
    pub operations: usize,
    /// How many of the rotations are of content that leaves before it: the CPU is shown these before the next operation.
    pub rotations: usize,
}

/// The medium behind a locked allocation changes (memory §6.3). Before the first operation of the work the CPU's mapping
/// is write-protected; after the last one `runs` are shown instead, then `unmap` is unmapped and handed to
/// [`VidMm::window_unmapped`](crate::VidMm::window_unmapped), `ranges` are released and handed to
/// [`VidMm::ranges_released`](crate::VidMm::ranges_released). No later work may touch memory before that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The locked allocation.
    pub allocation: AllocationId,
    /// The runs that the CPU sees afterwards, all of them, in order.
    pub runs: Vec<CpuRun>,
    /// Pages of a host aperture that it does not see any more.
    pub unmap: Option<WindowPages>,
    /// Swizzling ranges that it does not see any more.
    pub ranges: Vec<HeldRange>,
    /// The CPU sees, and writes, the backing store itself all along: `runs` are those that it saw before. The copies out must not overwrite
    /// the bytes that it has written there since the lock.
    pub writes_backing: bool,
}

/// Content that a work takes from its place while queued work uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedContent<F> {
    /// The allocation that it is of.
    pub allocation: AllocationId,
    /// The uses end here; empty: an earlier work that takes other pages of the allocation waits for them.
    pub until: Vec<FencePoint<F>>,
    /// The pages whose content the work drops, in their frames of a memory segment: only the use needs it, for its owner has destroyed or
    /// offered it.
    pub(crate) dropped: Vec<(SegmentId, Extent)>,
    /// The state of offered content before the work discards it.
    pub(crate) discarded: Option<DiscardedContent>,
    /// The work needs the content as the use leaves it, such as for a lock: the use ends first, however long it takes.
    pub ends_first: bool,
}

/// The state of offered content before a work discards it: a device that gives way has the content back (memory §8.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiscardedContent {
    /// The time of the offer.
    pub offered_at: u64,
    /// The pages that the backing store had.
    pub valid: PageSet,
    /// Whether these were in the form that the CPU sees.
    pub backing_linear: bool,
}

impl<F> UsedContent<F> {
    /// Content that a work moves elsewhere, or takes off the GPU.
    pub(crate) fn moved(allocation: AllocationId, until: Vec<FencePoint<F>>) -> Self {
        Self { allocation, until, dropped: Vec::new(), discarded: None, ends_first: false }
    }

    /// Content that a work copies as the use leaves it.
    pub(crate) fn copied(allocation: AllocationId, until: Vec<FencePoint<F>>) -> Self {
        Self { ends_first: true, ..Self::moved(allocation, until) }
    }

    /// Whether the work drops content that the use needs.
    pub fn drops_content(&self) -> bool {
        !self.dropped.is_empty()
    }
}

/// How content moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveKind {
    /// Copied from the backing store into a segment.
    PageIn,
    /// Copied from a segment to the backing store.
    PageOut,
    /// Dropped: the backing store has it, or it was never written, or its owner is gone.
    Discard,
    /// Initialised: it never had content.
    Fill,
    /// Copied to another place of its segment.
    Relocate,
    /// Within the GPU's reach where it lies, in system memory: through pages of an aperture, or by its own.
    Map,
    /// Not any more. Nothing is copied.
    Unmap,
}

impl MoveKind {
    /// Whether nothing is copied or filled, and hardware may have nothing to do: the GPU may have no address of it.
    pub const fn is_quiet(self) -> bool {
        matches!(self, MoveKind::Map | MoveKind::Unmap)
    }
}

/// Why content moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Its device asked for it.
    MakeResident,
    /// Room was needed.
    Pressure {
        /// For this allocation.
        for_allocation: AllocationId,
    },
    /// An evict that was not lazy.
    Evict,
    /// A lock needed it in system memory.
    Lock,
    /// A permanent system copy is what a lock shows: it was brought up to date for that, or what the CPU wrote there was
    /// brought back after it. The content stays where it is.
    SystemCopy,
    /// It was destroyed.
    Destroy,
    /// Its device has its turn again.
    Resume,
    /// An offer of it was taken back.
    Reclaim,
    /// Nothing needed it yet: the copy engine had nothing else to do.
    Ahead,
    /// The planner foresees its use, and it came before that; or it foresees none soon, and it left before its room was needed.
    Foreseen,
    /// There is room where it would rather be, and nothing else to do (memory §8.1).
    Promote,
    /// Its properties have changed, and do not let it stay (memory §2.8).
    Property,
    /// The adapter was reset: the content is lost.
    Reset,
    /// The adapter loses power, and its segment's content with it.
    Power,
    /// A contiguous request needed a hole.
    Compaction {
        /// For this allocation.
        for_allocation: AllocationId,
    },
}

/// One allocation's content moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The allocation; its id is stale when the cause is Destroy.
    pub allocation: AllocationId,
    /// The driver's handle of it.
    pub kmd_allocation: KmdAllocation,
    /// How many bytes.
    pub bytes: u64,
    /// The kind of the move.
    pub kind: MoveKind,
    /// The reason for the move.
    pub cause: Cause,
    /// Into or out of which segment; [`SegmentId::SYSTEM`] for what is mapped by its own pages.
    pub segment: SegmentId,
    /// Into or out of which of its pages. With [`MoveKind::Relocate`] in pairs: pages that it leaves, and as many that it
    /// goes to.
    pub runs: Vec<PageRun>,
}

/// Consecutive pages that moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MoveStep {
    pub allocation: AllocationId,
    pub kmd_allocation: KmdAllocation,
    pub kind: MoveKind,
    pub cause: Cause,
    pub segment: SegmentId,
    pub run: PageRun,
}

/// The page tables of a process left their frames, or came back (memory §4.6). Nothing was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMove {
    /// The space that the tables translate.
    pub space: SpaceId,
    /// Bytes of tables.
    pub bytes: u64,
    /// They came back.
    pub came: bool,
    /// For whose tables they left; `None`: for a process that was created.
    pub for_space: Option<SpaceId>,
}

/// Adds fence points to a list: of two points of one fence the later stays.
pub(crate) fn merge_points<F: Copy + Eq>(into: &mut Vec<FencePoint<F>>, points: &[FencePoint<F>]) {
    for point in points {
        match into.iter_mut().find(|known| known.fence == point.fence) {
            Some(known) => known.value = known.value.max(point.value),
            None => into.push(*point),
        }
    }
}
