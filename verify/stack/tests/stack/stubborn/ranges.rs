//! Swizzling ranges: the stubborn driver's answers about them, and the kernel's requests for one.

use ddi::*;
use miniport_filter::SwizzlingFilter;

use super::Stubborn;

/// How many swizzling ranges the software GPU has.
const RANGES: u32 = softgpu_spec::tile::RANGE_COUNT;

impl SwizzlingFilter for Stubborn {
    fn swizzling_ranges(&self, _honest: u32) -> u32 {
        RANGES
    }
    fn acquire_swizzling_range(
        &mut self,
        next: &mut dyn Swizzling,
        acquire: &mut AcquireSwizzlingRange,
    ) -> Result<(), SwizzlingError> {
        (self.whims.acquire)(next, acquire)
    }
    fn release_swizzling_range(&mut self, next: &mut dyn Swizzling, release: ReleaseSwizzlingRange) {
        (self.whims.release)(release.range);
        next.release_swizzling_range(release);
    }
}
