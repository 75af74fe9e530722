//! The window of such a driver: the kernel's calls to map pages there, and to unmap them.

use ddi::{DriverStatus, HostAperture, MapCpuHostAperture, UnmapCpuHostAperture};
use miniport_filter::HostApertureFilter;

use super::Stubborn;

/// Hears each call about the window.
pub type HearWindow = dyn FnMut(WindowStep<'_>) + Send;

/// One call, with the pages of the window.
pub enum WindowStep<'a> {
    Map(&'a [u32]),
    Unmap(&'a [u32]),
}

impl HostApertureFilter for Stubborn {
    fn map_cpu_host_aperture(
        &mut self,
        next: &mut dyn HostAperture,
        map: MapCpuHostAperture<'_>,
    ) -> Result<(), DriverStatus> {
        next.map_cpu_host_aperture(map)?;
        (self.whims.hear_window)(WindowStep::Map(map.window_pages));
        Ok(())
    }
    fn unmap_cpu_host_aperture(&mut self, next: &mut dyn HostAperture, unmap: UnmapCpuHostAperture<'_>) {
        (self.whims.hear_window)(WindowStep::Unmap(unmap.window_pages));
        next.unmap_cpu_host_aperture(unmap);
    }
}
