//! The kernel's figures in the structures of D3DKMTQueryStatistics. Counts of 32 bits go round, as those of Windows do; times are in
//! units of 100 ns.

use d3dkmt_abi::*;
use kmt_calls::{
    AdapterStatistics, NodeStatistics, NodeWork, ProcessStatistics, Refusal, SegmentStatistics, SourceStatistics,
};
use wddm_types::{ProcessId, SegmentId};

/// The kind of packets that a node's work is told as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    Render,
    Paging,
}

/// Nothing, in the largest of the answers.
pub fn zeroed_adapter() -> D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION {
    D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION::zeroed()
}

// CAST: counts of 32 bits go round.
fn count(of: u64) -> u32 {
    of as u32
}

pub fn adapter(known: &AdapterStatistics) -> D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION {
    let flags = D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS::SupportsDemotion;
    // The local and the non-local group, in the lowest bits.
    let groups = 2;
    D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION {
        NbSegments: count(known.segments.len() as u64),
        NodeCount: count(known.nodes.len() as u64),
        VidPnSourceCount: count(known.sources.len() as u64),
        TdrDetectedCount: count(known.counts.engine_resets + known.counts.adapter_resets),
        PagingTransfer: D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER {
            BytesFilled: known.paging.filled_bytes,
            BytesDiscarded: known.paging.discarded_bytes,
            BytesTransferredFromMdlToMemory: known.paging.in_bytes,
            BytesTransferredFromMemoryToMdl: known.paging.out_bytes,
            ..D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER::zeroed()
        },
        Flags: D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS { Value: flags | groups },
        ..zeroed_adapter()
    }
}

pub fn process(known: &AdapterStatistics, theirs: &ProcessStatistics) -> D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION {
    D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION {
        NodeCount: count(known.nodes.len() as u64),
        VidPnSourceCount: count(known.sources.len() as u64),
        SystemMemory: D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY {
            BytesAllocated: theirs.memory.allocated_bytes,
            ..D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY::zeroed()
        },
        ..D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION::zeroed()
    }
}

pub fn process_adapter(
    known: &AdapterStatistics,
    theirs: &ProcessStatistics,
) -> D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION {
    D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION {
        NbSegments: count(known.segments.len() as u64),
        NodeCount: count(known.nodes.len() as u64),
        VidPnSourceCount: count(known.sources.len() as u64),
        CommitmentData: D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA {
            TotalBytesEvictedFromProcess: theirs.paging.out_bytes,
            ..D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA::zeroed()
        },
        ..D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION::zeroed()
    }
}

/// `DXGKDDI_INTERFACE_VERSION_WDDM3_1`.
const WDDM_3_1: u32 = 0x1_0004;

/// What drivers report of their hardware. The engines of a software GPU run on the machine's processors: they have no clock, fan, power or
/// temperature of their own, and those members are 0, as the documentation has it for hardware that does not tell. Bytes over the link are the
/// kernel's own count of what paging moved.
pub fn perf_data(known: &AdapterStatistics) -> D3DKMT_ADAPTER_PERFDATA {
    D3DKMT_ADAPTER_PERFDATA {
        PCIEBandwidth: known.paging.in_bytes.saturating_add(known.paging.out_bytes),
        ..D3DKMT_ADAPTER_PERFDATA::zeroed()
    }
}

pub fn physical_adapter(known: &AdapterStatistics) -> D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION {
    let mut information = D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION::zeroed();
    information.AdapterPerfData = perf_data(known);
    let architecture = &mut information.GpuVersion.GpuArchitecture;
    let room = architecture.len() - 1;
    architecture.iter_mut().zip(known.name.encode_utf16().take(room)).for_each(|(into, unit)| *into = unit);
    information
}

/// Whether a segment shows system memory: `Aperture` says it at every level, `SegmentProperties` from WDDM 3.1 on, before which the member
/// is reserved.
pub fn segment(all: &AdapterStatistics, known: &SegmentStatistics) -> D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION {
    let system = if known.aperture && all.ddi_version >= WDDM_3_1 {
        D3DKMT_QUERYSTATISTICS_SEGMENT_PROPERTIES::SystemMemory
    } else {
        0
    };
    D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION {
        CommitLimit: known.capacity_bytes,
        BytesCommitted: known.committed_bytes,
        BytesResident: known.resident_bytes,
        Aperture: known.aperture.into(),
        SegmentProperties: D3DKMT_QUERYSTATISTICS_SEGMENT_PROPERTIES { Value: system },
        ..D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION::zeroed()
    }
}

