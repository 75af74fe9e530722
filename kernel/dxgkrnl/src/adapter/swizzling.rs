//! Swizzling ranges between VidMm, which decides which allocations they show, and the driver, which programs them (memory §6.5). WDDM 1
//! drivers only. Called by `lock` and by the paging ring.

use ddi::{AcquireSwizzlingRange, ReleaseSwizzlingRange, SwizzlingError};
use events::Event;
use vidmm::{AllocationId, HeldRange, RangeWish};
use wddm_types::CpuRun;

use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::effect::Cx;

impl Adapter {
    /// Lets the driver acquire a range. Answers with what the CPU sees if the driver chose the address, and with `None` if
    /// there is no range to be had.
    ///
    /// # Errors
    /// The driver moved a view that is to stay where it is.
    // spec: memory §6.5
    pub(super) fn acquire_range(
        &mut self,
        cx: &mut Cx<'_>,
        allocation: AllocationId,
        wish: &RangeWish,
        alternate: bool,
    ) -> Result<Option<Option<Vec<CpuRun>>>, Breach> {
        self.release_ranges(cx, wish.release.as_slice());
        let HeldRange { allocation: kmd, private_driver_data, range } = wish.acquire;
        let number = self.memory.allocations.told_as(allocation);
        loop {
            let mut acquire = AcquireSwizzlingRange {
                allocation: kmd,
                private_driver_data,
                range,
                segment: wish.segment,
                range_bytes: wish.range_bytes,
                cpu_translated_address: wish.cpu_translated_address,
            };
            let asked = acquire;
            let Some(facet) = self.driver.call(cx).swizzling() else { return Ok(None) };
            match facet.acquire_swizzling_range(&mut acquire) {
                Ok(()) if acquire == asked || alternate => {
                    cx.emit(
                        self.index,
                        Event::SwizzlingRangeAcquired { allocation: number, range, private_driver_data },
                    );
                    if acquire == asked {
                        return Ok(Some(None));
                    }
                    return Ok(Some(Some(self.vidmm.range_placed(allocation, acquire.cpu_translated_address))));
                }
                Ok(()) => {
                    let rule = "a swizzling range changes neither its place in the window nor its length";
                    return Err(Breach(rule.into()));
                }
                Err(SwizzlingError::Unavailable) => {
                    // spec: memory §6.5: until none is left
                    let Some(kept) = self.vidmm.release_kept_range() else {
                        cx.emit(self.index, Event::SwizzlingRangeRefused { allocation: number, supported: true });
                        return Ok(None);
                    };
                    self.release_ranges(cx, &[kept]);
                }
                Err(SwizzlingError::Unsupported) => {
                    cx.emit(self.index, Event::SwizzlingRangeRefused { allocation: number, supported: false });
                    return Ok(None);
                }
            }
        }
    }

    /// Lets the driver release ranges.
    // spec: memory §6.5
    pub(super) fn release_ranges(&mut self, cx: &mut Cx<'_>, ranges: &[HeldRange]) {
        let Some(facet) = self.driver.call(cx).swizzling().filter(|_| !ranges.is_empty()) else { return };
        for &HeldRange { allocation, private_driver_data, range } in ranges {
            facet.release_swizzling_range(ReleaseSwizzlingRange { allocation, private_driver_data, range });
            cx.emit(self.index, Event::SwizzlingRangeReleased { range });
        }
    }
}
