//! Which arm of a union counts: for each union the member, the flag or the function that says so, as its functions read it. Traces of calls
//! are decoded by it.

use crate::allocation::*;
use crate::device::*;
use crate::gpu_va::*;
use crate::statistics::*;
use crate::sync_object::*;

/// What says which arm of a union counts.
#[derive(Clone, Copy, Debug)]
pub enum Arm {
    /// Always this one.
    Always(&'static str),
    /// A member of the structure around it has one of these values; else the last one counts.
    ByValue(&'static str, &'static [(i64, &'static str)], &'static str),
    /// A bit of a flag word of the structure around it is set: the first arm counts, else the answer of the second.
    ByFlag(&'static str, u64, &'static str, &'static Arm),
    /// The call is of this function: the first arm counts, else the second.
    ByFunction(&'static str, &'static str, &'static str),
    /// The call follows the pointer that the first arm is: that arm counts, else the second.
    Followed(&'static str, &'static str),
}

const SIGNALLED: Arm = Arm::Followed("MonitoredFenceValueArray", "FenceValue");
const FENCE: Arm = Arm::Always("Fence");
// CAST: a bit of a word of 32.
const ENQUEUE_CPU_EVENT: u64 = D3DDDICB_SIGNALFLAGS::EnqueueCpuEvent as u64;
const STANDARD_ALLOCATION: u64 = D3DKMT_CREATEALLOCATIONFLAGS::StandardAllocation as u64;

const fn number(value: i32) -> i64 {
    value as i64
}

/// Each union, and what says which of its arms counts.
pub const ARMS: &[(&str, Arm)] = &[
    ("D3DKMT_CREATEDEVICE_ADAPTER", Arm::Always("hAdapter")),
    ("D3DDDI_RESERVEGPUVIRTUALADDRESS_OWNER", Arm::Always("hAdapter")),
    ("D3DDDI_RESERVEGPUVIRTUALADDRESS_TYPE", Arm::Always("ReservationType")),
    ("D3DDDI_RESERVEGPUVIRTUALADDRESS_PROTECTION", Arm::Always("DriverProtection")),
    ("D3DDDI_RESERVEGPUVIRTUALADDRESS_VALUE", Arm::Always("PagingFenceValue")),
    (
        "D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_ARM",
        Arm::ByValue(
            "OperationType",
            &[
                (number(D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP), "Map"),
                (number(D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP), "Unmap"),
                (number(D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY), "Copy"),
            ],
            "MapProtect",
        ),
    ),
    (
        "D3DDDI_SYNCHRONIZATIONOBJECTINFO2_ARM",
        Arm::ByValue(
            "Type",
            &[
                (number(D3DDDI_SYNCHRONIZATION_MUTEX), "SynchronizationMutex"),
                (number(D3DDDI_SEMAPHORE), "Semaphore"),
                (number(D3DDDI_FENCE), "Fence"),
                (number(D3DDDI_CPU_NOTIFICATION), "CPUNotification"),
                (number(D3DDDI_MONITORED_FENCE), "MonitoredFence"),
                (number(D3DDDI_PERIODIC_MONITORED_FENCE), "PeriodicMonitoredFence"),
            ],
            "Reserved",
        ),
    ),
    (
        "D3DDDI_SYNCHRONIZATIONOBJECTINFO_ARM",
        Arm::ByValue(
            "Type",
            &[(number(D3DDDI_SYNCHRONIZATION_MUTEX), "SynchronizationMutex"), (number(D3DDDI_SEMAPHORE), "Semaphore")],
            "Reserved",
        ),
    ),
    ("D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_ARM", Arm::Always("MonitoredFence")),
    ("D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU_VALUE", SIGNALLED),
    ("D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU_VALUE", Arm::Followed("MonitoredFenceValueArray", "Reserved")),
    (
        "D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2_VALUE",
        Arm::ByFlag("Flags", ENQUEUE_CPU_EVENT, "CpuEventHandle", &SIGNALLED),
    ),
    ("D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_VALUE", FENCE),
    ("D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_VALUE", Arm::ByFlag("Flags", ENQUEUE_CPU_EVENT, "CpuEventHandle", &FENCE)),
    ("D3DDDI_ALLOCATIONINFO2_EXISTING", Arm::Followed("pSystemMem", "hSection")),
    ("D3DDDI_ALLOCATIONINFO2_PRIORITY", Arm::Always("Priority")),
    (
        "D3DKMT_CREATEALLOCATION_DATA",
        Arm::ByFlag("Flags", STANDARD_ALLOCATION, "pStandardAllocation", &Arm::Always("pPrivateDriverData")),
    ),
    ("D3DKMT_CREATEALLOCATION_INFO", Arm::ByFunction("D3DKMTCreateAllocation2", "pAllocationInfo2", "pAllocationInfo")),
    ("D3DKMT_OPENRESOURCE_INFO", Arm::ByFunction("D3DKMTOpenResource2", "pOpenAllocationInfo2", "pOpenAllocationInfo")),
    ("D3DKMT_RENDER_CONTEXT", Arm::Always("hContext")),
    ("D3DKMT_PRESENT_BY", Arm::Always("hContext")),
    ("D3DKMT_PRESENT_INDIRECT", Arm::Always("hAdapter")),
    ("D3DKMT_SETQUEUEDLIMIT_LIMIT", Arm::Always("QueuedPresentLimit")),
    ("D3DKMT_RECLAIMALLOCATIONS2_RESULTS", Arm::Always("pResults")),
    ("D3DDDI_UPDATEALLOCPROPERTY_MASK", Arm::Always("Anonymous")),
    (
        "D3DKMT_GETDEVICESTATE_STATE",
        Arm::ByValue(
            "StateType",
            &[
                (number(D3DKMT_DEVICESTATE_PRESENT), "PresentState"),
                (number(D3DKMT_DEVICESTATE_RESET), "ResetState"),
                (number(D3DKMT_DEVICESTATE_PRESENT_DWM), "PresentStateDWM"),
                (number(D3DKMT_DEVICESTATE_PAGE_FAULT), "PageFaultState"),
                (number(D3DKMT_DEVICESTATE_PRESENT_QUEUE), "PresentQueueState"),
            ],
            "ExecutionState",
        ),
    ),
    (
        "D3DKMT_QUERYSTATISTICS_RESULT",
        Arm::ByValue(
            "Type",
            &[
                (number(D3DKMT_QUERYSTATISTICS_PROCESS), "ProcessInformation"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER), "ProcessAdapterInformation"),
                (number(D3DKMT_QUERYSTATISTICS_SEGMENT), "SegmentInformation"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT), "ProcessSegmentInformation"),
                (number(D3DKMT_QUERYSTATISTICS_NODE), "NodeInformation"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_NODE), "ProcessNodeInformation"),
                (number(D3DKMT_QUERYSTATISTICS_VIDPNSOURCE), "VidPnSourceInformation"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE), "ProcessVidPnSourceInformation"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP), "ProcessSegmentGroupInformation"),
                (number(D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER), "PhysAdapterInformation"),
                (number(D3DKMT_QUERYSTATISTICS_SEGMENT2), "SegmentInformation"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2), "ProcessAdapterInformation"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2), "ProcessSegmentInformation"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2), "ProcessSegmentGroupInformation"),
                (number(D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE), "SegmentUsageInformation"),
                (number(D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE), "SegmentGroupUsageInformation"),
                (number(D3DKMT_QUERYSTATISTICS_NODE2), "NodeInformation"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_NODE2), "ProcessNodeInformation"),
            ],
            "AdapterInformation",
        ),
    ),
    (
        "D3DKMT_QUERYSTATISTICS_QUERY",
        Arm::ByValue(
            "Type",
            &[
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP), "QueryProcessSegmentGroup"),
                (number(D3DKMT_QUERYSTATISTICS_SEGMENT2), "QuerySegment2"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2), "QueryProcessSegment2"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2), "QueryProcessSegmentGroup2"),
                (number(D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE), "QuerySegmentUsage"),
                (number(D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE), "QuerySegmentGroupUsage"),
                (number(D3DKMT_QUERYSTATISTICS_NODE), "QueryNode"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_NODE), "QueryProcessNode"),
                (number(D3DKMT_QUERYSTATISTICS_NODE2), "QueryNode2"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_NODE2), "QueryProcessNode2"),
                (number(D3DKMT_QUERYSTATISTICS_VIDPNSOURCE), "QueryVidPnSource"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE), "QueryProcessVidPnSource"),
                (number(D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER), "QueryPhysAdapter"),
                (number(D3DKMT_QUERYSTATISTICS_ADAPTER2), "QueryAdapter2"),
                (number(D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2), "QueryProcessAdapter2"),
            ],
            "QuerySegment",
        ),
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{ITEMS, Item, Shape};

    fn arms_of(arm: &Arm) -> Vec<&'static str> {
        match *arm {
            Arm::Always(one) => vec![one],
            Arm::ByValue(_, rows, otherwise) => rows.iter().map(|(_, arm)| *arm).chain([otherwise]).collect(),
            Arm::ByFlag(_, _, one, otherwise) => [vec![one], arms_of(otherwise)].concat(),
            Arm::ByFunction(_, one, other) | Arm::Followed(one, other) => vec![one, other],
        }
    }

    #[test]
    fn every_union_says_which_of_its_arms_counts() {
        let unions = || ITEMS.iter().copied().flatten().filter(|item| matches!(item.shape, Shape::Union(_)));
        let declared: BTreeSet<&str> = unions().map(|item| item.name).collect();
        let listed: BTreeSet<&str> = ARMS.iter().map(|(name, _)| *name).collect();
        assert_eq!(declared, listed);
        for item in unions() {
            let Item { shape: Shape::Union(fields), .. } = item else { unreachable!("filtered") };
            let (_, arm) = ARMS.iter().find(|(name, _)| *name == item.name).expect("listed");
            for wanted in arms_of(arm) {
                assert!(fields.iter().any(|field| field.name == wanted), "{} has no arm {wanted}", item.name);
            }
        }
    }

    #[test]
    fn every_number_has_the_size_that_its_kind_says() {
        use crate::number::{BOOLEAN, D3DKMT_HANDLE, HANDLE, NUMBERS, WCHAR};
        let size = |of: &str| NUMBERS.iter().find(|(name, ..)| *name == of).map(|(_, size, _)| *size);
        assert_eq!(size("D3DKMT_HANDLE"), Some(size_of::<D3DKMT_HANDLE>()));
        assert_eq!(size("HANDLE"), Some(size_of::<HANDLE>()));
        assert_eq!(size("WCHAR"), Some(size_of::<WCHAR>()));
        assert_eq!(size("BOOLEAN"), Some(size_of::<BOOLEAN>()));
        // Each number that is a field of its own has this size there.
        let fields = ITEMS.iter().copied().flatten().flat_map(|item| match item.shape {
            Shape::Struct(fields) | Shape::Packed(fields) | Shape::Union(fields) => fields,
            _ => &[],
        });
        let mut numbers = 0;
        for field in fields {
            if let Some(size) = size(field.of) {
                assert_eq!(size, field.size, "{}: {}", field.name, field.of);
                numbers += 1;
            }
        }
        assert!(numbers > 300, "{numbers} are not all");
    }
}