pub fn process_segment(
    segment: SegmentId,
    theirs: &ProcessStatistics,
) -> D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION {
    let here = theirs.memory.segments.iter().find(|known| known.segment == segment);
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION {
        BytesCommitted: here.map_or(0, |here| here.committed_bytes),
        ..D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION::zeroed()
    }
}

/// Demoted bytes count as requested from the local group, where they are missing.
pub fn process_group(
    group: D3DKMT_MEMORY_SEGMENT_GROUP,
    theirs: &ProcessStatistics,
) -> Result<D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION, Refusal> {
    let local = crate::adapter::is_local(group)?;
    let memory = &theirs.memory;
    let (of, demoted) = if local { (memory.local, memory.demoted_bytes) } else { (memory.non_local, 0) };
    let mut information = D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION::zeroed();
    information.Budget = of.budget_bytes;
    information.Requested = of.current_usage_bytes + demoted;
    information.Usage = of.current_usage_bytes;
    information.Demoted[D3DKMT_AllocationPriorityClassNormal as usize] = demoted;
    Ok(information)
}

/// Committed bytes beyond the resident ones are on standby; uncommitted ones are free.
pub fn usage<'list>(
    segments: impl IntoIterator<Item = &'list SegmentStatistics>,
) -> D3DKMT_QUERYSTATISTICS_MEMORY_USAGE {
    let mut sum = D3DKMT_QUERYSTATISTICS_MEMORY_USAGE::zeroed();
    for segment in segments {
        sum.AllocatedBytes += segment.resident_bytes;
        sum.StandbyBytes += segment.committed_bytes - segment.resident_bytes;
        // Content of system memory that needs no pages of an aperture counts there, whatever room it has.
        sum.FreeBytes += segment.capacity_bytes.saturating_sub(segment.committed_bytes);
    }
    sum
}

pub fn process_node(
    work: &NodeWork,
    switches: u64,
    packets: Packets,
) -> D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION {
    let (queue, dma) = match packets {
        Packets::Render => (D3DKMT_RenderCommandBuffer, D3DKMT_ClientRenderBuffer),
        Packets::Paging => (D3DKMT_SystemCommandBuffer, D3DKMT_SystemPagingBuffer),
    };
    let (submitted, completed) = (count(work.submitted), count(work.completed));
    let mut information = D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION::zeroed();
    // CAST: 2^63 times 100 ns are more than machines run.
    information.RunningTime = (work.running_ns / 100) as i64;
    information.ContextSwitch = count(switches);
    let statistics = &mut information.PacketStatistics;
    statistics.QueuePacket[queue as usize] =
        D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION { PacketSubmited: submitted, PacketCompleted: completed };
    statistics.DmaPacket[dma as usize] = D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION {
        PacketSubmited: submitted,
        PacketCompleted: completed,
        PacketPreempted: count(work.preempted),
        PacketFaulted: 0,
    };
    information
}

/// The system's part is the kernel's own, for paging.
pub fn node(known: &NodeStatistics, all: &AdapterStatistics) -> D3DKMT_QUERYSTATISTICS_NODE_INFORMATION {
    let system = all.processes.iter().find(|process| process.process == ProcessId::SYSTEM);
    let system = system.and_then(|system| system.nodes.get(usize::from(known.node.0))).copied().unwrap_or_default();
    let rest = NodeWork {
        running_ns: known.work.running_ns,
        submitted: known.work.submitted - system.submitted,
        completed: known.work.completed - system.completed,
        preempted: known.work.preempted - system.preempted,
    };
    let system = process_node(&system, 0, Packets::Paging);
    let mut global = process_node(&rest, known.context_switches, Packets::Render);
    let (queue, dma) = (D3DKMT_SystemCommandBuffer as usize, D3DKMT_SystemPagingBuffer as usize);
    global.PacketStatistics.QueuePacket[queue] = system.PacketStatistics.QueuePacket[queue];
    global.PacketStatistics.DmaPacket[dma] = system.PacketStatistics.DmaPacket[dma];
    D3DKMT_QUERYSTATISTICS_NODE_INFORMATION {
        GlobalInformation: global,
        SystemInformation: system,
        ..D3DKMT_QUERYSTATISTICS_NODE_INFORMATION::zeroed()
    }
}

pub fn source(known: &SourceStatistics) -> D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION {
    D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION {
        GlobalInformation: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION {
            Frame: count(known.shown),
            CancelledFrame: count(known.dropped),
            ..D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION::zeroed()
        },
        ..D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION::zeroed()
    }
}
