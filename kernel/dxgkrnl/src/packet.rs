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
//! # Packets in flight
//! `vidsch::Nodes` keeps what each node has, and decides: whose packet it is handed next, when it is preempted, and what a report of the
//! driver means. This module carries the steps out: it calls the driver, finishes what is done, and puts packets that came back in front of
//! their queues again.
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
//! | `info` | a driver's needs of buffers and lists |
//! | `list` | lists: the entries that a caller may write, and a driver's answers |
//! | `render` | Render, SubmitCommand up to the queue |
//! | `present` | Present, likewise |
//! | `flip` | Present with a flip, which has no buffer |
//! | `build` | DMA buffers as a driver writes them |
//! | `schedule` | from the queue to the driver |
//! | `need` | when a packet may start |
//! | `preempt` | packets that the driver gives back |
//! | `complete` | and back |
//! | `reset` | packets that are lost when a node gives nothing back |
//! | `software` | the kernel's own actions at a point of a context |
//! | `split` | lists that are residency: buffers run in portions |
//! | `uses` | what buffers use that are not done |
//! | `watch` | what a node has been running, for timeouts |

mod build;
mod complete;
mod context;
mod dma_buffer;
mod flip;
mod info;
mod list;
mod need;
mod preempt;
mod present;
mod render;
mod reset;
mod schedule;
mod software;
mod split;
mod uses;
mod watch;

pub use info::check_device_info;

use std::collections::{BTreeMap, VecDeque};

use ddi::{ContextInfo, KmdContext, KmdOpenAllocation, PacketCaps, PatchLocation, PreemptionGranularity, SubmitFlags};
use vidmm::AllocationId;
use vidsch::{NodeTerms, Nodes, PacketOf, QueueId};
use wddm_types::{GpuVa, NodeId, SegmentId};

use crate::context_allocation::ContextAllocation;
use crate::fence::FenceNumber;
pub use crate::number::PacketContextNumber;
use crate::object::DeviceNumber;
use crate::paging::Ready;
use dma_buffer::DmaBuffer;
pub use list::{ListEntry, Listed};
pub use need::RingNeed;
pub use preempt::NodePreempted;
pub use render::check_primaries;
pub(crate) use render::check_private_data;
pub use software::{Signal, Software};
pub use split::{Submission, WaitingRender};

/// A packet of a context, or a part of one, by the name that it keeps when it comes back.
pub type Running = vidsch::Running<PacketContextNumber>;

/// A packet context.
pub struct PacketContext {
    pub device: DeviceNumber,
    pub kmd: KmdContext,
    pub node: NodeId,
    pub info: ContextInfo,
    /// It has GPU addresses, and no lists.
    pub addresses: bool,
    pub vidsch: QueueId,
    /// DisableGpuTimeout: its packets may take as long as they take.
    pub no_timeout: bool,
    /// NullRendering: no command that it is given is processed.
    pub null_rendering: bool,
    /// The kernel's own fence: the number of the last packet that is done.
    pub progress: FenceNumber,
    /// The number of the last packet queued.
    pub last_submitted: u64,
    /// The kernel's own fence of portions that are not the last of their packets; `None`: lists are no residency here.
    portions: Option<FenceNumber>,
    /// The number of the last of these portions.
    portions_made: u64,
    /// Packets that were not handed over, oldest first.
    queued: VecDeque<Packet>,
    /// The uses of its buffers that were not done when the last one was queued.
    uses: VecDeque<uses::Uses>,
    buffers: Vec<DmaBuffer>,
    /// The driver's allocations for it.
    pub allocations: Vec<ContextAllocation>,
}

/// A packet that waits for its turn.
struct Packet {
    number: u64,
    work: Work,
    /// It was handed over before.
    preempted: bool,
}

