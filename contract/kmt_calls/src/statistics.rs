//! The figures of an adapter (`D3DKMTQueryStatistics`, `D3DKMTQueryClockCalibration`): counts since it started, and its present state.
//!
//! # The law of this boundary
//! - Every process may read the figures of every process: as on Windows, whose performance counters show them without any right.
//!   Addresses, handles, contents and names of shared objects are in none of them. The program's number and name are in them
//!   ([`ProcessIdentity`]), as the operating system shows both to every user.
//! - Counts only rise; a process's figures go with its last device on the adapter, the adapter's own stay. Counts of bytes and of objects
//!   ([`SegmentStatistics`], `*_bytes` of [`ProcessMemory`]) are of this moment.
//! - Times are of the kernel's clock, [`AdapterStatistics::now_ns`]: two answers, subtracted, give a share of the time between.

use serde::{Deserialize, Serialize};
use wddm_types::{Luid, NodeId, ProcessId, SegmentId, VidPnSourceId};

/// `D3DKMT_QUERYVIDEOMEMORYINFO` (memory §5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VideoMemoryInfo {
    /// Budget in bytes.
    pub budget_bytes: u64,
    /// Usage in bytes.
    pub current_usage_bytes: u64,
    /// Bytes that the process has reserved.
    pub current_reservation_bytes: u64,
    /// Bytes that it could reserve at most.
    pub available_for_reservation_bytes: u64,
}

/// All figures of one adapter, of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterStatistics {
    /// The kernel's clock when they were taken, in nanoseconds from a beginning of its own.
    pub now_ns: u64,
    /// The adapter.
    pub adapter: Luid,
    /// For people.
    pub name: String,
    /// The driver's interface version (`DXGKDDI_INTERFACE_VERSION`): some figures have a place only from one on.
    pub ddi_version: u32,
    /// Why it was stopped and does nothing any more; `None`: it runs, or sleeps.
    pub stopped: Option<String>,
    /// Its device has power.
    pub awake: bool,
    /// Counts of events since its start.
    pub counts: AdapterCounts,
    /// Bytes that paging has moved since its start.
    pub paging: PagingBytes,
    /// By ordinal.
    pub nodes: Vec<NodeStatistics>,
    /// In id order.
    pub segments: Vec<SegmentStatistics>,
    /// By number.
    pub sources: Vec<SourceStatistics>,
    /// Processes with a device here, in the order of their ids. The kernel's own work, paging, is process 0, which is always there.
    pub processes: Vec<ProcessStatistics>,
    /// Processes that had a device here and have none any more, as long as they are there.
    pub left: Vec<ProcessId>,
}

/// Counts of events on an adapter since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterCounts {
    /// Interrupts in which its driver found something.
    pub interrupts: u64,
    /// Fence interrupts dispatched.
    pub fence_interrupts: u64,
    /// Of these, those that released no waiter.
    pub fence_interrupts_in_vain: u64,
    /// Waits of threads that did not find their values at once.
    pub cpu_waits: u64,
    /// Fences that the kernel has signalled, for processes and for packets that are done. The kernel does not see signals of engines on
    /// native fences.
    pub fences_signaled: u64,
    /// Nodes that were reset under work that did not end (sync §4.4).
    pub engine_resets: u64,
    /// Resets of the whole adapter, which cost every device its content (memory §8.4).
    pub adapter_resets: u64,
    /// Devices that went into error, for whatever reason.
    pub devices_lost: u64,
    /// Calls refused that named the adapter.
    pub calls_refused: u64,
    /// Requests to trim that the kernel has sent, one for each device.
    pub trims: u64,
}

/// Bytes that paging has moved since the adapter's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagingBytes {
    /// Copied from system memory into a segment.
    pub in_bytes: u64,
    /// Copied from a segment to system memory.
    pub out_bytes: u64,
    /// Filled with zeros: first commits.
    pub filled_bytes: u64,
    /// Copied within a segment.
    pub relocated_bytes: u64,
    /// Left a segment without a copy.
    pub discarded_bytes: u64,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatistics {
    /// Its ordinal.
    pub node: NodeId,
    /// For people.
    pub name: String,
    /// The work of all processes together, the kernel's own included.
    pub work: NodeWork,
    /// How often another context's packet was handed over than the one before. The kernel counts none where hardware chooses between
    /// queues.
    pub context_switches: u64,
}

/// The work of a node, for all processes or for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeWork {
    /// How long it has had work, in nanoseconds. Of hardware queues, fed by the kernel or by processes, it is how long engines have
    /// executed for them, as the hardware counts it. Of packets the kernel counts for the process whose packet is in front: from the turn
    /// that hands the work over until it knows that the work is done; work that is done before the end of that turn takes no time. So it
    /// counts, too, where hardware does not count, for the hardware queues that it feeds: it divides the time of several processes there
    /// at once in equal parts, and counts no queue that a process feeds. A node that has both packets and queues at once counts both.
    pub running_ns: u64,
    /// Command buffers that the driver was given; one that came back and was given again counts again. The kernel counts none that a
    /// process submits by itself, here and in the next two.
    pub submitted: u64,
    /// Those that are done.
    pub completed: u64,
    /// Those that came back undone.
    pub preempted: u64,
}

/// One segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentStatistics {
    /// Its id.
    pub segment: SegmentId,
    /// An aperture, else memory.
    pub aperture: bool,
    /// It counts in the budgets of the local group, else in the other's.
    pub local: bool,
    /// Bytes that allocations can have; of an aperture the most that is mapped at once.
    pub capacity_bytes: u64,
    /// Bytes that content has there now, also content that no device's list requires any more.
    pub committed_bytes: u64,
    /// Of these, what lists of devices require.
    pub resident_bytes: u64,
    /// Committed bytes of no process: a name alone keeps the allocation. The processes' committed bytes and these are the segment's.
    pub unowned_bytes: u64,
    /// Resident bytes for each process beyond the first whose lists require the same allocation. The processes' resident bytes are the
    /// segment's and these.
    pub repeated_bytes: u64,
}

