//! Displays, between kernel and driver: which there are, what they show, when their vertical blanks come. Of WDDM's video present
//! networks this is what a fixed path from each source to its target needs: a mode is that of a primary, and a path is there or
//! is not.

use wddm_types::{SegmentId, VidPnSourceId, VidPnTargetId};

use crate::adapter::DriverStatus;
use crate::allocation::{KmdAllocation, Surface};

/// A path from a source to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VidPnPath {
    /// The source; those of an adapter are 0, 1, …
    pub source: VidPnSourceId,
    /// The target, which no other path has.
    pub target: VidPnTargetId,
    /// Nanoseconds from one vertical blank of the target to the next; not 0.
    pub refresh_ns: u64,
    /// The mode that the monitor prefers (`DxgkDdiRecommendMonitorModes`), and the one that the source has until a primary gives it another
    /// one; of 1 by 1 texel at least.
    pub preferred: Surface,
}

/// The driver's limits of flips (`DXGK_DRIVERCAPS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlipCaps {
    /// `MaxQueuedFlipOnVSync`: flips that a source takes before the first of them is shown; 1 at least.
    pub max_queued_flip_on_vsync: u32,
    /// `FlipImmediateMmIo`: flips that do not wait for the vertical blank.
    pub flip_immediate: bool,
}

bitflags::bitflags! {
    /// `DXGK_SETVIDPNSOURCEADDRESS_FLAGS`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SetVidPnSourceAddressFlags: u32 {
        /// The first address of a mode that was committed.
        const MODE_CHANGE = 1 << 0;
        /// At once, not at the next vertical blank.
        const FLIP_IMMEDIATE = 1 << 1;
        /// At a vertical blank.
        const FLIP_ON_NEXT_VSYNC = 1 << 2;
    }
}

/// `DXGKARG_SETVIDPNSOURCEADDRESS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetVidPnSourceAddress {
    /// Of which source.
    pub source: VidPnSourceId,
    /// The segment that the primary lies in.
    pub segment: SegmentId,
    /// Its GPU address there; it stays there until another one is shown.
    pub physical_address: u64,
    /// The driver's handle of it.
    pub allocation: KmdAllocation,
    /// Whether a mode begins, and when the flip happens.
    pub flags: SetVidPnSourceAddressFlags,
}

/// The kernel's name of a periodic notification (`NotificationID`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NotificationId(pub u32);

/// The driver's handle of a periodic notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KmdNotification(pub u64);

/// Displays of an adapter.
pub trait Display {
    /// The paths that there are, asked at adapter start.
    fn vidpn_paths(&self) -> Vec<VidPnPath>;

    /// `QueryAdapterInfo(DRIVERCAPS)`, as far as flips go; asked at adapter start.
    fn flip_caps(&self) -> FlipCaps;

    /// `DxgkDdiDescribeAllocation`: the texels of a primary; `None`: no display of this device shows such a thing.
    fn describe_allocation(&mut self, allocation: KmdAllocation) -> Option<Surface>;

    /// `DxgkDdiCommitVidPn`, level 2: from now on the source has the mode of this primary, or none. It is not visible yet, or not
    /// any more, and what it had taken of flips is over; when this returns the display reads nothing.
    ///
    /// # Errors
    /// The mode is refused. With `None` it must succeed.
    fn commit_vidpn(&mut self, source: VidPnSourceId, primary: Option<KmdAllocation>) -> Result<(), DriverStatus>;

    /// `DxgkDdiSetVidPnSourceAddress`, at device interrupt level. Of a flip the kernel hears by [`crate::Interrupt::CrtcVsync`], which
    /// bears its address. The kernel keeps to `max_queued_flip_on_vsync`.
    ///
    /// # Errors
    /// Bug check 0x119, parameter 0xB.
    fn set_vidpn_source_address(&mut self, set: SetVidPnSourceAddress) -> Result<(), DriverStatus>;

    /// `DxgkDdiSetVidPnSourceVisibility`, level 2: a source that has a mode and an address is shown.
    fn set_vidpn_source_visibility(&mut self, source: VidPnSourceId, visible: bool);

    /// `DxgkDdiControlInterrupt3` with CRTC_VSYNC: whether vertical blanks of the source interrupt. They do not at first.
    fn control_interrupt(&mut self, source: VidPnSourceId, enable: bool);

    /// `DxgkDdiCreatePeriodicFrameNotification`: from now on [`crate::Interrupt::PeriodicMonitoredFenceSignaled`] comes `time_100ns`
    /// units of 100 ns before each vertical blank of a target that is shown, also through changes of its mode. The time is at most a
    /// refresh period.
    ///
    /// # Errors
    /// `NoMemory` when the hardware has no more; `NotSupported` by default.
    fn create_periodic_frame_notification(
        &mut self,
        _target: VidPnTargetId,
        _time_100ns: u64,
        _id: NotificationId,
    ) -> Result<KmdNotification, DriverStatus> {
        Err(DriverStatus::NotSupported("CreatePeriodicFrameNotification"))
    }

    /// `DxgkDdiDestroyPeriodicFrameNotification`. Must succeed; earlier blanks may still be reported.
    fn destroy_periodic_frame_notification(&mut self, _notification: KmdNotification) {}
}