/// The content of a packet.
enum Work {
    /// A DMA buffer with what its addresses are.
    Patched {
        buffer: u64,
        written: usize,
        entries: Vec<Bound>,
        places: Vec<PatchLocation>,
        flags: SubmitFlags,
        /// Its parts that were not handed over; empty: it has none, and its entries' bindings hold.
        portions: VecDeque<split::Portion>,
    },
    /// Commands in the context's space, and the primaries that they write.
    Virtual {
        commands: GpuVa,
        bytes: u32,
        /// The user-mode driver's private data.
        private_data: Vec<u8>,
        primaries: Vec<AllocationId>,
        /// The DMA buffer of a Present, once the driver has written it.
        presented: Option<Presented>,
    },
}

/// A DMA buffer of a present in a context with addresses.
struct Presented {
    buffer: u64,
    /// Allocations that it uses, and whether it writes them.
    uses: Vec<(AllocationId, bool)>,
    /// The paging work after which they are where they are.
    serial: u64,
    /// The ring's position at which buffer and allocations are shown.
    shown_after: u64,
}

/// An entry of a packet's allocation list.
#[derive(Clone)]
struct Bound {
    /// The buffer writes it.
    write: bool,
    /// No residency list holds it: it is brought in for the buffer.
    unlisted: bool,
    /// The driver's name of the allocation: it lives as long as the packet, even when a process destroys the allocation.
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

/// A packet that was handed over: the node keeps it until it is done, because it may come back.
enum Handed {
    Paging(Ready),
    /// A part of a packet that is not its last, and what that writes and the CPU's caches may hold. The packet is in front of its
    /// queue still.
    Portion {
        context: PacketContextNumber,
        packet: u64,
        portion: split::Portion,
        written: Vec<AllocationId>,
    },
    /// A context's packet, or the last part of it.
    Packet {
        context: PacketContextNumber,
        packet: Packet,
        portion: Option<split::Portion>,
        written: Vec<AllocationId>,
    },
}

impl Handed {
    /// The name by which the node knows it again.
    fn of(&self) -> PacketOf<PacketContextNumber> {
        let (context, packet, portion) = match self {
            Handed::Paging(_) => return PacketOf::Paging,
            Handed::Portion { context, packet, portion, .. } => (*context, *packet, portion.number),
            Handed::Packet { context, packet, .. } => (*context, packet.number, None),
        };
        PacketOf::Context(Running { context, packet, portion })
    }
}

/// A packet with the driver.
type InFlight = vidsch::InFlight<PacketContextNumber, Handed>;

/// Packet scheduling on one adapter.
pub struct Packets {
    /// `None`: the driver has none.
    caps: Option<PacketCaps>,
    /// What the nodes have, and whose packet is next.
    nodes: Nodes<PacketContextNumber, Handed>,
    /// Turns of suspended devices: how many were decided, and how many have come.
    turns: BTreeMap<DeviceNumber, (u64, u64)>,
    /// DMA buffers made so far: their numbers.
    buffers_made: u64,
}

impl Packets {
    /// How finely the driver preempts, if it does.
    pub fn granularity(&self) -> Option<PreemptionGranularity> {
        self.caps.and_then(|caps| caps.preemption)
    }

    /// How finely the driver preempts graphics and compute work, as numbers (sync §4.3); 0: not at all.
    pub fn preemption(&self) -> (u32, u32) {
        self.granularity().map_or((0, 0), |fine| (fine.graphics as u32, fine.compute as u32))
    }

    /// When to decide again which context has a node.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.nodes.deadline_ns()
    }

    /// Of an adapter with so many nodes.
    pub fn new(caps: Option<PacketCaps>, nodes: usize, policy: engine_time::Policy) -> Packets {
        let terms = NodeTerms {
            in_flight_max: caps.map_or(1, |caps| caps.hw_queue_packets.max(1) as usize),
            preemptible: caps.is_some_and(|caps| caps.preemption.is_some()),
        };
        Packets { caps, nodes: Nodes::new(terms, nodes, policy), turns: BTreeMap::new(), buffers_made: 0 }
    }
}
