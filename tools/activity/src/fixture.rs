//! An adapter with three processes, for the tests of the page: numbers that are easy to find again.

use d3dkmt::{
    AdapterCounts, AdapterStatistics, NodeStatistics, NodeWork, PagingBytes, ProcessIdentity, ProcessMemory,
    ProcessSegment, ProcessStatistics, SegmentStatistics, SourceStatistics, VideoMemoryInfo,
};
use wddm_types::{Luid, NodeId, ProcessId, SegmentId, VidPnSourceId};

pub const MIB: u64 = 1 << 20;

/// Two memory segments, three nodes, a display; the kernel and three processes, of which one has lost its device.
pub fn adapter() -> AdapterStatistics {
    let node = |ordinal: u16, name: &str, seconds: u64| NodeStatistics {
        node: NodeId(ordinal),
        name: name.to_owned(),
        work: NodeWork { running_ns: seconds * 1_000_000_000, submitted: 1000, completed: 990, preempted: 4 },
        context_switches: 40,
    };
    let segment = |id: u8, local: bool, [capacity, committed, resident]: [u64; 3]| SegmentStatistics {
        segment: SegmentId(id),
        aperture: !local,
        local,
        capacity_bytes: capacity * MIB,
        committed_bytes: committed * MIB,
        resident_bytes: resident * MIB,
        ..SegmentStatistics::default()
    };
    AdapterStatistics {
        left: Vec::new(),
        now_ns: 1_000_000_000_000,
        adapter: Luid(7),
        name: "discrete-4k".to_owned(),
        ddi_version: 0x11008,
        stopped: None,
        awake: true,
        counts: AdapterCounts {
            interrupts: 12_345,
            fence_interrupts: 800,
            fence_interrupts_in_vain: 8,
            cpu_waits: 300,
            fences_signaled: 4_000,
            engine_resets: 1,
            devices_lost: 1,
            calls_refused: 17,
            trims: 2,
            ..AdapterCounts::default()
        },
        paging: PagingBytes { in_bytes: 900 * MIB, out_bytes: 700 * MIB, ..PagingBytes::default() },
        nodes: vec![node(0, "compute", 40), node(1, "copy", 3), node(2, "paging", 9)],
        segments: vec![segment(1, true, [512, 400, 300]), segment(2, false, [1024, 96, 64])],
        sources: vec![SourceStatistics { source: VidPnSourceId(0), shown: 60, dropped: 1 }],
        processes: vec![
            ProcessStatistics { nodes: vec![NodeWork::default(); 3], ..ProcessStatistics::default() },
            process(4, 2, [256, 128, 32], false),
            process(7, 4, [96, 0, 0], false),
            process(12, 0, [48, 160, 64], true),
        ],
    }
}

/// A process that has so much resident, committed beyond that, and demoted.
pub fn process(id: u32, class: u32, [resident, more, demoted]: [u64; 3], lost: bool) -> ProcessStatistics {
    let in_segment = |segment: u8, resident: u64, committed: u64| ProcessSegment {
        segment: SegmentId(segment),
        committed_bytes: committed * MIB,
        resident_bytes: resident * MIB,
    };
    let info = |budget: u64, usage: u64| VideoMemoryInfo {
        budget_bytes: budget * MIB,
        current_usage_bytes: usage * MIB,
        ..VideoMemoryInfo::default()
    };
    ProcessStatistics {
        process: ProcessId(id),
        identity: Some(ProcessIdentity { pid: 4000 + id, name: format!("train-{id}") }),
        priority_class: class,
        devices: 1,
        devices_lost: u32::from(lost),
        contexts: 2,
        queues: 2,
        memory: ProcessMemory {
            local: info(384, resident),
            non_local: info(1024, 0),
            allocations: 10,
            allocated_bytes: (resident + more) * MIB,
            demoted_bytes: demoted * MIB,
            offered_bytes: 0,
            segments: vec![in_segment(1, resident, resident + more / 2), in_segment(2, 0, more - more / 2)],
        },
        paging: PagingBytes { in_bytes: u64::from(id) * MIB, ..PagingBytes::default() },
        fences_signaled: 100 + u64::from(id),
        nodes: vec![NodeWork { running_ns: 1_000_000, submitted: 10, completed: 10, preempted: 0 }; 3],
    }
}
