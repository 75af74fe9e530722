//! Packet contexts: work that the kernel hands to a driver packet by packet (memory §5.6, §7.1 to §7.4; sync §4.1), beside
//! the hardware queues of `queue`.
//!
//! ```text
//! Render, Present ─► lists checked ─► driver translates into a DMA buffer, pre-patched ─┐
//! SubmitCommand ───► written primaries checked ─────────────────────────────────────────┤
//!                                                                                       ▼
//!             queued on the context, behind its waits ─► its node is free for it, its memory is in place
//!                                                      ─► patched if an address was unknown or changed ─► driver
//!             DMA_COMPLETED with its fence id ─► the context's progress rises, the buffer is free again
//! ```
//! # What may be in flight
//! The packets in flight on a node are all of one context, so a fault costs exactly one device its packets, and the order in
//! which packets are handed over is the order in which they complete. Another context gets the node when it is empty; contexts
//! that have work take turns.
//!
//! # Where memory is when a packet runs
//! A packet without GPU addresses names memory by physical address, so the kernel owes it that the address is right:
//! - *Binding.* When a packet is queued, each list entry is bound to the place that the allocation has in the memory
//!   manager's mind, and the packet waits until the paging ring has carried that out.
//! - *Everything that moves memory afterwards waits for the packet*, because it is part of what the device has queued. So
//!   a binding holds, whatever the device evicts or destroys meanwhile.
//! - *Except a suspension*: then content moves although packets are queued. When the memory manager decides where the content
//!   of a device returns, the packets that are queued get new bindings, which hold from the device's turn on; so does
//!   what a lock moves. This is the move between queueing and scheduling that makes the kernel call Patch once more.
//!
//! | module | what |
//! |---|---|
//! | `context` | contexts: created, destroyed, stopped |
//! | `dma_buffer` | DMA buffers: a pool for each context |
//! | `list` | lists: what a caller may write into them, and what a driver may answer |
//! | `render` | Render, Present, SubmitCommand up to the queue |
//! | `schedule` | from the queue to the driver |
//! | `complete` | and back |
//! | `uses` | what buffers use that are not done |

mod complete;
mod context;
mod dma_buffer;
mod list;
mod render;
mod schedule;
mod uses;

use std::collections::{BTreeMap, VecDeque};

use ddi::{ContextInfo, KmdContext, KmdOpenAllocation, PacketCaps, PatchLocation, SubmitFlags};
use vidmm::AllocationId;
use vidsch::{Flips, QueueId};
use wddm_types::{GpuVa, NodeId, SegmentId};

use dma_buffer::DmaBuffer;
pub use list::ListEntry;
pub use render::check_primaries;
pub use schedule::RingNeed;

/// A packet context.
pub struct PacketContext {
    pub device: u64,
    pub kmd: KmdContext,
    pub node: NodeId,
    pub info: ContextInfo,
    /// It has GPU addresses, and no lists.
    pub addresses: bool,
    pub vidsch: QueueId,
    /// The kernel's own fence: the number of the last packet that is done.
    pub progress: u64,
    /// The number of the last packet queued.
    pub last_submitted: u64,
    /// Packets that were not handed over, oldest first.
    queued: VecDeque<Packet>,
    /// What its buffers use that were not done when the last one was queued.
    uses: VecDeque<uses::Uses>,
    buffers: Vec<DmaBuffer>,
}

/// A packet that waits for its turn.
struct Packet {
    number: u64,
    work: Work,
}

/// What a packet carries.
enum Work {
    /// A DMA buffer with what its addresses are.
    Patched { buffer: u64, written: usize, entries: Vec<Bound>, places: Vec<PatchLocation>, flags: SubmitFlags },
    /// Commands in the context's space, and the primaries that they write.
    Virtual { commands: GpuVa, bytes: u32, primaries: Vec<u64> },
}

/// An entry of a packet's allocation list.
struct Bound {
    /// The buffer writes it.
    write: bool,
    /// The driver's name of the allocation: it lives as long as the packet, whoever destroys it.
    kmd: Option<KmdOpenAllocation>,
    /// The address that the DMA buffer holds since it was written.
    written: Option<(SegmentId, u64)>,
    /// The memory manager's name of it; lives as long as the packet, too.
    vidmm: Option<AllocationId>,
    /// Where it is when the packet runs.
    binding: Binding,
    /// The places it gets with turns of the device that are decided and have not come.
    turns: VecDeque<(u64, Binding)>,
}

/// A place, and from when on it holds.
#[derive(Clone, Copy, Default)]
pub struct Binding {
    /// Segment and GPU address; `None`: none.
    place: Option<(SegmentId, u64)>,
    /// The paging work after which that is so.
    serial: u64,
}

/// The context of paging buffers in a node's list: no packet context has this number.
const PAGING: u64 = 0;

/// A packet with the driver.
struct InFlight {
    fence_id: u32,
    context: u64,
    number: u64,
    buffer: Option<u64>,
    /// What it writes and the CPU's caches may hold.
    written: Vec<AllocationId>,
}

impl InFlight {
    fn paging(fence_id: u32, number: u64) -> InFlight {
        InFlight { fence_id, context: PAGING, number, buffer: None, written: Vec::new() }
    }
}

/// One node's packets.
#[derive(Default)]
struct Node {
    in_flight: VecDeque<InFlight>,
    last_fence_id: u32,
    /// The context that had the node last.
    last_context: u64,
}

/// Packet scheduling on one adapter.
pub struct Packets {
    /// `None`: the driver has none.
    caps: Option<PacketCaps>,
    nodes: Vec<Node>,
    /// Flips of primaries: what writes one of them waits.
    flips: Flips<u64>,
    /// Turns of suspended devices: how many were decided, and how many have come.
    turns: BTreeMap<u64, (u64, u64)>,
    /// DMA buffers made so far: their numbers.
    buffers_made: u64,
}

impl Packets {
    /// Of an adapter with so many nodes.
    pub fn new(caps: Option<PacketCaps>, nodes: usize) -> Packets {
        Packets {
            caps,
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            flips: Flips::new(),
            turns: BTreeMap::new(),
            buffers_made: 0,
        }
    }
}
