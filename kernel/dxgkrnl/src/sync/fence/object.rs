//! The kernel's state of a fence: the object on its adapter, and one device's open of it.

use std::collections::{BTreeMap, BTreeSet};

use ddi::{FenceType, KmdGlobalFence, KmdLocalFence, KmdNotification};
use gpu_fence::FenceId;
use kmt_calls::{FenceFlags, SyncObjectAccess};
use wddm_types::{GpuVa, ProcessId, VidPnTargetId};

use super::slot::{FenceSlot, FenceView};
use super::word::FenceWord;
use crate::number::{CrossFenceNumber, DeviceNumber, FenceNumber, FenceOpenNumber};

/// A fence on this adapter, which all devices share.
#[derive(Debug)]
pub struct Fence {
    /// Its waiters.
    pub waits: FenceId,
    /// Its words.
    pub slot: FenceSlot,
    /// Its width.
    pub word: FenceWord,
    /// Its type: engines alone touch the words of an INTRA_GPU fence.
    pub fence_type: FenceType,
    /// As it was created.
    pub flags: FenceFlags,
    /// The driver's name of it; `None`: its adapter has no fences of its own and the kernel alone signals it, or no process has it open.
    pub kmd: Option<KmdGlobalFence>,
    /// Its opens, by number.
    pub opens: BTreeSet<FenceOpenNumber>,
    /// Where processes see the words of a shareable one.
    pub views: BTreeMap<ProcessId, FenceView>,
    /// Its NT handles.
    pub names: u32,
    /// Satisfied for ever: its device is lost (sync §3.16).
    pub always_signaled: bool,
    /// The display of this adapter that signals it.
    pub periodic: Option<Periodic>,
    /// Only a display signals it, of whichever adapter.
    pub by_display: bool,
    /// Destroyed with its queue; it goes when the ring has passed.
    pub doomed: bool,
}

impl Fence {
    /// Whether it can be shared, or is signalled by a display: it has pages of its own.
    pub fn is_shareable(&self) -> bool {
        self.flags.contains(FenceFlags::SHARED) || self.cross().is_some() || self.by_display
    }

    /// Which cross-adapter fence it is here, if any.
    pub fn cross(&self) -> Option<CrossFenceNumber> {
        self.slot.cross
    }

    /// Where a process's GPU work sees CurrentValue and MonitoredValue.
    pub fn addresses(&self, process: ProcessId) -> (GpuVa, GpuVa) {
        let FenceSlot { current_va, monitored_va, .. } = self.slot;
        self.views.get(&process).map_or((current_va, monitored_va), |view| (view.current_va, view.monitored_va))
    }
}

/// The source of a periodic fence's signals.
#[derive(Clone, Copy, Debug)]
pub struct Periodic {
    pub target: VidPnTargetId,
    pub notification: KmdNotification,
}

/// A fence as one device has it.
#[derive(Debug)]
pub struct FenceOpen {
    pub fence: FenceNumber,
    /// The process that has its handle.
    pub process: ProcessId,
    /// `None` for the kernel's own.
    pub device: Option<DeviceNumber>,
    /// The driver's local handle.
    pub kmd: Option<KmdLocalFence>,
    /// NoSignal, NoWait, NoSignalMaxValueOnTdr of this device.
    pub flags: FenceFlags,
    /// The access that the opened name gave.
    pub access: SyncObjectAccess,
}

impl FenceOpen {
    /// Whether the fence counts as reached when this device is lost: it may signal it, and did not ask to be left out.
    // spec: sync §3.16
    pub fn is_lost_with_device(&self) -> bool {
        let excluded = FenceFlags::NO_SIGNAL | FenceFlags::NO_SIGNAL_MAX_VALUE_ON_TDR;
        !self.flags.intersects(excluded) && self.access.contains(SyncObjectAccess::SIGNAL)
    }
}
