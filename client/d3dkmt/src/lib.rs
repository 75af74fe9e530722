//! The safe Rust client of D3DKMT, which a user-mode driver or runtime links.
//!
//! Objects are values that own their handle; dropping one destroys it. Everything that the C interface does by pointer is
//! a method's argument or result here. Data goes past the kernel: fence values are loads ([`Fence::current`]), work is
//! published by a doorbell ([`UserQueue`]), locked memory is read and written in place ([`Lock`]).
//!
//! # The law of this room
//! Nothing is checked here that the kernel checks: a wrong argument goes to the kernel and comes back as its
//! [`Refusal`]. Nothing is cached that the kernel may change.

mod adapter;
mod allocation;
mod context;
mod device;
mod display;
mod fence;
mod gpu_va;
mod priority;
mod queue;
mod resource;
mod statistics;
mod sync_object;

pub use adapter::Adapter;
pub use allocation::{Allocation, Lock};
pub use context::{Context, VirtualContext};
pub use device::{Device, PagingQueue, Registration};
pub use fence::{Fence, NtHandle};
pub use gpu_va::{GpuVaMapping, GpuVaReservation, TileContext};
pub use kmt_calls::PRIORITY_ABSOLUTE;
pub use kmt_calls::{
    AdapterCounts, AdapterStatistics, ClockCalibration, NodeStatistics, NodeWork, PagingBytes, ProcessIdentity,
    ProcessMemory, ProcessSegment, ProcessStatistics, SegmentStatistics, SourceStatistics,
};
pub use kmt_calls::{
    AdapterInfo, AllocationInfoFlags, AllocationRequest, CreateAllocationFlags, DestroyFlags, DeviceState, DisplayInfo,
    EvictFlags, FeatureResult, FenceFlags, FencePrivateData, GpuVaProtection, LockFlags, MakeResidentFlags,
    NativeFenceLogDetail, NativeFenceRequest, Notification, NotificationKind, OfferFlags, OfferList,
    OpenSyncObjectRequest, ProcessAccess, PropertyFlags, PropertyMask, PropertyRequest, QueuedFence, ReclaimResult,
    Refusal, Residency, ResidencyStatus, ResourceInfo, ResourceRequest, SectionRange, SegmentInfo, ShareName,
    SyncObjectAccess, TrimFlags, UpdateGpuVaFlags, UpdateGpuVaOperation, VideoMemoryInfo, Wddm30Caps, Wddm31Caps,
};
pub use kmt_calls::{AllocationListFlags, AllocationListItem, CreatedContext, PatchLocationItem};
pub use kmt_calls::{CpuCaching, MonitoredFenceSignal, SignalFlags, SyncObjectKind, WaitFlags};
pub use kmt_calls::{ESCAPE_BYTES_MAX, EscapeFlags};
pub use queue::{HwContext, KernelQueue, UserQueue};
pub use resource::{Resource, Section};
pub use statistics::{enum_processes, own_identity, query_statistics};
pub use sync_object::{ContextHandle, Event, SyncObject};

use std::sync::Arc;

use kmt_calls::{AdapterCall, Call, Reply};
use kmt_link::Link;
use wddm_types::RawHandle;

/// A handle that destroys its object when dropped.
struct Owned {
    link: Arc<dyn Link>,
    handle: RawHandle,
    destroy: fn(RawHandle) -> Call,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // A refusal here means that the object is gone already (its device died first): there is nothing left to do.
        let _ = self.link.call((self.destroy)(self.handle));
    }
}

/// Takes the expected arm of a reply.
///
/// # Panics
/// When the kernel answers a call with another call's reply: a fault of ours, never of the caller.
macro_rules! expect_reply {
    ($reply:expr, $pattern:pat => $value:expr) => {
        match $reply {
            $pattern => $value,
            other => panic!("unexpected reply type from the kernel: {other:?}"),
        }
    };
}
use expect_reply;

/// The adapters that a kernel has, with their names.
///
/// # Errors
/// When the kernel has gone.
pub fn enum_adapters(link: &dyn Link) -> Result<Vec<(wddm_types::Luid, String)>, Refusal> {
    Ok(expect_reply!(link.call(Call::Adapter(AdapterCall::EnumAdapters))?, Reply::Adapters(adapters) => adapters))
}

/// `D3DKMTIsFeatureEnabled` of a feature of the whole machine, by `DXGK_FEATURE_ID` (sync §2.10).
///
/// # Errors
/// `INVALID_PARAMETER` for a feature of an adapter; [`Adapter::is_feature_enabled`] answers for those.
pub fn is_global_feature_enabled(link: &dyn Link, feature: u32) -> Result<FeatureResult, Refusal> {
    let call = Call::Adapter(AdapterCall::IsFeatureEnabled { adapter: RawHandle::NONE, feature });
    Ok(expect_reply!(link.call(call)?, Reply::Feature(result) => result))
}
