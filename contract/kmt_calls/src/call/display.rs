//! Calls on displays: ownership of a video present source, its content, flips, vertical blanks.

use serde::{Deserialize, Serialize};
use wddm_types::{RawHandle, VidPnSourceId};

/// A call on displays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisplayCall {
    /// `D3DKMTSetVidPnSourceOwner`: from now on these sources are the device's, and no others. A source that it no longer owns goes black.
    SetVidPnSourceOwner {
        /// The device.
        device: RawHandle,
        /// The sources, and how the device owns each.
        sources: Vec<(VidPnSourceId, SourceOwnerType)>,
    },
    /// `D3DKMTReleaseProcessVidPnSourceOwners` of the calling process: its devices give up their sources on all adapters. Those go black.
    ReleaseProcessVidPnSourceOwners,
    /// `D3DKMTCheckVidPnExclusiveOwnership`: `GRAPHICS_PRESENT_OCCLUDED` when some device owns the source, which others cannot present
    /// on then.
    CheckVidPnExclusiveOwnership {
        /// The adapter.
        adapter: RawHandle,
        /// The source.
        source: VidPnSourceId,
    },
    /// `D3DKMTGetSharedPrimaryHandle` → `Handle`: the global handle of the source's shared primary, NONE where there is none. It is the
    /// primary that the source shows, if that has a global handle, else the last that the embedding program made for the source.
    GetSharedPrimaryHandle {
        /// The adapter.
        adapter: RawHandle,
        /// The source.
        source: VidPnSourceId,
    },
    /// `D3DKMTGetDeviceState` of the kinds PRESENT, PRESENT_DWM and PRESENT_QUEUE → `PresentState`.
    GetPresentState {
        /// A device that lives.
        device: RawHandle,
        /// The source that the counts are of; one that there is not has none.
        source: VidPnSourceId,
    },
    /// `D3DKMTSetDisplayMode`: the primary's source has the primary's mode and shows it at once. Queued flips of the source are over.
    SetDisplayMode {
        /// The source's owner.
        device: RawHandle,
        /// A primary on its list.
        primary: RawHandle,
    },
    /// `D3DKMTPresent` with Flags.Flip → `Queued`: when everything queued before on the context is done, the primary is shown on its
    /// source. The answer comes late while the device has more flips queued than its limit.
    Flip {
        /// A packet context of the source's owner.
        context: RawHandle,
        /// A primary on its device's list, of the mode that the source has.
        primary: RawHandle,
        /// `FlipInterval`: so many vertical blanks behind the flip before it, 1 to 4; 0: at once.
        interval: u32,
    },
    /// `D3DKMTSubmitPresentToHwQueue` with Flags.Flip → `Queued`: the same behind what was submitted on a hardware queue, which the kernel
    /// feeds.
    FlipOnHwQueue {
        /// A queue of the source's owner, without user-mode submission.
        queue: RawHandle,
        /// A primary on its device's list, of the mode that the source has.
        primary: RawHandle,
        /// `FlipInterval`, likewise.
        interval: u32,
    },
    /// `D3DKMTSetQueuedLimit`: how many flips of the device may be queued when Flip returns.
    SetQueuedLimit {
        /// The device.
        device: RawHandle,
        /// 1 to 16; 0: 3, as at first.
        limit: u32,
    },
    /// `D3DKMTSetQueuedLimit` with `D3DKMT_GET_QUEUEDLIMIT_PRESENT` → `QueuedLimit`.
    GetQueuedLimit {
        /// The device.
        device: RawHandle,
    },
    /// `D3DKMTWaitForVerticalBlankEvent`: answered at the next vertical blank of a source that is shown.
    WaitForVerticalBlankEvent {
        /// A device of the adapter.
        device: RawHandle,
        /// The source.
        source: VidPnSourceId,
    },
}

/// `D3DKMT_VIDPNSOURCEOWNER_TYPE`, without UNOWNED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceOwnerType {
    /// The device alone presents on the source.
    Exclusive,
    /// The device presents beside the desktop.
    Shared,
    /// Exclusive for a device of GDI.
    ExclusiveGdi,
    /// The device takes itself for an exclusive owner; the source shows what it showed.
    Emulated,
}

impl DisplayCall {
    /// The function's name without its prefix.
    pub const fn name(&self) -> &'static str {
        match self {
            DisplayCall::SetVidPnSourceOwner { .. } => "SetVidPnSourceOwner",
            DisplayCall::ReleaseProcessVidPnSourceOwners => "ReleaseProcessVidPnSourceOwners",
            DisplayCall::CheckVidPnExclusiveOwnership { .. } => "CheckVidPnExclusiveOwnership",
            DisplayCall::GetSharedPrimaryHandle { .. } => "GetSharedPrimaryHandle",
            DisplayCall::GetPresentState { .. } => "GetDeviceState",
            DisplayCall::SetDisplayMode { .. } => "SetDisplayMode",
            DisplayCall::Flip { .. } => "Present",
            DisplayCall::FlipOnHwQueue { .. } => "SubmitPresentToHwQueue",
            DisplayCall::SetQueuedLimit { .. } | DisplayCall::GetQueuedLimit { .. } => "SetQueuedLimit",
            DisplayCall::WaitForVerticalBlankEvent { .. } => "WaitForVerticalBlankEvent",
        }
    }
}