/// One video present source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStatistics {
    /// The source.
    pub source: VidPnSourceId,
    /// Flips that the display has shown.
    pub shown: u64,
    /// Flips that never were shown.
    pub dropped: u64,
}

/// What the operating system says of a process. The program that embeds the kernel asks the operating system when the process comes;
/// nothing here is the process's own word, but that a program chooses the name that the operating system shows for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its number in the operating system, as the embedding program sees it. Two connections of one program are two processes to the
    /// kernel, with one number here.
    pub pid: u32,
    /// The program's name (`/proc/PID/comm` of Linux), at most [`ProcessIdentity::NAME_BYTES_MAX`] bytes; empty: the operating system does
    /// not tell it. Any characters may be in it.
    pub name: String,
}

impl ProcessIdentity {
    /// Most bytes of a name. Linux gives 15.
    pub const NAME_BYTES_MAX: usize = 63;

    /// The identity with a name from the operating system, without its end of line, cut to whole characters.
    pub fn new(pid: u32, name: &str) -> ProcessIdentity {
        let name = name.strip_suffix('\n').unwrap_or(name);
        let end = name.floor_char_boundary(ProcessIdentity::NAME_BYTES_MAX);
        ProcessIdentity { pid, name: name[..end].to_owned() }
    }
}

/// A process on an adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatistics {
    /// Which; 0 is the kernel itself.
    pub process: ProcessId,
    /// Its number and name in the operating system; `None`: the embedding program has not said.
    pub identity: Option<ProcessIdentity>,
    /// `D3DKMT_SCHEDULINGPRIORITYCLASS`: 0 IDLE to 5 REALTIME.
    pub priority_class: u32,
    /// Devices that it has here.
    pub devices: u32,
    /// Of these, those in error.
    pub devices_lost: u32,
    /// Contexts, of hardware and of packets.
    pub contexts: u32,
    /// Hardware queues.
    pub queues: u32,
    /// Its memory.
    pub memory: ProcessMemory,
    /// Bytes that paging has moved of its allocations.
    pub paging: PagingBytes,
    /// Its fences that the kernel has signalled.
    pub fences_signaled: u64,
    /// By ordinal, one for each node.
    pub nodes: Vec<NodeWork>,
}

/// The memory of a process on an adapter, now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// Usage and budget of the local group.
    pub local: VideoMemoryInfo,
    /// The same of the other one.
    pub non_local: VideoMemoryInfo,
    /// Allocations that it has created.
    pub allocations: u32,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Of these, those that lie elsewhere than they would rather, because there is no room.
    pub demoted_bytes: u64,
    /// Of these, those that it has offered.
    pub offered_bytes: u64,
    /// In id order, one for each segment.
    pub segments: Vec<ProcessSegment>,
}

/// The memory of a process in one segment, now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSegment {
    /// The segment.
    pub segment: SegmentId,
    /// Bytes that content of its allocations has there.
    pub committed_bytes: u64,
    /// Bytes there that its lists require, of allocations of others, too, that it has opened.
    pub resident_bytes: u64,
}

/// The clocks of a node and of the kernel at one moment (`D3DKMT_QUERYCLOCKCALIBRATION`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockCalibration {
    /// Ticks of the node's clock in a second.
    pub gpu_frequency_hz: u64,
    /// The node's clock.
    pub gpu_counter: u64,
    /// The kernel's clock at the same moment, in nanoseconds.
    pub cpu_ns: u64,
}

impl AdapterStatistics {
    /// Where figures of this answer contradict each other; `None`: nowhere. The kernel's invariants hold it to be `None` after every call, and a
    /// tool may ask it of any answer.
    ///
    /// | figure | is |
    /// |---|---|
    /// | committed bytes of a segment | the sum of the processes' there, and what no process owns |
    /// | resident bytes of a segment | the sum of the processes' there, but what several of them require only once |
    /// | work of a node | at least the sum of the processes', as that of processes that have left stays |
    // spec: memory §5.5
    pub fn contradiction(&self) -> Option<String> {
        self.segments.iter().find_map(|segment| self.contradiction_in(segment)).or_else(|| {
            self.nodes.iter().find_map(|node| {
                let at = usize::from(node.node.0);
                let of = |of: fn(&NodeWork) -> u64| -> (u64, u64) {
                    let theirs = self.processes.iter().filter_map(|process| process.nodes.get(at));
                    (theirs.map(of).fold(0, u64::saturating_add), of(&node.work))
                };
                let sums = [of(|work| work.running_ns), of(|work| work.submitted), of(|work| work.completed)];
                sums.iter()
                    .any(|(theirs, all)| theirs > all)
                    .then(|| format!("node {at}: processes have {sums:?} of its running_ns, submitted and completed"))
            })
        })
    }

    fn contradiction_in(&self, segment: &SegmentStatistics) -> Option<String> {
        let of = |of: fn(&ProcessSegment) -> u64| -> u64 {
            let all = self.processes.iter().flat_map(|process| &process.memory.segments);
            all.filter(|here| here.segment == segment.segment).map(of).sum()
        };
        let (committed, resident) = (of(|here| here.committed_bytes), of(|here| here.resident_bytes));
        let agree = segment.committed_bytes == committed + segment.unowned_bytes
            && segment.resident_bytes + segment.repeated_bytes == resident
            && segment.resident_bytes <= segment.committed_bytes;
        (!agree).then(|| format!("{segment:?}, whose processes have {committed} and {resident} bytes"))
    }
}
