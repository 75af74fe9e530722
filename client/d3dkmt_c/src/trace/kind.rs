//! What a handle, or a number that names something, stands for: known by the name of the member that holds it.

use d3dkmt_abi::NumberKind;

/// Members, and the kind of object that each names.
const KINDS: &[(&str, &str)] = &[
    ("AllocationList", "allocation"),
    ("BroadcastContext", "context"),
    ("BroadcastContextArray", "context"),
    ("BroadcastDstAllocation", "allocation"),
    ("BroadcastHwQueueArray", "hw-queue"),
    ("BroadcastSrcAllocation", "allocation"),
    ("CpuEventHandle", "event"),
    ("Event", "event"),
    ("HandleList", "allocation"),
    ("HistoryBufferArray", "allocation"),
    ("ObjectHandleArray", "sync-object"),
    ("PresentLimitSemaphore", "semaphore"),
    ("RootDirectory", "directory"),
    ("SharedHandle", "global-share"),
    ("WrittenPrimaries", "allocation"),
    ("hAdapter", "adapter"),
    ("hAllocation", "allocation"),
    ("hAsyncEvent", "event"),
    ("hContext", "context"),
    ("hDc", "device-context"),
    ("hDestination", "allocation"),
    ("hDevice", "device"),
    ("hDoorbell", "doorbell"),
    ("hEvent", "event"),
    ("hFenceObject", "sync-object"),
    ("hGlobalShare", "global-share"),
    ("hHwContext", "hw-context"),
    ("hHwQueue", "hw-queue"),
    ("hHwQueueProgressFence", "sync-object"),
    ("hHwQueues", "hw-queue"),
    ("hIndirectContext", "context"),
    ("hKeyedMutex", "keyed-mutex"),
    ("hMonitoredFence", "sync-object"),
    ("hNtHandle", "nt-handle"),
    ("hObject", "nt-handle"),
    ("hPagingQueue", "paging-queue"),
    ("hPrimaryAllocation", "allocation"),
    ("hPrivateRuntimeResourceHandle", "runtime"),
    ("hProcess", "process"),
    ("hResource", "resource"),
    ("hRingBuffer", "allocation"),
    ("hRingBufferControl", "allocation"),
    ("hSection", "section"),
    ("hSharedHandle", "global-share"),
    ("hSharedPrimary", "global-share"),
    ("hSource", "allocation"),
    ("hSyncObject", "sync-object"),
    ("hWindow", "window"),
    ("hObjects", "object"),
    ("phSharedNtHandle", "nt-handle"),
    ("pResources", "resource"),
    ("pVidPnSourceNtHandles", "nt-handle"),
    ("phAllocationList", "allocation"),
    ("phAllocations", "allocation"),
    // Numbers that name something, though their type is not that of a handle.
    ("Handle", "registration"),
    ("ProcessId", "process-id"),
    ("Token", "token"),
    ("hSyncFile", "event"),
    ("pBuffer", "process-id"),
];

/// The kind of object that a member names: of a type of handles always one, of another type where the name says so.
pub fn kind_of(member: &str, kind: NumberKind) -> Option<&'static str> {
    let named = KINDS.iter().find(|(name, _)| *name == member).map(|(_, kind)| *kind);
    match kind {
        NumberKind::Handle => Some(named.unwrap_or("handle")),
        // Limits of an address are no address of something.
        NumberKind::GpuVa => (!matches!(member, "MinimumAddress" | "MaximumAddress")).then_some("va"),
        NumberKind::Unsigned => named,
        NumberKind::Signed | NumberKind::Wide => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use d3dkmt_abi::{ITEMS, Shape};

    #[test]
    fn every_member_that_is_a_handle_has_its_kind() {
        let mut handles = 0;
        for item in ITEMS.iter().copied().flatten() {
            let (Shape::Struct(fields) | Shape::Packed(fields) | Shape::Union(fields)) = item.shape else { continue };
            for field in fields {
                let of =
                    field.of.trim_start_matches(['[', '*']).trim_start_matches("const ").trim_start_matches("mut ");
                if of.starts_with("D3DKMT_HANDLE") || of.starts_with("HANDLE") {
                    let known = KINDS.iter().any(|(name, _)| *name == field.name);
                    assert!(known, "{}.{} has no kind", item.name, field.name);
                    handles += 1;
                }
            }
        }
        assert!(handles > 150, "{handles} are not all");
    }
}
