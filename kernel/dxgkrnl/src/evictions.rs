//! For which devices the hardware is to tell that evictions which stand aside may be carried out (memory §5.3): one registered wait for each
//! device, for the uses that its oldest eviction waits for. `vidmm` has the evictions, `adapter::residency` carries them out.

use std::collections::BTreeSet;

use vidmm::DeviceId;

/// The devices whose oldest eviction a registered wait watches.
#[derive(Default)]
pub struct WatchedEvictions {
    devices: BTreeSet<DeviceId>,
}

impl WatchedEvictions {
    /// Whether a wait watches a device's evictions.
    pub fn is_watched(&self, device: DeviceId) -> bool {
        self.devices.contains(&device)
    }

    /// A wait watches a device's evictions from now on.
    pub fn begin(&mut self, device: DeviceId) {
        let new = self.devices.insert(device);
        debug_assert!(new, "one wait watches the evictions of {device:?}");
    }

    /// The wait is over.
    pub fn end(&mut self, device: DeviceId) {
        self.devices.remove(&device);
    }
}
