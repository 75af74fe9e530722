//! The displays of such a driver: it may refuse to show an address.

use ddi::{
    Display, DriverStatus, FlipCaps, KmdAllocation, KmdNotification, NotificationId, SetVidPnSourceAddress, Surface,
    VidPnPath,
};
use wddm_types::{VidPnSourceId, VidPnTargetId};

use super::Stubborn;

/// What it says of an address.
pub type Address = dyn FnMut(SetVidPnSourceAddress) -> Result<(), DriverStatus> + Send;

impl Stubborn {
    fn displays(&mut self) -> &mut dyn Display {
        self.inner.display().expect("it has displays")
    }
}

impl Display for Stubborn {
    fn vidpn_paths(&self) -> Vec<VidPnPath> {
        // Asked of a driver that is only looked at: what this one tells is what the profiles have.
        vec![VidPnPath { source: VidPnSourceId(0), target: VidPnTargetId(0), refresh_ns: 16_666_667 }]
    }
    fn flip_caps(&self) -> FlipCaps {
        FlipCaps { max_queued_flip_on_vsync: 1, flip_immediate: false }
    }
    fn describe_allocation(&mut self, allocation: KmdAllocation) -> Option<Surface> {
        self.displays().describe_allocation(allocation)
    }
    fn commit_vidpn(&mut self, source: VidPnSourceId, primary: Option<KmdAllocation>) -> Result<(), DriverStatus> {
        self.displays().commit_vidpn(source, primary)
    }
    fn set_vidpn_source_address(&mut self, set: SetVidPnSourceAddress) -> Result<(), DriverStatus> {
        (self.whims.screen)(set)?;
        self.displays().set_vidpn_source_address(set)
    }
    fn set_vidpn_source_visibility(&mut self, source: VidPnSourceId, visible: bool) {
        self.displays().set_vidpn_source_visibility(source, visible);
    }
    fn control_interrupt(&mut self, source: VidPnSourceId, enable: bool) {
        self.displays().control_interrupt(source, enable);
    }
    fn create_periodic_frame_notification(
        &mut self,
        target: VidPnTargetId,
        time_100ns: u64,
        id: NotificationId,
    ) -> Result<KmdNotification, DriverStatus> {
        self.displays().create_periodic_frame_notification(target, time_100ns, id)
    }
    fn destroy_periodic_frame_notification(&mut self, notification: KmdNotification) {
        self.displays().destroy_periodic_frame_notification(notification);
    }
}
