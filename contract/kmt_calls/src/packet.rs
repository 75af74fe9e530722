//! Lists and flags of the calls on packet contexts (memory §7.2, §7.3; sync §2.5).

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

bitflags::bitflags! {
    /// `D3DDDI_CREATECONTEXTFLAGS` (sync §2.5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ContextFlags: u32 {
        /// Nothing is drawn.
        const NULL_RENDERING = 1 << 0;
        /// The private data are initial data.
        const INITIAL_DATA = 1 << 1;
        /// No timeout detection.
        const DISABLE_GPU_TIMEOUT = 1 << 2;
        /// For waits and signals only.
        const SYNCHRONIZATION_ONLY = 1 << 3;
        /// For hardware queues: `CreateHwContext` makes those.
        const HW_QUEUE_SUPPORTED = 1 << 4;
        /// System use.
        const NO_KMD_ACCESS = 1 << 5;
        /// Kernel-mode testing.
        const TEST_CONTEXT = 1 << 6;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// Flags of an entry of `D3DDDI_ALLOCATIONLIST` (memory §7.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AllocationListFlags: u32 {
        /// The buffer writes it.
        const WRITE_OPERATION = 1 << 0;
        /// The instance is not retired.
        const DO_NOT_RETIRE_INSTANCE = 1 << 1;
        /// Offer priority, lowest bit of three.
        const OFFER_PRIORITY = 7 << 2;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }
}

/// `D3DDDI_ALLOCATIONLIST` (memory §7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationListItem {
    /// The allocation; [`RawHandle::NONE`] is the NULL element.
    pub allocation: RawHandle,
    /// Flags of the entry.
    pub flags: AllocationListFlags,
}

/// `D3DDDI_PATCHLOCATIONLIST` (memory §7.3). Offsets are in bytes of the command buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchLocationItem {
    /// Index of the entry in the allocation list.
    pub allocation_index: u32,
    /// The slot, bits 0 to 23; the rest is 0.
    pub slot_id: u32,
    /// The driver's.
    pub driver_id: u32,
    /// Added to the allocation's address.
    pub allocation_offset: u32,
    /// Where the address is to stand.
    pub patch_offset: u32,
    /// The buffer can run up to here without the allocation; does not fall along the list.
    pub split_offset: u32,
}

/// Of `CreateContext`: the sizes that its buffers and lists may have. They never become less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedContext {
    /// The context.
    pub context: RawHandle,
    /// Bytes of a command buffer.
    pub command_buffer_bytes: u32,
    /// Entries of an allocation list.
    pub allocation_list_entries: u32,
    /// Entries of a patch-location list.
    pub patch_location_list_entries: u32,
}
