//! Swizzling ranges: the stubborn driver's answers about them, and the kernel's requests for one.

use ddi::*;

use super::Stubborn;

/// How many swizzling ranges the software GPU has.
const RANGES: u32 = softgpu_spec::tile::RANGE_COUNT;

impl Swizzling for Stubborn {
    fn swizzling_ranges(&self) -> u32 {
        RANGES
    }
    fn acquire_swizzling_range(&mut self, acquire: &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError> {
        (self.whims.acquire)(self.inner.swizzling().expect("it has ranges"), acquire)
    }
    fn release_swizzling_range(&mut self, release: ReleaseSwizzlingRange) {
        (self.whims.release)(release.range);
        self.inner.swizzling().expect("it has ranges").release_swizzling_range(release);
    }
}
