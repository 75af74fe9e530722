//! Packets: work that the kernel hands to a driver one by one (memory §5.6, §7.1 to §7.4; sync §4.1), beside the hardware queues of
//! `queue`.
//!
//! ```text
//! Render, Present ─► lists checked ─► driver translates into a DMA buffer, pre-patched ─┐
//! SubmitCommand ───► written primaries checked ─────────────────────────────────────────┤
//!                                                                                       ▼
//!             queued on the context, behind its waits ─► its node is free for it, its memory is in place
//!                                                      ─► patched if an address was unknown or changed ─► driver
//!             DMA_COMPLETED with its fence id ─► the context's progress rises, the buffer is free again
//! ```
//! # What is here, and what is not
//! [`Packets`] owns the contexts that take packets: what each is, the packets that it has queued, its DMA buffers, what its buffers use;
//! and the submissions that wait for a turn of their devices. Its fields are its own. Which packet of a context is due says
//! `vidsch::Queues`; which context has a node, what a node has in flight, and what a report of the driver means says `vidsch::Nodes`.
//! Where memory is, which fences rise, and when a device must quiesce are questions of other parts: `adapter::packets` asks those, and joins
//! the answers.
//!
//! # Where memory is when a packet runs
//! A packet without GPU addresses names memory by physical address, so the kernel owes it that the address is right:
//! - *Binding.* When a packet is queued, each list entry is bound to the place that the allocation has in the memory
//!   manager's mind, and the packet waits until the paging ring has carried that out.
//! - *Everything that moves memory afterwards waits for the packet*, because it is part of what the device has queued. So
//!   a binding holds, whatever the device evicts or destroys meanwhile.
//! - *Except a suspension*, also that of a device that gives way: then content moves although packets are queued, in portions
//!   or whole. When the memory manager decides where the content of a device returns, the packets that are queued get new
//!   bindings, which hold from the device's turn on; so does what a lock moves. This is the move between queueing and
//!   scheduling that makes the kernel call Patch once more.
//! - *Content that its device withholds* (`vidmm::VidMm::withholds`): a packet has it nowhere before the turn that brings it, though it may lie in
//!   memory still, where any process takes it.
//!
//! # Invariants
//! - A packet is in one place: queued on its context, or with a node. One that runs in portions is queued until its last is handed over.
//! - The numbers of a context's packets rise by one, and the queue is in their order.
//! - A buffer in use belongs to one packet; a buffer that is free belongs to none, and there is at most one of them when all is done.
//!
//! | module | what |
//! |---|---|
//! | `context` | contexts, and what each has queued |
//! | `work` | a packet's content, where its memory is |
//! | `info` | a driver's needs of buffers and lists |
//! | `list` | lists: the entries that a caller may write, and a driver's answers |
//! | `turn` | bindings that change with a turn of the device |
//! | `dma_buffer` | DMA buffers: a pool for each context |
//! | `build` | DMA buffers as a driver writes them |
//! | `need` | the needs of a packet before it starts |
//! | `start` | from a context's queue to the driver |
//! | `handed` | packets with the driver, and back |
//! | `uses` | what buffers use that are not done |
//! | `waiting` | submissions that wait for a turn of their device |
//! | `software` | the kernel's own actions at a point of a context |

mod build;
mod context;
mod dma_buffer;
mod handed;
mod info;
mod list;
mod need;
mod software;
mod start;
mod turn;
mod uses;
mod waiting;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ddi::{PacketCaps, PreemptionGranularity};
use vidsch::NodeTerms;
use wddm_types::ProcessId;

use crate::number::{DeviceNumber, PacketContextNumber};
use crate::store::{Store, object_number};
pub use build::{Built, Source, Written};
pub use context::ContextFacts;
use context::PacketContext;
pub use dma_buffer::{BufferPlace, Pooled};
pub use handed::{Back, Finished, Handed, InFlight, NodePreempted, TakenOut};
pub use info::{check_context_info, check_device_info, dma_buffer_segments, info_of_context};
pub use list::{ListEntry, Listed, check_primaries, check_private_data, driver_list};
pub use need::Needs;
pub use software::{BroadcastEnd, Signal, Software, SoftwareStep};
pub use start::{Refused, Starting};
pub use uses::uses_of;
pub use waiting::{Submission, WaitingRender};
pub use work::{Bindings, Bound, Needed, Portion, Presented, Work};

object_number! {
    /// A DMA buffer of an adapter.
    DmaBufferNumber
}

object_number! {
    /// A software packet, or a broadcast of which some are parts.
    SoftwareNumber
}

/// A packet of a context, or a part of one, by the name that it keeps when it comes back.
pub type Running = vidsch::Running<PacketContextNumber>;

/// What the nodes of an adapter have.
pub type Nodes = vidsch::Nodes<PacketContextNumber, Handed>;

/// The packets of one adapter.
pub struct Packets {
    /// `None`: the driver has none.
    caps: Option<PacketCaps>,
    contexts: Store<PacketContextNumber, PacketContext>,
    /// Those of each device that has any.
    of_devices: BTreeMap<DeviceNumber, BTreeSet<PacketContextNumber>>,
    /// Submissions that wait for their devices' turns, oldest first.
    waiting: VecDeque<WaitingRender>,
    /// The position of the ring at which the last allocation of a present is mapped, by process.
    views: BTreeMap<ProcessId, u64>,
    /// Turns of suspended devices: how many were decided, and how many have come.
    turns: BTreeMap<DeviceNumber, (u64, u64)>,
    /// DMA buffers made so far: their numbers.
    buffers_made: u64,
}

impl Packets {
    /// Without a context.
    pub fn new(caps: Option<PacketCaps>) -> Packets {
        Packets {
            caps,
            contexts: Store::default(),
            of_devices: BTreeMap::new(),
            waiting: VecDeque::new(),
            views: BTreeMap::new(),
            turns: BTreeMap::new(),
            buffers_made: 0,
        }
    }

    /// Whether the driver takes packets of contexts.
    pub fn are_there(&self) -> bool {
        self.caps.is_some()
    }

    /// The driver's terms for what nodes have. A driver without packets has none but, perhaps, paging buffers.
    pub fn terms(&self) -> NodeTerms {
        NodeTerms {
            in_flight_max: self.caps.map_or(1, |caps| caps.hw_queue_packets.max(1) as usize),
            preemptible: self.granularity().is_some(),
        }
    }

    /// How finely the driver preempts, if it does.
    pub fn granularity(&self) -> Option<PreemptionGranularity> {
        self.caps.and_then(|caps| caps.preemption)
    }

    /// How finely the driver preempts graphics and compute work, as numbers (sync §4.3); 0: not at all.
    pub fn preemption(&self) -> (u32, u32) {
        self.granularity().map_or((0, 0), |fine| (fine.graphics as u32, fine.compute as u32))
    }

    /// Slots of patch locations are below this.
    fn slots(&self) -> u32 {
        self.caps.expect("its driver schedules packets").max_allocation_list_slot_id
    }
}
