//! Which addresses a mapping gets: those that were asked for, if their right allows it, or free ones. `space` knows which are free.

use wddm_types::{GpuVa, PAGE_BYTES};

use super::{MapError, MapRequest, Target};
use crate::slab::SpaceId;
use crate::space::{Origin, UNIT_BYTES, page_of};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// The first page, and whether the addresses were free.
    pub(super) fn choose(
        &self,
        space: SpaceId,
        request: &MapRequest,
        by_driver: bool,
    ) -> Result<(u64, bool), MapError> {
        let pages = request.size_pages.0;
        let entry = &self.spaces[space];
        let reserving = matches!(request.target, Target::Reserved(_));
        if let Some(base) = request.base.filter(|base| !base.is_null()) {
            let run = self.spaces.run_at(space, base, pages.checked_mul(PAGE_BYTES).ok_or(MapError::OutsideSpace)?)?;
            let range = entry.range_of(run).map(|(_, range)| range.origin);
            // spec: memory §4.8, free or inside a range from Reserve or Map
            return match range {
                Some(Origin::Reservation(..)) => Ok((run.first, false)),
                // spec: memory §4.6, AllowUserModeMapping
                Some(Origin::Driver { user_maps }) if user_maps || by_driver => Ok((run.first, false)),
                _ if reserving => Err(MapError::NotReserved),
                Some(Origin::Map) => Ok((run.first, false)),
                None if entry.is_free(run) => Ok((run.first, true)),
                Some(Origin::Kernel | Origin::Driver { .. }) | None => Err(MapError::ConflictingAddresses),
            };
        }
        if reserving {
            return Err(MapError::NotReserved);
        }
        let window = (request.minimum, request.maximum);
        let first = match !entry.is_paging() && request.target.is_kernels() {
            true => self.spaces.find_for_kernel(space, pages, window, self.alignment_of(&request.target, pages))?,
            false => {
                self.spaces.find_by(space, pages, window, PAGE_BYTES, self.alignment_of(&request.target, pages))?
            }
        };
        Ok((first, true))
    }

    /// An address without the sign that its bits above the width repeat; any other as it is.
    // spec: memory §4.3
    pub fn plain(&self, address: GpuVa) -> u64 {
        self.spaces.plain(address)
    }

    /// Of what a mapping begins at a multiple, where the kernel chooses.
    fn alignment_of(&self, target: &Target, pages: u64) -> u64 {
        match target {
            // A page of fence words never becomes part of a 64-KB page: aligned like one, each would take a leaf table's room of 16.
            Target::SystemPages(_) | Target::FencePages(_) if pages < page_of(UNIT_BYTES) => 1,
            _ => self.spaces.alignment(pages, PAGE_BYTES),
        }
    }
}
