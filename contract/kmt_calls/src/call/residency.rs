//! Calls on content that must be resident or may go (memory §5).

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

use super::flags::{EvictFlags, MakeResidentFlags, OfferFlags};
use crate::allocation::OfferList;

/// A call on content that must be resident or may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResidencyCall {
    /// `D3DKMTMakeResident` → `Residency`.
    MakeResident {
        /// The paging queue.
        paging_queue: RawHandle,
        /// The allocations; each occurrence counts once.
        allocations: Vec<RawHandle>,
        /// Flags of the call.
        flags: MakeResidentFlags,
    },
    /// `D3DKMTEvict` → `BytesToTrim`.
    Evict {
        /// The device.
        device: RawHandle,
        /// The allocations.
        allocations: Vec<RawHandle>,
        /// Flags of the call.
        flags: EvictFlags,
    },
    /// `D3DKMTOfferAllocations` → `Done`: their content may be thrown away once what was submitted before is over.
    OfferAllocations {
        /// The device.
        device: RawHandle,
        /// The resources or allocations to offer.
        list: OfferList,
        /// `D3DKMT_OFFER_PRIORITY`: 1 LOW, 2 NORMAL, 3 HIGH, 4 AUTO.
        priority: u32,
        /// Flags of the call.
        flags: OfferFlags,
    },
    /// `D3DKMTReclaimAllocations`, the first form → `Discarded`. It has no fence: at its answer the GPU may use them.
    ReclaimAllocations {
        /// The device.
        device: RawHandle,
        /// The resources or allocations to take back.
        list: OfferList,
        /// The caller asks what is lost (`pDiscarded`). If not, all of it may be.
        asks: bool,
    },
    /// `D3DKMTReclaimAllocations2` → `Reclaimed`. The third form of the drivers' callback is this call: of the second it differs
    /// by results that say NOT_COMMITTED, which these do.
    ReclaimAllocations2 {
        /// The paging queue whose fence tells when the GPU may use them again.
        paging_queue: RawHandle,
        /// The resources or allocations to take back.
        list: OfferList,
    },
    /// `D3DKMTFlushHeapTransitions`: answered when all content that is on its way has arrived where the calls before have sent it.
    FlushHeapTransitions {
        /// The adapter.
        adapter: RawHandle,
    },
    /// `D3DKMTChangeVideoMemoryReservation`.
    ChangeVideoMemoryReservation {
        /// A handle of a process that may be changed; 0: the calling one.
        process: u64,
        /// The adapter.
        adapter: RawHandle,
        /// Local group, else non-local.
        local: bool,
        /// At most what is available for reservation.
        reservation_bytes: u64,
    },
}

impl ResidencyCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            ResidencyCall::MakeResident { .. } => "MakeResident",
            ResidencyCall::Evict { .. } => "Evict",
            ResidencyCall::OfferAllocations { .. } => "OfferAllocations",
            ResidencyCall::ReclaimAllocations { .. } => "ReclaimAllocations",
            ResidencyCall::ReclaimAllocations2 { .. } => "ReclaimAllocations2",
            ResidencyCall::FlushHeapTransitions { .. } => "FlushHeapTransitions",
            ResidencyCall::ChangeVideoMemoryReservation { .. } => "ChangeVideoMemoryReservation",
        }
    }
}
